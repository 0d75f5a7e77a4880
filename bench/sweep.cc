#include "bench/sweep.h"

#include <algorithm>

namespace weft::bench {

std::vector<size_t> message_sizes(const BenchOptions& options) {
  std::vector<size_t> sizes;
  size_t size = options.min_bytes;
  while (size <= options.max_bytes) {
    sizes.push_back(size);
    if (options.step_bytes > 0)
      size += options.step_bytes;
    else if (size > options.max_bytes / options.step_factor)
      break;
    else
      size = std::max<size_t>(1, size * options.step_factor);
  }
  return sizes;
}

int iterations_for(const BenchOptions& options, size_t bytes, int ranks) {
  if (options.iterations > 0) return options.iterations;
  constexpr size_t kBytes = size_t{32} << 20;
  // Fewer on GPUs, so that all are on their streams at once.
  const size_t at_most = options.gpu_memory ? 200 : std::max(20, 2000 / ranks);
  return static_cast<int>(std::clamp<size_t>(kBytes / std::max<size_t>(bytes, 1), 20, at_most));
}

int warmup_for(const BenchOptions& options, int iterations) {
  return options.warmup >= 0 ? options.warmup : std::max(5, iterations / 5);
}

}  // namespace weft::bench
