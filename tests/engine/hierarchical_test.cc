// Any two algorithms composed: proven for nodes of equal and of different sizes.
#include <gtest/gtest.h>

#include <string>

#include "engine/algorithms/hierarchy.h"
#include "engine/schedule/verify.h"

namespace weft {
namespace {

struct Shape {
  const char* name;
  std::vector<int> node_of_rank;
};

const Shape kShapes[] = {
    {"one rank", {0}},
    {"one node", {0, 0, 0}},
    {"nodes of one", {0, 1, 2, 3, 4}},
    {"pairs", {0, 0, 1, 1, 2, 2}},
    {"dealt out", {0, 1, 0, 1, 0, 1}},
    {"sizes 4, 1, 3", {0, 0, 0, 0, 1, 2, 2, 2}},
    {"fours", {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}},
};

TEST(Hierarchical, AnyTwoAlgorithmsMakeOne) {
  int proven = 0;
  for (const Shape& shape : kShapes)
    for (const Algorithm& inside : catalog())
      for (const Algorithm& between : catalog())
        for (int kind = 0; kind < kKinds; ++kind)
          for (const bool in_place : {false, true}) {
            const int ranks = static_cast<int>(shape.node_of_rank.size());
            const Hierarchy hierarchy{shape.node_of_rank, &inside, &between};
            const Kind k = static_cast<Kind>(kind);
            const Collective c{k, ranks, has_root(k) ? ranks / 2 : 0, in_place};
            if (!can_compose(c, hierarchy)) continue;
            Schedule schedule{c, {}};
            for (Rank r = 0; r < ranks; ++r)
              schedule.programs.push_back(compose(c, hierarchy, r, {}));
            for (const VerifyOptions& options :
                 {VerifyOptions{.slots = 2}, VerifyOptions{.slots = 8, .uneven = 1}}) {
              const Proof proof = verify(schedule, options);
              ASSERT_TRUE(proof.status.ok())
                  << shape.name << ", " << inside.name << " inside, " << between.name
                  << " between, " << name(k) << ": " << proof.status.message();
              ++proven;
            }
          }
  EXPECT_GT(proven, 4000);
}

}  // namespace
}  // namespace weft
