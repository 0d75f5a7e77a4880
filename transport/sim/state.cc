// Ranks: who is there, who is lost, notes, waiting. Links are in links.cc.
#include "transport/sim/state.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace weft::sim {
namespace {

constexpr size_t kPage = 4096;
constexpr int64_t kForeverNs = int64_t{1} << 60;

std::string rank_name(Rank rank) { return "rank " + std::to_string(rank); }

}  // namespace

State::State(int size, const SimOptions& options) : options_(options), timeline_(options) {
  for (Rank rank = 0; rank < size; ++rank)
    ranks_.push_back(std::make_unique<RankState>(index(size)));
}

std::unique_lock<std::mutex> State::lock() {
  std::unique_lock<std::mutex> held(mutex_);
  timeline_.run_due();
  return held;
}

int64_t State::soon(Rank a, Rank b) {
  const int slowness = std::max(at(a).slowness, at(b).slowness);
  return timeline_.now() + timeline_.random(options_.other) * slowness;
}

void State::later(Rank a, Rank b, int64_t due_ns, std::function<void()> act) {
  timeline_.at(due_ns, std::move(act));
  at(a).bell.notify_all();
  at(b).bell.notify_all();
}

Status State::enter(const TransportConfig& config) {
  const auto held = lock();
  if (config.size != size())
    return invalid_argument("The simulated net has " + std::to_string(size()) + " ranks, but " +
                            rank_name(config.rank) + " was made for a size of " +
                            std::to_string(config.size) + "; make both for the same size.");
  if (config.rank < 0 || config.rank >= size() || at(config.rank).entered)
    return invalid_argument("The simulated net has " + std::to_string(size()) +
                            " ranks, each of which may be made once; " + rank_name(config.rank) +
                            " is not one of them or was made before.");
  RankState& me = at(config.rank);
  me.entered = true;
  if (options_.windows) {
    const size_t bytes = (config.window_bytes + kPage - 1) / kPage * kPage;
    me.window.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, std::max(bytes, kPage))));
    std::memset(me.window.get(), 0, bytes);
  }
  return Status();
}

void State::leave(Rank rank) {
  const auto held = lock();
  at(rank).left = true;
  int64_t last_ns = timeline_.now();
  for (auto& [key, channel] : channels_) {
    if (channel.from != rank) continue;
    channel.sender_left = true;
    last_ns = std::max(last_ns, channel.last_arrival_ns);
  }
  for (Rank peer = 0; peer < size(); ++peer)
    if (peer != rank)
      notice(peer, rank, last_ns + options_.notice_ns, rank_name(rank) + " closed its transport.");
}

void State::notice(Rank at_rank, Rank peer, int64_t due_ns, std::string why) {
  later(at_rank, peer, due_ns, [this, at_rank, peer, why = std::move(why)] {
    Status& lost = at(at_rank).lost[index(peer)];
    if (lost.ok()) lost = Status(Code::peer_lost, why, peer);
    ring_locked(at_rank);
  });
}

void State::cut_locked(Rank a, Rank b, const std::string& why_a, const std::string& why_b) {
  at(a).cut[index(b)] = at(b).cut[index(a)] = true;
  const int64_t due_ns = timeline_.now() + options_.notice_ns;
  notice(a, b, due_ns, why_a);
  notice(b, a, due_ns, why_b);
}

void State::kill(Rank rank) {
  const auto held = lock();
  for (Rank peer = 0; peer < size(); ++peer)
    if (peer != rank)
      cut_locked(rank, peer,
                 rank_name(rank) + " was killed and reaches " + rank_name(peer) + " no more.",
                 rank_name(rank) + " died.");
}

void State::cut(Rank a, Rank b) {
  const auto held = lock();
  const std::string why =
      "The network between " + rank_name(a) + " and " + rank_name(b) + " is cut.";
  cut_locked(a, b, why, why);
}

void State::slow(Rank rank, int factor) {
  const auto held = lock();
  at(rank).slowness = factor;
}

uint64_t State::arrivals() {
  const auto held = lock();
  return arrivals_;
}

void State::poll() { const auto held = lock(); }

void State::ring_locked(Rank rank) {
  at(rank).rung = true;
  at(rank).bell.notify_all();
}

void State::ring(Rank rank) {
  const auto held = lock();
  ring_locked(rank);
}

void State::wait(Rank me, const Deadline& deadline) {
  constexpr int64_t kNapNs = 100'000'000;
  auto held = lock();
  if (!options_.threads) {
    if (!at(me).rung) timeline_.advance(timeline_.now() + std::min(deadline.left_ns(), kForeverNs));
    timeline_.run_due();
  }
  while (options_.threads && !at(me).rung && !deadline.expired()) {
    const int64_t now_ns = timeline_.now();
    const int64_t nap_ns = std::min({deadline.left_ns(), timeline_.next_due() - now_ns, kNapNs});
    at(me).bell.wait_for(held, std::chrono::nanoseconds(nap_ns));
    timeline_.run_due();
  }
  at(me).rung = false;
}

void State::tell(Rank from, Rank to, NoteKind kind, std::string_view text) {
  const auto held = lock();
  if (!at(to).entered) return;
  at(from).telling[to].add(kind, text);
  send_notes(from, to);
}

void State::send_notes(Rank from, Rank to) {
  while (const auto ready = at(from).telling[to].next()) {
    Note note{from, ready->kind, std::string(ready->text)};
    later(from, to, soon(from, to), [this, to, note = std::move(note)] {
      if (at(to).cut[index(note.from)]) return;
      at(to).notes.push_back(note);
      ring_locked(to);
    });
  }
}

std::optional<Note> State::hear(Rank me) {
  const auto held = lock();
  std::deque<Note>& notes = at(me).notes;
  if (notes.empty()) return std::nullopt;
  Note note = std::move(notes.front());
  notes.pop_front();
  at(note.from).telling[me].heard(note.kind);
  if (!at(note.from).left) send_notes(note.from, me);
  return note;
}

Status State::peer_status(Rank me, Rank peer) {
  const auto held = lock();
  return at(me).lost[index(peer)];
}

std::byte* State::window(Rank me, Rank peer, int64_t asked_ns) {
  const auto held = lock();
  if (!at(peer).entered) return nullptr;
  const bool known = me == peer || timeline_.now() >= asked_ns + options_.other.max_ns;
  return known ? at(peer).window.get() : nullptr;
}

bool State::read(Rank me, Rank peer, const std::byte* memory, Bytes into) {
  const auto held = lock();
  const RankState& there = at(peer);
  if (!there.entered || there.left || there.withdrawn || there.cut[index(me)]) return false;
  std::memcpy(into.data(), memory, into.size());
  return true;
}

}  // namespace weft::sim
