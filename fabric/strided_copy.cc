#include "fabric/strided_copy.h"

#include <cstring>
#include <span>
#include <type_traits>

namespace weft {
namespace {

// A dimension; its steps are in bytes.
struct Axis {
  int64_t size = 0, to_step = 0, from_step = 0;
};

// Without dimensions of one, and with those as one that lie behind each other at both places.
std::vector<Axis> fewest_axes(const std::vector<int64_t>& to_strides,
                              const std::vector<int64_t>& from_strides,
                              const std::vector<int64_t>& shape, int64_t element_bytes) {
  std::vector<Axis> axes;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const Axis axis{shape[d], to_strides[d] * element_bytes, from_strides[d] * element_bytes};
    Axis* const outer = axes.empty() ? nullptr : &axes.back();
    if (outer && outer->to_step == axis.size * axis.to_step &&
        outer->from_step == axis.size * axis.from_step)
      *outer = {outer->size * axis.size, axis.to_step, axis.from_step};
    else
      axes.push_back(axis);
  }
  return axes;
}

// `Bytes`: a number, or one that the compiler knows.
template <class Bytes>
void copy_elements(std::byte* to, const std::byte* from, const Axis& axis, Bytes bytes) {
  for (int64_t i = 0; i < axis.size; ++i)
    std::memcpy(to + i * axis.to_step, from + i * axis.from_step, bytes);
}

template <size_t kBytes>
using Known = std::integral_constant<size_t, kBytes>;

void copy_line(std::byte* to, const std::byte* from, const Axis& axis, size_t element_bytes) {
  const auto step = static_cast<int64_t>(element_bytes);
  if (axis.to_step == step && axis.from_step == step) {
    std::memcpy(to, from, static_cast<size_t>(axis.size) * element_bytes);
    return;
  }
  switch (element_bytes) {
    case 1: return copy_elements(to, from, axis, Known<1>{});
    case 2: return copy_elements(to, from, axis, Known<2>{});
    case 4: return copy_elements(to, from, axis, Known<4>{});
    case 8: return copy_elements(to, from, axis, Known<8>{});
    case 16: return copy_elements(to, from, axis, Known<16>{});
    default: return copy_elements(to, from, axis, element_bytes);
  }
}

void copy_box(std::byte* to, const std::byte* from, std::span<const Axis> axes,
              size_t element_bytes) {
  const Axis& axis = axes.front();
  if (axes.size() == 1) return copy_line(to, from, axis, element_bytes);
  for (int64_t i = 0; i < axis.size; ++i)
    copy_box(to + i * axis.to_step, from + i * axis.from_step, axes.subspan(1), element_bytes);
}

}  // namespace

void strided_copy(std::byte* to, const std::vector<int64_t>& to_strides, const std::byte* from,
                  const std::vector<int64_t>& from_strides, const std::vector<int64_t>& shape,
                  size_t element_bytes) {
  const auto step = static_cast<int64_t>(element_bytes);
  std::vector<Axis> axes = fewest_axes(to_strides, from_strides, shape, step);
  if (axes.empty()) axes.push_back({1, step, step});
  copy_box(to, from, axes, element_bytes);
}

}  // namespace weft
