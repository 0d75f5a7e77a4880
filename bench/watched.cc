#include "bench/watched.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"

namespace weft::bench {
namespace {

constexpr double kGraceS = 3;  // from SIGTERM to SIGKILL
constexpr double kKillS = 5;   // that the killed may take to vanish
constexpr int kPollMs = 200;
constexpr size_t kErrorsKept = 4096;
constexpr size_t kLineMax = 1 << 20;

// That ask this process to end.
sigset_t requests() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
  return set;
}

// Those and SIGCHLD as a descriptor, and blocked, while this lives.
class Signals {
 public:
  Signals() {
    sigset_t set = requests();
    ::sigaddset(&set, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &set, &before_);
    fd_ = Fd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  }
  ~Signals() {
    take();
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  int fd() const { return fd_.get(); }
  // The last one that asks this process to end, or 0.
  int take() {
    int asked = 0;
    for (signalfd_siginfo one; ::read(fd_.get(), &one, sizeof one) == sizeof one;)
      if (one.ssi_signo != SIGCHLD) asked = static_cast<int>(one.ssi_signo);
    return asked;
  }

 private:
  sigset_t before_;
  const KeptEnds kept_;
  Fd fd_;
};

struct Pipe {
  Fd read, write;

  static Result<Pipe> make() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe");
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return Pipe{Fd(ends[0]), Fd(ends[1])};
  }
  // What is there now, though not more than a pipe holds. False at the end.
  bool take(std::string& text) {
    std::array<char, 1 << 16> room;
    ssize_t got = 0;
    do {
      got = ::read(read.get(), room.data(), room.size());
    } while (got < 0 && errno == EINTR);
    if (got > 0) text.append(room.data(), static_cast<size_t>(got));
    return got > 0 || (got < 0 && errno == EAGAIN);
  }
};

// Kills what a program left behind, which are this process' children by now.
void end_orphans() {
  const Deadline deadline = Deadline::after(kKillS);
  while (!deadline.expired()) {
    std::ifstream children("/proc/thread-self/children");
    for (pid_t pid = 0; children >> pid;) ::kill(pid, SIGKILL);
    pid_t reaped = 0;
    do {
      reaped = ::waitpid(-1, nullptr, WNOHANG);
    } while (reaped > 0);
    if (reaped < 0) return;
    ::usleep(1000);
  }
}

class Watcher {
 public:
  Watcher(double silence_s, const OnLine& on_line)
      : silence_s_(silence_s), silence_(Deadline::after(silence_s)), on_line_(on_line) {}
  ~Watcher() {
    if (pid_ > 0) ::kill(-pid_, SIGKILL);
    end_orphans();
  }

  Result<WatchedEnd> run(ProcessSpec spec) {
    WEFT_TRY(start(std::move(spec)));
    while (pid_ > 0) {
      wait_for_news();
      if (const int signal = signals_.take(); signal != 0) {
        end_.signal = signal;
        ask_to_end(concat("was ended by signal ", signal));
      }
      if (silence_.expired() && !ending_) {
        end_.overdue = true;
        ask_to_end(concat("gave no result for ", static_cast<int64_t>(silence_s_), " s"));
      }
      if (ending_ && grace_.expired()) ::kill(-pid_, SIGKILL);
      reap();
    }
    end_orphans();
    read_all();
    if (const int signal = signals_.take(); signal != 0) end_.signal = signal;
    return end_;
  }

 private:
  void wait_until(double silence_s) {
    silence_s_ = silence_s;
    silence_ = Deadline::after(silence_s);
  }

  Status start(ProcessSpec spec) {
    Result<Pipe> output = Pipe::make(), errors = Pipe::make();
    if (!output.ok()) return output.status();
    if (!errors.ok()) return errors.status();
    output_ = output.take();
    errors_ = errors.take();
    spec.apart = true;
    spec.output_fd = output_.write.get();
    spec.error_fd = errors_.write.get();
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const Result<pid_t> pid = start_process(spec);
    if (!pid.ok()) return pid.status();
    pid_ = *pid;
    output_.write.reset();
    errors_.write.reset();
    return {};
  }

  void wait_for_news() {
    std::array<pollfd, 3> entries{{{signals_.fd(), POLLIN, 0},
                                   {output_.read.get(), POLLIN, 0},
                                   {errors_.read.get(), POLLIN, 0}}};
    ::poll(entries.data(), entries.size(), kPollMs);
    read_all();
  }

  void read_all() {
    if (output_.read.valid() && !output_.take(text_)) output_.read.reset();
    if (errors_.read.valid() && !errors_.take(end_.errors)) errors_.read.reset();
    if (end_.errors.size() > kErrorsKept) end_.errors.erase(0, end_.errors.size() - kErrorsKept);
    size_t begin = 0;
    for (size_t end; (end = text_.find('\n', begin)) != std::string::npos; begin = end + 1)
      take_line(std::string_view(text_).substr(begin, end - begin));
    text_.erase(0, begin);
    if (text_.size() > kLineMax) ask_to_end("printed a line without an end");
  }

  void take_line(std::string_view line) {
    if (ending_) return;
    const Result<double> next_s = on_line_(line);
    if (!next_s.ok()) return ask_to_end(next_s.status().message());
    if (*next_s > 0) wait_until(*next_s);
  }

  void ask_to_end(std::string_view why) {
    if (ending_) return;
    ending_ = true;
    end_.reason = why;
    grace_ = Deadline::after(kGraceS);
    if (pid_ > 0) ::kill(-pid_, SIGTERM);
  }

  void reap() {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return;
    pid_ = 0;
    end_.exit_status = exit_status_of(status);
    if (end_.reason.empty() && status != 0) end_.reason = describe_end(status);
  }

  double silence_s_;
  Deadline silence_;
  const OnLine& on_line_;
  Signals signals_;
  Pipe output_, errors_;
  std::string text_;  // of a line that has not ended yet
  pid_t pid_ = 0;     // 0: ended
  bool ending_ = false;
  Deadline grace_;
  WatchedEnd end_;
};

}  // namespace

HeldSignals::HeldSignals() {
  const sigset_t set = requests();
  ::sigprocmask(SIG_BLOCK, &set, &before_);
}

HeldSignals::~HeldSignals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

Result<WatchedEnd> run_watched(ProcessSpec spec, double silence_s, const OnLine& on_line) {
  return Watcher(silence_s, on_line).run(std::move(spec));
}

}  // namespace weft::bench
