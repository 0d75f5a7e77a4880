#include "base/log.h"

#include <unistd.h>

#include <atomic>

#include "base/line.h"

namespace weft {
namespace {

std::atomic<LogLevel> g_level{LogLevel::warning};
constinit LineWriter g_writer;

std::string_view word(LogLevel level) {
  switch (level) {
    case LogLevel::error: return "error";
    case LogLevel::warning: return "warning";
    case LogLevel::info: return "info";
    case LogLevel::debug: return "debug";
  }
  return "";
}

}  // namespace

LogLevel log_level_named(std::string_view name) {
  if (name == "error") return LogLevel::error;
  if (name == "info") return LogLevel::info;
  return name == "debug" ? LogLevel::debug : LogLevel::warning;
}

void set_log_level(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }
bool log_enabled(LogLevel level) { return level <= g_level.load(std::memory_order_relaxed); }

void log_line(LogLevel level, int rank, std::string_view message) {
  if (!log_enabled(level)) return;
  std::string line = "weft";
  if (rank >= 0) line.append("[").append(std::to_string(rank)).append("]");
  line.append(" ").append(word(level)).append(": ").append(message);
  g_writer.write(STDERR_FILENO, std::move(line));
}

}  // namespace weft
