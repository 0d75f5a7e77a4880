#include "tests/chaos/remains.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "base/text.h"

namespace weft::chaos {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "/tmp";

std::string prefix(pid_t harness) { return concat("weft-chaos-", harness, "-"); }

// The one that reads the folder counts every time.
size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

// With what was written beside them first.
size_t take_meeting_files() {
  size_t count = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(kFolder, error))
    if (entry.path().filename().string().starts_with(prefix(::getpid())))
      count += fs::remove(entry.path(), error);
  return count;
}

}  // namespace

std::string meeting_file(pid_t harness, uint64_t seed) {
  return concat(kFolder, "/", prefix(harness), seed);
}

Remains::Remains() : descriptors_(open_descriptors()) {}

size_t Remains::take_more() const {
  const size_t descriptors = open_descriptors();
  return take_meeting_files() + (descriptors > descriptors_ ? descriptors - descriptors_ : 0);
}

bool end_group(pid_t group) { return ::kill(-group, SIGKILL) == 0 || errno != ESRCH; }

}  // namespace weft::chaos
