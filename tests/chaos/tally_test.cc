// What makes a run of weft-chaos a bad one, and that a short run meets everything.
#include "tests/chaos/tally.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "base/fd.h"
#include "tests/chaos/real.h"
#include "tests/chaos/remains.h"

namespace weft::chaos {
namespace {

Tally named(uint64_t named, uint64_t errors, unsigned percent) {
  Tally tally;
  tally.named = named;
  tally.errors = errors;
  tally.named_percent = percent;
  return tally;
}

TEST(Tally, IsBadWhereErrorsDoNotNameTheRank) {
  EXPECT_TRUE(Tally().good());
  EXPECT_TRUE(named(7, 7, 100).good());
  EXPECT_FALSE(named(19'999, 20'000, 100).good());
  EXPECT_FALSE(named(0, 20, 99).good());
  EXPECT_TRUE(named(4, 5, 99).good());  // one alone
  EXPECT_FALSE(named(3, 5, 99).good());
  EXPECT_TRUE(named(198, 200, 99).good());
  EXPECT_FALSE(named(197, 200, 99).good());
  EXPECT_TRUE(named(95, 100, 95).good());
  EXPECT_FALSE(named(94, 100, 95).good());
}

TEST(Tally, IsBadWhereADeathIsNoticedLate) {
  Tally tally;
  tally.slowest_notice = 1;
  EXPECT_TRUE(tally.good());
  tally.slowest_notice = 16;
  EXPECT_FALSE(tally.good());
}

TEST(Tally, IsBadWhereARankCrashes) {
  Tally tally, sum;
  tally.crashes = 1;
  EXPECT_FALSE(tally.good());
  sum += tally;
  EXPECT_FALSE(sum.good());
}

TEST(Tally, AddsUp) {
  Tally sum;
  sum += named(1, 2, 95);
  Tally skipped;
  skipped.skipped = 3;
  sum += skipped;
  EXPECT_EQ(sum.named_percent, 95u);
  EXPECT_EQ(sum.skipped, 3u);
  EXPECT_NE(table({{"kind", sum}}).find("skipped"), std::string::npos);
}

// As many as ctest makes.
TEST(RealTrials, MeetEveryFaultAndEveryMedium) {
  std::set<std::string> faults, media;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::string kind = kind_of(seed);
    faults.insert(kind.substr(0, kind.find(',')));
    media.insert(kind.substr(kind.find(',')));
  }
  EXPECT_EQ(faults.size(), 8u);
  EXPECT_EQ(media, (std::set<std::string>{", shm", ", tcp", ", shm+tcp"}));
  std::set<std::string> kinds;
  for (uint64_t seed = 1; seed <= 36; ++seed) kinds.insert(kind_of(seed));
  EXPECT_EQ(kinds.size(), 7u * 3 + 2);  // a cable is cut between hosts
}

TEST(Remains, AreDescriptorsAndFiles) {
  const Remains before;
  EXPECT_EQ(before.take_more(), 0u);
  const std::string path = meeting_file(::getpid(), 7);
  std::ofstream(path) << "here";
  EXPECT_EQ(before.take_more(), 1u);
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "it was not removed";
  const Fd left(::open("/dev/null", O_RDONLY));
  EXPECT_EQ(before.take_more(), 1u);
}

TEST(Remains, AreProcesses) {
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    ::setpgid(0, 0);
    ::pause();
    ::_exit(0);
  }
  ::setpgid(pid, pid);
  EXPECT_TRUE(end_group(pid));
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  EXPECT_FALSE(end_group(pid));
}

}  // namespace
}  // namespace weft::chaos
