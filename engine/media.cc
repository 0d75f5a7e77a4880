#include "engine/media.h"

#include <algorithm>

namespace weft {

Media::Media(Rank me, int ranks, std::vector<std::unique_ptr<Transport>> transports,
             size_t window_bytes, LinkShape usual_links)
    : me_(me),
      ranks_(ranks),
      transports_(std::move(transports)),
      routes_(static_cast<size_t>(ranks), nullptr),
      window_layout_{ranks, window_bytes},
      usual_links_(usual_links) {
  for (Rank peer = 0; peer < ranks; ++peer)
    for (const auto& transport : transports_)
      if (!routes_[peer] && peer != me && transport->reaches(peer)) routes_[peer] = transport.get();
  for (const auto& transport : transports_)
    if (transport->registers_memory()) registering_.push_back(transport.get());
  // One transport leads everywhere and has windows: then all ranks find the same.
  windows_everywhere_ =
      ranks > 1 && window_layout_.fits() && !transports_.empty() && transports_[0]->has_windows();
  for (Rank peer = 0; peer < ranks; ++peer)
    if (peer != me && routes_[peer] != (transports_.empty() ? nullptr : transports_[0].get()))
      windows_everywhere_ = false;
}

const Window* Media::window(Rank rank) const { return transports_[0]->open_window(rank); }

std::optional<bool> Media::reads_memory() const {
  bool all = true;
  for (Rank peer = 0; peer < ranks_; ++peer) {
    if (peer == me_) continue;
    const std::optional<bool> reads = routes_[peer]->reads_memory(peer);
    if (!reads) return std::nullopt;
    all &= *reads;
  }
  return all;
}

void Media::poll() {
  for (const auto& transport : transports_) transport->poll();
}

void Media::wait(const Deadline& deadline) {
  if (transports_.size() == 1) return transports_[0]->wait(deadline);
  constexpr double kSlice = 0.0005;
  for (const auto& transport : transports_) {
    transport->wait(Deadline::after(std::min(kSlice, deadline.left_ns() * 1e-9), clock()));
    transport->poll();
  }
}

void Media::wake_self() {
  for (const auto& transport : transports_) transport->wake_self();
}

void Media::tell(Rank peer, NoteKind kind, std::string_view text) {
  if (routes_[peer]) routes_[peer]->tell(peer, kind, text);
}

void Media::abandon() {
  for (const auto& transport : transports_) transport->abandon();
}

std::optional<Note> Media::hear() {
  for (const auto& transport : transports_)
    if (auto note = transport->hear()) return note;
  return std::nullopt;
}

void Media::set_running(bool running) {
  for (const auto& transport : transports_) transport->set_running(running);
}

Status Media::peer_status(Rank peer) const {
  return routes_[peer] ? routes_[peer]->peer_status(peer) : Status();
}

double Media::silence_s(Rank peer) const {
  return routes_[peer] ? routes_[peer]->silence_s(peer) : 0;
}

const Clock& Media::clock() const {
  return transports_.empty() ? steady_clock() : transports_[0]->clock();
}

std::string Media::names() const {
  std::string text;
  for (const auto& transport : transports_) {
    if (!text.empty()) text += "+";
    text += transport->name();
  }
  return text.empty() ? "none" : text;
}

}  // namespace weft
