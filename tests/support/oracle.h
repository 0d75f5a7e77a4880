// What collectives must give, the naive way: int32 inputs by formula, outputs by definition.
#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>
#include <vector>

#include "engine/communicator.h"

namespace weft::test {

// Element `i` of what rank `r` contributes in a call that `salt` tells from others.
int32_t element(Rank r, size_t i, uint64_t salt);

// premulsum: what rank `r` multiplies its contribution by.
inline int32_t factor(Rank r) { return 2 * r + 3; }

// The counts of one call: by rank, or for all_to_all by (from, to).
struct Shape {
  Kind kind = Kind::all_reduce;
  int ranks = 1;
  Rank root = 0;
  bool varying = false;
  size_t count = 0;              // uniform
  std::vector<size_t> counts{};  // varying: by rank, or from * ranks + to

  size_t block(int b) const { return varying ? counts[b] : count; }
};

std::vector<int32_t> expected_input(const Shape& shape, Rank me, uint64_t salt);
std::vector<int32_t> expected_output(const Shape& shape, Rank me, ReduceOp op, uint64_t salt);

// One rank's memory for such a call, between guards, out of place or in place, and what must become
// of it. `misalign`: bytes by which buffers are off.
class CallMemory {
 public:
  CallMemory(const Shape& shape, Rank me, bool in_place, ReduceOp op = ReduceOp::sum,
             size_t misalign = 0,
             std::pmr::memory_resource* memory = std::pmr::get_default_resource());
  CallMemory(const CallMemory&) = delete;  // call() refers to what is in here
  ~CallMemory();

  const Call& call() const;
  void fill(uint64_t salt);  // before a call: inputs, and nothing to rely on elsewhere
  void scribble();           // after one
  // After a call: what is wrong; empty where all is right.
  std::string compare() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Makes the call on this rank, and compares. Returns what is wrong; empty where all is right.
std::string run_and_compare(Communicator& communicator, const Shape& shape, bool in_place,
                            uint64_t salt, size_t misalign = 0, ReduceOp op = ReduceOp::sum);

}  // namespace weft::test
