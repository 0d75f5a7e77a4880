// That whoever reads what NCCL_DEBUG asks for can neither stop the process nor end it.
#include "nccl/debug.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
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

// A descriptor that a line may be on its way to must not become another file's.
TEST(DebugLines, KeepTheirDescriptorWhereTheOutputChanges) {
  const auto write_to = [](const std::string& file) {
    const std::map<std::string, std::string, std::less<>> variables{
        {"NCCL_DEBUG", "WARN"}, {"NCCL_DEBUG_FILE", testing::TempDir() + file}};
    configure_debug(Environment(variables), true);
    warn(file);
  };
  const auto open_files = [] {
    const std::filesystem::directory_iterator entries("/proc/self/fd");
    return std::distance(begin(entries), end(entries));
  };
  const auto text_of = [](const std::string& file) {
    std::ifstream in(testing::TempDir() + file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  write_to("first");
  const auto open = open_files();
  int reader = ::open("/dev/null", O_RDONLY | O_CLOEXEC);  // takes the number before a next one
  for (int i = 0; i < 8; ++i) write_to(i % 2 ? "second" : "third");
  EXPECT_EQ(open_files(), open + 1);
  EXPECT_EQ(::write(reader, "x", 1), -1) << "is another file's";
  ::close(reader);
  EXPECT_NE(text_of("first").find("WARN first"), std::string::npos);
  EXPECT_NE(text_of("second").find("WARN second"), std::string::npos);
  configure_debug(Environment{}, true);
}

}  // namespace
}  // namespace weft::nccl
