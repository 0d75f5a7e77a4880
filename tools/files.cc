#include "tools/files.h"

#include <CLI/CLI.hpp>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "base/files.h"
#include "base/text.h"
#include "engine/schedule/prove.h"
#include "engine/schedule/verify.h"
#include "tools/usage.h"

namespace weft {
namespace {

Status write(const std::string& text, const std::string& path) {
  if (path.empty()) {
    std::cout << text << std::flush;
    return std::cout ? Status() : system_error("standard output");
  }
  return write_text(path, text);
}

// The schedule of the in-place form, where that of the other form cannot serve it.
void add_in_place(const Algorithm& algorithm, const Collective& apart, const Parameters& parameters,
                  ScheduleFile& file) {
  Collective c = apart;
  c.in_place = true;
  if (has_root(c.kind) || !algorithm.suits(c)) return;
  const ScheduleFile one{file.name, {}, {file.schedules.back()}};
  const Result<Evidence> evidence = prove(one, 0, kUsualSlots);
  if (evidence.ok() && !evidence->also_in_place.empty()) return;
  file.schedules.push_back(schedule_of(algorithm, c, parameters));
}

void add_kind(const Algorithm& algorithm, Kind kind, int ranks, const Parameters& parameters,
              ScheduleFile& file) {
  for (Rank root = 0; root < (has_root(kind) ? ranks : 1); ++root) {
    const Collective c{kind, ranks, root, false};
    if (!algorithm.suits(c)) continue;
    file.schedules.push_back(schedule_of(algorithm, c, parameters));
    add_in_place(algorithm, c, parameters, file);
  }
}

// Whoever reads a built-in name in a table, or gives it to --algorithm, means another one.
Status check_name(const std::string& name, const Shelf& shelf) {
  if (name != "auto" && !find_algorithm(name, shelf.algorithms())) return {};
  return invalid_argument(
      concat("--name \"", name, "\" is ",
             name == "auto" ? "weft's own choice of an algorithm" : "an algorithm that is built in",
             "; give the file another name."));
}

Result<ScheduleFile> exported(const ExportArguments& args, Shelf& shelf) {
  const Result<const Algorithm*> algorithm = shelf.named(args.algorithm);
  if (!algorithm.ok()) return algorithm.status();
  if ((*algorithm)->registered || (*algorithm)->readable)
    return unsupported(concat("algorithm ", (*algorithm)->name,
                              " runs between callers' own buffers, which a file cannot name."));
  const Result<Parameters> parameters = parameters_of(**algorithm, args.radix);
  if (!parameters.ok()) return parameters.status();
  int first = 0, last = 0;
  WEFT_TRY(parse_range(args.ranks, &first, &last));
  std::optional<Kind> only;
  if (!args.kind.empty()) {
    const Result<Kind> kind = kind_named(args.kind);
    if (!kind.ok()) return kind.status();
    only = *kind;
  }
  ScheduleFile file{std::string((*algorithm)->name), std::string((*algorithm)->summary), {}};
  if (!args.name.empty() && args.name != file.name) WEFT_TRY(check_name(args.name, shelf));
  if (!args.name.empty()) file.name = args.name;
  for (int k = 0; k < kKinds; ++k)
    for (int ranks = first; ranks <= last; ++ranks)
      if (!only || static_cast<Kind>(k) == *only)
        add_kind(**algorithm, static_cast<Kind>(k), ranks, *parameters, file);
  if (!file.schedules.empty()) return file;
  return invalid_argument(concat("Algorithm ", args.algorithm, " does not serve ",
                                 args.kind.empty() ? "any collective" : args.kind, " of ",
                                 args.ranks, " ranks."));
}

std::string evidence_text(const Schedule& schedule, const Evidence& evidence,
                          const VerifyOptions& options) {
  const Proof proof = verify(schedule, options);
  std::ostringstream out;
  out << "proven" << (evidence.also_in_place.empty() ? "" : ", in place too") << "; same bits "
      << yes_no(evidence.same_bits) << ", in rank order " << yes_no(evidence.canonical) << ", hops "
      << proof.counted.hops << ", chunks sent " << proof.counted.chunks_sent << " (bound "
      << std::setprecision(3) << proof.chunks_bound << ')';
  return out.str();
}

// The schedules of all files as one. Each file was read, but together they may serve a call twice.
Result<ScheduleFile> merged(const ImportArguments& args) {
  ScheduleFile all;
  for (const std::string& path : args.files) {
    Result<ScheduleFile> file = read_schedules(path);
    if (!file.ok()) return file.status();
    if (all.name.empty()) all.name = file->name, all.summary = file->summary;
    for (Schedule& schedule : file->schedules) all.schedules.push_back(std::move(schedule));
  }
  if (!args.name.empty()) all.name = args.name;
  if (!args.summary.empty()) all.summary = args.summary;
  return import_schedules(to_json(all), args.files.front());
}

// An empty name is no word left out.
CLI::Option* some_name(CLI::Option* option) {
  const auto why_not = [](std::string& text) {
    return text.empty() ? "it is empty; give a name, or leave the option out" : std::string();
  };
  return option->type_name("NAME")->check(CLI::Validator(why_not, ""));
}

}  // namespace

void add_options(CLI::App& command, ExportArguments& a) {
  command.add_option("--algorithm", a.algorithm, "See list")->required()->type_name("NAME");
  command.add_option("--collective", a.kind, "Only this one; all that it serves by default")
      ->type_name("KIND");
  command.add_option("--ranks", a.ranks, "Such as 2-4, or 8")
      ->type_name("RANGE")
      ->capture_default_str();
  add_radix(command, a.radix);
  some_name(
      command.add_option("--name", a.name, "Of the algorithm in the file; its own by default"));
  command.add_option("-o,--output", a.output, "Standard output by default")->type_name("FILE.json");
}

void add_options(CLI::App& command, ImportArguments& a) {
  command.add_option("files", a.files, "Algorithms, or single schedules, as JSON")
      ->required()
      ->type_name("FILE.json");
  some_name(
      command.add_option("--name", a.name, "Of the algorithm; that of the first file by default"));
  command.add_option("--summary", a.summary, "What it is, and from where")->type_name("TEXT");
  command.add_option("-o,--output", a.output, "Writes all of them as one algorithm")
      ->type_name("FILE.json");
}

int export_algorithm(const ExportArguments& arguments, Shelf& shelf) {
  const Result<ScheduleFile> file = exported(arguments, shelf);
  if (!file.ok()) return fail(file.status());
  const std::string text = to_json(*file);
  const Result<ScheduleFile> back = import_schedules(text, "the file to be written");
  if (!back.ok()) return fail(back.status());
  const Status status = write(text, arguments.output);
  return status.ok() ? 0 : fail(status);
}

int import_files(const ImportArguments& arguments, const Shelf& shelf) {
  if (const Status named = check_name(arguments.name, shelf); !named.ok()) return fail(named);
  const Result<ScheduleFile> file = merged(arguments);
  if (!file.ok()) return fail(file.status());
  if (const int wrong = verify_schedules(*file, {}); wrong != 0) return wrong;
  if (arguments.output.empty()) return 0;
  const Status status = write(to_json(*file), arguments.output);
  return status.ok() ? 0 : fail(status);
}

int verify_schedules(const ScheduleFile& file, const std::vector<int>& asked) {
  const std::vector<int> slots =
      asked.empty() ? std::vector<int>(std::begin(kUsualSlots), std::end(kUsualSlots)) : asked;
  int wrong = 0;
  std::cout << file.name << ": " << list_served(file) << '\n';
  for (const Schedule& schedule : file.schedules) {
    const Result<Evidence> evidence = prove({file.name, {}, {schedule}}, 0, slots);
    wrong += evidence.ok() ? 0 : 1;
    if (evidence.ok())
      std::cout << "  " << describe(schedule.collective) << ": "
                << evidence_text(schedule, *evidence, {.slots = slots[0]}) << std::endl;
    else
      std::cout << "  NOT PROVEN: " << evidence.status().message() << std::endl;
  }
  return wrong > 0 ? 1 : 0;
}

}  // namespace weft
