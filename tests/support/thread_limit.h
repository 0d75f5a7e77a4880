// Makes the system refuse threads.
#pragma once

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <system_error>
#include <thread>

namespace weft::test {

// While it is there, the thread that made it can start so many more, and is another user where it
// was root, whom no limit holds. Others that belong to no root may be refused theirs, too.
class ThreadLimit {
 public:
  explicit ThreadLimit(unsigned more) {
    ::getrlimit(RLIMIT_NPROC, &usual_);
    rlimit limit = usual_;
    limit.rlim_cur = root_ ? 1 + more : 0;
    holds_ =
        (root_ || more == 0) && ::setrlimit(RLIMIT_NPROC, &limit) == 0 && become(nobody_else());
    if (holds_ && more == 0) holds_ = refused();
  }
  ~ThreadLimit() {
    become(0);
    ::setrlimit(RLIMIT_NPROC, &usual_);
    ::prctl(PR_SET_DUMPABLE, 1);  // as it was before the user changed
  }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

  // False where the test has to be skipped.
  bool holds() const { return holds_; }

 private:
  // A user of this process alone, whatever else runs here.
  static uid_t nobody_else() { return 20'000 + static_cast<uid_t>(::getpid()) % 40'000; }
  // This thread alone: setresuid(3) would change them all.
  bool become(uid_t user) const { return !root_ || ::syscall(SYS_setresuid, user, user, 0) == 0; }
  static bool refused() {
    try {
      std::thread([] {}).join();
      return false;
    } catch (const std::system_error&) {
      return true;
    }
  }

  const bool root_ = ::geteuid() == 0;
  rlimit usual_{};
  bool holds_ = false;
};

}  // namespace weft::test
