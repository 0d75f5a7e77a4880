#include "base/line.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <ctime>
#include <string_view>

#include "base/fd.h"
#include "base/text.h"

namespace weft {
namespace {

bool takes_bytes(int fd) {
  pollfd asked{fd, POLLOUT, 0};
  return ::poll(&asked, 1, 0) == 1 && (asked.revents & POLLOUT);
}

// As write(2), perhaps of fewer bytes, but where that would wait, an error. Of pipes only the
// kernel can say whether it would (since Linux 6.4): somebody else may fill them in between.
ssize_t write_some(int fd, std::string_view bytes) {
  struct stat file {};
  if (::fstat(fd, &file) == 0 && S_ISREG(file.st_mode))
    return ::write(fd, bytes.data(), bytes.size());
  const iovec part{const_cast<char*>(bytes.data()), std::min<size_t>(bytes.size(), PIPE_BUF)};
  const ssize_t written = ::pwritev2(fd, &part, 1, -1, RWF_NOWAIT);
  if (written >= 0 || errno == EAGAIN || errno == EPIPE || errno == EINTR) return written;
  // A terminal says so with room for a byte, and waits with the rest; opened again it does not.
  const bool is_device = S_ISCHR(file.st_mode);
  const Fd again(is_device ? ::open(concat("/proc/self/fd/", fd).c_str(),
                                    O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
                           : -1);
  if (again.valid()) return ::write(again.get(), part.iov_base, part.iov_len);
  return takes_bytes(fd) ? ::write(fd, part.iov_base, part.iov_len) : -1;
}

// How many of them the file takes now.
size_t write_now(int fd, std::string_view bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = write_some(fd, bytes.substr(written));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  return written;
}

// While it lives, this thread does not get that signal for what it writes.
class Without {
 public:
  explicit Without(int signal) {
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, signal) == 1;
    ::sigemptyset(&signal_);
    ::sigaddset(&signal_, signal);
    ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~Without() {
    const timespec now{};
    while (!was_pending_ && ::sigtimedwait(&signal_, nullptr, &now) < 0 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Without(const Without&) = delete;
  Without& operator=(const Without&) = delete;

 private:
  sigset_t signal_, before_;
  bool was_pending_ = false;  // not by what is written now
};

}  // namespace

void LineWriter::write(int fd, std::string line) {
  const uint64_t dropped = dropped_.exchange(0);
  const bool cut = cut_.exchange(false);
  if (dropped > 0)
    line.append(concat(" (", dropped, dropped == 1 ? " line" : " lines",
                       " before this one could not be written)"));
  line.push_back('\n');
  if (cut) line.insert(line.begin(), '\n');
  const Without broken_pipes(SIGPIPE), full_files(SIGXFSZ);
  const size_t written = write_now(fd, line);
  if (written == line.size()) return;
  dropped_ += dropped + 1;
  if (cut || written > 0) cut_ = true;
}

}  // namespace weft
