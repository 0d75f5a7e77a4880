// The algorithms that a command may name: those that the tool was started with, and files.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "engine/algorithms/imported.h"

namespace weft {

class Shelf {
 public:
  explicit Shelf(std::span<const Algorithm> algorithms) : algorithms_(algorithms) {}

  std::span<const Algorithm> algorithms() const { return algorithms_; }

  // By its name, or by that of a file, which is read but not proven. The pointer stays.
  Result<const Algorithm*> named(const std::string& text);

 private:
  std::span<const Algorithm> algorithms_;
  std::deque<Algorithm> imported_;
};

Result<ScheduleFile> read_schedules(const std::string& path);

Result<Kind> kind_named(const std::string& text);

// "1-64", "2, 4, 8-9": the counts of ranks for which it serves the collective; empty: none.
std::string ranks_served(const Algorithm& algorithm, Kind kind);

// What an algorithm serves, for those who asked it for something else: "it has ..." of a file,
// which `named` is the name of then; else "it serves ...", the ranks of that collective, or, where
// it has none or none is given, its collectives.
std::string what_serves(const Algorithm& algorithm, const std::string& named,
                        std::optional<Kind> kind);

// Parameters as --radix says; 0: nothing was said.
Result<Parameters> parameters_of(const Algorithm& algorithm, int radix);

// "--ranks "8-4" ends before it begins; write 4-8."
Status backwards(const std::string& flag, const std::string& text, const std::string& first,
                 const std::string& last);

// "1-33" or "8".
Status parse_range(const std::string& text, int* first, int* last);

inline const char* yes_no(bool yes) { return yes ? "yes" : "no"; }

// Prints it as the tool's complaint; the exit status.
int fail(const Status& status);

}  // namespace weft
