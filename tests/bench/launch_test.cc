#include "bench/launch.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/support/contains.h"

namespace weft::bench {
namespace {

Membership member_of(const std::string& launcher, int size) {
  Membership member;
  member.launcher = launcher;
  member.size = size;
  return member;
}

std::optional<Start> start(const std::vector<std::string>& args, const Membership& member) {
  const Result<BenchOptions> options = parse_options(args, {});
  if (!options.ok()) return std::nullopt;
  const Result<Start> how = how_to_start(*options, member);
  return how.ok() ? std::optional(*how) : std::nullopt;
}

TEST(Launch, AloneItStartsRanks) {
  EXPECT_EQ(start({}, member_of("none", 1)), Start::processes);
  EXPECT_EQ(start({"--ranks", "4", "--threads"}, member_of("none", 1)), Start::threads);
}

TEST(Launch, InAJobItJoins) {
  EXPECT_EQ(start({}, member_of("openmpi", 4)), Start::join);
  EXPECT_EQ(start({"--ranks", "4"}, member_of("openmpi", 4)), Start::join);
  EXPECT_EQ(start({}, member_of("slurm", 1)), Start::join);
  EXPECT_EQ(start({"--ranks", "1"}, member_of("weft", 1)), Start::join);
}

TEST(Launch, InAJobOfOneItMayStartRanks) {
  EXPECT_EQ(start({"--ranks", "2"}, member_of("slurm", 1)), Start::processes);
  EXPECT_EQ(start({"--threads"}, member_of("slurm", 1)), Start::threads);
}

TEST(Launch, ContradictionsAreErrors) {
  EXPECT_EQ(start({"--ranks", "2"}, member_of("openmpi", 4)), std::nullopt);
  EXPECT_EQ(start({"--threads"}, member_of("openmpi", 4)), std::nullopt);
  for (const std::vector<std::string>& ours :
       {std::vector<std::string>{"--hosts", "2"}, {"--processes"}, {"--no-bind"}}) {
    EXPECT_EQ(start(ours, member_of("openmpi", 4)), std::nullopt) << ours[0];
    EXPECT_EQ(start(ours, member_of("weft", 4)), Start::join) << ours[0];
  }
  EXPECT_EQ(start({"--ranks", "4", "--here", "0-1", "--meet", "a:1"}, member_of("openmpi", 4)),
            std::nullopt);
}

TEST(Launch, OnOneOfSeveralHostsItStartsItsPart) {
  const std::vector<std::string> args = {"--ranks", "4", "--here", "2-3", "--meet", "a:29400"};
  EXPECT_EQ(start(args, member_of("none", 1)), Start::processes);
  EXPECT_EQ(start(args, member_of("weft", 4)), Start::join);
}

TEST(Launch, MoreRanksThanTheSystemHasRoomForAreRefused) {
  BenchOptions options;
  options.operations = {Operation::all_reduce};
  options.ranks = 200;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const Status refused = fit_to_start(options, {});
  EXPECT_TRUE(test::contains(refused, "--ranks: 200 are too many")) << refused.to_string();
  EXPECT_TRUE(test::contains(refused, "where 100 is the limit of open files"));
  options.meet = "a:1";
  options.first_here = 190, options.ranks_here = 10;
  EXPECT_TRUE(fit_to_start(options, {}).ok()) << "rank 0 is elsewhere";
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Launch, RanksTakeGpusInTurn) {
  EXPECT_FALSE(share_gpus({0, 1}, 2));
  EXPECT_TRUE(share_gpus({0, 1}, 3));
  EXPECT_TRUE(share_gpus({0, 0, 1}, 2));
  EXPECT_FALSE(share_gpus({1, 0, 1}, 2));
  BenchOptions options;
  options.gpus = {1, 5};
  EXPECT_EQ(*gpus_in_turn(options), (std::vector{1, 5}));
}

TEST(Launch, RanksAreSpreadOverHostsInBlocks) {
  BenchOptions options;
  EXPECT_EQ(host_of_local_rank(options, 4, 3), "");
  options.hosts = 2;
  EXPECT_EQ(host_of_local_rank(options, 4, 1), "host0");
  EXPECT_EQ(host_of_local_rank(options, 4, 2), "host1");
  EXPECT_EQ(host_of_local_rank(options, 5, 4), "host1");
}

}  // namespace
}  // namespace weft::bench
