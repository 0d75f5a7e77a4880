// What a reduction must give, computed slowly: values are decoded from the definition of their
// format, folded one element at a time, and rounded by searching the format's values for the
// nearest one. Shares nothing with kernels/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/types.h"

namespace weft::oracle {

// A binary format of 16 bits or fewer.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  // else the patterns above the finite ones are finite too, but for the last
  bool saturates;     // what is too large becomes the largest finite value, not infinity
  uint32_t nan;       // the canonical one

  uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
  uint32_t largest() const;  // pattern of the largest finite value
};

// REQUIRES: a format of 16 or 8 bits.
Format format_of(DataType type);

double decode(const Format& format, uint32_t bits);
uint32_t encode(const Format& format, double value);  // to nearest, ties to even

struct Call {
  ReduceOp op;
  DataType type;
  std::vector<const unsigned char*> sources;
  size_t count = 0;
  const void* scalar = nullptr;
  uint64_t scaled = 0;
  int64_t divisor = 1;
};

// The bytes that the call must leave in a target.
std::vector<unsigned char> reduce(const Call& call);

}  // namespace weft::oracle
