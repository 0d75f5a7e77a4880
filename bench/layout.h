// Where the elements of a case lie: in whose input, and where in whose output. This is half of the
// oracle, and says independently of the engine what each collective means.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/types.h"
#include "bench/operation.h"

namespace weft::bench {

// One row of the report.
struct Case {
  Operation operation = Operation::all_reduce;
  DataType type = DataType::float32;
  std::optional<ReduceOp> op;  // where the operation reduces
  std::optional<Rank> root;    // where it has one
  size_t bytes = 0;            // asked for; Layout::message_count says what it became
  uint64_t seed = 0;           // of uneven counts, gaps and orders

  Rank root_or_0() const { return root.value_or(0); }
};

// output[to .. to + count) of a rank is input[from .. from + count) of `source`, or of all ranks,
// reduced.
struct Piece {
  static constexpr Rank kAllRanks = -1;
  Rank source = 0;
  size_t from = 0;
  size_t to = 0;
  size_t count = 0;

  bool operator==(const Piece&) const = default;
};

// One send or receive of this rank, in elements of its input or output.
struct Move {
  bool sends = true;
  Rank peer = 0;
  size_t at = 0;
  size_t count = 0;
};

// What one rank needs to know of a case. Counts and offsets are in elements.
struct Layout {
  size_t input_count = 0;  // span of the buffer, gaps included
  size_t output_count = 0;
  std::vector<Piece> pieces;  // of the output, ascending; between them nothing may be written
  // In place, one buffer holds both, the input from shared_input on, the output from shared_output.
  size_t shared_input = 0;
  size_t shared_output = 0;

  // The call's arguments.
  size_t count = 0;
  std::vector<size_t> counts, offsets, recv_counts, recv_offsets;
  std::vector<Move> moves;

  // This rank's part of elements_read and elements_written.
  size_t read_here = 0;
  size_t written_here = 0;

  // The same on all ranks.
  size_t block_count = 0;        // the count column
  size_t message_count = 0;      // the size column, in elements
  size_t elements_read = 0;      // of all inputs, by whoever reads them first
  size_t elements_written = 0;   // to all outputs
  size_t elements_crossing = 0;  // that must leave some rank at least
  // Whether some ranks need each other's data: nobody can be ahead of these by a call. Else data
  // goes one way, and calls behind each other overlap.
  bool answered = false;
};

Layout make_layout(const Case& what, int ranks, Rank me);

}  // namespace weft::bench
