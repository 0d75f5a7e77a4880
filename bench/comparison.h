// What several libraries took for the same calls in several rounds, and what that comes to.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/alike.h"
#include "bench/operation.h"
#include "bench/statistics.h"

namespace weft::bench {

struct Library {
  std::string name;
  std::string program;  // path; empty where it is not installed
  std::vector<std::string> arguments;
  nlohmann::ordered_json run;  // what it said about its first run
  std::vector<Hops> hops;      // of a flag between two cores, by run
  std::string note;            // why figures of it are missing or left out; empty: none are
};

// One call of the sweep.
struct Point {
  Operation operation = Operation::all_reduce;
  std::string type, op;  // as printed; no op where nothing is reduced
  int root = -1;         // -1: has none
  size_t bytes = 0;

  bool operator==(const Point&) const = default;
  // Whether both belong to the same sweep over sizes.
  bool same_sweep(const Point& other) const;
};

// Of one run.
struct Sample {
  size_t run = 0;
  double us = 0;
  double floor_us = 0;  // 0: none
};

// Of one library at one point.
struct Measured {
  std::vector<Sample> times;  // of runs that gave all their results
  std::vector<Sample> begun;  // of the run that is under way
  bool wrong = false;         // in any run
};

// All libraries at one point.
struct Line {
  Point point;
  std::string algorithm;           // weft's
  std::vector<Measured> measured;  // by library
};

// The fastest peer at a line, by median, and its time over weft's: above 1 weft is faster.
struct Best {
  size_t library = 0;
  double ratio = 0;
};

// What a line of a library's output is: a launcher's remark, about the run, a figure, or the end.
enum class Said : uint8_t { remark, run, row, totals };

class Comparison {
 public:
  // The first library is weft, the others are its peers.
  Comparison(std::vector<Library> libraries, int ranks);

  // Takes in a line that a library printed (weft-bench --json-lines) and says what it was. An error
  // says what is wrong with it, as that it comes after the run's totals. Figures of a run are kept
  // when its totals have come: those of one that breaks off are not.
  Result<Said> add(size_t library, std::string_view line);
  // A run that gave its totals has ended; the hops tell which runs are alike.
  void end_run(size_t library, const Hops& hops);

  std::vector<Library>& libraries() { return libraries_; }
  const std::vector<Library>& libraries() const { return libraries_; }
  const std::vector<Line>& lines() const { return lines_; }
  int ranks() const { return ranks_; }
  bool has_figures(size_t library) const;
  bool has_wrong(size_t library) const;

  // Runs of the library that has the most of them.
  size_t rounds() const;
  // Runs alike of the library that has the fewest of them, but for libraries that are left out.
  size_t alike_runs() const { return distance_ ? distance_->runs : 0; }
  // Whether figures of a run count: it has ended, and is alike, or no runs are.
  bool counts(size_t library, size_t run) const;
  // Of runs that count; nullopt where there are no figures, or wrong ones.
  std::optional<Summary> summary(const Line& line, size_t library) const;
  // The least of weft's runs that count.
  std::optional<double> floor_us(const Line& line) const;
  std::optional<Best> best_peer(const Line& line) const;

 private:
  Status add_row(size_t library, const nlohmann::ordered_json& row);
  void keep_figures(size_t library);
  Line& line_at(const Point& point);

  std::vector<Library> libraries_;
  int ranks_;
  std::vector<Line> lines_;           // by first appearance
  std::vector<bool> totalled_;        // by library: whether its run has given all its results
  std::optional<Distance> distance_;  // of runs that count
};

}  // namespace weft::bench
