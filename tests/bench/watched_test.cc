#include "bench/watched.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/clock.h"

namespace weft::bench {
namespace {

struct Seen {
  WatchedEnd end;
  std::vector<std::string> lines;
  double took_s = 0;
};

// A line "progress" shows progress, after "last" the end is near, "broken" is an error.
Seen watch(const std::string& script, double silence_s = 60) {
  ProcessSpec spec;
  spec.program = "/bin/sh";
  spec.arguments = {"-c", script};
  Seen seen;
  const int64_t begin = steady_clock().now_ns();
  const Result<WatchedEnd> end =
      run_watched(spec, silence_s, [&](std::string_view line) -> Result<double> {
        seen.lines.emplace_back(line);
        if (line == "broken") return invalid_argument("said it is broken");
        if (line == "last") return 0.1;
        return line == "progress" ? silence_s : 0;
      });
  EXPECT_TRUE(end.ok()) << end.status().message();
  if (end.ok()) seen.end = *end;
  seen.took_s = static_cast<double>(steady_clock().now_ns() - begin) * 1e-9;
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
  return seen;
}

TEST(Watched, HandsOnLinesAndKeepsErrors) {
  const Seen seen = watch("echo one; echo oh >&2; printf 't'; sleep 0.1; echo wo");
  EXPECT_TRUE(seen.end.well()) << seen.end.reason;
  EXPECT_EQ(seen.lines, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(seen.end.errors, "oh\n");
}

TEST(Watched, FailuresAreDescribed) {
  const Seen status = watch("echo last; exit 3");
  EXPECT_EQ(status.end.exit_status, 3);
  EXPECT_EQ(status.end.reason, "exited with status 3");
  EXPECT_EQ(status.lines.size(), 1u);
  const Seen killed = watch("kill -SEGV $$");
  EXPECT_EQ(killed.end.exit_status, 128 + SIGSEGV);
}

TEST(Watched, WhoIgnoresTheEndOfChildrenSeesIt) {
  ::signal(SIGCHLD, SIG_IGN);
  const Seen seen = watch("echo done; exit 3", 5);
  ::signal(SIGCHLD, SIG_DFL);
  EXPECT_EQ(seen.end.exit_status, 3) << seen.end.reason;
  EXPECT_LT(seen.took_s, 4);
}

TEST(Watched, WithoutProgressItIsEnded) {
  const Seen silent = watch("exec sleep 100", 0.3);
  EXPECT_NE(silent.end.reason.find("gave no result"), std::string::npos) << silent.end.reason;
  EXPECT_TRUE(silent.end.overdue);
  EXPECT_LT(silent.took_s, 20);
  const Seen chatting = watch("while :; do echo chat; sleep 0.05; done", 0.3);
  EXPECT_NE(chatting.end.reason.find("gave no result"), std::string::npos) << chatting.end.reason;
}

TEST(Watched, ProgressGivesMoreTime) {
  const Seen seen = watch("for i in 1 2 3 4 5 6; do sleep 0.3; echo progress; done", 1);
  EXPECT_TRUE(seen.end.well()) << seen.end.reason;
}

TEST(Watched, ALineMayShortenTheTime) {
  const Seen seen = watch("echo last; exec sleep 100");
  EXPECT_TRUE(seen.end.overdue);
  EXPECT_LT(seen.took_s, 20);
}

TEST(Watched, ABrokenLineEndsIt) {
  const Seen seen = watch("echo broken; while :; do echo progress; done");
  EXPECT_EQ(seen.end.reason, "said it is broken");
  EXPECT_LT(seen.took_s, 20);
  EXPECT_EQ(watch("echo broken").end.reason, "said it is broken");
}

TEST(Watched, ALineWithoutAnEndEndsIt) {
  const Seen seen = watch("exec cat /dev/zero");
  EXPECT_EQ(seen.end.reason, "printed a line without an end");
  EXPECT_TRUE(seen.lines.empty());
}

TEST(Watched, WhoDoesNotListenIsKilledWithItsChildren) {
  const Seen seen =
      watch("trap '' TERM; (trap '' TERM; setsid sleep 100) & sleep 100; sleep 100", 0.3);
  EXPECT_NE(seen.end.reason.find("gave no result"), std::string::npos);
  EXPECT_LT(seen.took_s, 30);
}

TEST(Watched, WhatItLeavesBehindIsEnded) {
  const Seen seen = watch("sleep 100 & exit 0");
  EXPECT_TRUE(seen.end.well()) << seen.end.reason;
  EXPECT_LT(seen.took_s, 20);
}

TEST(Watched, ASignalToTheCallerEndsIt) {
  const Seen seen = watch("kill -TERM $PPID; exec sleep 100");
  EXPECT_EQ(seen.end.signal, SIGTERM);
  EXPECT_FALSE(seen.end.well());
  EXPECT_LT(seen.took_s, 20);
}

TEST(Watched, ASignalThatCameBeforeEndsItToo) {
  const HeldSignals held;
  ::raise(SIGTERM);
  const Seen seen = watch("exec sleep 100");
  EXPECT_EQ(seen.end.signal, SIGTERM);
  EXPECT_LT(seen.took_s, 20);
}

}  // namespace
}  // namespace weft::bench
