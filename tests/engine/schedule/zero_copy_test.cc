// The schedules between callers' own buffers: proven for all kinds, roots and forms, also as CPUs
// run them, and not one of their signals is there for nothing.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "engine/algorithms/algorithm.h"
#include "engine/schedule/prove.h"
#include "tests/support/sanitized.h"

namespace weft {
namespace {

template <class Visit>
void for_each_collective(int ranks, Visit&& visit, const char* name = "zero_copy") {
  const Algorithm& algorithm = *find_algorithm(name);
  for (int kind = 0; kind < kKinds; ++kind)
    for (const bool in_place : {false, true}) {
      const int roots = has_root(Kind(kind)) ? std::min(ranks, 3) : 1;
      for (Rank root = 0; root < roots; ++root) {
        const Collective c{Kind(kind), ranks, root, in_place};
        if (algorithm.suits(c)) visit(schedule_of(algorithm, c, {}));
      }
    }
}

std::string describe(const Schedule& s) {
  return concat(name(s.collective.kind), " of ", s.collective.ranks, ", root ", s.collective.root,
                s.collective.in_place ? ", in place" : "");
}

TEST(ZeroCopy, IsProvenInEveryWayItMayRun) {
  for (int ranks = 1; ranks <= (test::kSanitized ? 9 : 33); ranks += ranks < 17 ? 1 : 4)
    for_each_collective(ranks, [ranks](const Schedule& schedule) {
      const int slots[] = {1};
      for (const WayToRun& way : ways_to_run(schedule, slots, {.most = ranks < 9 ? 32 : 2})) {
        const Proof proof = prove(schedule, way);
        ASSERT_TRUE(proof.status.ok())
            << describe(schedule) << ", " << describe(way) << ": " << proof.status.to_string();
        ASSERT_TRUE(proof.canonical) << describe(schedule);
      }
    });
}

// In place on some ranks only: their programs are built for one form, the others' for the other.
TEST(ZeroCopy, ProgramsDoNotDependOnTheForm) {
  const Algorithm& algorithm = *find_algorithm("zero_copy");
  for_each_collective(5, [&](const Schedule& schedule) {
    Collective other = schedule.collective;
    other.in_place = !other.in_place;
    if (!algorithm.suits(other)) return;
    EXPECT_EQ(schedule.programs, schedule_of(algorithm, other, {}).programs) << describe(schedule);
  });
}

// Without the signals of a cell, but after all have heard from all.
Schedule without(int cell, Schedule schedule) {
  const int ranks = schedule.collective.ranks;
  for (Rank r = 0; r < ranks; ++r) {
    std::vector<Step>& steps = schedule.programs[static_cast<size_t>(r)].lanes[0].steps;
    for (Step& step : steps)
      for (auto* signals : {&step.waits, &step.posts})
        std::erase_if(*signals, [&](const Signal& s) { return s.cell == cell; });
    Step tells, hears;
    for (Rank peer = 0; peer < ranks; ++peer)
      if (peer != r) tells.post(peer, cell), hears.wait(peer, cell);
    steps.insert(steps.begin(), {tells, hears});
  }
  return schedule;
}

TEST(BetweenBuffers, IsProvenAsCpusRunIt) {
  for (const char* name : {"zero_copy", "pull"})
    for (int ranks = 2; ranks <= 9; ++ranks)
      for_each_collective(
          ranks,
          [&](const Schedule& schedule) {
            const int entered = find_algorithm(name)->entered;
            const Status status = verify(without(entered, schedule), {.rounds = 1}).status;
            ASSERT_TRUE(status.ok()) << name << ", " << describe(schedule) << status.to_string();
            const int done = 1 - entered;  // stands for more than that
            EXPECT_FALSE(verify(without(done, schedule), {.rounds = 1}).status.ok())
                << name << ", " << describe(schedule);
          },
          name);
}

// Without one of its signals some rank reads what is not there yet, or touches memory of a rank
// that has left.
TEST(ZeroCopy, NeedsEverySignal) {
  int planted = 0;
  for (const int ranks : {2, 3, 4})
    for_each_collective(ranks, [&](const Schedule& good) {
      for (size_t r = 0; r < good.programs.size(); ++r)
        for (size_t i = 0; i < good.programs[r].lanes[0].steps.size(); ++i)
          for (size_t w = 0; w < good.programs[r].lanes[0].steps[i].waits.size(); ++w) {
            Schedule bad = good;
            auto& waits = bad.programs[r].lanes[0].steps[i].waits;
            const Signal gone = waits[w];
            waits.erase(waits.begin() + static_cast<long>(w));
            // Nobody posts it either: what is missing is the order, not just a partner.
            for (Lane& lane : bad.programs[static_cast<size_t>(gone.peer)].lanes)
              for (Step& step : lane.steps)
                std::erase_if(step.posts, [&](const Signal& post) {
                  return post.peer == static_cast<Rank>(r) && post.cell == gone.cell;
                });
            ++planted;
            const Status status = verify(bad, {.rounds = 2}).status;
            EXPECT_FALSE(status.ok()) << describe(good) << " without cell " << gone.cell
                                      << " from rank " << gone.peer << " to " << r;
          }
    });
  EXPECT_GT(planted, 100);
}

}  // namespace
}  // namespace weft
