// The memory of a rank's process, as its peers read it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/ptrace_scope.h"
#include "tests/transport/shm_world.h"
#include "transport/shm/process_memory.h"

namespace weft {
namespace {

using namespace shm::test;

// Two ranks of this process that have mapped each other's windows.
TEST(ShmMemory, WhatIsNotThereIsAnErrorOfItsOwner) {
  const auto one = make(config(0)), two = make(config(1));
  join(*one, *two);
  const Window* const windows[] = {one->open_window(1), two->open_window(0)};
  ASSERT_TRUE(
      until([&] { return windows[0]->memory && windows[1]->memory; }, {one.get(), two.get()}));
  constexpr size_t kPage = 4096;
  void* const mapped =
      ::mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const Bytes pages(static_cast<std::byte*>(mapped), 3 * kPage);
  ASSERT_EQ(::mprotect(mapped, kPage, PROT_NONE), 0);
  EXPECT_FALSE(two->is_readable(pages));
  EXPECT_FALSE(two->is_readable(pages.first(1)));
  EXPECT_TRUE(two->is_readable(pages.subspan(kPage)));
  ASSERT_EQ(::mprotect(mapped, kPage, PROT_READ), 0);
  ASSERT_EQ(::mprotect(pages.data() + kPage, kPage, PROT_NONE), 0);
  EXPECT_TRUE(two->is_readable(pages)) << "only the ends are looked at";
  std::vector<std::byte> into(pages.size());
  const auto read = one->read_memory(1, reinterpret_cast<uint64_t>(mapped), into);
  EXPECT_EQ(read.status().code(), Code::invalid_argument);
  EXPECT_EQ(read.status().peer(), 1);
  EXPECT_NE(read.status().message().find("rank 0 cannot read the input of rank 1"),
            std::string::npos)
      << read.status().message();
  ASSERT_EQ(::mprotect(mapped, pages.size(), PROT_READ), 0);
  const auto nowhere = one->read_memory(1, reinterpret_cast<uint64_t>(into.data()), pages);
  EXPECT_EQ(nowhere.status().code(), Code::invalid_argument);
  EXPECT_EQ(nowhere.status().peer(), 0) << "what is read-only is its own output";
  two->abandon();
  const auto late = one->read_memory(1, reinterpret_cast<uint64_t>(mapped), into);
  EXPECT_TRUE(late.ok() && !*late) << "it is free to unmap it";
  ::munmap(mapped, 3 * kPage);
}

// Such a process's memory is nobody's to read, whoever could before.
TEST(ShmMemory, OfAProcessThatKeepsItToItselfCannotBeRead) {
  const auto me = make(config(0));
  const std::vector<std::byte> memory(5000);
  ASSERT_EQ(::prctl(PR_GET_DUMPABLE), 1);
  EXPECT_TRUE(me->is_readable(memory));
  EXPECT_TRUE(me->is_readable({}));
  ASSERT_EQ(::prctl(PR_SET_DUMPABLE, 0), 0);
  EXPECT_FALSE(me->is_readable(memory));
  EXPECT_FALSE(me->is_readable({}));
  ASSERT_EQ(::prctl(PR_SET_DUMPABLE, 1), 0);
  EXPECT_TRUE(me->is_readable(memory));
}

// Copies of processes' memory end with a token that only the right one has.
TEST(ShmMemory, IsNotThatOfAnotherProcessByTheSameNumber) {
  const std::vector<std::byte> memory(5000, std::byte{7});
  const std::array<uint64_t, 2> token{3, 4};
  const auto at = [](const void* here) { return reinterpret_cast<uint64_t>(here); };
  shm::ReadableProcess process{::getpid(), at(token.data()), token};
  std::vector<std::byte> into(memory.size());
  size_t done = 0;
  EXPECT_EQ(shm::read_process(process, at(memory.data()), into, done), 0);
  EXPECT_EQ(done, memory.size());
  EXPECT_EQ(into, memory);
  EXPECT_EQ(shm::read_process(process, 0, {}, done), 0) << "nothing, but of the right one";
  process.token = {3, 5};
  EXPECT_EQ(shm::read_process(process, at(memory.data()), into, done), ESRCH);
  EXPECT_EQ(shm::read_process(process, 0, {}, done), ESRCH);
  process = {::getpid(), 8, token};  // where nothing is
  EXPECT_EQ(shm::read_process(process, at(memory.data()), into, done), ESRCH);
}

class Killed {
 public:
  explicit Killed(pid_t child) : child_(child) {}
  ~Killed() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Killed(const Killed&) = delete;
  Killed& operator=(const Killed&) = delete;

 private:
  const pid_t child_;
};

// As rank 1, until it becomes another program, once `go` says so.
[[noreturn]] void become_another(const std::string& address_of_0, int told, int go) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto two = make(config(1));
  const std::string address = two->address();
  const std::vector<std::byte> memory(5000, std::byte{7});
  const auto at = reinterpret_cast<uint64_t>(memory.data());
  const auto size = static_cast<ssize_t>(address.size());
  char byte = 0;
  if (::write(told, &at, sizeof at) == sizeof at &&
      ::write(told, address.data(), address.size()) == size &&
      two->join({address_of_0, address}).ok() && two->open_window(0) &&
      until([&] { return two->reads_memory(0).has_value(); }, {two.get()}) &&
      ::read(go, &byte, 1) == 1)
    ::execlp("sleep", "sleep", "20", nullptr);
  ::_exit(1);
}

TEST(ShmMemory, OfAProcessThatRunsAnotherProgramIsNotTakenForGood) {
  if (!processes_read_each_other()) GTEST_SKIP() << "kernel.yama.ptrace_scope keeps them apart";
  const auto one = make(config(0));
  int told[2], go[2];
  ASSERT_EQ(::pipe2(told, O_CLOEXEC) | ::pipe2(go, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(go[1]);
    become_another(one->address(), told[1], go[0]);
  }
  const Killed killed(child);
  const Fd say(go[1]), hear(told[0]);
  ::close(told[1]);
  ::close(go[0]);
  uint64_t memory = 0;
  char address[4096];
  ASSERT_EQ(::read(hear.get(), &memory, sizeof memory), static_cast<ssize_t>(sizeof memory));
  const ssize_t size = ::read(hear.get(), address, sizeof address);
  ASSERT_GT(size, 0);
  ASSERT_TRUE(one->join({one->address(), std::string(address, static_cast<size_t>(size))}).ok());
  one->open_window(1);
  ASSERT_TRUE(until([&] { return one->reads_memory(1).has_value(); }, {one.get()}));
  ASSERT_TRUE(*one->reads_memory(1));
  std::vector<std::byte> into(5000);
  const auto good = one->read_memory(1, memory, into);
  EXPECT_TRUE(good.ok() && *good);
  EXPECT_EQ(into[4999], std::byte{7});
  EXPECT_EQ(::write(say.get(), "!", 1), 1);
  const auto program = [&] {
    std::string name;
    std::ifstream("/proc/" + std::to_string(child) + "/comm") >> name;
    return name;
  };
  EXPECT_TRUE(until([&] { return program() == "sleep"; }, {}));
  const auto read = one->read_memory(1, memory, into);  // which has not heard of it
  EXPECT_TRUE(read.ok() && !*read) << read.status().to_string();
}

}  // namespace
}  // namespace weft
