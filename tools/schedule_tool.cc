// weft-schedule: lists the algorithms, shows their schedules, proves them, says what they would
// cost.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>

#include "engine/algorithms/algorithm.h"
#include "engine/schedule/json.h"
#include "engine/schedule/picture.h"
#include "engine/schedule/text.h"
#include "engine/schedule/verify.h"
#include "tools/prove.h"
#include "tools/simulate_tool.h"

namespace weft {
namespace {

struct Arguments {
  std::string kind, algorithm, format = "text", file, ranks_range = "1-9";
  int ranks = 4;
  Rank root = 0;
  Rank rank = -1;
  int radix = 2;
  int copies = 1;
  int threads = 0;
  bool in_place = false, all = false, sequences = false;
  std::vector<int> slots;
};

std::string known_algorithms() {
  std::string names;
  for (const Algorithm& a : catalog()) names.append(names.empty() ? "" : ", ").append(a.name);
  return names;
}

Result<Kind> kind_named(const std::string& text) {
  if (const auto kind = parse_kind(text)) return *kind;
  std::string known;
  for (int k = 0; k < kKinds; ++k) known.append(k ? ", " : "").append(name(static_cast<Kind>(k)));
  return invalid_argument("There is no collective \"" + text + "\"; there are " + known + ".");
}

Result<const Algorithm*> algorithm_named(const std::string& text) {
  if (const Algorithm* found = find_algorithm(text)) return found;
  return invalid_argument("There is no algorithm \"" + text + "\"; there are " +
                          known_algorithms() + ".");
}

// "1-33" or "8".
Status parse_range(const std::string& text, int* first, int* last) {
  char dash = 0;
  std::istringstream in(text);
  in >> *first;
  bool good = !in.fail();
  *last = *first;
  if (good && in >> dash) good = dash == '-' && in >> *last && (in >> std::ws).eof();
  if (good && *first >= 1 && *first <= *last && *last <= 1024) return {};
  return invalid_argument("--ranks \"" + text +
                          "\" is no range of rank counts; write one like 1-33 or 8, up to 1024.");
}

int fail(const Status& status) {
  std::cerr << "weft-schedule: " << status.message() << '\n';
  return 2;
}

// -- list -----------------------------------------------------------------------------------------

int list() {
  for (const Algorithm& a : catalog()) {
    std::cout << a.name << ": " << a.summary << '\n' << "   ";
    for (int k = 0; k < kKinds; ++k) {
      const Collective c{static_cast<Kind>(k), 4, 0, false};
      if (a.suits(c)) std::cout << ' ' << name(c.kind);
    }
    std::cout << '\n';
    if (a.radix) std::cout << "    takes a radix\n";
    if (a.windows) std::cout << "    needs windows (all ranks on one host)\n";
    if (a.canonical) std::cout << "    folds in rank order\n";
    if (a.any_counts) std::cout << "    serves counts that differ between ranks\n";
  }
  return 0;
}

// -- show -----------------------------------------------------------------------------------------

Result<Schedule> wanted_schedule(const Arguments& args) {
  const Result<Kind> kind = kind_named(args.kind);
  if (!kind.ok()) return kind.status();
  const Result<const Algorithm*> algorithm = algorithm_named(args.algorithm);
  if (!algorithm.ok()) return algorithm.status();
  const Collective c{*kind, args.ranks, args.root, args.in_place};
  if (args.root >= args.ranks || (args.root > 0 && !has_root(*kind)))
    return invalid_argument("--root " + std::to_string(args.root) + " is not possible for " +
                            args.kind + " of " + std::to_string(args.ranks) + " ranks.");
  if (!(*algorithm)->suits(c))
    return invalid_argument(
        "Algorithm " + args.algorithm + " does not serve " + args.kind + " of " +
        std::to_string(args.ranks) + " ranks" +
        (args.in_place ? " in place; see weft-schedule list." : "; see weft-schedule list."));
  Parameters parameters;
  parameters.radix = args.radix;
  Schedule schedule = schedule_of(**algorithm, c, parameters);
  if (args.copies > 1)
    for (Program& program : schedule.programs) program = replicate(program, args.copies);
  return schedule;
}

Result<std::string> shown(const Schedule& schedule, const Arguments& args) {
  if (args.format == "json") return to_json(schedule);
  if (args.format == "svg") return to_svg(schedule);
  if (args.format == "diagram") return to_diagram(schedule);
  if (args.rank < 0) return to_text(schedule);
  if (args.rank < schedule.collective.ranks) return to_text(schedule, args.rank);
  return invalid_argument("--rank " + std::to_string(args.rank) + " is not among " +
                          std::to_string(schedule.collective.ranks) + " ranks.");
}

int show(const Arguments& args) {
  if (args.rank >= 0 && args.format != "text")
    return fail(invalid_argument("--rank picks one rank of --format text only."));
  const Result<Schedule> schedule = wanted_schedule(args);
  if (!schedule.ok()) return fail(schedule.status());
  const Result<std::string> text = shown(*schedule, args);
  if (!text.ok()) return fail(text.status());
  std::cout << *text;
  return 0;
}

// -- verify ---------------------------------------------------------------------------------------

int verify_file(const Arguments& args) {
  std::ifstream in(args.file);
  if (!in) return fail(system_error(args.file));
  std::stringstream text;
  text << in.rdbuf();
  const Result<Schedule> schedule = from_json(text.str());
  if (!schedule.ok()) return fail(schedule.status().within(args.file));
  const std::vector<int> all_slots = args.slots.empty() ? std::vector<int>{2, 3, 8} : args.slots;
  for (const int slots : all_slots) {
    const Proof proof = verify(*schedule, {.slots = slots});
    if (!proof.status.ok()) {
      std::cout << "not proven with " << slots << " slots: " << proof.status.message() << '\n';
      return 1;
    }
    std::cout << "proven with " << slots << " slots: same bits on all ranks "
              << (proof.same_bits ? "yes" : "no") << ", in rank order "
              << (proof.canonical ? "yes" : "no") << ", hops " << proof.counted.hops << " (bound "
              << proof.hops_bound << "), chunks sent " << proof.counted.chunks_sent << " (bound "
              << std::setprecision(3) << proof.chunks_bound << ")\n";
  }
  return 0;
}

Result<ProveScope> scope_of(const Arguments& args) {
  ProveScope scope;
  WEFT_TRY(parse_range(args.ranks_range, &scope.first_ranks, &scope.last_ranks));
  if (!args.kind.empty()) {
    const Result<Kind> kind = kind_named(args.kind);
    if (!kind.ok()) return kind.status();
    scope.kind = *kind;
  }
  if (!args.algorithm.empty()) {
    const Result<const Algorithm*> algorithm = algorithm_named(args.algorithm);
    if (!algorithm.ok()) return algorithm.status();
    scope.algorithm = *algorithm;
  }
  if (!args.slots.empty()) scope.slots = args.slots;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  scope.threads = args.threads > 0 ? args.threads : std::max(1, cores);
  scope.progress = isatty(STDERR_FILENO) == 1;
  return scope;
}

int verify_catalog(const Arguments& args) {
  const Result<ProveScope> scope = scope_of(args);
  if (!scope.ok()) return fail(scope.status());
  int proven = 0, failed = 0;
  if (args.all || !args.sequences) {
    const std::vector<ProveRow> rows = prove_catalog(*scope);
    std::cout << to_table(rows, *scope);
    for (const ProveRow& row : rows) proven += row.cases - row.failures, failed += row.failures;
    if (rows.empty()) return fail(invalid_argument("No algorithm serves that collective."));
    std::cout << '\n' << proven << " cases proven, " << failed << " failed\n";
  }
  if (args.sequences) {
    const std::vector<SequenceReport> reports = prove_sequences(*scope);
    std::cout << to_table(reports);
    for (const SequenceReport& report : reports) failed += report.failures;
    if (reports.empty()) return fail(invalid_argument("No algorithm serves that collective."));
  }
  return failed ? 1 : 0;
}

int verify_what_is_asked(const Arguments& args) {
  if (!args.file.empty()) return verify_file(args);
  const bool asked = args.all || args.sequences || !args.kind.empty() || !args.algorithm.empty();
  if (!asked)
    return fail(invalid_argument(
        "Say what to verify: a FILE.json, --all, --sequences, --collective or --algorithm."));
  return verify_catalog(args);
}

int run(int argc, char** argv) {
  Arguments args;
  CLI::App app("Schedules of collective operations: list, show, verify, simulate.",
               "weft-schedule");
  app.require_subcommand(1);
  auto* list_command = app.add_subcommand("list", "The algorithms and what they serve");
  auto* show_command = app.add_subcommand("show", "One schedule, as text, JSON or a picture");
  show_command->add_option("--collective", args.kind, "all_reduce, broadcast, ...")->required();
  show_command->add_option("--algorithm", args.algorithm, "See list")->required();
  show_command->add_option("--ranks", args.ranks)->required()->check(CLI::Range(1, 1024));
  show_command->add_option("--root", args.root)->check(CLI::NonNegativeNumber);
  show_command->add_option("--rank", args.rank, "Only this rank's program (text)")
      ->check(CLI::NonNegativeNumber);
  show_command->add_option("--radix", args.radix)->check(CLI::Range(2, 1024));
  show_command->add_option("--copies", args.copies, "Copies of every lane")
      ->check(CLI::Range(1, 64));
  show_command->add_flag("--in-place", args.in_place);
  show_command->add_option("--format", args.format)
      ->check(CLI::IsMember({"text", "json", "svg", "diagram"}));
  auto* verify_command = app.add_subcommand("verify", "Prove schedules, or say what is wrong");
  verify_command->add_option("file", args.file, "A schedule as JSON");
  verify_command->add_flag("--all", args.all, "Everything in the catalog");
  verify_command->add_flag("--sequences", args.sequences, "Every plan after every plan");
  verify_command->add_option("--ranks", args.ranks_range, "Such as 1-33");
  verify_command->add_option("--collective", args.kind, "Only this one");
  verify_command->add_option("--algorithm", args.algorithm, "Only this one");
  verify_command->add_option("--slots", args.slots, "Messages of room per link, such as 2,3,8")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  verify_command->add_option("--threads", args.threads)->check(CLI::Range(1, 256));
  SimulateArguments simulation;
  auto* simulate_command =
      app.add_subcommand("simulate", "What algorithms would cost on a network");
  add_options(*simulate_command, simulation);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (*list_command) return list();
  if (*simulate_command) return simulate_what_is_asked(simulation);
  return *show_command ? show(args) : verify_what_is_asked(args);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) { return weft::run(argc, argv); }
