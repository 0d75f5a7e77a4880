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

// In how many pieces of a block a short call has elements.
int some_pieces(const Schedule& schedule, std::mt19937& random) {
  return 1 + static_cast<int>(random() % static_cast<unsigned>(schedule.programs[0].pieces));
}

std::vector<int> sizes(const Schedule& schedule, int full_pieces) {
  std::vector<int> all;
  for (int chunk = 0; chunk < schedule.chunks(); ++chunk)
    all.push_back(chunk % schedule.programs[0].pieces < full_pieces ? 1 << 20 : 0);
  return all;
}

// Of links: everything is proven for the least and the most, and run with all counts between them.
struct Slots {
  int least, most;
};

Verdict judge_by_proof(const Schedule& schedule, Slots slots, int leases, int full_pieces) {
  const std::vector<const Schedule*> twice{&schedule, &schedule};
  const VerifyOptions full{.slots = slots.least, .most_slots = slots.most, .leases = leases};
  VerifyOptions some = full;
  some.sizes = sizes(schedule, full_pieces);
  for (const VerifyOptions& options : {full, some}) {
    if (const Status single = verify(schedule, options).status; !single.ok()) return {single};
    if (const Status both = verify_sequence(twice, options); !both.ok()) return {both};
  }
  return {};
}

// The first run that goes wrong.
Status judge_by_runs(const Schedule& schedule, Slots slots, int leases, int full_pieces, int runs,
                     uint64_t seed) {
  const std::vector<const Schedule*> twice{&schedule, &schedule};
  for (int run = 0; run < runs; ++run) {
    InterpretOptions options;
    options.slots = slots.least + run / 8 % (slots.most - slots.least + 1);
    options.leases = leases;
    options.rounds = 2 + run % 3;
    options.seed = seed + run;
    options.full_pieces = run / 4 % 2 == 0 ? 0 : full_pieces;  // styles go by the seed
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
      const int few = 2 + int(random() % 2), leases = 1 + int(random() % 2);
      const Slots slots{few, few + int(random() % 7)};
      const int pieces = some_pieces(mutant.schedule, random);
      const uint64_t seed = random();
      const Verdict verdict = judge_by_proof(mutant.schedule, slots, leases, pieces);
      const int runs = verdict.accepted() ? kRuns : kRunsOfRejected;
      const Status judged = judge_by_runs(mutant.schedule, slots, leases, pieces, runs, seed);
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
