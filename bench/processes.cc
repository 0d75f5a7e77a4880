#include "bench/processes.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "base/text.h"
#include "bench/cpus.h"

namespace weft::bench {
namespace {

constexpr int kPollUs = 10000;
constexpr int kExecFailed = 127;

// In the child, between fork and exec.
[[noreturn]] void become(const ProcessSpec& spec, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kExecFailed);  // it died before prctl
  if (spec.cpu >= 0) bind_to_cpu(spec.cpu);
  if (spec.inherited_fd >= 0) ::fcntl(spec.inherited_fd, F_SETFD, 0);
  for (const auto& [name, value] : spec.environment) ::setenv(name.c_str(), value.c_str(), 1);
  const std::string& name0 = spec.name.empty() ? spec.program : spec.name;
  std::vector<char*> arguments{const_cast<char*>(name0.c_str())};
  for (const std::string& argument : spec.arguments)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execv(spec.program.c_str(), arguments.data());
  const std::string line =
      concat("weft-bench: cannot run ", spec.program, ": ", std::strerror(errno), "\n");
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(kExecFailed);
}

class Group {
 public:
  ~Group() {
    kill_rest();
    while (alive_ > 0 && reap(0)) continue;
  }

  Status start(const ProcessSpec& spec) {
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) return system_error(concat("start rank ", pids_.size()));
    if (pid == 0) become(spec, parent);
    pids_.push_back(pid);
    ++alive_;
    return {};
  }

  Outcome wait(double grace_s) {
    while (alive_ > 0 && outcome_.first_failed < 0 && reap(0)) continue;
    const Deadline grace = Deadline::after(grace_s);
    while (alive_ > 0 && !grace.expired())
      if (!reap(WNOHANG)) ::usleep(kPollUs);
    kill_rest();
    while (alive_ > 0 && reap(0)) continue;
    return outcome_;
  }

 private:
  // Takes note of one process that ended; false where none has.
  bool reap(int flags) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, flags);
    if (pid < 0) return errno == EINTR;
    const auto it = std::find(pids_.begin(), pids_.end(), pid);
    if (pid == 0) return false;
    if (it == pids_.end()) return true;
    *it = 0;
    --alive_;
    if (outcome_.first_failed < 0 && status != 0)
      note(static_cast<int>(it - pids_.begin()), status);
    return true;
  }

  void note(int index, int status) {
    outcome_.first_failed = index;
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      outcome_.exit_status = 128 + signal;
      outcome_.reason = concat("was ended by signal ", signal, " (", ::strsignal(signal), ")");
    } else {
      outcome_.exit_status = WEXITSTATUS(status);
      outcome_.reason = concat("exited with status ", outcome_.exit_status);
    }
  }

  void kill_rest() {
    for (const pid_t pid : pids_)
      if (pid > 0) ::kill(pid, SIGKILL);
  }

  std::vector<pid_t> pids_;  // 0: ended
  int alive_ = 0;
  Outcome outcome_;
};

}  // namespace

Result<Outcome> run_together(const std::vector<ProcessSpec>& specs, double grace_s) {
  Group group;
  for (const ProcessSpec& spec : specs) WEFT_TRY(group.start(spec));
  return group.wait(grace_s);
}

}  // namespace weft::bench
