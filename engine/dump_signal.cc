#include "engine/dump_signal.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"

namespace weft {
namespace {

// How long those that wait inside a call have to dump by themselves, with what they wait for.
constexpr std::chrono::milliseconds kPatience{300};

// What the handler needs: it may do nothing but write(2).
std::atomic<int> asked_fd{-1};

void on_signal(int) {
  const int before = errno;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = ::write(asked_fd.load(), &one, sizeof one);
  errno = before;
}

}  // namespace

// All of the process. Never destroyed: its thread outlives main(). A forked child gets its own one:
// its parent's thread, which may have held the mutex, is not there, and what was registered is its
// parent's.
class DumpSignals {
 public:
  static DumpSignals& of_process() {
    static std::atomic<DumpSignals*> latest = new DumpSignals;
    DumpSignals* known = latest.load();
    if (known->process_.here()) return *known;
    auto own = std::make_unique<DumpSignals>();
    return latest.compare_exchange_strong(known, own.get()) ? *own.release() : *known;
  }

  void add(DumpOnSignal* one, const std::string& signal) {
    const std::lock_guard lock(mutex_);
    registered_.push_back(one);
    if (!started_) start(signal == "USR2" ? SIGUSR2 : SIGUSR1);
  }
  void remove(DumpOnSignal* one) {
    const std::lock_guard lock(mutex_);
    std::erase(registered_, one);
  }

 private:
  void start(int signal) {
    started_ = true;
    struct sigaction present {};
    ::sigaction(signal, nullptr, &present);
    if (present.sa_handler != SIG_DFL && present.sa_handler != &on_signal)
      return log_line(LogLevel::warning, -1,
                      concat("the program handles signal ", signal,
                             " itself, so dumps are written on failures only; choose another one "
                             "with WEFT_DUMP_SIGNAL"));
    const int fd = ::eventfd(0, EFD_CLOEXEC);
    Result<std::thread> thread = start_thread([this, fd] { serve(fd); });
    if (!thread.ok()) {
      ::close(fd);
      started_ = false;  // the next communicator may have more luck
      return log_line(LogLevel::warning, -1,
                      concat("dumps are written on failures only: ", thread.status().message()));
    }
    thread->detach();
    asked_fd = fd;
    struct sigaction action {};
    action.sa_handler = &on_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }

  void serve(int fd) {
    uint64_t count = 0;
    while (::read(fd, &count, sizeof count) == sizeof count || errno == EINTR) {
      const std::lock_guard lock(mutex_);
      for (const DumpOnSignal* one : registered_) one->ask_();
      std::this_thread::sleep_for(kPatience);
      for (const DumpOnSignal* one : registered_) one->finish_();
    }
  }

  std::mutex mutex_;
  std::vector<DumpOnSignal*> registered_;
  bool started_ = false;  // once
  const OriginProcess process_;
};

DumpOnSignal::DumpOnSignal(const std::string& signal, std::function<void()> ask,
                           std::function<void()> finish)
    : ask_(std::move(ask)), finish_(std::move(finish)) {
  if (signal != "none") DumpSignals::of_process().add(this, signal);
}

DumpOnSignal::~DumpOnSignal() {
  if (process_.here()) DumpSignals::of_process().remove(this);
}

}  // namespace weft
