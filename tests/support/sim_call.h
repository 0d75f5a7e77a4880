// One call of all ranks of a simulated world, with int32 data that is checked.
#pragma once

#include <random>
#include <vector>

#include "tests/support/oracle.h"
#include "tests/support/sim_world.h"

namespace weft::test {

// Its memory must stay until no engine of the world is driven any more: the dead may still be in
// it.
struct SimCall {
  const Shape shape;
  const uint64_t salt;  // tells it from others
  std::vector<std::vector<int32_t>> in, out;
  std::vector<Work> works;

  // Started on every rank.
  SimCall(SimWorld& world, const Shape& shape, uint64_t salt);
  bool right(Rank rank) const;
};

// A collective of a kind, root and size by chance, seldom of more than 60 elements, `most` at most.
Shape random_call(std::mt19937_64& random, int ranks, size_t most);

}  // namespace weft::test
