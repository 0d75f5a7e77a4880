// The physical floor beside a figure: what this machine could do at best, measured, not assumed.
//
//   shared memory:  max(hop, (bytes read + bytes written) / 2 / rate)
//     bytes read      of all ranks' inputs, each byte once; bytes written: to all ranks' outputs
//     rate            bytes copied per second by all cores that the ranks have, at once, in copies
//                     of the size that is one rank's share (caches make small ones faster)
//     hop             half a round trip of a flag between two threads
//   tcp on one host:  max(hop, bytes crossing / rate)
//     bytes crossing  that must leave some rank, whatever the algorithm
//     rate            of loopback connections: one for each pair of cores, at least one, or one
//                     for each core with both ends on it, whatever is faster
//     hop             half a round trip of one byte, both ends polling
//   The hop counts where ranks wait for each other's data (all_reduce, all_to_all, a barrier).
//   Where data goes one way only, as in a broadcast or a reduce, a rank may be in a later call
//   than another one, so calls behind each other take less than a message does.
//
//   memory of GPUs:   for each GPU (bytes read + bytes written by its ranks) / 2 / rate
//     rate            bytes copied per second within its memory, in copies of that size or larger
//     where no two ranks share a GPU, also bytes crossing / ranks / rate
//     rate            bytes copied per second from one GPU to all others at once
//
// No wait, no flag and no copy besides those is counted, so a figure is not below its floor but by
// noise, or where caches hold what ranks pass on but not what the copies do. In place less may have
// to move: the floor is that of the out-of-place form. Between hosts nothing is measured and there
// is no floor.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace weft::bench {

struct Calibration {
  struct CopyRate {
    double bytes = 0;  // of one copy
    double bytes_per_second = 0;
  };
  double flag_hop_s = 0;
  std::vector<CopyRate> copies;  // by size, ascending
  double tcp_hop_s = 0;          // 0: not measured
  double tcp_bytes_per_second = 0;

  struct OfGpu {
    std::vector<Rank> ranks;       // whose memory it is
    std::vector<CopyRate> copies;  // as above
  };
  std::vector<OfGpu> gpus{};  // where data is in their memory; then nothing else is measured
  double leaving_gpu_bytes_per_second = 0;  // 0: not measured
};

// Takes about a third of a second; nothing else of the job should run meanwhile. `max_bytes`: the
// largest message.
Calibration calibrate(int local_ranks, size_t max_bytes, bool tcp);

// Between the first two of these CPUs. Seconds, in a tenth of one at most; on one CPU it is the
// time to switch between threads. 0 where the system gives no threads.
double measure_flag_hop(std::span<const int> cpus);

// What a case must move at least, over all ranks.
struct Traffic {
  int ranks = 1;
  size_t bytes_read = 0;
  size_t bytes_written = 0;
  size_t bytes_crossing = 0;
  std::vector<uint64_t> moved_by_rank{};  // bytes that each reads and writes; of GPUs' memory
  bool answered = false;                  // see Layout::answered
};

// `copies` by size, ascending; 0 where there are none.
double copy_rate(std::span<const Calibration::CopyRate> copies, double bytes);
inline double copy_rate(const Calibration& calibration, double bytes) {
  return copy_rate(calibration.copies, bytes);
}

// Seconds; `transports` as CallInfo has them. nullopt where nothing is known.
std::optional<double> floor_seconds(const Calibration& calibration, std::string_view transports,
                                    const Traffic& traffic);

}  // namespace weft::bench
