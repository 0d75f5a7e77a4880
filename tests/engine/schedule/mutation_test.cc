// The verifier against an independent judge: faults are planted in good schedules; whatever the
// verifier still accepts has to survive many adversarial runs on numbers, and what these runs break
// has to have been rejected with a message that says where.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "engine/algorithms/algorithm.h"
#include "engine/schedule/verify.h"
#include "tests/engine/schedule/mutate.h"
#include "tests/engine/schedule/samples.h"
#include "tests/support/interpret.h"
#include "tests/support/sanitized.h"

namespace weft {
namespace {

constexpr int kMutantsPerSchedule = test::kSanitized ? 4 : 24;
constexpr int kRuns = test::kSanitized ? 40 : 200;
constexpr int kRunsOfRejected = 24;

std::vector<Schedule> good_schedules(std::mt19937& random) {
  std::vector<Schedule> out{samples::doubling_all_gather(2), samples::doubling_all_gather(4),
                            samples::doubling_all_gather(8)};
  for (const Algorithm& algorithm : catalog()) {
    for (int kind = 0; kind < kKinds; ++kind) {
      for (int n = 2; n <= 6; n += 1 + int(random() % 2)) {
        Collective c{static_cast<Kind>(kind), n, 0, random() % 2 == 0};
        if (has_root(c.kind)) c.root = int(random() % n);
        if (!algorithm.suits(c)) continue;
        Parameters parameters;
        parameters.radix = 2 + int(random() % 2);
        Schedule schedule = schedule_of(algorithm, c, parameters);
        if (random() % 4 == 0)
          for (Program& p : schedule.programs)
            if (p.copies == 1) p = replicate(p, 2);
        out.push_back(std::move(schedule));
      }
    }
  }
  return out;
}

struct Verdict {
  Status status;
  bool accepted() const { return status.ok(); }
  bool names_place() const {
    const std::string text(status.message());
    return text.find("rank ") != text.npos && text.find("lane ") != text.npos &&
           text.find("step ") != text.npos;
  }
};

Verdict judge_by_proof(const Schedule& schedule, int slots, int leases) {
  const Status single = verify(schedule, {.slots = slots, .leases = leases}).status;
  if (!single.ok()) return {single};
  const std::vector<const Schedule*> twice{&schedule, &schedule};
  return {verify_sequence(twice, {.slots = slots, .leases = leases})};
}

// The first run that goes wrong.
Status judge_by_runs(const Schedule& schedule, int slots, int leases, int runs, uint64_t seed) {
  const std::vector<const Schedule*> twice{&schedule, &schedule};
  for (int run = 0; run < runs; ++run) {
    InterpretOptions options;
    options.slots = slots;
    options.leases = leases;
    options.rounds = 2 + run % 3;
    options.seed = seed + run;
    WEFT_TRY(interpret(twice, options));
  }
  return {};
}

TEST(Mutation, WhatTheVerifierAcceptsSurvivesAndWhatBreaksIsRejected) {
  std::mt19937 random(2026);
  int mutants = 0, accepted = 0, broken = 0, named = 0, missed = 0;
  for (const Schedule& original : good_schedules(random)) {
    for (int i = 0; i < kMutantsPerSchedule; ++i) {
      const Mutant mutant = mutate(original, random);
      if (mutant.schedule == original) continue;
      ++mutants;
      const int slots = 2 + int(random() % 2), leases = 1 + int(random() % 2);
      const uint64_t seed = random();
      const Verdict verdict = judge_by_proof(mutant.schedule, slots, leases);
      const int runs = verdict.accepted() ? kRuns : kRunsOfRejected;
      const Status judged = judge_by_runs(mutant.schedule, slots, leases, runs, seed);
      accepted += verdict.accepted();
      broken += !judged.ok();
      named += !judged.ok() && verdict.names_place();
      if (judged.ok() || !verdict.accepted()) continue;
      ++missed;
      ADD_FAILURE() << name(original.collective.kind) << " of " << original.collective.ranks
                    << " ranks, " << mutant.what << ": accepted, but " << judged.message();
    }
  }
  std::printf("%d mutants: %d accepted, %d broken, %d of them rejected with a place\n", mutants,
              accepted, broken, named);
  EXPECT_GE(mutants, kMutantsPerSchedule * 25);
  EXPECT_EQ(missed, 0);
  EXPECT_GE(named, broken * 9 / 10) << "rejections must say where";
}

}  // namespace
}  // namespace weft
