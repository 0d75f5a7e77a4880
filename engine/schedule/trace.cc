#include "engine/schedule/trace.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/text.h"

namespace weft {
namespace {

using nlohmann::ordered_json;

ordered_json naming(const char* what, Rank rank, int lane, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", lane}, {"args", {{"name", name}}}};
}

}  // namespace

std::string to_trace_json(std::span<const TraceEvent> events, const std::string& title) {
  std::string out = concat("{\"otherData\": {\"title\": ", ordered_json(title).dump(),
                           "}, \"displayTimeUnit\": \"ns\", \"traceEvents\": [");
  const char* separator = "\n";
  const auto add = [&](const ordered_json& event) {
    out.append(separator).append(event.dump());
    separator = ",\n";
  };
  std::set<std::pair<Rank, int>> lanes;
  for (const TraceEvent& event : events) lanes.emplace(event.rank, event.lane);
  for (const auto& [rank, lane] : lanes) {
    add(naming("process_name", rank, lane, concat("rank ", rank)));
    add(naming("thread_name", rank, lane, concat("lane ", lane)));
  }
  for (const TraceEvent& event : events)
    add({{"ph", "X"},
         {"name", event.name},
         {"pid", event.rank},
         {"tid", event.lane},
         {"ts", event.begin_s * 1e6},
         {"dur", (event.end_s - event.begin_s) * 1e6},
         {"args", {{"round", event.round}}}});
  return out + "\n]}\n";
}

}  // namespace weft
