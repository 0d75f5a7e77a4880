// The check: every byte of a rank's buffers after a call against what a naive definition gives.
#pragma once

#include <string>

#include "bench/data.h"
#include "bench/layout.h"

namespace weft::bench {

// What is expected outside of data: around it, and in outputs before the call.
inline constexpr std::byte kUntouched{0xa5};

struct CheckResult {
  size_t wrong = 0;    // elements of the output
  size_t touched = 0;  // elements of the input, and bytes around data, that changed
  std::string first;   // the first fault, for people

  size_t faults() const { return wrong + touched; }
};

// Fills `whole` with kUntouched, then, where `input` is not empty, the input into it.
void prepare(const Recipe& recipe, Rank me, Bytes whole, Bytes input);

// `whole` is a buffer after the call; `input` and `output` are the parts of it that are data
// (either may be empty). Bytes that the layout's pieces do not give to the output must be as
// prepared.
CheckResult check(const Recipe& recipe, const Layout& layout, Rank me, ConstBytes whole,
                  ConstBytes input, ConstBytes output);

// A hash of the first `elements` elements of the message (numbered over all ranks, as Piece::from)
// that lie in this output: equal elements give equal digests, whoever holds them and in whatever
// order the parts are added up.
uint64_t digest(const Recipe& recipe, const Layout& layout, ConstBytes output, size_t elements);

}  // namespace weft::bench
