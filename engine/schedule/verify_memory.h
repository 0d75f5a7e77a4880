// Symbolic memory: cells that hold expressions and remember who touched them, to find races.
#pragma once

#include <vector>

#include "engine/schedule/verify_clock.h"
#include "engine/schedule/verify_expression.h"

namespace weft::symbolic {

// One lane's step that touched a cell; lane -1: nobody.
struct Access {
  int lane = -1;
  int time = 0;
};

class Memory {
 public:
  // A time that no lane ever knows: whoever touches a cell with such a writer races.
  static constexpr int kNever = 1 << 30;

  explicit Memory(const Clocks& clocks) : clocks_(clocks) {}

  // The first of `count` new cells.
  int add(int count);

  Value value(int cell) const { return cells_[cell].value; }
  // Who wrote the value.
  const Access& author(int cell) const { return cells_[cell].author; }

  // Both give the unordered access that they race with, or lane -1.
  Access read(int cell, int lane);
  Access write(int cell, int lane, Value value);
  // A write that leaves the value as it is.
  Access claim(int cell, int lane);
  // Marks the cell written without asking who else touches it.
  void own(int cell, Access writer) { cells_[cell].writer = writer; }

 private:
  struct Cell {
    Value value = kNothing;
    Access writer, author;
    int readers = -1;  // list of reads since the last write
  };
  struct Reader {
    Access access;
    int next;
  };

  bool before(const Access& access, int lane) const {
    return access.lane < 0 || clocks_.knows(lane, access.lane, access.time);
  }
  Access forget_readers(Cell& cell, int lane);

  const Clocks& clocks_;
  std::vector<Cell> cells_;
  std::vector<Reader> readers_;
  int free_reader_ = -1;
};

}  // namespace weft::symbolic
