// Files as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace weft {

// More than any file of weft's has; what never ends does not take all memory.
inline constexpr size_t kFileBytesMax = size_t{1} << 30;

// The text of the file; an error names it, also where it has more than `most` bytes. Waits for who
// writes to a pipe.
Result<std::string> read_text(const std::string& path, size_t most = kFileBytesMax);
// The same of a regular file; anything else, which may be a pipe that nobody writes to, is an
// error. For what is read under a deadline.
Result<std::string> read_regular(const std::string& path, size_t most = kFileBytesMax);

// An error where files of this process may not have so many bytes (ulimit -f). To be asked before
// one is made so large: the system ends who tries without a word (SIGXFSZ). Shared memory counts.
Status check_file_size(uint64_t bytes);

// A file, or nothing; of a link, what it leads to. What else there may be (a pipe, a terminal)
// keeps all that is written to it.
bool replaceable(const std::string& path);
// Writes it whole or not at all, in place of what was there; where that is not replaceable(), to
// it.
Status write_text(const std::string& path, std::string_view text);
// Whether that may be tried: an error that names the path where it cannot be written to now.
Status can_write(const std::string& path);
// An error where standard output has not taken all that was printed. To be asked at the end; a
// stream remembers what it could not write.
Status finish_standard_output();
// write_text(), and makes the folder that the file is in.
Status write_text_in_folder(const std::string& path, std::string_view text);
// Whether that may be tried: can_write(), and makes the folder.
Status can_write_in_folder(const std::string& path);

}  // namespace weft
