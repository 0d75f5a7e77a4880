#include "engine/measure/flows.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "base/hand_over.h"
#include "engine/schedule/window_lap.h"
#include "kernels/claim.h"
#include "kernels/copy.h"

namespace weft::measuring {
namespace {

// Messages of no more bytes are awaited: calls of as many are exchanges, one after the other, in
// which nothing goes on while what was written leaves a core, or what is read comes.
constexpr size_t kShort = 16384;
// A cache line through windows; through links one with what is said of the message.
constexpr size_t kLine = 64, kSmall = 48;

CopyWay way_of(bool past_caches) { return past_caches ? CopyWay::streamed : CopyWay::shared; }

// A rank's own memory, out of which messages go, or into which they come.
class Memory {
 public:
  explicit Memory(size_t message_bytes)
      : bytes_(message_bytes), memory_(kSpan * message_bytes, std::byte{1}) {}
  Bytes of(int message) {
    return {&memory_[static_cast<size_t>(message) * bytes_ % memory_.size()], bytes_};
  }

 private:
  const size_t bytes_;
  std::vector<std::byte> memory_;
};

// One rank's part of a flow through links.
class LinkEnd {
 public:
  LinkEnd(Pair& pair, const Flow& flow, Rank me)
      : pair_(pair), me_(me), out_(pair.out(me)), in_(pair.in(me)), memory_(flow.bytes) {}

  bool send(int message, bool past_caches) {
    const Bytes from = memory_.of(message);
    if (out_.traits().send_from_memory) return send_memory(from);
    Bytes slot;
    if (!pair_.await(me_, [&] { return !(slot = out_.reserve()).empty(); })) return false;
    copy_bytes(slot.data(), from.data(), from.size(), way_of(past_caches));
    out_.commit(from.size(), 0);
    return true;
  }
  bool receive(int message) {
    const Bytes to = memory_.of(message);
    if (in_.traits().recv_into_memory)
      if (const auto ticket = in_.post(to))
        return pair_.await(me_, [&] { return in_.done(*ticket).has_value(); });
    if (!pair_.await(me_, [&] { return in_.peek() != nullptr; })) return false;
    copy_bytes(to.data(), in_.peek()->data.data(), to.size(), CopyWay::taken);
    in_.release();
    return true;
  }
  void flush() {
    pair_.await(me_, [&] { return out_.flushed(); });
  }

 private:
  bool send_memory(ConstBytes from) {
    std::optional<Ticket> ticket;
    return pair_.await(me_, [&] { return (ticket = out_.send(from, 0)).has_value(); }) &&
           pair_.await(me_, [&] { return out_.done(*ticket); });
  }

  Pair& pair_;
  const Rank me_;
  SendLink& out_;
  RecvLink& in_;
  Memory memory_;
};

// One rank's part of a flow through windows, whose bytes are used again as late as leases are.
class WindowEnd {
 public:
  WindowEnd(Pair& pair, const Flow& flow, Rank me, bool exchange)
      : pair_(pair),
        me_(me),
        bytes_(flow.bytes),
        handed_over_(exchange ? kHandedOverInExchange : kHandedOverMost),
        claimed_(exchange && flow.awaited && claims_next() && bytes_ <= kClaimedNextMost ? bytes_
                                                                                         : 0),
        slots_(static_cast<int>(
            window_lap(bytes_, exchange ? Traffic::exchanged : Traffic::one_way, false) / bytes_)),
        mine_(pair.window(me, me)),
        theirs_(pair.window(me, 1 - me)),
        memory_(flow.bytes) {}
  void meet(WindowEnd& other) { other_ = &other; }

  bool send(int message, bool past_caches) {
    const auto is_free = [&] {
      if (known_taken_ + slots_ <= message)
        known_taken_ = other_->taken_.load(std::memory_order_acquire);
      return known_taken_ + slots_ > message;
    };
    if (!pair_.await(me_, is_free)) return false;
    copy_bytes(slot(mine_, message), memory_.of(message).data(), bytes_, way_of(past_caches));
    if (bytes_ <= handed_over_) hand_over(slot(mine_, message), bytes_);
    put_.store(message + 1, std::memory_order_release);
    return true;
  }
  bool receive(int message) {
    const auto is_there = [&] { return other_->put_.load(std::memory_order_acquire) > message; };
    if (!is_there()) claim_memory(slot(mine_, message + 1), claimed_);
    if (!pair_.await(me_, is_there)) return false;
    copy_bytes(memory_.of(message).data(), slot(theirs_, message), bytes_, CopyWay::taken);
    taken_.store(message + 1, std::memory_order_release);
    return true;
  }
  void flush() {}

 private:
  std::byte* slot(std::byte* window, int message) const {
    return window + static_cast<size_t>(message % slots_) * bytes_;
  }

  Pair& pair_;
  const Rank me_;
  const size_t bytes_, handed_over_, claimed_;
  const int slots_;
  std::byte* const mine_;
  std::byte* const theirs_;
  Memory memory_;
  WindowEnd* other_ = nullptr;
  int known_taken_ = 0;                     // of this end's, as far as it has looked
  alignas(128) std::atomic<int> put_{0};    // messages, by this end
  alignas(128) std::atomic<int> taken_{0};  // of the other's
};

template <class End>
double both_ways(Watch& watch, End* ends, int ahead, int messages, bool past_caches) {
  const double seconds = together(watch, 2, own_core, [&](int me) {
    End& end = ends[me];
    for (int i = 0; i < messages + ahead; ++i) {
      if (i < messages && !end.send(i, past_caches)) return;
      if (i >= ahead && !end.receive(i - ahead)) return;
    }
    end.flush();
  });
  return seconds / messages;
}

template <class End>
double one_way(Watch& watch, End* ends, int messages, bool past_caches) {
  const double seconds = together(watch, 2, own_core, [&](int me) {
    for (int i = 0; i < messages; ++i)
      if (me == 0 ? !ends[0].send(i, past_caches) : !ends[1].receive(i)) return;
    if (me == 0) ends[0].flush();
  });
  return seconds / messages;
}

template <class Use>
double with_ends(Pair& pair, const Flow& flow, bool exchange, Use use) {
  if (!flow.windows) {
    LinkEnd ends[2] = {{pair, flow, 0}, {pair, flow, 1}};
    return use(ends);
  }
  WindowEnd ends[2] = {{pair, flow, 0, exchange}, {pair, flow, 1, exchange}};
  ends[0].meet(ends[1]);
  ends[1].meet(ends[0]);
  return use(ends);
}

}  // namespace

std::vector<Flow> flows_of_links(const Pair& pair) {
  std::vector<Flow> flows = {{kSmall, false, true}};
  for (const size_t bytes :
       {512, 1 << 10, 2 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10})
    if (bytes <= pair.shape().slot_bytes)
      flows.push_back({bytes, false, !pair.shares_memory() || bytes <= kShort});
  return flows;
}

std::vector<Flow> flows_of_windows() {
  std::vector<Flow> flows = {{kLine, true, true}};
  for (const size_t bytes : {512, 1 << 10, 2 << 10, 4 << 10, 16 << 10, 64 << 10, 128 << 10})
    flows.push_back({bytes, true, bytes <= kShort});
  return flows;
}

void measure(Watch& watch, Pair& pair, bool past_caches, Flow& flow) {
  constexpr size_t kBytes = 4 << 20;
  const int messages = static_cast<int>(std::clamp<size_t>(kBytes / flow.bytes, 32, 2048));
  if (!pair.status().ok()) return;  // transfers may be under way to memory that is gone
  const double both_s = with_ends(pair, flow, true, [&](auto* ends) {
    return both_ways(watch, ends, flow.awaited ? 0 : 1, messages, past_caches);
  });
  if (!pair.status().ok()) return;
  const double one_s = with_ends(
      pair, flow, false, [&](auto* ends) { return one_way(watch, ends, messages, past_caches); });
  flow.both_s = std::min(flow.both_s, both_s);
  flow.one_s = std::min(flow.one_s, one_s);
}

}  // namespace weft::measuring
