#include "fabric/overlap.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace weft {
namespace {

// The bytes from a tensor's lowest to past its highest.
struct Extent {
  size_t place = 0;  // of the tensor
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

// REQUIRES: the tensor has elements.
Extent extent_of(const Tensor& tensor, size_t place) {
  int64_t lowest = 0, highest = 0;
  for (size_t d = 0; d < tensor.shape().size(); ++d) {
    const int64_t reach = (tensor.shape()[d] - 1) * tensor.strides()[d];
    (reach < 0 ? lowest : highest) += reach;
  }
  const auto size = static_cast<int64_t>(size_of(tensor.dtype()));
  const auto data = reinterpret_cast<uintptr_t>(tensor.data());
  return {place, data + static_cast<uintptr_t>(lowest * size),
          data + static_cast<uintptr_t>((highest + 1) * size)};
}

// Calls visit(address) for each element of the dimensions from `dim` on, the first at `begin`.
template <class Visit>
void visit_elements(const Tensor& tensor, const Visit& visit, uintptr_t begin, size_t dim = 0) {
  if (dim == tensor.shape().size()) return visit(begin);
  const int64_t step = tensor.strides()[dim] * static_cast<int64_t>(size_of(tensor.dtype()));
  for (int64_t i = 0; i < tensor.shape()[dim]; ++i)
    visit_elements(tensor, visit, begin + static_cast<uintptr_t>(i * step), dim + 1);
}

template <class Visit>
void visit_elements(const Tensor& tensor, const Visit& visit) {
  visit_elements(tensor, visit, reinterpret_cast<uintptr_t>(tensor.data()));
}

// REQUIRES: the extents overlap.
bool overlap(const Tensor& a, const Extent& at, const Tensor& b) {
  if (a.is_contiguous() && b.is_contiguous()) return true;
  std::vector<bool> taken(at.end - at.begin);  // bytes of a
  visit_elements(a, [&](uintptr_t address) {
    for (size_t i = 0; i < size_of(a.dtype()); ++i) taken[address - at.begin + i] = true;
  });
  bool found = false;
  visit_elements(b, [&](uintptr_t address) {
    for (uintptr_t byte = address; byte < address + size_of(b.dtype()); ++byte)
      found |= byte >= at.begin && byte < at.end && taken[byte - at.begin];
  });
  return found;
}

}  // namespace

std::optional<std::pair<size_t, size_t>> overlap_in(std::span<const Tensor> tensors) {
  std::vector<Extent> extents;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].count() > 0) extents.push_back(extent_of(tensors[i], i));
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::pair(a.begin, a.place) < std::pair(b.begin, b.place);
  });
  for (size_t i = 0; i < extents.size(); ++i)
    for (size_t j = i + 1; j < extents.size() && extents[j].begin < extents[i].end; ++j)
      if (overlap(tensors[extents[i].place], extents[i], tensors[extents[j].place]))
        return std::minmax({extents[i].place, extents[j].place});
  return std::nullopt;
}

}  // namespace weft
