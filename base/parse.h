// Text to numbers, strictly: the whole text must be one value within the limits given. Errors say
// what the text was and what is accepted; callers put the name of the flag or variable in front.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace weft {

// With small letters, for words that may be written either way. Only of ASCII.
std::string lower(std::string_view text);

// Bytes: "0", "4096", "64K", "1M", "2G", "1T" (powers of 1024, either case, "B" or "iB" may
// follow).
Result<size_t> parse_size(std::string_view text,
                          size_t at_most = std::numeric_limits<size_t>::max());
Result<int64_t> parse_int(std::string_view text, int64_t at_least, int64_t at_most);
// 0, which leaves the choice to weft, or 2 to `at_most`: of what there is no use in having one.
Result<int64_t> parse_several(std::string_view text, int64_t at_most);
// Seconds, more than 0 and at most 10^9: "300", "0.5".
Result<double> parse_seconds(std::string_view text);
// One of `accepted`.
Result<std::string_view> parse_word(std::string_view text,
                                    std::span<const std::string_view> accepted);
// 0, 1, true, false, yes, no, on, off, in either case.
Result<bool> parse_bool(std::string_view text);

}  // namespace weft
