// A seeded generator for tests that make thousands of them: one word of state, where mt19937 has
// 312 to fill.
#pragma once

#include <cstdint>

namespace weft::test {

// Source: splitmix64, as in G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014.
class CheapRandom {
 public:
  using result_type = uint64_t;
  explicit CheapRandom(uint64_t seed) : state_(seed) {}
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t{0}; }
  uint64_t operator()() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace weft::test
