// Texts between two ranks, outside all calls: over a pair of links of their own, cut to slots. A
// peer that sends what can be no text is refused: nothing more comes of it.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "engine/media.h"

namespace weft {

class TextLine {
 public:
  // What ranks contribute to a meeting (Rendezvous::all_gather).
  static constexpr size_t kPartBytesMax = 64 << 10;
  // Bytes of a text among so many ranks: all their parts as a list in JSON, in which a byte can
  // take six.
  static size_t bytes_max(int ranks);

  // What it is and which attempt it belongs to are the user's affair.
  struct Text {
    uint8_t kind = 0;
    uint32_t attempt = 0;  // below kAttempts
    std::string text;
  };
  static constexpr uint32_t kAttempts = 1u << 24;

  // REQUIRES: `media` leads to `peer`.
  TextLine(Media& media, Rank peer);

  // REQUIRES: it is no longer than bytes_max().
  void send(Text text);
  // The next one that is here whole.
  std::optional<Text> receive();
  // Whether all that was sent is out of this process. Moves it along.
  bool flushed();
  // ok, or why nothing more will come. Also where nothing more can go, for want of memory: who
  // waits for an answer would do so for nothing.
  const Status& status() const {
    if (!refused_.ok()) return refused_;
    return out_.status().code() == Code::system ? out_.status() : in_.status();
  }

 private:
  struct Outgoing {
    uint64_t tag;
    std::string text;
    size_t done = 0;
  };

  Status check(const Message& part) const;

  const Rank peer_;
  const size_t most_;
  SendLink& out_;
  RecvLink& in_;
  std::deque<Outgoing> queue_;
  std::string incoming_;       // the parts that are here
  uint64_t incoming_tag_ = 0;  // theirs
  Status refused_;
};

}  // namespace weft
