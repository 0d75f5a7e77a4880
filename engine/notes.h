// What engines tell each other outside their calls: that one has failed, and why.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"

namespace weft {

// "failed CODE PEER RANK MESSAGE"
std::string failure_note(const Status& status, Rank teller);
// nullopt where the text is no such note. The status says who told it.
std::optional<Status> parse_failure_note(std::string_view text);

}  // namespace weft
