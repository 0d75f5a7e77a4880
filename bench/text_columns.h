// Text of the width that columns want.
#pragma once

#include <string>

namespace weft::bench {

// As printf, at most 511 characters.
__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...);

// Seven columns whatever the magnitude, as many digits as they hold.
std::string time_text(double us);

}  // namespace weft::bench
