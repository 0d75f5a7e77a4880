// Messages of several chunks: what is proven about them, and what is refused.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/schedule/verify.h"
#include "tests/engine/schedule/samples.h"
#include "tests/support/interpret.h"

namespace weft {
namespace {

using samples::doubling_all_gather;
using samples::echo_in_one_message;

Step& step(Schedule& s, Rank rank, int lane, int index) {
  return s.programs[rank].lanes[lane].steps[index];
}

TEST(Messages, OfSeveralChunksAreProven) {
  for (const int n : {2, 4, 8, 16})
    for (const int slots : {1, 2, 8})
      for (const unsigned uneven : {0u, 1u, 2u, 3u}) {
        const Proof proof = verify(doubling_all_gather(n), {.slots = slots, .uneven = uneven});
        EXPECT_TRUE(proof.status.ok()) << proof.status.message();
      }
}

// One message is one hop, however many chunks it carries; chunks are counted singly.
TEST(Messages, CountAsOneHop) {
  const Proof proof = verify(doubling_all_gather(8), {});
  EXPECT_EQ(proof.counted.hops, 3);
  EXPECT_EQ(proof.counted.chunks_sent, 7);
}

TEST(Messages, AgreeWithRunsOnNumbers) {
  for (const Schedule& s : {doubling_all_gather(4), doubling_all_gather(8)})
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      const Schedule* const twice[] = {&s, &s};
      const Status status = interpret(twice, {.slots = 2, .rounds = 3, .seed = seed});
      ASSERT_TRUE(status.ok()) << status.message();
    }
}

// A chunk comes back before the message that it left with is complete. So the place of the next
// one may not be written yet, although the whole message would have been read by then.
TEST(Messages, AreTakenBeforeTheyAreComplete) {
  Schedule s = echo_in_one_message();
  EXPECT_TRUE(verify(s, {.rounds = 1}).status.ok()) << verify(s, {.rounds = 1}).status.message();
  step(s, 0, 1, 0).targets[0] = scratch(1);
  step(s, 0, 1, 1).targets[0] = scratch(0);
  const Status status = verify(s, {.rounds = 1}).status;
  EXPECT_NE(status.message().find("scratch slot 1 of rank 0 in a race with"), std::string::npos)
      << status.message();
  bool broken = false;
  for (uint64_t seed = 1; seed <= 400 && !broken; ++seed) {
    const Schedule* const once[] = {&s};
    broken = !interpret(once, {.slots = 2, .rounds = 1, .seed = seed}).ok();
  }
  EXPECT_TRUE(broken);
}

struct Fault {
  const char* name;
  std::function<void(Schedule&)> plant;
  const char* expected;
};

// In doubling_all_gather(8), steps 3 and 4 of a rank send two chunks, 5 and 6 receive two, and from
// 7 on four.
const Fault kFaults[] = {
    {"the lane ends", [](Schedule& s) { step(s, 0, 0, 14).go_on(); }, "but the lane ends here"},
    {"another link follows", [](Schedule& s) { step(s, 0, 0, 4).go_on(); },
     "rank 0, lane 0, step 4 (send of chunk 1): its message goes on in a step with other "
     "links"},
    {"no message", [](Schedule& s) { step(s, 0, 0, 0).go_on(); }, "it neither receives nor sends"},
    {"a signal", [](Schedule& s) { step(s, 0, 0, 4).post(1, 0); },
     "a step whose message goes on has no signals"},
    {"a loop", [](Schedule& s) { step(s, 0, 0, 3).repeat(2, 1); },
     "a step whose message goes on is no loop"},
    {"too many chunks",
     [](Schedule& s) {
       for (Program& p : s.programs) p.message_chunks = 3;
     },
     "rank 0, lane 0, step 9 (send of chunk 2): its message has more than 3 chunks"},
    {"most chunks differ", [](Schedule& s) { s.programs[3].message_chunks = 5; },
     "must be as on rank 0"},
    {"two messages for one", [](Schedule& s) { step(s, 0, 0, 3).go_on(false); },
     "is sent on 2 times a round, but received on 1 times"},
    {"a chunk left out",
     [](Schedule& s) {
       auto& steps = s.programs[0].lanes[0].steps;
       steps.erase(steps.begin() + 4);
       step(s, 0, 0, 3).go_on(false);
     },
     "rank 2, lane 0, step 6 (recv of chunk 1), round 0: the message received has no more than 1 "
     "chunk"},
    {"a chunk too many",
     [](Schedule& s) {
       auto& steps = s.programs[2].lanes[0].steps;
       steps.erase(steps.begin() + 6);
       step(s, 2, 0, 5).go_on(false);
     },
     "rank 2, lane 0, step 5 (recv of chunk 0), round 0: it takes 1 of the 2 chunks of the message "
     "received"},
    {"chunks in another order",
     [](Schedule& s) { std::swap(step(s, 2, 0, 5).chunk, step(s, 2, 0, 6).chunk); },
     "the message received"},
};

TEST(Messages, OfSeveralChunksAreRefusedWithAPlace) {
  for (const Fault& fault : kFaults) {
    Schedule s = doubling_all_gather(8);
    fault.plant(s);
    const Status status = verify(s, {}).status;
    EXPECT_FALSE(status.ok()) << fault.name;
    EXPECT_NE(std::string(status.message()).find(fault.expected), std::string::npos)
        << fault.name << ": " << status.message();
  }
}

}  // namespace
}  // namespace weft
