// One logger: lines on standard error, "weft[3] warning: ...", filtered by level.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

enum class LogLevel { error, warning, info, debug };

// "error", "warning", "info", "debug"; warning for anything else.
LogLevel log_level_named(std::string_view name);

// Process-wide filter; warning until an Options with another level takes effect.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);

// `rank` is printed in brackets; -1 where there is none yet. As LineWriter: whoever reads standard
// error, or does not, cannot stop or end the process.
void log_line(LogLevel level, int rank, std::string_view message);

// Thins out lines that strangers can cause as often as they like.
class Thinned {
 public:
  // Whether to write this one: the first 16, then one at every doubling.
  bool next() { return ++count_ <= 16 || std::has_single_bit(count_); }
  // " (the 64th of its kind)" once lines have been left out, else nothing.
  std::string place() const {
    return count_ < 16 ? "" : " (the " + std::to_string(count_) + "th of its kind)";
  }

 private:
  uint64_t count_ = 0;
};

}  // namespace weft
