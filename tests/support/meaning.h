// What a collective means, in numbers: for who runs schedules on them (interpret.h).
#pragma once

#include <array>
#include <cstdint>

#include "engine/schedule/schedule.h"

namespace weft::test {

using Halves = std::array<uint64_t, 2>;

inline uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Meaning {
 public:
  Meaning(const Schedule& schedule, int call) : c_(schedule.collective), call_(uint64_t(call)) {
    pieces_ = schedule.programs[0].pieces;
  }

  Halves input(Rank rank, int chunk, int round) const {
    if (c_.kind == Kind::barrier) return {uint64_t{1} << rank, uint64_t{1} << rank};
    const uint64_t name = ((call_ * 1000 + round) * 100 + rank) * 100000 + chunk;
    return {scramble(2 * name), scramble(2 * name + 1)};
  }
  // What a reduction sees of an input: PreMulSum scales there.
  uint64_t scaled(Rank rank, uint64_t value) const {
    return reduces(c_.kind) ? value * (2 * scramble(uint64_t(rank)) + 1) : value;
  }
  uint64_t fold(uint64_t a, uint64_t b) const { return c_.kind == Kind::barrier ? a | b : a + b; }
  uint64_t finish(uint64_t value) const {
    return c_.kind == Kind::barrier ? value : value * 5 + 0x1234567;
  }

  Halves result(int chunk, int round) const {
    if (!reduces(c_.kind) && c_.kind != Kind::barrier)
      return input(source_of(c_, chunk / pieces_), chunk, round);
    Halves sum{0, 0};
    for (int h = 0; h < 2; ++h) {
      for (Rank r = 0; r < c_.ranks; ++r)
        sum[h] = fold(sum[h], scaled(r, input(r, chunk, round)[h]));
      sum[h] = finish(sum[h]);
    }
    return sum;
  }

 private:
  Collective c_;
  uint64_t call_;
  int pieces_ = 1;
};

}  // namespace weft::test
