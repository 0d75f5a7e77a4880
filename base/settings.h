// The environment variables that weft reads, by name. docs/settings.md says what each does.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"

namespace weft {

// What is set for weft and read by nobody, most likely misspelled: a line to say for each variable
// that begins with WEFT_ and is none of weft's.
std::vector<std::string> unread_settings(const Environment& env);

}  // namespace weft
