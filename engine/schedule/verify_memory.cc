#include "engine/schedule/verify_memory.h"

namespace weft::symbolic {

int Memory::add(int count) {
  const int first = static_cast<int>(cells_.size());
  cells_.resize(cells_.size() + count);
  return first;
}

Access Memory::read(int index, int lane) {
  Cell& cell = cells_[index];
  if (!before(cell.writer, lane)) return cell.writer;
  const Access access{lane, clocks_.now(lane)};
  if (cell.readers >= 0 && before(readers_[cell.readers].access, lane)) {
    // Whoever is ordered after this read is ordered after that one.
    readers_[cell.readers].access = access;
    return {};
  }
  int at = free_reader_;
  if (at >= 0) {
    free_reader_ = readers_[at].next;
  } else {
    at = static_cast<int>(readers_.size());
    readers_.emplace_back();
  }
  readers_[at] = {access, cell.readers};
  cell.readers = at;
  return {};
}

Access Memory::write(int index, int lane, Value value) {
  const Access race = claim(index, lane);
  if (race.lane >= 0) return race;
  cells_[index].value = value;
  cells_[index].author = cells_[index].writer;
  return {};
}

Access Memory::claim(int index, int lane) {
  Cell& cell = cells_[index];
  if (!before(cell.writer, lane)) return cell.writer;
  if (const Access reader = forget_readers(cell, lane); reader.lane >= 0) return reader;
  cell.writer = {lane, clocks_.now(lane)};
  return {};
}

Access Memory::forget_readers(Cell& cell, int lane) {
  while (cell.readers >= 0) {
    const int at = cell.readers;
    if (!before(readers_[at].access, lane)) return readers_[at].access;
    cell.readers = readers_[at].next;
    readers_[at].next = free_reader_;
    free_reader_ = at;
  }
  return {};
}

}  // namespace weft::symbolic
