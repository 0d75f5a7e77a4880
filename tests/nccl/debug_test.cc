// That whoever reads what NCCL_DEBUG asks for can neither stop the process nor end it.
#include "nccl/debug.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>

#include "base/fd.h"

namespace weft::nccl {
namespace {

// What waitpid(2) says of a process that warns on a pipe.
int status_of_warning_on(const Fd& pipe) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    ::dup2(pipe.get(), STDOUT_FILENO);
    const std::map<std::string, std::string, std::less<>> variables{{"NCCL_DEBUG", "WARN"}};
    configure_debug(Environment(variables), true);
    warn("something is wrong");
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(DebugLines, NeitherWaitForTheirReaderNorEndTheProcess) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  Fd read(ends[0]), write(ends[1]);
  EXPECT_EQ(status_of_warning_on(write), 0);
  char line[256] = {};
  ASSERT_GT(::read(read.get(), line, sizeof line - 1), 0);
  EXPECT_NE(std::string(line).find("[0] NCCL WARN something is wrong\n"), std::string::npos);

  ::fcntl(write.get(), F_SETFL, O_NONBLOCK);
  while (::write(write.get(), line, sizeof line) > 0) {
  }
  ::fcntl(write.get(), F_SETFL, 0);
  EXPECT_EQ(status_of_warning_on(write), 0) << "its pipe is full";

  read.reset();
  EXPECT_EQ(status_of_warning_on(write), 0) << "nobody reads";
}

}  // namespace
}  // namespace weft::nccl
