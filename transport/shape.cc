#include "transport/shape.h"

#include "base/text.h"

namespace weft {

std::string to_string(LinkShape shape) {
  return concat(shape.slots, " slots of ", shape.slot_bytes, " bytes");
}

Status check_rank(const TransportConfig& config) {
  if (config.rank >= 0 && config.rank < config.size) return {};
  return invalid_argument(concat("Rank ", config.rank, " is not one of ", config.size, " ranks."));
}

Status shapes_differ(LinkId id, Rank from, LinkShape sender, Rank to, LinkShape receiver) {
  return Status(Code::mismatch,
                concat("Link ", id, " was opened by rank ", from, " for sending with ",
                       to_string(sender), " and by rank ", to, " for receiving with ",
                       to_string(receiver), "; both must use the same shape."));
}

Status shape_changed(LinkId id, LinkShape first, LinkShape again) {
  return Status(Code::mismatch,
                concat("Link ", id, " was opened with ", to_string(first), " and again with ",
                       to_string(again), "; use the same shape every time."));
}

}  // namespace weft
