// Files as text.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace weft {

// The text of the file; an error names it.
Result<std::string> read_text(const std::string& path);
// The same of a regular file; anything else, which may be a pipe that nobody writes to, is an
// error.
Result<std::string> read_regular(const std::string& path);

// Writes it whole or not at all, in place of what was there, and makes the folder it is in.
Status write_text(const std::string& path, std::string_view text);

}  // namespace weft
