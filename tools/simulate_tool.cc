#include "tools/simulate_tool.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/files.h"
#include "base/parse.h"
#include "base/text.h"
#include "engine/algorithms/imported.h"
#include "engine/schedule/prove.h"
#include "engine/schedule/trace.h"
#include "engine/tuner/bound.h"
#include "plot/gnuplot.h"
#include "tools/prove.h"
#include "tools/spread.h"
#include "tools/study.h"
#include "tools/usage.h"

namespace weft {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr double kLeastBudget = 1e3, kMostBudget = 1e12;
constexpr int64_t kMostBytes = int64_t{1} << 50;

// A size, or a count, from `at_least` to `at_most`; `what` names the option and what it takes.
Result<int64_t> parse_end(const std::string& what, const std::string& text, int64_t at_least,
                          int64_t at_most) {
  const Result<size_t> size = parse_size(text, static_cast<size_t>(at_most));
  if (size.ok() && static_cast<int64_t>(*size) >= at_least) return static_cast<int64_t>(*size);
  return invalid_argument(concat(what, ": \"", text, "\" is not a number from ", at_least, " to ",
                                 at_most, ", such as 8, 64K or 1M."));
}

Result<double> parse_budget(const std::string& text) {
  double steps = 0;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, steps);
  if (error == std::errc() && read == end && steps >= kLeastBudget && steps <= kMostBudget)
    return steps;  // nor is it no number
  return invalid_argument(
      concat("--budget takes a number of steps from 1000 to 10^12, not \"", text, "\"."));
}

template <class From, class To>
Status store(Result<From> from, To& to) {
  if (!from.ok()) return from.status();
  to = static_cast<To>(from.take());
  return {};
}

using Cell = Study::Cell;
using Row = Study::Row;

Result<Network> network_named(const std::string& text) {
  if (const Network* example = find_example_network(text)) return *example;
  const Result<std::string> file = read_text(text);
  if (!file.ok()) {
    std::string known;
    for (const std::string& name : example_networks()) known.append(" ").append(name);
    return invalid_argument(concat("--topology \"", text,
                                   "\" is no file that can be read, and none "
                                   "of the examples, which are",
                                   known, "."));
  }
  Result<Network> network = network_from_json(*file);
  if (!network.ok()) return network.status().within(text);
  return network;
}

// Files are proven for the counts of ranks that are asked for.
Status prove_file(const std::string& path, const std::vector<int64_t>& ranks) {
  const Result<ScheduleFile> file = read_schedules(path);
  if (!file.ok()) return file.status();
  for (const int64_t n : ranks)
    if (const auto evidence = prove(*file, static_cast<int>(n), kUsualSlots); !evidence.ok())
      return evidence.status().within(path);
  return {};
}

// Algorithms that are not built in are proven for a few ranks, all that a first look can wait for:
// what is wrong there has no price.
Status prove_few(const Algorithm& algorithm, const Study& study) {
  constexpr int kFew = 9;
  ProveScope scope;
  scope.algorithms = std::span(&algorithm, 1);
  scope.kind = study.kind;
  scope.last_ranks = kFew;
  const std::vector<ProveRow> rows = prove_catalog(scope);
  if (rows.empty())
    std::cerr << "weft-schedule: " << algorithm.name << " is not proven: it serves none of 1 to "
              << kFew << " ranks; see weft-schedule verify.\n";
  for (const ProveRow& row : rows)
    if (row.failures > 0) return invalid_argument(row.first_failure);
  return {};
}

bool suits_some(const Algorithm& algorithm, const Study& study) {
  return std::any_of(study.ranks.begin(), study.ranks.end(), [&](int64_t ranks) {
    return algorithm.suits({study.kind, static_cast<int>(ranks), 0, false});
  });
}

// Those that are named, or else all of the shelf that suit.
Status add_algorithms(const std::vector<std::string>& names, Shelf& shelf, Study& study) {
  const bool shared = shares_memory(study.network, static_cast<int>(study.ranks.front()));
  for (const Algorithm& a : shelf.algorithms())
    if (names.empty() && suits_some(a, study) && (!a.windows || shared) && !a.registered &&
        (!a.readable || !study.network.inside.read_rates.empty()))
      study.algorithms.push_back(&a);
  for (const std::string& name : names) {
    const Result<const Algorithm*> algorithm = shelf.named(name);
    if (!algorithm.ok()) return algorithm.status().within("--algorithm");
    if (!suits_some(**algorithm, study))
      return invalid_argument(concat("--algorithm \"", name, "\" does not serve ",
                                     weft::name(study.kind), " of these counts of ranks; ",
                                     what_serves(**algorithm, name, study.kind)));
    if (names_file(name)) WEFT_TRY(prove_file(name, study.ranks));
    if (!names_file(name) && !find_algorithm(name)) WEFT_TRY(prove_few(**algorithm, study));
    auto& all = study.algorithms;
    if (std::find(all.begin(), all.end(), *algorithm) == all.end()) all.push_back(*algorithm);
  }
  return {};
}

Result<Study> study_of(const SimulateArguments& a, Shelf& shelf) {
  Study study;
  const std::optional<Kind> kind = parse_kind(a.kind);
  if (!kind || *kind == Kind::exchange)
    return invalid_argument(concat("--collective \"", a.kind,
                                   "\" is no collective; one is "
                                   "all_reduce, and weft-schedule list names all."));
  study.kind = *kind;
  Result<Network> network = network_named(a.topology);
  if (!network.ok()) return network.status();
  study.network = network.take();
  WEFT_TRY(store(parse_steps("--ranks", a.ranks, a.factor, kMostRanks), study.ranks));
  WEFT_TRY(store(parse_steps("--bytes", a.bytes, a.factor, kMostBytes), study.bytes));
  for (const int64_t ranks : study.ranks) WEFT_TRY(check(study.network, static_cast<int>(ranks)));
  WEFT_TRY(add_algorithms(a.algorithms, shelf, study));
  const auto takes_radix = [](const Algorithm* algorithm) { return algorithm->radix; };
  if (a.radix > 0 && std::ranges::none_of(study.algorithms, takes_radix))
    return invalid_argument(concat("--radix ", a.radix,
                                   " means nothing to any of these algorithms; weft-schedule list "
                                   "says which take one."));
  WEFT_TRY(store(parse_end("--segment", a.segment, 1, kMostBytes), study.trial.segment_bytes));
  WEFT_TRY(store(parse_end("--slot", a.slot, 1, kMostBytes), study.trial.slot_bytes));
  WEFT_TRY(store(parse_budget(a.budget), study.trial.step_budget));
  study.trial.slots = a.slots;
  study.trial.copies = a.lanes;
  if (a.radix > 0) study.trial.parameters.radix = a.radix;
  study.trial.representatives = !a.every_rank;
  return study;
}

constexpr const char* kClearLine = "\x1b[K";

std::string size_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"", "K", "M", "G", "T"};
  int unit = 0;
  while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0) bytes /= 1024, ++unit;
  return concat(bytes, kUnits[unit]);
}

// An algorithm for one count of ranks, or why it has no price there.
struct Player {
  std::optional<Simulation> simulation;
  std::string why_not;
};

Player player_of(const Study& study, const Algorithm& algorithm, int ranks) {
  Trial trial = study.trial;
  trial.algorithm = &algorithm;
  trial.collective = {study.kind, ranks, 0, false};
  if (!algorithm.suits(trial.collective))
    return {{},
            concat("Algorithm ", algorithm.name, " does not serve ", name(study.kind), " of ",
                   ranks, " ranks.")};
  Result<Simulation> made = Simulation::make(trial, study.network);
  if (!made.ok()) return {{}, std::string(made.status().message())};
  return {made.take(), {}};
}

Cell play(const Player& player, int64_t bytes) {
  if (!player.simulation) return {{}, player.why_not};
  const Result<Simulated> simulated = player.simulation->run(static_cast<double>(bytes));
  if (!simulated.ok()) return {{}, std::string(simulated.status().message())};
  return {*simulated, {}};
}

// Adds the rows of one count of ranks, on all cores, and says when each is complete, in order.
template <class Done>
void simulate(Study& study, int ranks, const Done& done) {
  const size_t ways = study.algorithms.size(), first = study.rows.size();
  std::vector<Player> players(ways);
  spread(static_cast<int>(ways), usual_threads(), [&](int i) {
    const auto way = static_cast<size_t>(i);
    players[way] = player_of(study, *study.algorithms[way], ranks);
  });
  const Collective c{study.kind, ranks, 0, false};
  for (const int64_t bytes : study.bytes)
    study.rows.push_back({ranks, bytes, lower_bound(study.network, c, static_cast<double>(bytes)),
                          std::vector<Cell>(ways)});
  const bool tells = ::isatty(STDERR_FILENO) == 1;
  std::mutex mutex;
  std::vector<size_t> missing(study.bytes.size(), ways);  // by row
  size_t complete = 0, played = 0;
  const auto tell = [&] {
    if (tells && played < missing.size() * ways)
      std::cerr << ranks << " ranks, " << played << " of " << missing.size() * ways << " prices ..."
                << std::flush;
  };
  tell();
  spread(static_cast<int>(missing.size() * ways), usual_threads(), [&](int i) {
    const size_t row = static_cast<size_t>(i) / ways, way = static_cast<size_t>(i) % ways;
    Cell cell = play(players[way], study.bytes[row]);
    const std::lock_guard lock(mutex);
    study.rows[first + row].cells[way] = std::move(cell);
    --missing[row];
    if (tells) std::cerr << '\r' << kClearLine << std::flush;
    for (; complete < missing.size() && missing[complete] == 0; ++complete)
      done(study.rows[first + complete]);
    ++played;
    tell();
  });
}

// -- output ---------------------------------------------------------------------------------------

// Behind a blank at least.
std::string padded(const std::string& text, size_t width) {
  return std::string(width > text.size() ? width - text.size() : 1, ' ') + text;
}

std::string micro(double seconds) {
  char text[32];
  const char* const format = seconds < 1e-3 ? "%.2f" : seconds < 1e9 ? "%.0f" : "%.6g";
  std::snprintf(text, sizeof text, format, seconds * 1e6);
  return text;
}

constexpr size_t kSizeWidth = 8;

size_t width_of(const Algorithm& algorithm) {
  return std::max<size_t>(12, algorithm.name.size() + 3);
}

std::string titles(const Study& study, int ranks) {
  std::string text =
      concat("\n", name(study.kind), ", ", ranks, " ranks, network \"", study.network.name, "\", ",
             study.trial.copies, study.trial.copies == 1 ? " lane" : " lanes", ", segments of ",
             size_text(static_cast<int64_t>(study.trial.segment_bytes)),
             ", microseconds; * the fastest, ~ pace not settled yet\n", padded("bytes", kSizeWidth),
             padded("bound", 12));
  for (const Algorithm* a : study.algorithms) text += padded(std::string(a->name), width_of(*a));
  return text + '\n';
}

std::string line(const Study& study, const Row& row) {
  const Cell* best = nullptr;
  for (const Cell& cell : row.cells)
    if (cell.found && (!best || cell.found->seconds < best->found->seconds)) best = &cell;
  std::string text = padded(size_text(row.bytes), kSizeWidth) + padded(micro(row.bound_s), 12);
  for (size_t i = 0; i < row.cells.size(); ++i) {
    const Cell& cell = row.cells[i];
    std::string time = "-";
    if (cell.found) time = (cell.found->settled ? "" : "~") + micro(cell.found->seconds);
    text += padded(time + (&cell == best ? "*" : " "), width_of(*study.algorithms[i]));
  }
  return text + '\n';
}

nlohmann::ordered_json json_of(const Study& study) {
  nlohmann::ordered_json out;
  out["collective"] = name(study.kind);
  out["network"] = nlohmann::ordered_json::parse(to_json(study.network));
  out["segment_bytes"] = study.trial.segment_bytes;
  out["lanes"] = study.trial.copies;
  out["slot_bytes"] = study.trial.slot_bytes;
  out["slots"] = study.trial.slots;
  out["rows"] = nlohmann::ordered_json::array();
  for (const Row& row : study.rows)
    for (size_t i = 0; i < row.cells.size(); ++i) {
      nlohmann::ordered_json cell = {{"ranks", row.ranks},
                                     {"bytes", row.bytes},
                                     {"bound_us", row.bound_s * 1e6},
                                     {"algorithm", study.algorithms[i]->name}};
      if (const auto& found = row.cells[i].found) {
        cell["time_us"] = found->seconds * 1e6;
        cell["ranks_played"] = found->ranks;
        cell["rounds"] = found->rounds;
        cell["rounds_played"] = found->rounds_played;
        cell["settled"] = found->settled;
      } else {
        cell["why_not"] = row.cells[i].why_not;
      }
      out["rows"].push_back(std::move(cell));
    }
  return out;
}

// Each reason once, below the table where it is first of use.
void print_reasons(const std::vector<Row>& rows, std::vector<std::string>& told) {
  for (const Row& row : rows)
    for (const Cell& cell : row.cells) {
      if (cell.found || std::find(told.begin(), told.end(), cell.why_not) != told.end()) continue;
      told.push_back(cell.why_not);
      std::cout << "- " << cell.why_not << '\n';
    }
}

// -- trace ----------------------------------------------------------------------------------------

constexpr size_t kMostTraced = 1'000'000;

// Names of steps are those of the program that was played.
std::vector<TraceEvent> events_of(const std::vector<SimulatedStep>& steps, const Trial& trial,
                                  int ranks) {
  std::vector<Program> programs;
  for (Rank rank = 0; rank < ranks; ++rank) {
    Program program = trial.algorithm->build(trial.collective, rank, trial.parameters);
    programs.push_back(trial.copies > 1 && program.copies == 1
                           ? replicate(std::move(program), trial.copies)
                           : std::move(program));
  }
  std::vector<TraceEvent> events;
  for (const SimulatedStep& s : steps) {
    const Lane& lane = programs[static_cast<size_t>(s.rank)].lanes[static_cast<size_t>(s.lane)];
    const Step& step = lane.steps[static_cast<size_t>(s.step)];
    events.push_back(
        {s.rank, s.lane, concat(name(step), " chunk ", step.chunk), s.round, s.begin_s, s.end_s});
  }
  return events;
}

Status write_trace(const Study& study, const std::string& file) {
  if (study.ranks.size() * study.bytes.size() * study.algorithms.size() != 1)
    return invalid_argument(
        "--trace is of one case: give one --algorithm, one count of --ranks and one of --bytes.");
  Trial trial = study.trial;
  trial.algorithm = study.algorithms[0];
  trial.collective = {study.kind, static_cast<int>(study.ranks[0]), 0, false};
  trial.representatives = false;
  trial.step_budget = std::min<double>(trial.step_budget, kMostTraced);
  const Result<Simulation> simulation = Simulation::make(trial, study.network);
  if (!simulation.ok()) return simulation.status();
  std::vector<SimulatedStep> steps;
  const Result<Simulated> simulated = simulation->run(static_cast<double>(study.bytes[0]), &steps);
  if (!simulated.ok()) return simulated.status();
  return write_text(
      file, to_trace_json(
                events_of(steps, trial, simulated->ranks), TraceKind::simulated,
                concat(trial.algorithm->name, " ", name(study.kind), " of ", study.ranks[0],
                       " ranks, ", study.bytes[0], " bytes, simulated on ", study.network.name)));
}

// Before a long simulation: whether its results can be drawn and written.
Status check_files(const SimulateArguments& arguments, const Study& study,
                   const Environment& environment) {
  if (!arguments.trace.empty()) WEFT_TRY(can_write(arguments.trace).within("--trace"));
  if (arguments.plot.empty()) return {};
  WEFT_TRY(check_plot_file(arguments.plot));
  WEFT_TRY(can_write(arguments.plot).within("--plot"));
  if (study.bytes.size() < 2)
    return invalid_argument("--plot draws time over size: give a range of --bytes, such as 8-1M.");
  return find_gnuplot(environment).status();
}

}  // namespace

Result<std::vector<int64_t>> parse_steps(const std::string& flag, const std::string& text,
                                         int factor, int64_t at_most) {
  const std::string what = flag + " (one, or a range such as 8-64K)";
  const size_t dash = std::min(text.find('-'), text.size());
  const Result<int64_t> first = parse_end(what, text.substr(0, dash), 1, at_most);
  if (!first.ok()) return first.status();
  if (dash == text.size()) return std::vector<int64_t>{*first};
  const Result<int64_t> last = parse_end(what, text.substr(dash + 1), 1, at_most);
  if (!last.ok()) return last.status();
  if (*last < *first) return backwards(flag, text, text.substr(0, dash), text.substr(dash + 1));
  std::vector<int64_t> steps;
  for (int64_t step = *first; step < *last; step *= factor) steps.push_back(step);
  steps.push_back(*last);
  return steps;
}

void add_options(CLI::App& command, SimulateArguments& a) {
  const auto text = [&](const char* name, auto& to, const char* what, const char* type) {
    return command.add_option(name, to, what)->type_name(type)->capture_default_str();
  };
  const auto number = [&](const char* name, int& to, const char* what, int least, int most) {
    return whole_number(command.add_option(name, to, what), least, most);
  };
  text("--collective", a.kind, "all_reduce, broadcast, ...", "KIND");
  command
      .add_option("--algorithm", a.algorithms,
                  "ring,double_tree,... or FILE.json; all that suit by default")
      ->type_name("NAME")
      ->delimiter(',');
  text("--ranks", a.ranks, "8 or 8-65536", "RANGE");
  text("--bytes", a.bytes, "Of the message; 1M or 8-1G", "SIZES");
  number("--factor", a.factor, "From one size, or count, to the next", 2, 1024)
      ->capture_default_str();
  text("--topology", a.topology, "node, nvlink, fat-tree, torus, or a FILE.json", "NAME");
  text("--segment", a.segment, "Bytes of a chunk in a round: with --lanes what large messages need",
       "SIZE");
  text("--slot", a.slot, "Bytes of a link's slot", "SIZE");
  number("--slots", a.slots, "Of a link", 2, 1024)->capture_default_str();
  number("--lanes", a.lanes, "Copies of every lane", 1, 64)->capture_default_str();
  add_radix(command, a.radix);
  text("--budget", a.budget, "Steps to be played at most, per case", "STEPS");
  command.add_flag("--every-rank", a.every_rank, "Play all ranks, not representatives");
  command.add_option("--trace", a.trace, "One case: who did what when, as a file for Perfetto")
      ->type_name("FILE");
  command.add_option("--plot", a.plot, "Time over size, and alpha against beta: FILE.svg or .png")
      ->type_name("FILE");
  one_of(command.add_option("--format", a.format, "How it is printed (table)"), {"table", "json"});
}

int simulate_what_is_asked(const SimulateArguments& arguments, Shelf& shelf) {
  Result<Study> study = study_of(arguments, shelf);
  if (!study.ok()) return fail(study.status());
  const Environment environment = Environment::of_process();
  Status status = check_files(arguments, *study, environment);
  if (status.ok() && !arguments.trace.empty()) status = write_trace(*study, arguments.trace);
  if (!status.ok()) return fail(status);
  if (study->trial.slot_bytes > study->trial.segment_bytes)
    std::cerr << "weft-schedule: no chunk is longer than --segment " << arguments.segment
              << ", so slots of " << arguments.slot << " are used in part only.\n";
  const bool table = arguments.format == "table";
  std::vector<std::string> told;
  for (const int64_t ranks : study->ranks) {
    if (table) std::cout << titles(*study, static_cast<int>(ranks));
    simulate(*study, static_cast<int>(ranks), [&](const Row& row) {
      if (table) std::cout << line(*study, row) << std::flush;
    });
    if (table) print_reasons(study->rows, told);
  }
  if (!table) std::cout << json_of(*study).dump(2) << '\n';
  if (!arguments.plot.empty()) status = draw(chart_of(*study), arguments.plot, environment);
  return status.ok() ? 0 : fail(status);
}

}  // namespace weft
