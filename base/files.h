// Files as text.
#pragma once

#include <string>

#include "base/status.h"

namespace weft {

// The text of the file; an error names it.
Result<std::string> read_text(const std::string& path);

}  // namespace weft
