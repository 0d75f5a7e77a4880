// Elements as numbers and as text.
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <ostream>
#include <utility>

#include "base/text.h"
#include "fabric/tensor.h"
#include "kernels/number.h"

namespace weft {
namespace {

// Of a dimension longer than this only the first and the last few are shown.
constexpr int64_t kShownWhole = 40;
constexpr int64_t kShownEnds = 3;

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Calls then(value) with the element as a C++ number.
template <class Then>
auto with_element(DataType dtype, const std::byte* at, Then then) {
  switch (dtype) {
    case DataType::int8: return then(load<int8_t>(at));
    case DataType::uint8: return then(load<uint8_t>(at));
    case DataType::int16: return then(load<int16_t>(at));
    case DataType::uint16: return then(load<uint16_t>(at));
    case DataType::int32: return then(load<int32_t>(at));
    case DataType::uint32: return then(load<uint32_t>(at));
    case DataType::int64: return then(load<int64_t>(at));
    case DataType::uint64: return then(load<uint64_t>(at));
    case DataType::float16: return then(to_float(load<Float16>(at)));
    case DataType::bfloat16: return then(to_float(load<BFloat16>(at)));
    case DataType::float32: return then(load<float>(at));
    case DataType::float64: return then(load<double>(at));
    case DataType::fp8_e4m3: return then(to_float(load<Fp8E4M3>(at)));
    case DataType::fp8_e5m2: return then(to_float(load<Fp8E5M2>(at)));
    case DataType::complex64: return then(load<std::complex<float>>(at));
    case DataType::complex128: return then(load<std::complex<double>>(at));
    case DataType::boolean: return then(load<uint8_t>(at) != 0);
  }
  return then(0);
}

template <class To, class From>
To converted(From value) {
  if constexpr (!detail::kIsCppComplex<From>)
    return static_cast<To>(value);
  else if constexpr (detail::kIsCppComplex<To>)
    return To(value);
  else
    throw_invalid(
        "a complex number was asked for as a real one; use item<std::complex<double>>().");
}

// The very value modulo 2^64, where it is an integer of that range.
template <class T>
std::optional<uint64_t> as_integer(T value, int64_t lowest, uint64_t highest) {
  if constexpr (detail::kIsCppComplex<T>) {
    return converted<uint64_t>(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return as_integer(int{value}, lowest, highest);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::trunc(value) != value) return std::nullopt;  // also where it is no number
    constexpr double kPast64 = 18446744073709551616.0;    // 2^64
    if (value >= kPast64 || value < -kPast64 / 2) return std::nullopt;
    return value < 0 ? as_integer(static_cast<int64_t>(value), lowest, highest)
                     : as_integer(static_cast<uint64_t>(value), lowest, highest);
  } else {
    if (std::cmp_less(value, lowest) || std::cmp_greater(value, highest)) return std::nullopt;
    return static_cast<uint64_t>(value);
  }
}

template <class T>
std::string element_text(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (detail::kIsCppComplex<T>) {
    const std::string imaginary = element_text(value.imag());
    return concat(element_text(value.real()), imaginary.starts_with('-') ? "" : "+", imaginary,
                  "i");
  } else {
    char text[32];
    const auto [end, error] = std::to_chars(text, text + sizeof text, value);
    return std::string(text, error == std::errc() ? end : text);
  }
}

void append(const Tensor& tensor, std::string& text) {
  if (tensor.dims() == 0) {
    text += with_element(tensor.dtype(), tensor.data(), [](auto v) { return element_text(v); });
    return;
  }
  const int64_t size = tensor.size(0);
  text += '[';
  for (int64_t i = 0; i < size; ++i) {
    if (i > 0) text += ", ";
    if (size > kShownWhole && i == kShownEnds) {
      text += "..., ";
      i = size - kShownEnds;
    }
    append(tensor[i], text);
  }
  text += ']';
}

}  // namespace

double Tensor::real_item() const {
  require_one();
  return with_element(dtype_, data_, [](auto value) { return converted<double>(value); });
}

uint64_t Tensor::integer_item(int64_t lowest, uint64_t highest, std::string_view wanted) const {
  require_one();
  return with_element(dtype_, data_, [&](auto value) {
    if (const auto exact = as_integer(value, lowest, highest)) return *exact;
    throw_invalid(concat("the element is ", element_text(value), ", which no ", wanted,
                         " holds; ask for a type that does, and convert that."));
  });
}

std::complex<double> Tensor::complex_item() const {
  require_one();
  return with_element(dtype_, data_,
                      [](auto value) { return converted<std::complex<double>>(value); });
}

std::string Tensor::to_string() const {
  std::string text;
  append(*this, text);
  return text;
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << tensor.to_string();
}

}  // namespace weft
