// Calls that follow calls.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "engine/algorithms/algorithm.h"
#include "engine/schedule/verify.h"
#include "tests/engine/schedule/samples.h"
#include "tests/support/interpret.h"

namespace weft {
namespace {

using samples::chain_broadcast;
using samples::window_all_reduce;
using samples::zero_copy_reduce;

std::string complaint(const std::vector<const Schedule*>& calls, const VerifyOptions& options) {
  return std::string(verify_sequence(calls, options).message());
}

TEST(Sequence, GoodOnesAreProven) {
  const Schedule a = chain_broadcast(4), b = window_all_reduce(4), c = zero_copy_reduce(4);
  for (const int leases : {1, 2, 3})
    EXPECT_EQ(complaint({&a, &b, &c, &b, &b, &a, &c, &c, &b}, {.slots = 2, .leases = leases}),
              "ok");
  EXPECT_EQ(complaint({}, {}), "ok");
}

// The windowed broadcast of two halves: right for any number of rounds within one call, because the
// root waits for the readers two rounds back; over calls only the lease protects it.
Schedule window_broadcast(int ranks) {
  Schedule s{{Kind::broadcast, ranks, 0, true}, std::vector<Program>(ranks)};
  for (Program& p : s.programs) p.window_slots = 1, p.window_halves = 2, p.lanes.resize(1);
  Step& root = s.programs[0].lanes[0].step(0).read(input()).write(window(0, 0));
  for (Rank r = 1; r < ranks; ++r) {
    root.post(r, 0).wait(r, 0, 2);
    s.programs[r].lanes[0].step(0).read(window(0, 0)).write(output()).wait(0, 0).post(0, 0);
  }
  return s;
}

TEST(Sequence, LeasesProtectWindowsBetweenCalls) {
  const Schedule s = window_broadcast(3);
  EXPECT_TRUE(verify(s, {.rounds = 8}).status.ok());
  const std::vector<const Schedule*> calls(8, &s);
  for (const int leases : {1, 2, 3})
    EXPECT_EQ(complaint(calls, {.rounds = 1, .leases = leases}), "ok");
}

TEST(Sequence, MessagesLeftByOneCallAreFound) {
  // Within one call the extra message would already be an error; here ranks disagree on the plan.
  Schedule a = chain_broadcast(2);
  a.programs[0].lanes[0].step(0).read(input()).send({1, 0});
  const Schedule b = chain_broadcast(2);
  EXPECT_NE(complaint({&b, &a, &b}, {}), "ok");
}

TEST(Sequence, RankCountsMustAgree) {
  const Schedule a = chain_broadcast(2), b = chain_broadcast(3);
  EXPECT_EQ(complaint({&a, &b}, {}), "Call 1 has 3 ranks, but call 0 has 2.");
}

TEST(Sequence, ComplaintsNameTheCall) {
  const Schedule good = window_all_reduce(3);
  Schedule bad = good;
  bad.programs[1].lanes[0].steps[1].waits.clear();
  const std::string text = complaint({&good, &bad, &good}, {});
  EXPECT_NE(text.find("call 1 (all_reduce), rank"), std::string::npos) << text;
}

// A peer that is still reading this rank's Input when the call is over is found in the next call.
TEST(Sequence, LateReadersOfUserMemoryAreFound) {
  Schedule late = zero_copy_reduce(3);
  for (Rank r = 1; r < 3; ++r) late.programs[r].lanes[0].steps.pop_back();
  EXPECT_NE(complaint({&late, &late}, {}), "ok");
}

TEST(Sequence, AgreesWithRunsOnNumbers) {
  std::mt19937 random(7);
  for (int n = 2; n <= 5; ++n) {
    std::vector<Schedule> plans;
    for (const Algorithm& algorithm : catalog())
      for (int kind = 0; kind < kKinds; ++kind)
        if (const Collective c{static_cast<Kind>(kind), n, 0, kind % 2 == 0}; algorithm.suits(c))
          plans.push_back(schedule_of(algorithm, c, {}));
    for (int i = 0; i < 60; ++i) {
      std::vector<const Schedule*> calls;
      for (int k = 0; k < 4; ++k) calls.push_back(&plans[random() % plans.size()]);
      const int leases = 1 + int(random() % 2);
      ASSERT_EQ(complaint(calls, {.slots = 2, .leases = leases}), "ok");
      const Status run = interpret(
          calls, {.slots = 2, .rounds = 1 + i % 3, .leases = leases, .seed = uint64_t(random())});
      ASSERT_TRUE(run.ok()) << run.message();
    }
  }
}

}  // namespace
}  // namespace weft
