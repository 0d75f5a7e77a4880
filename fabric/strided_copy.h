// Copies between tensors whose elements do not lie one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

// A box of elements of `element_bytes` each, with any number of dimensions, at `from` and at `to`.
// Strides are in elements, and may be negative, and 0 where it is read. No allocation but for its
// dimensions. REQUIRES: the places do not overlap; the lists are equally long.
void strided_copy(std::byte* to, const std::vector<int64_t>& to_strides, const std::byte* from,
                  const std::vector<int64_t>& from_strides, const std::vector<int64_t>& shape,
                  size_t element_bytes);

}  // namespace weft
