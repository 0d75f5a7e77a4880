#include "bench/data.h"

#include <cstring>

#include "bench/number_recipe.h"

namespace weft::bench {
namespace {

bool is_float(DataType type) { return !is_integer(type) && type != DataType::boolean; }
bool is_signed(DataType type) {
  return type == DataType::int8 || type == DataType::int16 || type == DataType::int32 ||
         type == DataType::int64;
}
bool orders(const Recipe& recipe) {
  return recipe.op == ReduceOp::min || recipe.op == ReduceOp::max;
}
// Floats as numbers; everything else is handled as bits.
bool as_number(const Recipe& recipe) {
  return recipe.op && is_float(recipe.type) && !orders(recipe);
}

// Calls `with(Bits{})` for the unsigned type of the element's (or component's) width.
template <class With>
void with_bits(size_t bytes, With with) {
  switch (bytes) {
    case 1: return with(uint8_t{});
    case 2: return with(uint16_t{});
    case 4: return with(uint32_t{});
    default: return with(uint64_t{});
  }
}

template <class Bits>
void store(Bytes out, size_t index, uint64_t value) {
  const auto bits = static_cast<Bits>(value);
  std::memcpy(out.data() + index * sizeof(Bits), &bits, sizeof bits);
}

// `make(i)` gives the number of element i.
template <class Make>
void write_numbers(const NumberRecipe& recipe, Bytes out, Make make) {
  const FloatFormat format = recipe.format();
  with_bits(static_cast<size_t>(format.bytes), [&](auto tag) {
    using Bits = decltype(tag);
    const size_t parts = recipe.complex() ? 2 : 1;
    const size_t count = out.size() / sizeof(Bits) / parts;
    for (size_t i = 0; i < count; ++i) {
      const Number number = make(i);
      store<Bits>(out, i * parts, encode(format, number.re));
      if (parts == 2) store<Bits>(out, i * 2 + 1, encode(format, number.im));
    }
  });
}

int64_t widened(uint64_t bits, DataType type) {
  const int unused = 64 - 8 * static_cast<int>(size_of(type));
  return static_cast<int64_t>(bits << unused) >> unused;
}

// Integers, booleans, and the bits of floats that are only moved or compared.
class BitRecipe {
 public:
  explicit BitRecipe(const Recipe& recipe)
      : recipe_(recipe),
        seed_(mix(recipe.seed)),
        width_(8 * static_cast<int>(size_of(recipe.type))),
        mask_(width_ >= 64 ? ~uint64_t{0} : (uint64_t{1} << width_) - 1),
        averages_(recipe.ranks, std::min(mask_ >> 1, uint64_t{1} << 40)) {}

  uint64_t input(Rank rank, uint64_t element) const {
    const uint64_t shared = mix(seed_ ^ element);
    const uint64_t own = mix(shared + static_cast<uint64_t>(rank) + 1);
    if (recipe_.type == DataType::boolean) return dense(own) & 1;
    if (is_float(recipe_.type)) return recipe_.op ? without_nan(own & mask_) : own & mask_;
    if (recipe_.op == ReduceOp::prod) return (own | 1) & mask_;
    if (recipe_.op == ReduceOp::avg) return average_operand(rank, shared, own) & mask_;
    return dense(own) & mask_;
  }

  uint64_t factor(Rank rank) const {
    return mix(recipe_.seed ^ 0xfac, static_cast<uint64_t>(rank)) & mask_;
  }

  uint64_t expected(uint64_t element) const {
    uint64_t result = operand(0, element);
    for (Rank rank = 1; rank < recipe_.ranks; ++rank)
      result = fold(result, operand(rank, element)) & mask_;
    if (recipe_.op != ReduceOp::avg) return result;
    return is_signed(recipe_.type)
               ? static_cast<uint64_t>(widened(result, recipe_.type) / recipe_.ranks) & mask_
               : result / static_cast<uint64_t>(recipe_.ranks);
  }

 private:
  // With many ranks an "and" of random bits is 0 and an "or" is 1 nearly everywhere.
  uint64_t dense(uint64_t own) const {
    if (recipe_.op == ReduceOp::band) return own | mix(own) | mix(own + 1);
    if (recipe_.op == ReduceOp::bor) return own & mix(own) & mix(own + 1);
    return own;
  }

  uint64_t average_operand(Rank rank, uint64_t shared, uint64_t own) const {
    if (!averages_.contributes(static_cast<uint64_t>(rank), shared >> 32)) return 0;
    const uint64_t value = 1 + below(own, averages_.magnitude);
    return is_signed(recipe_.type) && (own & 1) ? 0 - value : value;
  }

  uint64_t without_nan(uint64_t bits) const {
    const FloatFormat format = float_format(recipe_.type);
    const uint64_t exponent = ((uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
    const uint64_t mantissa = (uint64_t{1} << format.mantissa_bits) - 1;
    const uint64_t nan = format.infinity ? exponent : exponent | mantissa;
    return (bits & nan) == nan ? bits ^ (uint64_t{1} << format.mantissa_bits) : bits;
  }

  uint64_t operand(Rank rank, uint64_t element) const {
    const uint64_t value = input(rank, element);
    return recipe_.op == ReduceOp::premulsum ? (value * factor(rank)) & mask_ : value;
  }

  uint64_t fold(uint64_t a, uint64_t b) const {
    switch (*recipe_.op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
      case ReduceOp::premulsum: return a + b;
      case ReduceOp::prod: return a * b;
      case ReduceOp::min: return order(a) <= order(b) ? a : b;
      case ReduceOp::max: return order(a) >= order(b) ? a : b;
      case ReduceOp::band: return a & b;
      case ReduceOp::bor: return a | b;
      case ReduceOp::bxor: return a ^ b;
    }
    return 0;
  }

  // Orders values as unsigned numbers; -0 comes before +0.
  uint64_t order(uint64_t bits) const {
    const uint64_t sign = uint64_t{1} << (width_ - 1);
    if (is_signed(recipe_.type)) return bits ^ sign;
    if (!is_float(recipe_.type)) return bits;
    return bits & sign ? ~bits & mask_ : bits | sign;
  }

  Recipe recipe_;
  uint64_t seed_;  // mixed
  int width_;
  uint64_t mask_;
  Budget averages_;
};

// `make(i)` gives the bits of element i. complex128 is two elements of 8 bytes.
template <class Make>
void write_bits(DataType type, Bytes out, Make make) {
  with_bits(std::min<size_t>(8, size_of(type)), [&](auto tag) {
    using Bits = decltype(tag);
    for (size_t i = 0; i < out.size() / sizeof(Bits); ++i) store<Bits>(out, i, make(i));
  });
}

uint64_t words_per_element(DataType type) { return type == DataType::complex128 ? 2 : 1; }

}  // namespace

void fill_input(const Recipe& recipe, Rank rank, size_t first, Bytes out) {
  if (as_number(recipe)) {
    const NumberRecipe numbers(recipe);
    if (recipe.inexact)
      return write_numbers(numbers, out,
                           [&](size_t i) { return numbers.inexact(rank, first + i); });
    return write_numbers(numbers, out, [&](size_t i) { return numbers.input(rank, first + i); });
  }
  const BitRecipe bits(recipe);
  first *= words_per_element(recipe.type);
  write_bits(recipe.type, out, [&](size_t i) { return bits.input(rank, first + i); });
}

std::vector<std::byte> scalar_of(const Recipe& recipe, Rank rank) {
  std::vector<std::byte> scalar(size_of(recipe.type));
  if (as_number(recipe)) {
    const NumberRecipe numbers(recipe);
    write_numbers(numbers, scalar, [&](size_t) { return numbers.factor(rank); });
  } else {
    write_bits(recipe.type, scalar, [&](size_t) { return BitRecipe(recipe).factor(rank); });
  }
  return scalar;
}

void fill_expected(const Recipe& recipe, size_t first, Bytes out) {
  if (as_number(recipe)) {
    const NumberRecipe numbers(recipe);
    return write_numbers(numbers, out, [&](size_t i) { return numbers.expected(first + i); });
  }
  const BitRecipe bits(recipe);
  write_bits(recipe.type, out, [&](size_t i) { return bits.expected(first + i); });
}

}  // namespace weft::bench
