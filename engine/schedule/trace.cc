#include "engine/schedule/trace.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json_object.h"
#include "base/text.h"
#include "engine/schedule/schedule.h"

namespace weft {
namespace {

using nlohmann::ordered_json;

int process(Rank rank, TraceKind kind) { return 2 * rank + (kind == TraceKind::simulated); }

ordered_json naming(const char* what, int process, int lane, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", lane}, {"args", {{"name", name}}}};
}

}  // namespace

std::string to_trace_json(std::span<const TraceEvent> events, TraceKind kind,
                          const std::string& title) {
  std::string out = concat("{\"otherData\": {\"title\": ", json_text(ordered_json(title)),
                           "}, \"displayTimeUnit\": \"ns\", \"traceEvents\": [");
  const char* separator = "\n";
  const auto add = [&](const ordered_json& event) {
    out.append(separator).append(json_text(event));
    separator = ",\n";
  };
  std::set<std::pair<Rank, int>> lanes;
  for (const TraceEvent& event : events) lanes.emplace(event.rank, event.lane);
  for (const auto& [rank, lane] : lanes) {
    const std::string how = kind == TraceKind::simulated ? " simulated" : " measured";
    add(naming("process_name", process(rank, kind), lane, concat("rank ", rank, how)));
    add(naming("thread_name", process(rank, kind), lane, concat("lane ", lane)));
  }
  for (const TraceEvent& event : events)
    add({{"ph", "X"},
         {"name", event.name},
         {"pid", process(event.rank, kind)},
         {"tid", event.lane},
         {"ts", event.begin_s * 1e6},
         {"dur", (event.end_s - event.begin_s) * 1e6},
         {"args", {{"round", event.round}}}});
  return out + "\n]}\n";
}

TraceEvent to_event(const StepDone& done, Rank rank, int64_t begin_ns) {
  Step step;
  if (done.receives) step.recv({0, 0});
  for (int i = 0; i < done.sources; ++i) step.read(input());
  if (done.writes) step.write(output());
  if (done.sends) step.send({0, 0});
  return {rank,
          done.lane,
          concat(name(step), " chunk ", done.chunk),
          static_cast<int>(done.round),
          static_cast<double>(done.begin_ns - begin_ns) * 1e-9,
          static_cast<double>(done.end_ns - begin_ns) * 1e-9};
}

}  // namespace weft
