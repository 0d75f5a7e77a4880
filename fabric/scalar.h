// Scalar: the C++ types that are elements of a tensor, and which DataType each one is.
#pragma once

#include <complex>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include "base/types.h"

namespace weft {

namespace detail {

template <class T>
inline constexpr bool kIsCppComplex =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

consteval DataType integer_type(size_t bytes, bool is_signed) {
  switch (bytes) {
    case 1: return is_signed ? DataType::int8 : DataType::uint8;
    case 2: return is_signed ? DataType::int16 : DataType::uint16;
    case 4: return is_signed ? DataType::int32 : DataType::uint32;
    default: return is_signed ? DataType::int64 : DataType::uint64;
  }
}

template <class T>
consteval DataType data_type_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return DataType::boolean;
  } else if constexpr (std::is_integral_v<T>) {
    return integer_type(sizeof(T), std::is_signed_v<T>);
  } else if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? DataType::float32 : DataType::float64;
  } else {
    return sizeof(T) == 8 ? DataType::complex64 : DataType::complex128;
  }
}

}  // namespace detail

// C++ types that tensors hold as they are. The 16- and 8-bit floats have no C++ type of ours: wrap
// their memory with Tensor::view(pointer, DataType::float16, shape).
template <class T>
concept Scalar = (std::is_integral_v<T> && sizeof(T) <= 8) || std::same_as<T, float> ||
                 std::same_as<T, double> || detail::kIsCppComplex<T>;

// The DataType of a C++ type.
template <Scalar T>
inline constexpr DataType kDataTypeOf = detail::data_type_of<T>();

}  // namespace weft
