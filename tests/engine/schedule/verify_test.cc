#include "engine/schedule/verify.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/algorithms/algorithm.h"
#include "tests/engine/schedule/samples.h"
#include "tests/support/interpret.h"

namespace weft {
namespace {

using samples::chain_broadcast;
using samples::window_all_reduce;
using samples::zero_copy_reduce;

std::string complaint(const Schedule& schedule, int slots = 2) {
  return std::string(verify(schedule, {.slots = slots}).status.message());
}

#define EXPECT_HAS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "in: " << (text)

TEST(Verify, ProvesGoodSchedules) {
  for (int n = 1; n <= 9; ++n) {
    EXPECT_EQ(complaint(chain_broadcast(n)), "ok") << n;
    EXPECT_EQ(complaint(window_all_reduce(n)), "ok") << n;
    EXPECT_EQ(complaint(zero_copy_reduce(n)), "ok") << n;
  }
}

TEST(Verify, CountsAndJudgesOrder) {
  const Proof chain = verify(chain_broadcast(5), {});
  EXPECT_EQ(chain.counted.hops, 4);
  EXPECT_EQ(chain.counted.chunks_sent, 1);
  EXPECT_EQ(chain.hops_bound, 3);
  EXPECT_EQ(chain.chunks_bound, 1);
  const Proof windows = verify(window_all_reduce(5), {});
  EXPECT_EQ(windows.counted.hops, 1);
  EXPECT_EQ(windows.hops_bound, 1);
  EXPECT_TRUE(windows.same_bits && windows.canonical);
}

TEST(Verify, FoldsInAnotherOrderAreNotCanonical) {
  Schedule s = window_all_reduce(3);
  auto& sources = s.programs[1].lanes[0].steps[1].sources;
  std::swap(sources[0], sources[1]);  // commutes
  EXPECT_TRUE(verify(s, {}).canonical);
  std::swap(sources[0], sources[2]);  // does not
  const Proof proof = verify(s, {});
  EXPECT_TRUE(proof.status.ok());
  EXPECT_FALSE(proof.canonical);
  EXPECT_FALSE(proof.same_bits);
}

TEST(Verify, FoldsOfFoldsRoundTwiceAndAreNotCanonical) {
  Schedule s = window_all_reduce(3);
  s.programs[0].scratch_slots = 1;
  auto& steps = s.programs[0].lanes[0].steps;
  Step last = steps[1];
  steps[1].targets = {scratch(0)};
  steps[1].finish = false;
  steps[1].sources.pop_back();
  last.waits.clear();
  last.sources = {scratch(0), window(2, 0)};
  steps.push_back(last);
  const Proof proof = verify(s, {});
  EXPECT_TRUE(proof.status.ok()) << proof.status.message();
  EXPECT_FALSE(proof.canonical);
}

struct Fault {
  const char* name;
  Schedule good;
  std::function<void(Schedule&)> plant;
  const char* expected;  // part of the message
};

Step& step(Schedule& s, Rank rank, int lane, int index) {
  return s.programs[rank].lanes[lane].steps[index];
}

std::vector<Fault> value_faults() {
  return {
      {"input missing", window_all_reduce(3),
       [](Schedule& s) { step(s, 1, 0, 1).sources.erase(step(s, 1, 0, 1).sources.begin() + 2); },
       "rank 1, lane 0, step 1 (reduce of chunk 0), round 0: Output chunk 0 of rank 1 is wrong in "
       "round 0: the input of rank 2 is missing"},
      {"input twice", window_all_reduce(3),
       [](Schedule& s) { step(s, 1, 0, 1).sources[2].rank = 0; },
       "rank 1, lane 0, step 1 (reduce of chunk 0), round 0: it folds the input of rank 0 twice"},
      {"not finished", window_all_reduce(3), [](Schedule& s) { step(s, 2, 0, 1).finish = false; },
       "is wrong in round 0: it was never finished"},
      {"finished early", window_all_reduce(3), [](Schedule& s) { step(s, 2, 0, 0).finish = true; },
       "it folds a value that is finished already"},
      {"finished twice", window_all_reduce(1), [](Schedule& s) { step(s, 0, 0, 0).finish = true; },
       "it finishes a value that is finished already"},
      {"finish without reduction", chain_broadcast(2),
       [](Schedule& s) { step(s, 0, 0, 0).finish = true; },
       "it finishes a value, but broadcast does not reduce"},
      {"never written", chain_broadcast(3), [](Schedule& s) { step(s, 1, 0, 0).targets.clear(); },
       "rank 1, lane 0, step 0 (recv_send of chunk 0): neither this nor another step writes Output "
       "chunk 0 of rank 1"},
      {"unwritten scratch read", chain_broadcast(2),
       [](Schedule& s) {
         s.programs[0].scratch_slots = 1;
         step(s, 0, 0, 0).sources[0] = scratch(0);
       },
       "rank 0, lane 0, step 0 (copy_send of chunk 0), round 0: it reads scratch slot 0 of rank 0, "
       "which nobody has written before"},
      {"raw data read as a result",
       [] {
         Schedule s = window_all_reduce(2);
         s.collective.in_place = true;
         return s;
       }(),
       [](Schedule& s) { step(s, 0, 0, 0).sources[0] = output(); },
       "where nobody has written a result yet"},
  };
}

std::vector<Fault> order_faults() {
  return {
      {"wait dropped", window_all_reduce(3),
       [](Schedule& s) { step(s, 1, 0, 1).waits.erase(step(s, 1, 0, 1).waits.begin()); },
       "rank 1, lane 0, step 1 (reduce of chunk 0), round 0: it reads window slot 0 (half 0) of "
       "rank 0"},
      {"one window half", window_all_reduce(3),
       [](Schedule& s) {
         for (Program& p : s.programs) p.window_halves = 1;
       },
       "window slot 0 (half 0) of rank 0 in a race with rank 0, lane 0, step 0 (copy of chunk 0)"},
      {"peer read before its entry", zero_copy_reduce(3),
       [](Schedule& s) { step(s, 0, 0, 0).waits.clear(); }, "the caller of rank 1"},
      {"peer read after its exit", zero_copy_reduce(3),
       [](Schedule& s) { s.programs[1].lanes[0].steps.pop_back(); }, "of rank 1"},
      {"deadlock of signals", window_all_reduce(2),
       [](Schedule& s) {
         step(s, 0, 0, 0).wait(1, 0);
         step(s, 1, 0, 0).wait(0, 0);
       },
       "Deadlock with 2 slots per link: rank 0, lane 0, step 0 (copy of chunk 0), round 0 waits "
       "for "
       "post 1 of cell 0 by rank 1, which has posted it 0 times"},
      {"two lanes on one link", chain_broadcast(2),
       [](Schedule& s) {
         s.programs[0].lane().step(0).read(input()).send({1, 0});
       },
       "rank 0, lane 1, step 0 (send of chunk 0): link 0 to rank 1 is already sent on by lane 0"},
      {"never received", chain_broadcast(2),
       [](Schedule& s) {
         s.programs[0].lanes[0].step(0).read(input()).send({1, 1});
       },
       "it sends on link 1 to rank 1, which never receives from it"},
      {"sent more often", chain_broadcast(2),
       [](Schedule& s) {
         s.programs[0].lanes[0].step(0).read(input()).send({1, 0});
       },
       "is sent on 2 times a round, but received on 1 times"},
      {"posted twice", window_all_reduce(2), [](Schedule& s) { step(s, 0, 0, 1).post(1, 0); },
       "rank 0, lane 0, step 1 (reduce of chunk 0): it posts cell 0 of rank 1, which is posted"},
      {"never posted", window_all_reduce(2), [](Schedule& s) { step(s, 0, 0, 0).posts.clear(); },
       "which no step of that rank posts"},
  };
}

std::vector<Fault> shape_faults() {
  return {
      {"no such rank", chain_broadcast(2), [](Schedule& s) { step(s, 0, 0, 0).to.peer = 7; },
       "it sends to rank 7, which is not there"},
      {"self", chain_broadcast(2), [](Schedule& s) { step(s, 0, 0, 0).to.peer = 0; },
       "its own rank"},
      {"no such chunk", chain_broadcast(2), [](Schedule& s) { step(s, 1, 0, 0).chunk = 1; },
       "rank 1, lane 0, step 0 (recv of chunk 1): there is no chunk 1 among 1"},
      {"not held", chain_broadcast(2), [](Schedule& s) { step(s, 1, 0, 0).sources = {input()}; },
       "it reads chunk 0 in input of rank 1, which does not hold it"},
      {"no such slot", chain_broadcast(2),
       [](Schedule& s) { step(s, 1, 0, 0).targets[0] = scratch(3); },
       "it writes scratch slot 3, but there are 0"},
      {"writes Input", chain_broadcast(2),
       [](Schedule& s) { step(s, 0, 0, 0).targets[0] = input(); }, "it writes Input"},
      {"loop with signals", window_all_reduce(2),
       [](Schedule& s) { step(s, 0, 0, 0).repeat(2, 1); }, "a loop has no signals"},
      {"empty step writes", chain_broadcast(2),
       [](Schedule& s) { step(s, 0, 0, 0).sources.clear(); }, "but has none"},
      {"pieces differ", chain_broadcast(2), [](Schedule& s) { s.programs[1].pieces = 2; },
       "must be as on rank 0"},
  };
}

TEST(Verify, NamesWhatIsWrongAndWhere) {
  for (const auto& faults : {value_faults(), order_faults(), shape_faults()}) {
    for (const Fault& fault : faults) {
      Schedule s = fault.good;
      fault.plant(s);
      const std::string text = complaint(s);
      EXPECT_NE(text, "ok") << fault.name;
      EXPECT_HAS(text, fault.expected);
    }
  }
}

TEST(Verify, DeadlockDependsOnSlots) {
  // Both ranks first send twice, then receive twice.
  Schedule s{{Kind::all_to_all, 2, 0, false}, std::vector<Program>(2)};
  for (Rank r = 0; r < 2; ++r) {
    s.programs[r].pieces = 2;
    Lane& lane = s.programs[r].lane();
    const int out = (r * 2 + 1 - r) * 2, in = ((1 - r) * 2 + r) * 2, own = (r * 2 + r) * 2;
    for (int piece = 0; piece < 2; ++piece) {
      lane.step(own + piece).read(input()).write(output());
      lane.step(out + piece).read(input()).send({1 - r, 0});
    }
    for (int piece = 0; piece < 2; ++piece) lane.step(in + piece).recv({1 - r, 0}).write(output());
  }
  EXPECT_EQ(complaint(s, 2), "ok");
  EXPECT_HAS(complaint(s, 1), "waits for room on link 0 to rank 1, whose 1 slot is full");
}

// The root may use a window half again because a full link held it up: true for one slot only.
TEST(Verify, ReuseOfSlotsOrdersAsMuchAsThereAreSlots) {
  Schedule s{{Kind::broadcast, 2, 0, true}, std::vector<Program>(2)};
  for (Program& p : s.programs) p.window_slots = 1, p.window_halves = 2, p.lanes.resize(1);
  s.programs[0].lanes[0].step(0).read(input()).write(window(0, 0)).send({1, 0});
  Lane& leaf = s.programs[1].lanes[0];
  leaf.step(0).recv({0, 0}).write(output());
  leaf.step(0).read(window(0, 0)).write(output());
  EXPECT_EQ(complaint(s, 1), "ok");
  EXPECT_HAS(complaint(s, 2), "in a race with");
}

TEST(Verify, MissingMessagesOfEmptyChunksUncoverRaces) {
  // Rank 0 may overwrite its window because a message about another chunk says so. That message is
  // missing where that chunk is empty.
  Schedule s{{Kind::broadcast, 2, 0, false}, std::vector<Program>(2)};
  for (Program& p : s.programs) p.pieces = 2, p.window_slots = 1, p.lanes.resize(1);
  Lane& root = s.programs[0].lanes[0];
  root.step(0).read(input()).write(output());
  root.step(1).read(input()).write(output());
  root.step(0).read(input()).write(window(0, 0)).post(1, 0);
  root.step(1).read(input()).send({1, 0});
  root.step(1).recv({1, 0});
  Lane& leaf = s.programs[1].lanes[0];
  leaf.step(0).read(window(0, 0)).write(output()).wait(0, 0);
  leaf.step(1).recv({0, 0}).write(output()).send({0, 0});
  EXPECT_EQ(complaint(s), "ok");
  bool found = false;
  for (unsigned seed = 1; seed <= 8; ++seed)
    found |= !verify(s, {.slots = 2, .uneven = seed}).status.ok();
  EXPECT_TRUE(found);
}

TEST(Verify, WrongOptionsAreErrors) {
  EXPECT_HAS(verify(chain_broadcast(2), {.slots = 0}).status.message(), "at least one slot");
  EXPECT_HAS(verify(chain_broadcast(2), {.rounds = -1}).status.message(), "-1 rounds");
}

// What is proven is right on numbers, too, whatever the interleaving.
TEST(Verify, AgreesWithRunsOnNumbers) {
  uint64_t seed = 1;
  for (const Algorithm& algorithm : catalog()) {
    for (int kind = 0; kind < kKinds; ++kind) {
      for (int n = 1; n <= 7; ++n) {
        Collective c{static_cast<Kind>(kind), n, 0, n % 2 == 0};
        if (has_root(c.kind)) c.root = n - 1;
        if (!algorithm.suits(c)) continue;
        const Schedule schedule = schedule_of(algorithm, c, {});
        const Proof proof = verify(schedule, {.slots = 2});
        ASSERT_TRUE(proof.status.ok()) << algorithm.name << ": " << proof.status.message();
        const Schedule* const twice[] = {&schedule, &schedule};
        for (int run = 0; run < 8; ++run) {
          const Status status = interpret(twice, {.slots = 2, .rounds = 3, .seed = seed++});
          ASSERT_TRUE(status.ok())
              << algorithm.name << ' ' << name(c.kind) << " of " << n << ": " << status.message();
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft
