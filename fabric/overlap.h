// Tensors that share memory.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "fabric/tensor.h"

namespace weft {

// Two of the tensors, by their places, that have a byte in common; none where no two have. Tensors
// that lie in turn, like the columns of a matrix, have none.
std::optional<std::pair<size_t, size_t>> overlap_in(std::span<const Tensor> tensors);

}  // namespace weft
