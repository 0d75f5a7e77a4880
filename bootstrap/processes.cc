#include "bootstrap/processes.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "base/text.h"
#include "bootstrap/cpus.h"

namespace weft {
namespace {

constexpr int kPollUs = 10000;
constexpr int kExecFailed = 127;

void stand_apart(const ProcessSpec& spec) {
  ::setpgid(0, 0);
  if (const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC); nothing >= 0)
    ::dup2(nothing, STDIN_FILENO);
  if (spec.output_fd >= 0) ::dup2(spec.output_fd, STDOUT_FILENO);
  if (spec.error_fd >= 0) ::dup2(spec.error_fd, STDERR_FILENO);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// In the child, between fork and exec.
[[noreturn]] void become(const ProcessSpec& spec, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, spec.apart ? SIGTERM : SIGKILL);
  if (::getppid() != parent) ::_exit(kExecFailed);  // it died before prctl
  if (spec.apart) stand_apart(spec);
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
      concat("weft: cannot run ", spec.program, ": ", std::strerror(errno), "\n");
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(kExecFailed);
}

// The group that is waited for, for the handler: it may do nothing but kill(2).
constinit const std::vector<pid_t>* forwarded_to = nullptr;

void forward(int signal) {
  const int before = errno;
  for (const pid_t pid : *forwarded_to)
    if (pid > 0) ::kill(pid, signal);
  errno = before;
}

// While it lives, SIGUSR1 and SIGUSR2 go on to the processes, as from mpirun and srun.
class Forwarding {
 public:
  explicit Forwarding(const std::vector<pid_t>& pids) {
    forwarded_to = &pids;
    struct sigaction action {};
    action.sa_handler = &forward;  // and waiting goes on by itself (reap())
    for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
  }
  ~Forwarding() {
    for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
    forwarded_to = nullptr;
  }

 private:
  static constexpr std::array<int, 2> kSignals{SIGUSR1, SIGUSR2};
  std::array<struct sigaction, kSignals.size()> before_{};
};

class Group {
 public:
  Group(size_t most, const OnLoss& on_loss) : on_loss_(on_loss), most_(most) {
    pids_.reserve(most);
  }
  ~Group() {
    kill_rest();
    while (alive_ > 0 && reap(0)) continue;
  }

  Status start(const ProcessSpec& spec) {
    const Result<pid_t> pid = start_process(spec);
    if (!pid.ok())
      return pid.status().within(concat("start process ", pids_.size() + 1, " of ", most_));
    pids_.push_back(*pid);
    ++alive_;
    return {};
  }

  Outcome wait(double grace_s) {
    while (alive_ > 0 && outcome_.first_failed < 0 && reap(0)) continue;
    const Deadline grace = Deadline::after(grace_s);
    while (alive_ > 0 && !grace.expired())
      if (!reap(WNOHANG)) ::usleep(kPollUs);
    killing_ = true;
    kill_rest();
    while (alive_ > 0 && reap(0)) continue;
    if (outcome_.exit_status == kExitSecondary && left_early_ >= 0)
      outcome_ = {left_early_, EXIT_FAILURE, "exited with status 0 before the others had done",
                  outcome_.secondary};
    std::sort(outcome_.secondary.begin(), outcome_.secondary.end());
    return outcome_;
  }

 private:
  // Takes note of one process that ended; false where none has.
  bool reap(int flags) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, flags);
    if (pid < 0 && errno == ECHILD) lose_sight();
    if (pid < 0) return errno == EINTR;
    const auto it = std::find(pids_.begin(), pids_.end(), pid);
    if (pid == 0) return false;
    if (it == pids_.end()) return true;
    *it = 0;
    --alive_;
    const int index = static_cast<int>(it - pids_.begin());
    any_well_ |= status == 0;
    if (on_loss_ && WIFSIGNALED(status) && (alive_ > 0 || any_well_) && !killing_) {
      on_loss_(index, describe_end(status));
      return true;
    }
    if (exit_status_of(status) == kExitSecondary) outcome_.secondary.push_back(index);
    // Those that it let down may have ended before it.
    const bool only_secondary = outcome_.first_failed < 0 || outcome_.exit_status == kExitSecondary;
    if (status == 0 && left_early_ < 0 && only_secondary) left_early_ = index;
    if (status != 0 && only_secondary && !killing_) note(index, status);
    return true;
  }

  void note(int index, int status) {
    if (outcome_.first_failed >= 0 && exit_status_of(status) == kExitSecondary) return;
    outcome_.first_failed = index;
    outcome_.exit_status = exit_status_of(status);
    outcome_.reason = describe_end(status);
  }

  // Somebody else has waited for those that are left: how they ended is not known, and their
  // numbers may be other processes' by now.
  void lose_sight() {
    const auto left = std::find_if(pids_.begin(), pids_.end(), [](pid_t pid) { return pid > 0; });
    if (left != pids_.end() && outcome_.first_failed < 0) {
      outcome_.first_failed = static_cast<int>(left - pids_.begin());
      outcome_.exit_status = EXIT_FAILURE;
      outcome_.reason = "ended, but how is not known: something else has waited for it";
    }
    std::fill(pids_.begin(), pids_.end(), 0);
    alive_ = 0;
  }

  void kill_rest() {
    for (const pid_t pid : pids_)
      if (pid > 0) ::kill(pid, SIGKILL);
  }

  const OnLoss& on_loss_;
  const size_t most_;
  const KeptEnds kept_;
  std::vector<pid_t> pids_;  // 0: ended; stays where it is, as a handler reads it
  const Forwarding forwarding_{pids_};
  int alive_ = 0;
  bool killing_ = false;
  bool any_well_ = false;
  int left_early_ = -1;  // the first that ended well before any failed
  Outcome outcome_;
};

}  // namespace

Result<pid_t> start_process(const ProcessSpec& spec) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0) become(spec, parent);
  if (spec.apart) ::setpgid(pid, pid);  // whoever comes first
  return pid;
}

int exit_status_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string describe_end(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return concat("exited with status ", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  return concat("was ended by signal ", signal, " (", ::strsignal(signal), ")");
}

Result<Outcome> run_together(const std::vector<ProcessSpec>& specs, double grace_s,
                             const OnLoss& on_loss, Fd handed_on) {
  Group group(specs.size(), on_loss);
  for (const ProcessSpec& spec : specs) {
    WEFT_TRY(group.start(spec));
    if (handed_on.valid() && spec.inherited_fd == handed_on.get()) handed_on.reset();
  }
  return group.wait(grace_s);
}

}  // namespace weft
