// That whoever reads what NCCL_DEBUG asks for can neither stop the process nor end it.
#include "nccl/debug.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
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
  // The descriptor that leads to a file; -1: there is none.
  const auto number_of = [](const std::string& file) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;  // that of the folder itself
      if (std::filesystem::read_symlink(entry, gone).filename() == file)
        return std::stoi(entry.path().filename());
    }
    return -1;
  };
  const auto text_of = [](const std::string& file) {
    std::ifstream in(testing::TempDir() + file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  write_to("first");
  const int number = number_of("first");
  ASSERT_GE(number, 0);
  for (const char* const file : {"second", "third", "second"}) {
    write_to(file);
    EXPECT_EQ(number_of(file), number);
  }
  EXPECT_EQ(number_of("first"), -1);
  EXPECT_NE(text_of("first").find("WARN first"), std::string::npos);
  EXPECT_NE(text_of("second").find("WARN second"), std::string::npos);
  configure_debug(Environment{}, true);
}

}  // namespace
}  // namespace weft::nccl
