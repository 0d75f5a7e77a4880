#include "tools/schedule_tool.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <limits>
#include <string>

#include "base/text.h"
#include "engine/algorithms/imported.h"
#include "engine/schedule/json.h"
#include "engine/schedule/picture.h"
#include "engine/schedule/text.h"
#include "tools/files.h"
#include "tools/prove.h"
#include "tools/simulate_tool.h"
#include "tools/spread.h"
#include "tools/usage.h"

namespace weft {
namespace {

struct Arguments {
  std::string kind, algorithm, format = "text", file, ranks_range;
  int ranks = 4;
  Rank root = 0;
  Rank rank = -1;
  int radix = 0;
  int copies = 1;
  int threads = 0;
  bool in_place = false, all = false, sequences = false;
  std::vector<int> slots;
};

// -- list -----------------------------------------------------------------------------------------

// "all_reduce"; "all_gather (ranks 1-2)" where few counts are served; nothing where none is.
std::string served_ranks(const Algorithm& algorithm, Kind kind) {
  constexpr int kUsual = 4;
  if (algorithm.suits({kind, kUsual, 0, false})) return std::string(name(kind));
  const std::string ranks = ranks_served(algorithm, kind);
  return ranks.empty() ? ranks : concat(name(kind), " (ranks ", ranks, ")");
}

int list(const Shelf& shelf) {
  for (const Algorithm& a : shelf.algorithms()) {
    std::cout << a.name << ": " << a.summary << '\n' << "   ";
    for (int k = 0; k < kKinds; ++k)
      if (const std::string served = served_ranks(a, static_cast<Kind>(k)); !served.empty())
        std::cout << ' ' << served;
    std::cout << '\n';
    if (a.radix) std::cout << "    takes a radix\n";
    if (a.windows) std::cout << "    needs windows (all ranks on one host)\n";
    if (a.registered) std::cout << "    needs memory that the communicator allocated\n";
    if (a.readable) std::cout << "    needs ranks that can read each other's memory\n";
    if (a.canonical) std::cout << "    folds in rank order\n";
    if (a.any_counts) std::cout << "    serves counts that differ between ranks\n";
  }
  return 0;
}

// -- show -----------------------------------------------------------------------------------------

Result<Schedule> wanted_schedule(const Arguments& args, Shelf& shelf) {
  const Result<Kind> kind = kind_named(args.kind);
  if (!kind.ok()) return kind.status();
  const Result<const Algorithm*> algorithm = shelf.named(args.algorithm);
  if (!algorithm.ok()) return algorithm.status();
  const Collective c{*kind, args.ranks, args.root, args.in_place};
  if (args.root >= args.ranks || (args.root > 0 && !has_root(*kind)))
    return invalid_argument("--root " + std::to_string(args.root) + " is not possible for " +
                            args.kind + " of " + std::to_string(args.ranks) + " ranks.");
  if (!(*algorithm)->suits(c))
    return invalid_argument("Algorithm " + args.algorithm + " does not serve " + args.kind +
                            " of " + std::to_string(args.ranks) + " ranks" +
                            (args.in_place ? " in place; " : "; ") +
                            what_serves(**algorithm, args.algorithm, *kind));
  const Result<Parameters> parameters = parameters_of(**algorithm, args.radix);
  if (!parameters.ok()) return parameters.status();
  Schedule schedule = schedule_of(**algorithm, c, *parameters);
  for (Program& program : schedule.programs)
    if (args.copies > 1 && program.copies == 1) program = replicate(program, args.copies);
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

int show(const Arguments& args, Shelf& shelf) {
  if (args.rank >= 0 && args.format != "text")
    return fail(invalid_argument("--rank picks one rank of --format text only."));
  const Result<Schedule> schedule = wanted_schedule(args, shelf);
  if (!schedule.ok()) return fail(schedule.status());
  const Result<std::string> text = shown(*schedule, args);
  if (!text.ok()) return fail(text.status());
  std::cout << *text;
  return 0;
}

// -- verify ---------------------------------------------------------------------------------------

// What of the file is asked for: all of it, where nothing is said.
Status keep_asked(const Arguments& args, ScheduleFile& file) {
  int first = 1, last = std::numeric_limits<int>::max();
  if (!args.ranks_range.empty()) WEFT_TRY(parse_range(args.ranks_range, &first, &last));
  const Result<Kind> kind = args.kind.empty() ? Kind{} : kind_named(args.kind);
  if (!kind.ok()) return kind.status();
  const std::string served = list_served(file);
  std::erase_if(file.schedules, [&](const Schedule& schedule) {
    const Collective& c = schedule.collective;
    return c.ranks < first || c.ranks > last || (!args.kind.empty() && c.kind != *kind);
  });
  if (!file.schedules.empty()) return {};
  return invalid_argument(
      concat("The file has no schedule for these ranks and this collective; it has ", served, "."));
}

int verify_file(const std::string& path, const Arguments& args) {
  Result<ScheduleFile> file = read_schedules(path);
  if (!file.ok()) return fail(file.status());
  if (const Status asked = keep_asked(args, *file); !asked.ok()) return fail(asked);
  return verify_schedules(*file, args.slots);
}

Result<ProveScope> scope_of(const Arguments& args, Shelf& shelf) {
  ProveScope scope;
  scope.algorithms = shelf.algorithms();
  const std::string ranks = args.ranks_range.empty() ? "1-9" : args.ranks_range;
  WEFT_TRY(parse_range(ranks, &scope.first_ranks, &scope.last_ranks));
  if (!args.kind.empty()) {
    const Result<Kind> kind = kind_named(args.kind);
    if (!kind.ok()) return kind.status();
    scope.kind = *kind;
  }
  if (!args.algorithm.empty()) {
    const Result<const Algorithm*> algorithm = shelf.named(args.algorithm);
    if (!algorithm.ok()) return algorithm.status();
    scope.algorithm = *algorithm;
  }
  if (!args.slots.empty()) scope.slots = args.slots;
  scope.threads = args.threads > 0 ? args.threads : usual_threads();
  scope.progress = isatty(STDERR_FILENO) == 1;
  return scope;
}

bool serves_some(const Algorithm& algorithm, const ProveScope& scope) {
  for (int k = 0; k < kKinds; ++k)
    for (int ranks = scope.first_ranks; ranks <= scope.last_ranks; ++ranks) {
      const Collective c{static_cast<Kind>(k), ranks, 0, false};
      if ((!scope.kind || *scope.kind == c.kind) && algorithm.suits(c)) return true;
    }
  return false;
}

// Whether there is anything to prove.
Status check_served(const ProveScope& scope) {
  const std::string what =
      concat(scope.kind ? name(*scope.kind) : "any collective", " of ", scope.first_ranks,
             scope.last_ranks > scope.first_ranks ? concat("-", scope.last_ranks) : "", " ranks");
  if (const Algorithm* only = scope.algorithm)
    return serves_some(*only, scope)
               ? Status()
               : invalid_argument(concat("--algorithm ", only->name, " does not serve ", what, "; ",
                                         what_serves(*only, std::string(only->name), scope.kind)));
  if (std::ranges::any_of(scope.algorithms, [&](auto& a) { return serves_some(a, scope); }))
    return {};
  return invalid_argument(
      concat("No algorithm serves ", what, "; weft-schedule list says what each serves."));
}

int verify_catalog(const Arguments& args, Shelf& shelf) {
  const Result<ProveScope> scope = scope_of(args, shelf);
  if (!scope.ok()) return fail(scope.status());
  if (const Status served = check_served(*scope); !served.ok()) return fail(served);
  int proven = 0, failed = 0;
  if (args.all || !args.sequences) {
    const std::vector<ProveRow> rows = prove_catalog(*scope);
    std::cout << to_table(rows, *scope);
    for (const ProveRow& row : rows) proven += row.cases - row.failures, failed += row.failures;
    std::cout << '\n' << proven << " cases proven, " << failed << " failed\n";
  }
  if (args.sequences) {
    const std::vector<SequenceReport> reports = prove_sequences(*scope);
    std::cout << to_table(reports);
    for (const SequenceReport& report : reports) failed += report.failures;
  }
  return failed ? 1 : 0;
}

int verify_what_is_asked(const Arguments& args, Shelf& shelf) {
  const bool of_file = !args.file.empty() || names_file(args.algorithm);
  if (of_file && (args.all || args.sequences))
    return fail(invalid_argument(
        "--all and --sequences are of the algorithms that are built in; a file is verified by "
        "itself, without them."));
  if (!args.file.empty() && !args.algorithm.empty())
    return fail(
        invalid_argument(concat("--algorithm ", args.algorithm, " means nothing beside the file ",
                                args.file, ", which is the algorithm; leave one of them out.")));
  if (args.all && !args.algorithm.empty())
    return fail(invalid_argument(concat("--all is every algorithm, not only --algorithm ",
                                        args.algorithm, "; leave one of them out.")));
  if (of_file) return verify_file(args.file.empty() ? args.algorithm : args.file, args);
  const bool asked = args.all || args.sequences || !args.kind.empty() || !args.algorithm.empty();
  if (!asked)
    return fail(invalid_argument(
        "Say what to verify: a FILE.json, --all, --sequences, --collective or --algorithm."));
  return verify_catalog(args, shelf);
}

void add_show(CLI::App& command, Arguments& args) {
  command.add_option("--collective", args.kind, "all_reduce, broadcast, ...")
      ->required()
      ->type_name("KIND");
  command.add_option("--algorithm", args.algorithm, "See list; or FILE.json")
      ->required()
      ->type_name("NAME");
  whole_number(command.add_option("--ranks", args.ranks, "Of the job")->required(), 1, 1024);
  constexpr int kAny = std::numeric_limits<int>::max();
  whole_number(command.add_option("--root", args.root, "Of a rooted collective (0)"), 0, kAny)
      ->type_name("RANK");
  whole_number(command.add_option("--rank", args.rank, "Only this rank's program (text)"), 0, kAny)
      ->type_name("RANK");
  add_radix(command, args.radix);
  whole_number(command.add_option("--copies", args.copies, "Copies of every lane (1)"), 1, 64);
  command.add_flag("--in-place", args.in_place, "Input and Output are one");
  one_of(command.add_option("--format", args.format, "How it is shown (text)"),
         {"text", "json", "svg", "diagram"});
}

void add_verify(CLI::App& command, Arguments& args) {
  command.add_option("file", args.file, "An algorithm, or a schedule, as JSON")->type_name("FILE");
  command.add_flag("--all", args.all, "Everything in the catalog");
  command.add_flag("--sequences", args.sequences, "Every plan after every plan");
  command.add_option("--ranks", args.ranks_range, "Such as 1-33 (1-9; all of a file)")
      ->type_name("RANGE");
  command.add_option("--collective", args.kind, "Only this one")->type_name("KIND");
  command.add_option("--algorithm", args.algorithm, "Only this one; or FILE.json")
      ->type_name("NAME");
  whole_number(
      command
          .add_option("--slots", args.slots,
                      "Messages of room per link: such as 4, or from the least to the most, 2,64")
          ->delimiter(',')
          ->allow_extra_args(false),
      1, 1024);
  whole_number(
      command.add_option("--threads", args.threads, "As many as there are cores by default"), 1,
      256);
}

}  // namespace

int schedule_tool(int argc, char** argv, std::span<const Algorithm> algorithms) {
  Arguments args;
  SimulateArguments simulation;
  ExportArguments exporting;
  ImportArguments importing;
  CLI::App app("Schedules of collective operations: list, show, verify, simulate, export, import.",
               "weft-schedule");
  app.set_version_flag("--version", "weft-schedule " WEFT_VERSION);
  app.require_subcommand(1);
  auto* list_command = app.add_subcommand("list", "The algorithms and what they serve");
  auto* show_command = app.add_subcommand("show", "One schedule, as text, JSON or a picture");
  auto* verify_command = app.add_subcommand("verify", "Prove schedules, or say what is wrong");
  auto* simulate_command =
      app.add_subcommand("simulate", "What algorithms would cost on a network");
  auto* export_command = app.add_subcommand("export", "An algorithm as a JSON file");
  auto* import_command =
      app.add_subcommand("import", "Prove JSON files, and write them as one algorithm");
  add_show(*show_command, args);
  add_verify(*verify_command, args);
  add_options(*simulate_command, simulation);
  add_options(*export_command, exporting);
  add_options(*import_command, importing);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return say_usage(app, error);
  }
  Shelf shelf(algorithms);
  if (*list_command) return list(shelf);
  if (*show_command) return show(args, shelf);
  if (*verify_command) return verify_what_is_asked(args, shelf);
  if (*simulate_command) return simulate_what_is_asked(simulation, shelf);
  return *export_command ? export_algorithm(exporting, shelf) : import_files(importing, shelf);
}

}  // namespace weft
