#include "bench/text_columns.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>

namespace weft::bench {

std::string format(const char* pattern, ...) {
  std::array<char, 512> text;
  va_list arguments;
  va_start(arguments, pattern);
  const int length = std::vsnprintf(text.data(), text.size(), pattern, arguments);
  va_end(arguments);
  return {text.data(), std::min(static_cast<size_t>(std::max(length, 0)), text.size() - 1)};
}

std::string time_text(double us) {
  if (us >= 100000) return format("%7.0f", us);
  if (us >= 100) return format("%7.1f", us);
  return format("%7.2f", us);
}

}  // namespace weft::bench
