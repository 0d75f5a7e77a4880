// Algorithms that were written down: a file holds the schedules of some collectives, and serves
// these.
//
// In place is each rank's own affair: programs of one schedule serve both forms where they are
// proven for both. Where they are not, the file may hold a schedule of the in-place form as well;
// for collectives with a root, where one rank may be in place and another one not, they have to be.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/algorithms/algorithm.h"
#include "engine/schedule/json.h"

namespace weft {

// A text that asks for a file rather than for an algorithm that is built in: "my.json".
bool names_file(std::string_view algorithm);

// Cells of signals from one rank to another, as executors have them.
inline constexpr int kSignalCells = 16;

// What a text holds, if it may be run: every schedule is served once, and within the limits of the
// executors. `path` gives the name to a file that has none. Errors name file and schedule.
Result<ScheduleFile> import_schedules(std::string_view text, const std::string& path);

// What has been proven of the schedules of a file.
struct Evidence {
  bool canonical = true;           // of all
  bool same_bits = true;           // of all
  bool lines = true;               // all that use windows may run under ll
  std::vector<int> also_in_place;  // the schedules that serve both forms, ascending
};

// Proves the schedules for so many ranks (0: all of them) with links of so many slots. An error
// names schedule, rank, lane and step.
Result<Evidence> prove(const ScheduleFile& file, int ranks, std::span<const int> slots);

// REQUIRES: the evidence is of this file. The algorithm keeps the file.
Algorithm imported(std::shared_ptr<const ScheduleFile> file, const Evidence& evidence);

// "all_reduce of 2 and 4 ranks, broadcast of 4 ranks": what a file serves.
std::string list_served(const ScheduleFile& file);

}  // namespace weft
