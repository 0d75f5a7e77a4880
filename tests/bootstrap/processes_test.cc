#include "bootstrap/processes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/clock.h"
#include "tests/support/seconds.h"
#include "tests/support/thread_limit.h"

namespace weft {
namespace {

using test::seconds_since;

ProcessSpec shell(const std::string& script) {
  ProcessSpec spec;
  spec.program = "/bin/sh";
  spec.arguments = {"-c", script};
  return spec;
}

TEST(Processes, AllWell) {
  const Result<Outcome> outcome = run_together({shell("exit 0"), shell("sleep 0.05")}, 1);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->first_failed, -1);
  EXPECT_EQ(outcome->exit_status, 0);
}

TEST(Processes, TheFirstFailureEndsTheOthers) {
  const int64_t begin = steady_clock().now_ns();
  const Result<Outcome> outcome =
      run_together({shell("exec sleep 100"), shell("exit 3"), shell("exec sleep 100")}, 0.1);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->first_failed, 1);
  EXPECT_EQ(outcome->exit_status, 3);
  EXPECT_EQ(outcome->reason, "exited with status 3");
  EXPECT_LT(seconds_since(begin), 20);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
}

TEST(Processes, OthersMayEndByThemselvesFirst) {
  const int64_t begin = steady_clock().now_ns();
  const Result<Outcome> outcome = run_together({shell("sleep 0.2; exit 4"), shell("exit 3")}, 60);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->exit_status, 3);
  EXPECT_LT(seconds_since(begin), 30);
}

// Whichever is seen to end first: the echo of a failure does not hide it.
TEST(Processes, ASecondaryFailureGivesWay) {
  const std::string echo = "exit " + std::to_string(kExitSecondary);
  const Result<Outcome> outcome =
      run_together({shell(echo), shell("sleep 0.3; exit 5"), shell(echo)}, 60);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->first_failed, 1);
  EXPECT_EQ(outcome->exit_status, 5);
  const Result<Outcome> alone = run_together({shell(echo), shell(echo)}, 60);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(alone->exit_status, kExitSecondary);
  EXPECT_EQ(alone->secondary, (std::vector<int>{0, 1}));
}

TEST(Processes, WhoEndsWellIsToBlameForEchoesThatEndBeforeIt) {
  const std::string echo = "exit " + std::to_string(kExitSecondary);
  const auto late = run_together({shell(echo), shell("sleep 0.3"), shell(echo)}, 5);
  ASSERT_TRUE(late.ok());
  EXPECT_EQ(late->first_failed, 1);
  EXPECT_EQ(late->reason, "exited with status 0 before the others had done");
}

TEST(Processes, WhoEndsWellTooEarlyIsToBlameForEchoes) {
  const std::string echo = "sleep 0.3; exit " + std::to_string(kExitSecondary);
  const auto early = run_together({shell(echo), shell("exit 0"), shell(echo)}, 5);
  ASSERT_TRUE(early.ok());
  EXPECT_EQ(early->first_failed, 1);
  EXPECT_EQ(early->exit_status, 1);
  EXPECT_EQ(early->reason, "exited with status 0 before the others had done");
  const auto other = run_together({shell("exit 0"), shell("sleep 0.3; exit 5"), shell(echo)}, 5);
  EXPECT_EQ(other->exit_status, 5);
}

TEST(Processes, SignalsAreNamed) {
  const Result<Outcome> outcome = run_together({shell("kill -SEGV $$")}, 1);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->exit_status, 128 + SIGSEGV);
  EXPECT_NE(outcome->reason.find("signal 11"), std::string::npos) << outcome->reason;
}

TEST(Processes, ALossMayBeBorne) {
  std::vector<int> lost;
  const OnLoss note = [&](int index, const std::string& how) {
    lost.push_back(index);
    EXPECT_NE(how.find("signal 9"), std::string::npos) << how;
  };
  const auto dead = shell("kill -KILL $$");
  const Result<Outcome> borne =
      run_together({shell("sleep 0.3"), dead, shell("exit 0")}, 0.1, note);
  ASSERT_TRUE(borne.ok());
  EXPECT_EQ(borne->first_failed, -1);
  EXPECT_EQ(lost, std::vector<int>{1});
  const Result<Outcome> failed = run_together({shell("sleep 0.3; exit 3"), dead}, 0.1, note);
  ASSERT_TRUE(failed.ok());
  EXPECT_EQ(failed->exit_status, 3) << "who fails by itself is no loss";
  const Result<Outcome> late =
      run_together({shell("exit 0"), shell("sleep 0.3; kill -KILL $$")}, 1, note);
  ASSERT_TRUE(late.ok());
  EXPECT_EQ(late->exit_status, 0);
  const Result<Outcome> none_left = run_together({dead, dead}, 0.1, note);
  ASSERT_TRUE(none_left.ok());
  EXPECT_EQ(none_left->exit_status, 128 + SIGKILL);
}

TEST(Processes, UserSignalsAreHandedOn) {
  const auto wait_for = [](const std::string& signal) {
    // Again and again, as the first may come before the parent knows this process.
    return shell("trap 'exit 7' " + signal + "; for i in $(seq 200); do kill -" + signal +
                 " $PPID; sleep 0.1; done; exit 1");
  };
  for (const std::string signal : {"USR1", "USR2"}) {
    const Result<Outcome> outcome = run_together({wait_for(signal)}, 0.1);
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome->exit_status, 7) << signal;
  }
}

TEST(Processes, EnvironmentAndDescriptorAreHandedOn) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ProcessSpec spec = shell("echo \"$WEFT_TEST\" >&" + std::to_string(ends[1]));
  spec.environment = {{"WEFT_TEST", "first"}, {"WEFT_TEST", "handed on"}};
  spec.inherited_fd = ends[1];
  const Result<Outcome> outcome = run_together({spec}, 1);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->exit_status, 0);
  char text[32] = {};
  EXPECT_GT(::read(ends[0], text, sizeof text - 1), 0);
  EXPECT_STREQ(text, "handed on\n");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Processes, ADescriptorCanBeGivenAway) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ProcessSpec spec = shell("sleep 0.3; echo here >&" + std::to_string(ends[1]));
  spec.inherited_fd = ends[1];
  const ProcessSpec later = shell("sleep 0.1; test ! -e /proc/$PPID/fd/" + std::to_string(ends[1]));
  const Result<Outcome> outcome = run_together({spec, later}, 1, nullptr, Fd(ends[1]));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->first_failed, -1) << "it stays open here: " << outcome->reason;
  char text[32] = {};
  EXPECT_EQ(::read(ends[0], text, sizeof text), 5);
  ::close(ends[0]);
}

// As a parent may leave it, across exec. SIGCHLD is signal 17.
TEST(Processes, WhoIgnoresTheEndOfChildrenSeesTheirFailures) {
  struct sigaction before {
  }, after{};
  ASSERT_EQ(::sigaction(SIGCHLD, nullptr, &before), 0);
  ::signal(SIGCHLD, SIG_IGN);
  const auto failed = run_together({shell("exit 3"), shell("exec sleep 5")}, 0.1);
  const auto usual = run_together(
      {shell("mask=$(sed -n 's/SigIgn:.//p' /proc/$$/status); exit $((0x$mask >> 16 & 1))")}, 1);
  ::sigaction(SIGCHLD, &before, &after);
  ASSERT_TRUE(failed.ok() && usual.ok());
  EXPECT_EQ(failed->exit_status, 3);
  EXPECT_EQ(failed->first_failed, 0);
  EXPECT_EQ(usual->exit_status, 0) << "they ignore it, too";
  EXPECT_TRUE(after.sa_handler == SIG_IGN) << "it is not as it was before";
}

TEST(Processes, AnEndThatOthersHaveSeenIsAFailure) {
  const OnLoss steal = [](int, const std::string&) { ::waitpid(-1, nullptr, 0); };
  const auto outcome =
      run_together({shell("kill -KILL $$"), shell("sleep 0.2; exit 0")}, 0.1, steal);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->first_failed, 1);
  EXPECT_EQ(outcome->exit_status, 1);
  EXPECT_NE(outcome->reason.find("how is not known"), std::string::npos) << outcome->reason;
}

TEST(Processes, WhichCannotBeStartedIsSaid) {
  const test::ThreadLimit none(0);
  if (!none.holds()) GTEST_SKIP() << "this limit needs root";
  const auto outcome = run_together({shell("exit 0"), shell("exit 0")}, 1);
  ASSERT_FALSE(outcome.ok());
  EXPECT_TRUE(outcome.status().message().starts_with("start process 1 of 2: fork"))
      << outcome.status().message();
}

TEST(Processes, AMissingProgramIsAFailure) {
  ProcessSpec spec;
  spec.program = "/nonexistent/program";
  const Result<Outcome> outcome = run_together({spec}, 1);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->exit_status, 127);
}

// Whoever started them may be killed outright.
TEST(Processes, NoneOutlivesItsParent) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    ProcessSpec spec = shell("echo started >&" + std::to_string(ends[1]) + "; exec sleep 100");
    spec.inherited_fd = ends[1];
    ::_exit(run_together({spec}, 1).ok() ? 0 : 1);
  }
  ::close(ends[1]);
  char text[32] = {};
  ASSERT_EQ(::read(ends[0], text, sizeof text), 8);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  // The pipe closes when its last writer is gone, long before the 100 s are over.
  const int64_t begin = steady_clock().now_ns();
  EXPECT_EQ(::read(ends[0], text, sizeof text), 0);
  EXPECT_LT(seconds_since(begin), 20);
  ::close(ends[0]);
}

}  // namespace
}  // namespace weft
