// An all_gather of texts of any length, for those who tell each other more than numbers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/call.h"

namespace weft {

// How the caller makes a collective call.
using RunCall = std::function<Status(const Call&)>;

inline constexpr size_t kTextBytesMax = 64 << 20;  // of a rank's text
inline constexpr size_t kTextsBytesMax = 1 << 30;  // of all together

// Collective over `ranks` ranks, in two calls: all ranks' texts, by rank. Where they are too long,
// there is only the first call, and an error on all ranks that names who has the longest.
Result<std::vector<std::string>> gather_texts(int ranks, const RunCall& run,
                                              const std::string& mine);

}  // namespace weft
