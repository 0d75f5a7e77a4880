// A group of processes that live and die together.
//
// When one fails, the others get a grace period to say what they know and end, then they are
// killed. When the calling process dies, however it dies, the kernel kills them (PR_SET_PDEATHSIG).
// SIGUSR1 and SIGUSR2 are handed on to them, and SIGCHLD is as by default, while they are waited
// for.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace weft {

struct ProcessSpec {
  std::string program;                                           // path
  std::string name;                                              // that tools show; empty: the path
  std::vector<std::string> arguments;                            // without the program
  std::vector<std::pair<std::string, std::string>> environment;  // added to, or replacing, ours
  int inherited_fd = -1;  // made to survive exec in this process
  int cpu = -1;           // that it is bound to; -1: to none
  // In a process group of its own, away from the terminal: without input, its output and errors to
  // these descriptors, and ended with SIGTERM where others are killed.
  bool apart = false;
  int output_fd = -1;
  int error_fd = -1;
};

// Starts one. REQUIRES: the calling process has one thread.
Result<pid_t> start_process(const ProcessSpec& spec);

// A process' exit status, 128 + signal where a signal ended it, and in words: "exited with status
// 3", "was ended by signal 9 (Killed)".
int exit_status_of(int wait_status);
std::string describe_end(int wait_status);

// What a process exits with that failed only because another one did: that one's status is the
// group's, whichever is seen to end first. Where all that fail say so, one that ended well before
// them is to blame.
inline constexpr int kExitSecondary = 76;

// While it lives, the kernel keeps how children of this process ended: where SIGCHLD is ignored,
// which survives exec, it does not, and whoever waits for them learns nothing.
class KeptEnds {
 public:
  KeptEnds() {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &action, &before_);
  }
  ~KeptEnds() { ::sigaction(SIGCHLD, &before_, nullptr); }
  KeptEnds(const KeptEnds&) = delete;
  KeptEnds& operator=(const KeptEnds&) = delete;

 private:
  struct sigaction before_ {};
};

struct Outcome {
  int first_failed = -1;       // index of the process that failed first, -1 where none did
  int exit_status = 0;         // exit_status_of() it
  std::string reason;          // describe_end() of it
  std::vector<int> secondary;  // indices of those that exited with kExitSecondary
};

// Told of the index of a process that a signal has ended, and of its end in words.
using OnLoss = std::function<void(int, const std::string&)>;

// Starts all, waits for all. With `on_loss`, a process that a signal ends does not count, as long
// as others are left or have ended well: they go on. `handed_on` is the inherited_fd of one of
// them, closed here as soon as that one is started. REQUIRES: the calling process has one thread,
// and no other children.
Result<Outcome> run_together(const std::vector<ProcessSpec>& specs, double grace_s,
                             const OnLoss& on_loss = nullptr, Fd handed_on = {});

}  // namespace weft
