// Who did what when, in the trace-event format that Perfetto and chrome://tracing open.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/types.h"

namespace weft {

// One bar of the picture.
struct TraceEvent {
  Rank rank = 0;       // shown as a process
  int lane = 0;        // as one of its threads
  std::string name;    // "recv_reduce_copy_send chunk 3"
  int round = 0;       // of the program
  double begin_s = 0;  // since the trace began
  double end_s = 0;    // likewise
};

// Of a rank there are two processes, so that a file with both has them side by side.
enum class TraceKind : uint8_t {
  measured,  // by executors
  simulated  // by the cost model
};

// `title` says what the trace is of. Times are microseconds there.
// Format: "Trace Event Format", Google, 2016 (complete events, "ph": "X").
std::string to_trace_json(std::span<const TraceEvent> events, TraceKind kind,
                          const std::string& title);

// A step that a lane has done, as an executor notes it down: times are its clock's.
struct StepDone {
  int64_t begin_ns = 0;   // when it began
  int64_t end_ns = 0;     // when it was done
  int32_t chunk = 0;      // as in the schedule
  uint32_t round = 0;     // of the program
  uint16_t lane = 0;      // which did it
  uint8_t sources = 0;    // operands that it read
  bool receives = false;  // a message was an operand
  bool writes = false;    // there were targets
  bool sends = false;     // a message went out
};

// `begin_ns` is where the trace begins, on the same clock.
TraceEvent to_event(const StepDone& done, Rank rank, int64_t begin_ns);

}  // namespace weft
