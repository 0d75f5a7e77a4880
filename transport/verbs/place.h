// A rank's address text, and what the two ends of a link tell each other. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "transport/transport.h"
#include "transport/verbs/channel.h"

namespace weft::verbs {

struct RankPlace {
  Place place;
  std::string control;  // the rank's address over TCP
};
std::string encode(const RankPlace& rank);
Result<RankPlace> decode_rank_place(std::string_view text);

// Who says it, the sender's end of a link or the receiver's, is the other half of each kind.
enum class ControlKind : uint32_t {
  open,       // this end is open, with this shape, offer, and memory for the other end to write
  ready,      // it has connected its queue pairs: they may be written to
  abandoned,  // it has ended its traffic: Transport::abandon()
  lost,       // (not of a link) the way between the two ranks is lost
  lent,       // (of a receiver's end, once it is open) the sender may put into this memory
  broken,     // it could not be opened, or not connected
};
inline constexpr uint32_t kControlKinds = 6;

struct Control {
  ControlKind kind = ControlKind::open;
  bool sender = false;
  LinkId link = 0;
  LinkShape shape;
  Offer offer;
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint64_t lent_bytes = 0;
  std::string why = {};  // it is broken; travels behind what encode() writes
};
inline constexpr size_t kControlBytes = 80;

void encode(const Control& control, std::span<std::byte, kControlBytes> bytes);
// nullopt where the bytes are no such thing.
std::optional<Control> decode_control(ConstBytes bytes);

}  // namespace weft::verbs
