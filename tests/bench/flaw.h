// What may go wrong in a rank's calls, and what weft-bench has to see of it.
#pragma once

#include <cstdint>

namespace weft::bench {

enum class Flaw : uint8_t {
  none,
  element,       // of the result is wrong
  before,        // the output is written
  behind,        // the output is written
  input,         // is written, where it is not the output
  refuses,       // the call
  fails,         // with an error
  aborts,        // the communicator
  skips_second,  // of its calls
};

// The elements in error of a checked call, out of place and in place.
struct SeenOfFlaw {
  Flaw flaw;
  uint64_t wrong, touched, wrong_in_place, touched_in_place;
};
inline constexpr SeenOfFlaw kSeenOfFlaws[] = {{Flaw::element, 1, 0, 1, 0},
                                              {Flaw::before, 0, 1, 0, 1},
                                              {Flaw::behind, 0, 1, 0, 1},
                                              {Flaw::input, 0, 1, 0, 0}};

}  // namespace weft::bench
