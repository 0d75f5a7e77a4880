#include "base/files.h"

#include <array>
#include <cstdio>
#include <memory>

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

}  // namespace weft
