#include "engine/measure/reads.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace weft::measuring {
namespace {

constexpr size_t kPiecesInMemory = 4;  // so many pieces, one after the other

// Threads of one process always can; others of the same user unless this module forbids it.
bool processes_may() {
  int scope = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope == 0 || ::geteuid() == 0;
}

// Memory of two ranks: what the other reads, and where it reads to.
struct Memories {
  explicit Memories(size_t bytes)
      : from{bytes_of(bytes), bytes_of(bytes)}, into{from[0], from[1]} {}
  static std::vector<std::byte> bytes_of(size_t bytes) { return std::vector(bytes, std::byte{1}); }
  const std::vector<std::byte> from[2];
  std::vector<std::byte> into[2];
};

// Both read, or one does: seconds for each piece.
double read_pieces(Watch& watch, Pair& pair, Memories& memories, size_t bytes, int readers) {
  constexpr size_t kBytes = 16 << 20;
  const auto pieces = std::clamp<size_t>(kBytes / bytes, kPiecesInMemory, 500);
  const double seconds = together(watch, readers, own_core, [&](int me) {
    for (size_t i = 0; i < pieces; ++i) {
      const size_t at = i % kPiecesInMemory * bytes;
      if (!pair.read(me, &memories.from[1 - me][at], {&memories.into[me][at], bytes})) return;
    }
  });
  return seconds / static_cast<double>(pieces);
}

}  // namespace

void measure_reads(Watch& watch, Pair& pair, Network& network) {
  if (!pair.reads_memory() || !processes_may()) return;
  constexpr size_t kPieces[] = {64,        4 << 10,   16 << 10, 64 << 10,
                                128 << 10, 256 << 10, 1 << 20,  8 << 20};
  Medium& medium = network.inside;
  for (const size_t bytes : kPieces) {
    Memories memories(kPiecesInMemory * bytes);
    double both_s = std::numeric_limits<double>::max(), one_s = both_s;
    for (int i = 0; i < kRepeats && (i == 0 || !watch.until.expired()); ++i) {
      both_s = std::min(both_s, read_pieces(watch, pair, memories, bytes, 2));
      one_s = std::min(one_s, read_pieces(watch, pair, memories, bytes, 1));
    }
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
