// What every rank's lanes do in one call of each case, on rank 0's clock, as a file for Perfetto.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/communicator.h"

namespace weft::bench {

// By how much each rank's clock is ahead of rank 0's, in nanoseconds: 0 on rank 0's host, elsewhere
// estimated from the quickest of some round trips. Collective; the same on all ranks.
Result<std::vector<int64_t>> clock_offsets(Communicator& communicator);

class Tracer {
 public:
  // Both outlive the tracer; `control` carries what is collected. Each rank keeps the last `most`
  // steps of a call.
  Tracer(Communicator& measured, Communicator& control, size_t most = size_t{1} << 16)
      : measured_(measured), control_(control), most_(most) {}

  // Runs `iteration` a few times, and adds what the lanes did in the last of them, behind what is
  // there. Collective.
  Status add(const std::string& title, const std::function<Status()>& iteration);

  // On rank 0.
  const std::vector<TraceEvent>& events() const { return events_; }
  // Whether some rank did more steps in a call than are kept.
  bool lost_some() const { return lost_some_; }
  Status write(const std::string& path, const std::string& title) const;

 private:
  Status collect(const std::string& title, const std::vector<StepDone>& mine);
  void append(const std::string& title, const std::vector<StepDone>& all,
              const std::vector<uint64_t>& counts);

  Communicator& measured_;
  Communicator& control_;
  const size_t most_;
  std::vector<int64_t> offsets_;
  std::vector<TraceEvent> events_;
  double end_s_ = 0;
  bool lost_some_ = false;
};

}  // namespace weft::bench
