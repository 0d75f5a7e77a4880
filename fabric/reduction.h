// Reductions of tensors: which there are, and means of integers that do not wrap.
#pragma once

#include <functional>

#include "fabric/collection.h"

namespace weft {

// Why `op` cannot be taken over such a tensor, and what to do; ok where it can.
Status check_reduction(ReduceOp op, const Tensor& tensor);
// The same for all leaves, naming the first that cannot.
Status check_reduction(ReduceOp op, const Collection& value);

// A collective that reduces: reads dense elements at `in`, writes as many of the same type, or a
// rank's part of them, at `out` (null where this rank gets none).
using RunReduction = std::function<Status(const Tensor& in, void* out, ReduceOp op)>;

// A reduction that needs no more memory than it has, so that a rank that lacks some can say so
// before others count on it. Integers' means are made of sums of 64 bits that cannot wrap, rounded
// towards zero; any byte of a boolean but 0 is true.
class Reduction {
 public:
  // Of dense `in`, into `out` (no elements where this rank gets none), which may be the same
  // memory. REQUIRES: check_reduction(op, in).ok().
  Reduction(ReduceOp op, int ranks, const Tensor& in, const Tensor& out);
  Status run(const RunReduction& collective) const;

 private:
  bool is_mean() const { return op_ == ReduceOp::avg && is_integer(in_.dtype()); }

  ReduceOp op_;
  int ranks_;
  Tensor in_;  // of booleans zeros and ones
  Tensor out_;
  Tensor terms_, sums_;  // of an integers' mean
};

}  // namespace weft
