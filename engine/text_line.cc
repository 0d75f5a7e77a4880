#include "engine/text_line.h"

#include <algorithm>

namespace weft {
namespace {

constexpr LinkId kTexts = ~LinkId{0};  // no plan has so many
constexpr LinkShape kShape{4, 16 << 10};
constexpr uint64_t kAttemptMask = (1u << 24) - 1;

// kind, attempt and size of the whole, on every part of it.
uint64_t tag_of(const TextLine::Text& text) {
  return uint64_t{text.kind} << 56 | (text.attempt & kAttemptMask) << 32 |
         static_cast<uint32_t>(text.text.size());
}

}  // namespace

TextLine::TextLine(Media& media, Rank peer)
    : out_(media.route(peer)->open_send(peer, kTexts, kShape)),
      in_(media.route(peer)->open_recv(peer, kTexts, kShape)) {}

void TextLine::send(Text text) {
  const uint64_t tag = tag_of(text);
  queue_.push_back({tag, std::move(text.text)});
  (void)flushed();
}

bool TextLine::flushed() {
  while (!queue_.empty() && out_.status().ok()) {
    Outgoing& next = queue_.front();
    const Bytes slot = out_.reserve();
    if (slot.empty()) return false;
    const size_t bytes = std::min(slot.size(), next.text.size() - next.done);
    std::copy_n(
        std::as_bytes(std::span(next.text)).begin() + static_cast<std::ptrdiff_t>(next.done), bytes,
        slot.begin());
    out_.commit(bytes, next.tag);
    next.done += bytes;
    if (next.done == next.text.size()) queue_.pop_front();
  }
  return queue_.empty() && out_.flushed();
}

std::optional<TextLine::Text> TextLine::receive() {
  (void)flushed();
  while (const Message* message = in_.peek()) {
    const uint64_t tag = message->tag;
    incoming_.append(reinterpret_cast<const char*>(message->data.data()), message->data.size());
    in_.release();
    if (incoming_.size() < static_cast<uint32_t>(tag)) continue;
    Text text{static_cast<uint8_t>(tag >> 56), static_cast<uint32_t>(tag >> 32 & kAttemptMask),
              std::move(incoming_)};
    incoming_.clear();
    return text;
  }
  return std::nullopt;
}

}  // namespace weft
