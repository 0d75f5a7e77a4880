#include "engine/text_line.h"

#include <algorithm>
#include <limits>

#include "base/text.h"

namespace weft {
namespace {

constexpr LinkId kTexts = ~LinkId{0};  // no plan has so many
constexpr LinkShape kShape{4, 16 << 10};
constexpr uint64_t kAttemptMask = TextLine::kAttempts - 1;

// kind, attempt and size of the whole, on every part of it.
uint64_t tag_of(const TextLine::Text& text) {
  return uint64_t{text.kind} << 56 | (text.attempt & kAttemptMask) << 32 |
         static_cast<uint32_t>(text.text.size());
}

}  // namespace

size_t TextLine::bytes_max(int ranks) {
  constexpr size_t kEach = 6 * kPartBytesMax + 4;  // quotes, comma, a bracket
  return std::min<size_t>(kEach * static_cast<size_t>(ranks), std::numeric_limits<uint32_t>::max());
}

TextLine::TextLine(Media& media, Rank peer)
    : peer_(peer),
      most_(bytes_max(media.ranks())),
      out_(media.route(peer)->open_send(peer, kTexts, kShape)),
      in_(media.route(peer)->open_recv(peer, kTexts, kShape)) {}

void TextLine::send(Text text) {
  WEFT_CHECK(text.text.size() <= most_);
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

// Whether it goes on with what is here; only an empty text has an empty part.
Status TextLine::check(const Message& part) const {
  const size_t whole = static_cast<uint32_t>(part.tag);
  const bool same = incoming_.empty() || part.tag == incoming_tag_;
  if (whole <= most_ && same && part.data.size() <= whole - incoming_.size() &&
      part.data.empty() == (whole == 0))
    return {};
  return Status(Code::mismatch,
                concat("rank ", peer_, " sent ", part.data.size(), " bytes of a text of ", whole,
                       " behind ", incoming_.size(), " of one, and none has more than ", most_,
                       "; all ranks must run the same version of weft"),
                peer_);
}

std::optional<TextLine::Text> TextLine::receive() {
  (void)flushed();
  while (const Message* message = refused_.ok() ? in_.peek() : nullptr) {
    if (refused_ = check(*message); !refused_.ok()) break;
    const uint64_t tag = incoming_tag_ = message->tag;
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
