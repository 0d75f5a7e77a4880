#include "base/files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/fd.h"
#include "base/text.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

Status too_large(const std::string& path, size_t most) {
  return invalid_argument(concat(path, ": It has more than ", most,
                                 " bytes, which no file of weft's has; name another."));
}

Result<std::string> read_all(const File& file, const std::string& path, size_t most) {
  if (!file) return system_error(path);
  std::string text;
  std::array<char, 8 << 10> part;  // callers may have small stacks
  for (;;) {
    const size_t count = std::fread(part.data(), 1, part.size(), file.get());
    text.append(part.data(), count);
    if (std::ferror(file.get())) return system_error(path);
    if (text.size() > most) return too_large(path, most);
    if (count < part.size()) return text;
  }
}

bool write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  return static_cast<bool>(file);
}

void make_folder_of(const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty()) fs::create_directories(folder, error);
}

}  // namespace

bool replaceable(const std::string& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  return type == fs::file_type::regular ||
         (type == fs::file_type::not_found && !fs::is_symlink(path, error));
}

Result<std::string> read_text(const std::string& path, size_t most) {
  return read_all(File(std::fopen(path.c_str(), "rbe"), &std::fclose), path, most);
}

Result<std::string> read_regular(const std::string& path, size_t most) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat kind {};
  if (!fd.valid() || ::fstat(fd.get(), &kind) != 0) return system_error(path);
  if (!S_ISREG(kind.st_mode))
    return invalid_argument(concat(path, ": It is not a regular file; name one that is."));
  if (static_cast<uint64_t>(kind.st_size) > most) return too_large(path, most);
  File file(::fdopen(fd.get(), "rb"), &std::fclose);
  if (file) fd.release();
  return read_all(file, path, most);
}

Status check_file_size(uint64_t bytes) {
  rlimit most{};
  if (::getrlimit(RLIMIT_FSIZE, &most) != 0 || bytes <= most.rlim_cur) return {};
  return Status(Code::system,
                concat("Files of this process, shared memory too, may have ", most.rlim_cur,
                       " bytes at most, not ", bytes, "; raise the limit with ulimit -f."));
}

Status write_text(const std::string& path, std::string_view text) {
  if (!replaceable(path)) return write_bytes(path, text) ? Status() : system_error(path);
  if (const Status size = check_file_size(text.size()); !size.ok()) return size.within(path);
  std::error_code error;
  const std::string file = fs::weakly_canonical(path, error);  // a link stays one
  const std::string draft = concat(file, ".", ::getpid(), ".", ::gettid());
  if (write_bytes(draft, text) && std::rename(draft.c_str(), file.c_str()) == 0) return {};
  const Status status = system_error(path);
  fs::remove(draft, error);
  return status;
}

Status can_write(const std::string& path) {
  std::error_code error;
  errno = EISDIR;
  if (fs::is_directory(path, error)) return system_error(path);
  // Absolute first: of a relative one that is not there yet nothing would be made.
  const fs::path folder = fs::weakly_canonical(fs::absolute(path, error), error).parent_path();
  const bool may = replaceable(path) ? ::access(folder.c_str(), W_OK | X_OK) == 0
                                     : ::access(path.c_str(), W_OK) == 0;
  return may ? Status() : system_error(path);
}

Status finish_standard_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return Status(Code::system,
                "standard output did not take all that was printed; see that its disk has room and "
                "its reader stays");
}

Status write_text_in_folder(const std::string& path, std::string_view text) {
  make_folder_of(path);
  return write_text(path, text);  // says what was wrong
}

Status can_write_in_folder(const std::string& path) {
  make_folder_of(path);
  return can_write(path);  // says what was wrong
}

}  // namespace weft
