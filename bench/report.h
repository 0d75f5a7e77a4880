// What weft-bench prints: the look of nccl-tests, and beside it what ran and the physical floor.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/floor.h"
#include "bench/layout.h"
#include "bench/machine.h"
#include "bench/options.h"
#include "engine/communicator.h"
#include "engine/device/gpu.h"

namespace weft::bench {

struct RankInfo {
  std::string host;
  int pid = 0;
  std::optional<DeviceIdentity> gpu{};  // where data is in GPUs' memory
};

// Times of single iterations on rank 0, microseconds.
struct Percentiles {
  double min = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
};
std::optional<Percentiles> percentiles(std::vector<double> times_us);

// One of the two halves of a row.
struct Figure {
  double time_us = 0;  // a call, averaged over the iterations, then over ranks as asked
  double algorithm_gbps = 0;
  double bus_gbps = 0;
  uint64_t wrong = 0;    // elements, over all ranks
  uint64_t touched = 0;  // input elements or bytes outside of data that changed
  std::optional<Percentiles> spread;
};

struct Row {
  Case what;
  size_t bytes = 0;  // of the message
  size_t count = 0;
  int iterations = 0;
  bool checked = false;
  std::optional<Figure> out_of_place, in_place;
  CallInfo info;                          // of the out-of-place form, where that is measured
  std::optional<CallInfo> in_place_info;  // where both are
  std::optional<double> floor_us;
  std::optional<uint64_t> digest;
  bool digests_differ = false;  // ranks that should hold the same bits do not
};

struct RunInfo {
  std::string version, date;
  std::string library;  // that is measured
  std::string launcher;
  Machine machine;  // rank 0's
  std::vector<RankInfo> ranks;
  BenchOptions options;
  std::map<std::string, std::string> environment;  // WEFT_*
  std::optional<Calibration> calibration;
};

struct Totals {
  size_t rows = 0;
  size_t skipped_undefined = 0;    // ops without a meaning on a type
  size_t skipped_unsupported = 0;  // that the algorithm asked for does not do
  uint64_t faults = 0;
  double bus_gbps_sum = 0;
  size_t figures = 0;

  void add(const Row& row);
  double average_bus_gbps() const {
    return figures ? bus_gbps_sum / static_cast<double>(figures) : 0;
  }
};

std::string header_text(const RunInfo& run);
// Column titles; before the rows of each operation.
std::string titles_text(Operation operation, const BenchOptions& options);
std::string row_text(const Row& row);
// Why it ran what it ran: what the cost model says of everything that could have run.
std::string explanation_text(const Row& row);
std::string footer_text(const Totals& totals, bool checked);

// The line a terminal shows while waiting: "[3/120] all_reduce float32 sum".
class Progress {
 public:
  explicit Progress(bool shown) : shown_(shown) {}
  static bool wanted();
  void show(std::string_view text);
  void clear();

 private:
  bool shown_;
  bool dirty_ = false;
};

}  // namespace weft::bench
