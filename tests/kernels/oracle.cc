#include "tests/kernels/oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

namespace weft::oracle {
namespace {

double decode_finite(const Format& format, uint32_t magnitude) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const double fraction = std::ldexp(static_cast<double>(magnitude % (1u << format.mantissa_bits)),
                                     -format.mantissa_bits);
  return exponent == 0 ? std::ldexp(fraction, 1 - bias)
                       : std::ldexp(1.0 + fraction, exponent - bias);
}

// All finite values from zero up, by pattern.
const std::vector<double>& finite_values(const Format& format) {
  static std::map<std::pair<int, int>, std::vector<double>> tables;
  std::vector<double>& table = tables[{format.exponent_bits, format.mantissa_bits}];
  if (table.empty())
    for (uint32_t m = 0; m <= format.largest(); ++m) table.push_back(decode_finite(format, m));
  return table;
}

uint32_t encode_magnitude(const Format& format, double value) {
  const std::vector<double>& values = finite_values(format);
  const uint32_t largest = format.largest();
  // The value that would follow the largest, were there one, says where overflow begins.
  const double next = 2 * values[largest] - values[largest - 1];
  if (value >= (values[largest] + next) / 2) return format.saturates ? largest : largest + 1;
  if (value >= values[largest]) return largest;
  const uint32_t above =
      static_cast<uint32_t>(std::upper_bound(values.begin(), values.end(), value) - values.begin());
  const uint32_t below = above - 1;
  const double middle = (values[below] + values[above]) / 2;
  if (value == middle) return below % 2 == 0 ? below : above;
  return value < middle ? below : above;
}

template <class F>
F min_max(ReduceOp op, F a, F b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<F>::quiet_NaN();
  const bool a_first = a < b || (a == b && std::signbit(a));
  return (op == ReduceOp::min) == a_first ? a : b;
}

// The exact result of one operation on floats fits a double closely enough to be rounded twice.
float rounded(double value) { return static_cast<float>(value); }
float add(float a, float b) { return rounded(double(a) + double(b)); }
float mul(float a, float b) { return rounded(double(a) * double(b)); }
float divide(float a, double b) { return rounded(double(a) / b); }
double add(double a, double b) { return a + b; }
double mul(double a, double b) { return a * b; }
double divide(double a, double b) { return a / b; }

template <class F>
F fold(ReduceOp op, F a, F b) {
  if (op == ReduceOp::min || op == ReduceOp::max) return min_max(op, a, b);
  return op == ReduceOp::prod ? mul(a, b) : add(a, b);
}

template <class F>
struct Pair {
  F re, im;
};

template <class F>
Pair<F> mul(Pair<F> a, Pair<F> b) {
  return {add(mul(a.re, b.re), -mul(a.im, b.im)), add(mul(a.re, b.im), mul(a.im, b.re))};
}

template <class F>
Pair<F> fold(ReduceOp op, Pair<F> a, Pair<F> b) {
  return op == ReduceOp::prod ? mul(a, b) : Pair<F>{add(a.re, b.re), add(a.im, b.im)};
}

template <class F>
Pair<F> divide(Pair<F> a, double b) {
  return {divide(a.re, b), divide(a.im, b)};
}

bool plain_copy(const Call& call) {
  return call.sources.size() == 1 && call.scaled == 0 && call.divisor <= 1;
}

// Read: element -> accumulator; Write: accumulator -> element; Scale: accumulator times the scalar.
template <class Acc, class Read, class Write, class Scale>
void fold_all(const Call& call, size_t element, Read read, Write write, Scale scale) {
  for (size_t i = 0; i < call.count; ++i) {
    Acc acc{};
    for (size_t k = 0; k < call.sources.size(); ++k) {
      Acc value = read(call.sources[k] + i * element);
      if (call.scaled >> k & 1) value = scale(value, read(call.scalar));
      acc = k == 0 ? value : fold(call.op, acc, value);
    }
    if (call.divisor > 1) acc = divide(acc, static_cast<double>(call.divisor));
    write(i, acc);
  }
}

template <class F>
void store_float(unsigned char* to, F value) {
  if (std::isnan(value)) value = std::numeric_limits<F>::quiet_NaN();
  std::memcpy(to, &value, sizeof(F));
}

void reduce_small(const Call& call, unsigned char* out) {
  const Format format = format_of(call.type);
  const size_t size = size_of(call.type);
  const auto read = [&](const void* from) {
    uint16_t bits = 0;
    std::memcpy(&bits, from, size);
    return static_cast<float>(decode(format, bits));
  };
  const auto write = [&](size_t i, float acc) {
    const uint32_t bits = encode(format, acc);
    std::memcpy(out + i * size, &bits, size);
  };
  const auto scale = [&](float a, float b) {
    return static_cast<float>(decode(format, encode(format, mul(a, b))));
  };
  fold_all<float>(call, size, read, write, scale);
}

template <class Acc>
Acc read_whole(const void* from) {
  Acc value;
  std::memcpy(&value, from, sizeof(Acc));
  return value;
}

template <class F>
void reduce_floats(const Call& call, unsigned char* out) {
  fold_all<F>(
      call, sizeof(F), read_whole<F>,
      [&](size_t i, F acc) { store_float(out + i * sizeof(F), acc); },
      [](F a, F b) { return mul(a, b); });
}

template <class F>
void reduce_complex(const Call& call, unsigned char* out) {
  const auto write = [&](size_t i, Pair<F> acc) {
    store_float(out + i * sizeof(acc), acc.re);
    store_float(out + i * sizeof(acc) + sizeof(F), acc.im);
  };
  fold_all<Pair<F>>(call, sizeof(Pair<F>), read_whole<Pair<F>>, write,
                    [](Pair<F> a, Pair<F> b) { return mul(a, b); });
}

// Exact: every step is computed modulo 2^64 and cut to the type.
template <class T>
T fold_integers(ReduceOp op, T a, T b) {
  const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (op) {
    case ReduceOp::prod: return static_cast<T>(x * y);
    case ReduceOp::min: return std::min(a, b);
    case ReduceOp::max: return std::max(a, b);
    case ReduceOp::band: return static_cast<T>(x & y);
    case ReduceOp::bor: return static_cast<T>(x | y);
    case ReduceOp::bxor: return static_cast<T>(x ^ y);
    default: return static_cast<T>(x + y);
  }
}

template <class T>
void reduce_integers(const Call& call, unsigned char* out) {
  for (size_t i = 0; i < call.count; ++i) {
    T acc{};
    for (size_t k = 0; k < call.sources.size(); ++k) {
      T value = read_whole<T>(call.sources[k] + i * sizeof(T));
      if (call.scaled >> k & 1)
        value = fold_integers(ReduceOp::prod, value, read_whole<T>(call.scalar));
      acc = k == 0 ? value : fold_integers(call.op, acc, value);
    }
    if (call.divisor > 1) acc = static_cast<T>(static_cast<__int128_t>(acc) / call.divisor);
    std::memcpy(out + i * sizeof(T), &acc, sizeof(T));
  }
}

}  // namespace

uint32_t Format::largest() const {
  return has_infinity ? (((1u << exponent_bits) - 1) << mantissa_bits) - 1 : sign() - 2;
}

Format format_of(DataType type) {
  switch (type) {
    case DataType::float16: return {5, 10, true, false, 0x7e00};
    case DataType::bfloat16: return {8, 7, true, false, 0x7fc0};
    case DataType::fp8_e4m3: return {4, 3, false, true, 0x7f};
    default: return {5, 2, true, true, 0x7f};
  }
}

double decode(const Format& format, uint32_t bits) {
  const uint32_t magnitude = bits % format.sign();
  double value = std::numeric_limits<double>::quiet_NaN();
  if (magnitude <= format.largest())
    value = decode_finite(format, magnitude);
  else if (format.has_infinity && magnitude == format.largest() + 1)
    value = HUGE_VAL;
  return bits & format.sign() ? -value : value;
}

uint32_t encode(const Format& format, double value) {
  if (std::isnan(value)) return format.nan;
  const uint32_t sign = std::signbit(value) ? format.sign() : 0;
  return sign | encode_magnitude(format, std::fabs(value));
}

std::vector<unsigned char> reduce(const Call& call) {
  std::vector<unsigned char> out(call.count * size_of(call.type));
  if (plain_copy(call)) {
    std::copy_n(call.sources[0], out.size(), out.data());
    return out;
  }
  switch (call.type) {
    case DataType::int8: reduce_integers<int8_t>(call, out.data()); break;
    case DataType::boolean:
    case DataType::uint8: reduce_integers<uint8_t>(call, out.data()); break;
    case DataType::int16: reduce_integers<int16_t>(call, out.data()); break;
    case DataType::uint16: reduce_integers<uint16_t>(call, out.data()); break;
    case DataType::int32: reduce_integers<int32_t>(call, out.data()); break;
    case DataType::uint32: reduce_integers<uint32_t>(call, out.data()); break;
    case DataType::int64: reduce_integers<int64_t>(call, out.data()); break;
    case DataType::uint64: reduce_integers<uint64_t>(call, out.data()); break;
    case DataType::float32: reduce_floats<float>(call, out.data()); break;
    case DataType::float64: reduce_floats<double>(call, out.data()); break;
    case DataType::complex64: reduce_complex<float>(call, out.data()); break;
    case DataType::complex128: reduce_complex<double>(call, out.data()); break;
    default: reduce_small(call, out.data()); break;
  }
  return out;
}

}  // namespace weft::oracle
