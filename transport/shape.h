// What every medium checks and says: the shapes of links, the ranks of its configuration.
#pragma once

#include <string>

#include "transport/transport.h"

namespace weft {

std::string to_string(LinkShape shape);  // "4 slots of 4096 bytes"

// Whether config.rank is one of config.size ranks.
Status check_rank(const TransportConfig& config);

// The two ends of link (from, to, id) were opened with different shapes.
Status shapes_differ(LinkId id, Rank from, LinkShape sender, Rank to, LinkShape receiver);
// One end was opened again, with another shape.
Status shape_changed(LinkId id, LinkShape first, LinkShape again);

}  // namespace weft
