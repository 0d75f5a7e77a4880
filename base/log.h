// One logger: lines on standard error, "weft[3] warning: ...", filtered by level.
#pragma once

#include <string>
#include <string_view>

namespace weft {

enum class LogLevel { error, warning, info, debug };

// "error", "warning", "info", "debug"; warning for anything else.
LogLevel log_level_named(std::string_view name);

// Process-wide filter; warning until an Options with another level takes effect.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);

// `rank` is printed in brackets; -1 where there is none yet. One write(2) per line, so that lines
// of several processes do not mix.
void log_line(LogLevel level, int rank, std::string_view message);

}  // namespace weft
