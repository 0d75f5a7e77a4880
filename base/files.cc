#include "base/files.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/text.h"

namespace weft {

Result<std::string> read_text(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (!file) return system_error(path);
  std::string text;
  std::array<char, 1 << 16> part;
  for (;;) {
    const size_t count = std::fread(part.data(), 1, part.size(), file.get());
    text.append(part.data(), count);
    if (std::ferror(file.get())) return system_error(path);
    if (count < part.size()) return text;
  }
}

Status write_text(const std::string& path, std::string_view text) {
  std::error_code error;
  const std::filesystem::path target(path);
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path(), error);
  const std::string draft = concat(path, ".", ::getpid());
  std::ofstream file(draft, std::ios::binary);
  file << text;
  file.close();
  if (file) std::filesystem::rename(draft, target, error);
  if (file && !error) return {};
  const Status status = system_error(path);
  std::filesystem::remove(draft, error);
  return status;
}

}  // namespace weft
