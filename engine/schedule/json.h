// Schedules as JSON: what they are stored, exchanged and imported as. One schedule is
//
//   {"collective": {"kind": "all_reduce", "ranks": 2, "root": 0, "in_place": false},
//    "pieces": 2, "message_chunks": 1, "window_slots": 0, "window_halves": 1, "copies": 1,
//    "programs": [{"scratch_slots": 0, "lanes": [{"copy": 0, "steps": [
//      {"chunk": 0, "from": {"peer": 1, "link": 0}, "sources": [{"buffer": "input"}],
//       "targets": [{"buffer": "output"}], "to": {"peer": 1, "link": 0}, "finish": true,
//       "waits": [{"peer": 1, "cell": 0, "lag": 1}], "posts": [{"peer": 1, "cell": 0}],
//       "times": 1, "stride": 0, "more": false}]}]}, ...]}
//
// All but kind, ranks, programs, lanes, steps, chunk, peer and buffer may be left out; what is left
// out is as in schedule.h. An operand may name a "rank" and a "slot".
//
// A file of schedules, which together are an algorithm (algorithms/imported.h), is one of them, or
//
//   {"name": "my_tree", "summary": "what it is, and from where", "schedules": [{...}, {...}]}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/schedule/schedule.h"

namespace weft {

// REQUIRES: pieces, window slots, window halves and copies are the same in all programs.
std::string to_json(const Schedule& schedule);

// Strict: unknown fields, wrong types, and ranks, chunks or slots that are not there are errors
// that name the place. A schedule that was read need not be right: that is verify()'s to say.
Result<Schedule> from_json(std::string_view text);

struct ScheduleFile {
  std::string name;
  std::string summary;
  std::vector<Schedule> schedules;
  friend bool operator==(const ScheduleFile&, const ScheduleFile&) = default;
};

std::string to_json(const ScheduleFile& file);

// As strict. `name` is for a file that has none.
Result<ScheduleFile> file_from_json(std::string_view text, std::string_view name);

// "all_reduce of 4 ranks", "broadcast of 4 ranks, root 2", "all_to_all of 4 ranks, in place".
std::string describe(const Collective& collective);

}  // namespace weft
