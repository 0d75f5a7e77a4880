// Texts between two ranks, outside all calls: over a pair of links of their own, cut to slots.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "engine/media.h"

namespace weft {

class TextLine {
 public:
  // What it is and which attempt it belongs to are the user's affair.
  struct Text {
    uint8_t kind = 0;
    uint32_t attempt = 0;  // below 2^24
    std::string text;
  };

  // REQUIRES: `media` leads to `peer`.
  TextLine(Media& media, Rank peer);

  void send(Text text);
  // The next one that is here whole.
  std::optional<Text> receive();
  // Whether all that was sent is out of this process. Moves it along.
  bool flushed();
  // ok, or why nothing more will come.
  const Status& status() const { return in_.status(); }

 private:
  struct Outgoing {
    uint64_t tag;
    std::string text;
    size_t done = 0;
  };

  SendLink& out_;
  RecvLink& in_;
  std::deque<Outgoing> queue_;
  std::string incoming_;
};

}  // namespace weft
