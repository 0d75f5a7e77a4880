// Flat: many tensors as few buffers, one per dtype, so that they travel together.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "fabric/tensor.h"

namespace weft {

// The tensors of one dtype, densely behind each other. One contiguous tensor is its own buffer,
// without a copy.
struct FlatBuffer {
  DataType dtype = DataType::float32;
  std::vector<size_t> members;  // indices of the tensors
  std::vector<Shape> shapes;    // of the members
  Tensor memory;                // of one dimension
};

// In order of each dtype's first appearance: the same on all ranks that have the same types.
std::vector<FlatBuffer> flatten(std::span<const Tensor> tensors);

// The tensors again, at their old places, where `results[b]` is buffer b or one like it with a
// leading dimension: views, or dense copies where several tensors with a leading dimension shared a
// buffer.
std::vector<Tensor> unflatten(std::span<const FlatBuffer> buffers, std::span<const Tensor> results);

}  // namespace weft
