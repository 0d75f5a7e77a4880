// Random numbers that are functions of what they belong to, so that every rank can compute those of
// every other one.
#pragma once

#include <cstdint>

namespace weft::bench {

// splitmix64's finisher: every bit of the result depends on every bit of `x`.
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
constexpr uint64_t mix(uint64_t a, uint64_t b) { return mix(mix(a) ^ b); }

// 0 .. bound - 1 from 64 random bits; the bias is below bound / 2^32.
constexpr uint64_t below(uint64_t random, uint64_t bound) {
  return bound >> 32 ? random % bound : ((random >> 32) * bound) >> 32;
}

// A sequence.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() { return mix(state_++); }
  uint64_t next_below(uint64_t bound) { return below(next(), bound); }

 private:
  uint64_t state_;
};

}  // namespace weft::bench
