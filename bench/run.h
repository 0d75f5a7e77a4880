// The loop: every case, timed and checked, out of place and in place.
#pragma once

#include <functional>
#include <optional>

#include "bench/cases.h"
#include "bench/data.h"
#include "bench/gather.h"
#include "bench/invocation.h"
#include "bench/oracle.h"
#include "bench/place.h"
#include "bench/report.h"
#include "bench/tracing.h"

namespace weft::bench {

class Runner {
 public:
  struct Setup {
    Communicator& measured;
    Communicator& control;  // for barriers and results, where `measured` is bound to one algorithm
    const BenchOptions& options;
    Place& place;                            // of `measured`
    std::optional<Calibration> calibration;  // on rank 0, where all ranks share the machine
    Tracer* tracer = nullptr;                // null: no trace; on all ranks, or on none
    bool samples = false;                    // of single iterations, too; so on all ranks
  };
  using Sink = std::function<void(const Row&)>;

  explicit Runner(const Setup& setup);

  // Runs the sweep once. Collective. On rank 0 `sink` gets every row; totals are the same
  // everywhere.
  Status run(const Sink& sink, Progress& progress);
  const Totals& totals() const { return totals_; }
  // Whether this rank itself saw a fault: known even where results no longer reach rank 0.
  bool saw_faults() const { return faults_ > 0; }

 private:
  struct Share;  // what a rank tells about a row
  struct Placed;

  Status check_memory(const std::vector<Case>& cases);
  Status run_case(const Case& what, const Sink& sink);
  Status prepare_case(const Case& what);
  Result<bool> supported(Row& row);
  Result<Placed> place(bool in_place, int iteration);
  Status measure(bool in_place, Row& row, Share& share);
  Status time_calls(const Placed& placed, int iterations, Share& share, bool in_place);
  Status fetch(const Placed& placed);
  Status trace_call();
  Status check_calls(bool in_place, Share& share);
  Status check_barrier(Share& share);
  Status take_digest(Share& share);
  Result<Row> combine(Row row, const Share& mine);
  Figure figure(const std::vector<Share>& shares, int form, size_t bytes) const;
  std::optional<double> floor_us(std::string_view transports,
                                 const std::vector<Share>& shares) const;
  void combine_digests(Row& row, const std::vector<Share>& shares) const;
  Recipe recipe(int iteration) const;
  void report_fault(const std::string& first, bool in_place);

  Setup setup_;
  const BenchOptions& options_;
  int ranks_;
  Rank me_;
  Buffer input_;
  Buffer output_;
  Case what_;
  Layout layout_;
  std::vector<double> samples_us_[2];  // of single iterations, out of place and in place
  Totals totals_;
  int faults_ = 0;  // checked calls of this rank that failed
};

}  // namespace weft::bench
