#include "engine/measure/reads.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "base/ptrace_scope.h"

namespace weft::measuring {
namespace {

constexpr size_t kPiecesInMemory = 4;  // so many pieces, one after the other

// Memory of two ranks: what the other reads, and where it reads to.
struct Memories {
  explicit Memories(size_t bytes)
      : from{bytes_of(bytes), bytes_of(bytes)}, into{from[0], from[1]} {}
  static std::vector<std::byte> bytes_of(size_t bytes) { return std::vector(bytes, std::byte{1}); }
  const std::vector<std::byte> from[2];
  std::vector<std::byte> into[2];
};

constexpr double kNotRead = std::numeric_limits<double>::infinity();

// Both read, or one does: seconds for each piece.
double read_pieces(Watch& watch, Pair& pair, Memories& memories, size_t bytes, int readers) {
  constexpr size_t kBytes = 16 << 20;
  const auto pieces = std::clamp<size_t>(kBytes / bytes, kPiecesInMemory, 500);
  std::atomic<bool> all{true};
  const double seconds = together(watch, readers, own_core, [&](int me) {
    for (size_t i = 0; i < pieces; ++i) {
      const size_t at = i % kPiecesInMemory * bytes;
      if (!pair.read(me, &memories.from[1 - me][at], {&memories.into[me][at], bytes}))
        return all.store(false);
    }
  });
  return all ? seconds / static_cast<double>(pieces) : kNotRead;
}

}  // namespace

void measure_reads(Watch& watch, Pair& pair, Network& network) {
  // Threads of one process always can.
  if (!pair.reads_memory() || !processes_read_each_other()) return;
  constexpr size_t kPieces[] = {64,        4 << 10,   16 << 10, 64 << 10,
                                128 << 10, 256 << 10, 1 << 20,  8 << 20};
  Medium& medium = network.inside;
  for (const size_t bytes : kPieces) {
    Memories memories(kPiecesInMemory * bytes);
    double both_s = kNotRead, one_s = kNotRead;
    for (int i = 0; i < kRepeats && (i == 0 || !watch.until.expired()); ++i) {
      both_s = std::min(both_s, read_pieces(watch, pair, memories, bytes, 2));
      one_s = std::min(one_s, read_pieces(watch, pair, memories, bytes, 1));
    }
    if (std::max(both_s, one_s) == kNotRead) return;
    if (bytes == kPieces[0]) {
      medium.read_s = both_s;
      continue;
    }
    const auto rate = [&](double seconds) {
      const auto moved = static_cast<double>(bytes);
      const double footprint = 2 * kPiecesInMemory * moved;
      return Rate{footprint, moved / std::max(seconds - medium.read_s, seconds / 10)};
    };
    medium.read_rates.push_back(rate(both_s));
    medium.read_alone_rates.push_back(rate(one_s));
  }
}

}  // namespace weft::measuring
