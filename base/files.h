// Files as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace weft {

// The text of the file; an error names it.
Result<std::string> read_text(const std::string& path);
// The same of a regular file; anything else, which may be a pipe that nobody writes to, is an
// error.
Result<std::string> read_regular(const std::string& path);

// An error where files of this process may not have so many bytes (ulimit -f). To be asked before
// one is made so large: the system ends who tries without a word (SIGXFSZ). Shared memory counts.
Status check_file_size(uint64_t bytes);

// Writes it whole or not at all, in place of what was there, and makes the folder it is in.
Status write_text(const std::string& path, std::string_view text);

}  // namespace weft
