#include "nccl/debug.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "base/line.h"
#include "base/process_wide.h"
#include "base/text.h"
#include "nccl/nccl.h"
#include "nccl/settings.h"

namespace weft::nccl {
namespace {

enum class Level : uint8_t { none, version, warn, info, trace };

constexpr unsigned bit(Subsystem subsystem) { return 1u << static_cast<unsigned>(subsystem); }
constexpr unsigned kAll =
    bit(Subsystem::init) | bit(Subsystem::coll) | bit(Subsystem::env) | bit(Subsystem::tuning);
constexpr unsigned kUsual = bit(Subsystem::init) | bit(Subsystem::env) | bit(Subsystem::tuning);

struct Debug {
  std::atomic<Level> level{Level::none};
  std::atomic<unsigned> subsystems{kUsual};
  std::atomic<int> output{STDOUT_FILENO};
  std::atomic<bool> version_shown{false};
  LineWriter writer;
};

// Who configures holds this.
struct Configured {
  bool once = false;
};

// There before any thread is: a child of a fork while another thread made it would wait for that.
// Nothing destroys it: threads may outlive main().
static_assert(std::is_trivially_destructible_v<Debug>);
constinit Debug kept;

Debug& debug() { return kept; }

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

Level level_named(const std::string& name) {
  if (name == "VERSION") return Level::version;
  if (name == "WARN") return Level::warn;
  if (name == "INFO") return Level::info;
  return name == "TRACE" || name == "ABORT" ? Level::trace : Level::none;
}

unsigned subsystem_named(std::string_view name) {
  if (name == "INIT") return bit(Subsystem::init);
  if (name == "COLL" || name == "P2P") return bit(Subsystem::coll);
  if (name == "ENV") return bit(Subsystem::env);
  if (name == "TUNING") return bit(Subsystem::tuning);
  return name == "ALL" ? kAll : 0;
}

// "INIT,COLL": these; "^COLL": all but these.
unsigned subsystems_named(std::string_view list) {
  const bool without = list.starts_with('^');
  if (without) list.remove_prefix(1);
  unsigned named = 0;
  while (!list.empty()) named |= subsystem_named(take_word(list, ','));
  return without ? kAll & ~named : named;
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return std::string(name).substr(0, std::string_view(name).find('.'));
}

// %h is the host, %p the process, %% a percent sign.
std::string expand(const std::string& pattern) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : 0;
    if (next == 'h')
      path.append(host_name());
    else if (next == 'p')
      path.append(std::to_string(::getpid()));
    else
      path.push_back(pattern[i]);
    if (next == 'h' || next == 'p' || next == '%') ++i;
  }
  return path;
}

int open_output(const std::string& pattern) {
  const int fd =
      ::open(expand(pattern).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND, 0644);
  return fd < 0 ? STDOUT_FILENO : fd;
}

// A line may be on its way to where the output was: that descriptor is never free for other files,
// but leads elsewhere.
void redirect(std::atomic<int>& output, int to) {
  const int now = output;
  if (now == STDOUT_FILENO || ::dup3(to, now, O_CLOEXEC) < 0) {
    output = to;
  } else if (to != STDOUT_FILENO) {
    ::close(to);
  }
}

void write_line(std::string line) {
  debug().writer.write(debug().output.load(std::memory_order_relaxed), std::move(line));
}

std::string prefix() {
  return concat(host_name(), ":", ::getpid(), ":", ::syscall(SYS_gettid), " ");
}

bool at_least(Level level) { return debug().level.load(std::memory_order_relaxed) >= level; }

}  // namespace

void configure_debug(const Environment& said, bool again) {
  Debug& d = debug();
  ProcessWide<Configured> configured;
  if (configured->once && !again) return;
  configured->once = true;
  const Environment env = meaningful(said);
  d.level = level_named(upper(env.get("NCCL_DEBUG").value_or("")));
  const auto subsystems = env.get("NCCL_DEBUG_SUBSYS");
  d.subsystems = subsystems ? subsystems_named(upper(*subsystems)) : kUsual;
  const auto file = env.get("NCCL_DEBUG_FILE");
  redirect(d.output, file && at_least(Level::warn) ? open_output(*file) : STDOUT_FILENO);
}

bool info_enabled(Subsystem subsystem) {
  return at_least(Level::info) && (debug().subsystems & bit(subsystem)) != 0;
}

void info(Subsystem subsystem, int device, std::string_view text) {
  if (info_enabled(subsystem)) write_line(concat(prefix(), "[", device, "] NCCL INFO ", text));
}

void say(std::string_view text) { write_line(concat(prefix(), "[0] NCCL INFO ", text)); }

void warn(std::string_view text) {
  if (at_least(Level::warn)) write_line(concat(prefix(), "[0] NCCL WARN ", text));
}

void show_version(int rank) {
  if (!at_least(Level::version) || (rank != 0 && !at_least(Level::info))) return;
  if (debug().version_shown.exchange(true)) return;
  write_line(concat("NCCL version ", NCCL_MAJOR, ".", NCCL_MINOR, ".", NCCL_PATCH, " (weft ",
                    WEFT_VERSION, ")"));
}

}  // namespace weft::nccl
