// Who did what when, in the trace-event format that Perfetto and chrome://tracing open.
#pragma once

#include <span>
#include <string>

#include "base/types.h"

namespace weft {

struct TraceEvent {
  Rank rank = 0;     // shown as a process
  int lane = 0;      // as one of its threads
  std::string name;  // "recv_reduce_copy_send chunk 3"
  int round = 0;
  double begin_s = 0, end_s = 0;
};

// `title` says what the trace is of. Times are microseconds there.
// Format: "Trace Event Format", Google, 2016 (complete events, "ph": "X").
std::string to_trace_json(std::span<const TraceEvent> events, const std::string& title);

}  // namespace weft
