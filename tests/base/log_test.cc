// That whoever reads standard error can neither stop the process nor end it.
#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdio>
#include <functional>
#include <sstream>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/line.h"

namespace weft {
namespace {

constexpr int kPage = 4096;

struct Pipe {
  explicit Pipe(int pages = 16) {
    int ends[2];
    if (::pipe(ends) != 0) ::abort();
    read = Fd(ends[0]);
    write = Fd(ends[1]);
    ::fcntl(write.get(), F_SETPIPE_SZ, pages * kPage);
    ::fcntl(read.get(), F_SETFL, O_NONBLOCK);
  }
  void fill() const {
    const std::string bytes(kPage, '.');
    ::fcntl(write.get(), F_SETFL, O_NONBLOCK);
    while (::write(write.get(), bytes.data(), bytes.size()) > 0) {
    }
    ::fcntl(write.get(), F_SETFL, 0);
  }
  // All that is there now.
  std::string drain() const {
    std::string text;
    char bytes[kPage];
    for (ssize_t got = 0; (got = ::read(read.get(), bytes, sizeof bytes)) > 0;)
      text.append(bytes, static_cast<size_t>(got));
    return text;
  }
  Fd read, write;
};

// What waitpid(2) says of a process that does this, with the pipe as its standard error, in 20 s.
int status_of(Pipe& pipe, const std::function<bool()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::dup2(pipe.write.get(), STDERR_FILENO);
    pipe.write.reset();
    ::_exit(body() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

bool pipe_signal_is(bool blocked, bool pending) {
  sigset_t mask, waiting;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  ::sigpending(&waiting);
  return ::sigismember(&mask, SIGPIPE) == blocked && ::sigismember(&waiting, SIGPIPE) == pending;
}

TEST(LogLines, DoNotEndAProcessWhoseReaderIsGone) {
  Pipe pipe;
  pipe.read.reset();
  const int status = status_of(pipe, [] {
    log_line(LogLevel::error, 0, "one");
    log_line(LogLevel::error, 0, "two");
    return pipe_signal_is(false, false);
  });
  EXPECT_EQ(status, 0);
}

TEST(LogLines, DoNotWaitForWhoDoesNotRead) {
  Pipe pipe;
  pipe.fill();
  const int status = status_of(pipe, [&pipe] {
    for (int i = 0; i < 3; ++i) log_line(LogLevel::error, 0, "nobody reads this");
    pipe.drain();
    for (const char* line : {"one", "two"}) log_line(LogLevel::error, 0, line);
    return true;
  });
  ASSERT_EQ(status, 0);
  EXPECT_EQ(pipe.drain(),
            "weft[0] error: one (3 lines before this one could not be written)\n"
            "weft[0] error: two\n");
}

// In a child: the limit of this process stays.
TEST(LogLines, DoNotEndAProcessWhoseFilesAreFull) {
  Pipe pipe;
  const int status = status_of(pipe, [] {
    std::FILE* const file = std::tmpfile();
    const rlimit some{10, 10};
    if (!file || ::setrlimit(RLIMIT_FSIZE, &some) != 0) return false;
    LineWriter writer;
    for (int i = 0; i < 3; ++i) writer.write(::fileno(file), "a line");
    struct stat kind {};
    return ::fstat(::fileno(file), &kind) == 0 && kind.st_size == 10;
  });
  EXPECT_EQ(status, 0);
}

TEST(LineWriter, LeavesASignalThatCameBefore) {
  Pipe pipe;
  pipe.read.reset();
  const int status = status_of(pipe, [] {
    sigset_t signal;
    ::sigemptyset(&signal);
    ::sigaddset(&signal, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &signal, nullptr);
    LineWriter writer;
    writer.write(STDERR_FILENO, "a line");
    const bool none = pipe_signal_is(true, false);
    ::raise(SIGPIPE);
    writer.write(STDERR_FILENO, "another");
    return none && pipe_signal_is(true, true);
  });
  EXPECT_EQ(status, 0);
}

// It says that it takes bytes while there is room for one of them.
TEST(LineWriter, DoesNotWaitForATerminalThatNobodyReads) {
  Pipe pipe;
  const int status = status_of(pipe, [] {
    const Fd terminal(::posix_openpt(O_RDWR | O_NOCTTY));
    if (!terminal.valid() || ::grantpt(terminal.get()) != 0 || ::unlockpt(terminal.get()) != 0)
      return true;  // there are none here
    char name[64];
    if (::ptsname_r(terminal.get(), name, sizeof name) != 0) return false;
    const Fd screen(::open(name, O_WRONLY | O_NOCTTY));
    LineWriter writer;
    for (int i = 0; i < 20000; ++i) writer.write(screen.get(), std::string(97, 'x'));
    return true;
  });
  EXPECT_EQ(status, 0);
}

TEST(LineWriter, EndsALineOfWhichOnlyThisMuchWasTaken) {
  const Pipe pipe(1);
  LineWriter writer;
  writer.write(pipe.write.get(), std::string(2 * kPage, 'x'));
  writer.write(pipe.write.get(), "lost");
  EXPECT_EQ(pipe.drain(), std::string(kPage, 'x'));
  writer.write(pipe.write.get(), "line");
  EXPECT_EQ(pipe.drain(), "\nline (2 lines before this one could not be written)\n");
}

// Whether the kernel knows writes to pipes that do not wait.
bool has_writes_that_do_not_wait() {
  const Pipe pipe;
  const iovec part{const_cast<char*>("x"), 1};
  return ::pwritev2(pipe.write.get(), &part, 1, -1, RWF_NOWAIT) == 1;
}

constexpr int kThreads = 4;

void in_threads(const std::function<void()>& body) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(body);
  for (std::thread& thread : threads) thread.join();
}

TEST(LineWriter, CountsTheLinesOfAllThreads) {
  constexpr int kLines = 5000;
  const Pipe pipe(1);
  LineWriter writer;
  std::string text;
  std::atomic<int> left{kThreads * kLines};
  std::thread reader([&] {
    while (left > 0) text += pipe.drain();
  });
  in_threads([&] {
    for (int i = 0; i < kLines; ++i, --left) writer.write(pipe.write.get(), "a line");
  });
  reader.join();
  text += pipe.drain();
  writer.write(pipe.write.get(), "the last");
  std::istringstream lines(text + pipe.drain());
  int all = 0;
  for (std::string line; std::getline(lines, line); ++all)
    if (const size_t at = line.find('('); at != std::string::npos) all += std::stoi(&line[at + 1]);
  EXPECT_EQ(all, kThreads * kLines + 1);
}

// All of them may find room, and there is room for one of them.
TEST(LineWriter, StopsNoThreadWhereAnotherOneFillsThePipe) {
  if (!has_writes_that_do_not_wait()) GTEST_SKIP() << "pipes cannot be written so here";
  Pipe pipe(1);
  const int status = status_of(pipe, [&pipe] {
    LineWriter writer;
    std::barrier round(kThreads, [&pipe]() noexcept { pipe.drain(); });
    in_threads([&] {
      for (int i = 0; i < 2000; ++i) {
        writer.write(STDERR_FILENO, std::string(kPage - 1, 'x'));
        round.arrive_and_wait();
      }
    });
    return true;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace weft
