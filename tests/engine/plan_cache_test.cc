// Plans are kept by what shapes them: two calls that need different ones have different keys.
#include "engine/plan_cache.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/call.h"

namespace weft {
namespace {

// What a caller leaves in `root` there must not read as one of the flags that are or'ed to it.
TEST(PlanKeys, DoNotHoldARootWhereThereIsNone) {
  PlanCache::Key usual, other;
  make_key({.kind = Kind::all_to_all, .count = 1}, false, Purpose::user, usual);
  make_key({.kind = Kind::all_to_all, .count = 1, .root = -1}, false, Purpose::user, other);
  EXPECT_EQ(usual, other);
}

TEST(PlanKeys, DifferByEverythingThatShapesAPlan) {
  std::set<PlanCache::Key> keys;
  size_t calls = 0;
  PlanCache::Key key;
  for (int kind = 0; kind < kKinds; ++kind)
    for (const Rank root : {0, 1, 1 << 20})
      for (const size_t count : {1, 2}) {
        if (root != 0 && !has_root(static_cast<Kind>(kind))) continue;
        for (const DataType type : {DataType::uint8, DataType::complex128})
          for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod})
            for (const bool in_place : {false, true})
              for (const Purpose purpose : {Purpose::user, Purpose::allocate, Purpose::split,
                                            Purpose::check, Purpose::device, Purpose::tell})
                for (const uint64_t registered :
                     {uint64_t{0}, kRegistered, kRegistered | kInPlaceSomewhere, kReadable,
                      kReadable | kInPlaceSomewhere, kRegistered | kReadable}) {
                  make_key({.kind = static_cast<Kind>(kind),
                            .count = count,
                            .type = type,
                            .op = op,
                            .root = root},
                           in_place, purpose, key);
                  key[0] |= registered;
                  keys.insert(key);
                  ++calls;
                }
      }
  EXPECT_EQ(keys.size(), calls);
}

TEST(InPlace, CountsOfACallThatDoesNotVaryAreNotRead) {
  int32_t memory[8] = {};
  const size_t left[] = {5};
  Call call{.kind = Kind::all_gather, .input = memory + 2, .output = memory, .count = 2};
  call.type = DataType::int32;
  call.counts = call.offsets = left;
  EXPECT_TRUE(in_place(call, 3, 1));
}

}  // namespace
}  // namespace weft
