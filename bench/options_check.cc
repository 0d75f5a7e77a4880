#include "bench/options_check.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/files.h"
#include "base/text.h"
#include "plot/gnuplot.h"

namespace weft::bench {

namespace {

// Options of nccl-tests that weft-bench has not.
struct OfNcclTests {
  std::string_view letter, name;
  const char* hint;
};
constexpr const char* kRanks = "how many ranks there are, --ranks N says";
constexpr const char* kNothing =
    "nccl-tests has it, and there is nothing like it here: leave it out";
constexpr OfNcclTests kOfNcclTests[] = {
    {"-g", "--ngpus", kRanks},
    {"-t", "--nthreads", kRanks},
    {"-p", "--parallel_init", kNothing},
    {"-y", "--stream_null", kNothing},
    {"-C", "--report_cputime", kNothing},
    {"-S", "--report_timestamps", kNothing},
    {"-R", "--local_register", kNothing},
    {"-x", "--cta_policy", kNothing},
    {"-D", "--device_implementation", kNothing},
    {"-V", "--device_cta_count", kNothing},
    {"-M", "--memory_report", kNothing},
};

// Whether a word is the option, with its value in one word maybe.
bool is_option(std::string_view word, std::string_view option) {
  if (!word.starts_with(option)) return false;
  const std::string_view rest = word.substr(option.size());
  return rest.empty() || rest[0] == '=' || (rest[0] >= '0' && rest[0] <= '9');
}

}  // namespace

std::string unexpected_here(std::span<const std::string> words) {
  const std::string what = unexpected(words);
  for (const OfNcclTests& option : kOfNcclTests)
    for (const std::string& word : words)
      if (is_option(word, option.letter) || is_option(word, option.name))
        return concat(what, " (", option.hint, ")");
  return what;
}

// What has no meaning where data is in GPUs' memory.
Status check_for_gpus(const BenchOptions& o) {
  const std::pair<bool, const char*> refused[] = {
      {o.communicator_buffers,
       "--buffers communicator: what a communicator allocates is the host's memory"},
      {!o.peers.empty(), "--vs: libraries are compared on the host's memory"},
      {o.tune || o.check_prices || o.prices || o.explain,
       "--tune, --check-prices, --explain: there are no prices for GPUs"},
      {!o.trace_file.empty(), "--trace: what lanes do on a GPU is not noted"},
      {o.blocking && o.graph_launches > 0,
       "-z/--blocking 1 with -G/--cudagraph: nothing waits there"},
  };
  for (const auto& [is, what] : refused)
    if (is) return invalid_argument(concat(what, "; leave that or --device cuda out."));
  return {};
}

std::vector<std::pair<const char*, std::string>> destinations(const BenchOptions& o) {
  std::vector<std::pair<const char*, std::string>> files{
      {"-J/--output_file", o.output_file}, {"--plot", o.plot_file}, {"--trace", o.trace_file}};
  std::erase_if(files, [](const auto& file) { return file.second.empty(); });
  return files;
}

// What is drawn is drawn over size.
Status check_for_plot(const BenchOptions& o) {
  const bool sizes = o.max_bytes > 0 && std::ranges::any_of(o.operations, [](Operation operation) {
                       return operation != Operation::barrier;
                     });
  if (sizes) return check_plot_file(o.plot_file);
  return invalid_argument(
      "--plot draws times over size, and neither barriers nor calls of 0 bytes have one; leave it "
      "out, or give a COLLECTIVE and an -e/--maxbytes that have.");
}

// However it is written.
std::filesystem::path path_of(const std::string& file) {
  std::error_code ignored;  // then it cannot be written to, either
  return std::filesystem::weakly_canonical(std::filesystem::absolute(file, ignored), ignored);
}

// Each file by itself. A picture and a trace are written at the end.
Status check_destinations(const BenchOptions& o) {
  if (!o.plot_file.empty() && !o.tune) WEFT_TRY(check_for_plot(o));
  const auto files = destinations(o);
  for (const auto& [flag, file] : files) {
    if (o.cycles == 0 && file != o.output_file)
      return invalid_argument(concat(flag,
                                     ": -N 0 runs until it is stopped, and the file would be ",
                                     "written after that; give -N a number."));
    if (file == "-")
      return invalid_argument(
          concat(flag, ": \"-\" is no file; --json-lines prints results, and ./- names a file."));
    for (const auto& [other, same] : files)
      if (other != flag && path_of(same) == path_of(file))
        return invalid_argument(
            concat(flag, " and ", other, " are both ", file, "; name two files."));
  }
  return {};
}

// Of --check-prices: it has a loop and a report of its own.
Status check_for_prices(const BenchOptions& o) {
  const BenchOptions usual;
  const std::pair<bool, const char*> refused[] = {
      {!destinations(o).empty(), "-J, --plot, --trace: it only prints"},
      {o.json_lines, "--json-lines: it prints a table"},
      {o.types.size() > 1 || o.ops.size() > 1 || o.root == BenchOptions::kAllRoots,
       "-d, -o, -r: it is for one type, operation and root"},
      {o.communicator_buffers || o.misalign_bytes > 0,
       "--buffers, --misalign: it uses memory from malloc"},
      {o.iterations != usual.iterations || o.warmup != usual.warmup ||
           o.calls_per_iteration != usual.calls_per_iteration || o.cycles != usual.cycles ||
           !o.blocking,
       "-n, -w, -m, -N, -z: how often it measures is --rounds"},
      {o.explain || o.average != usual.average, "--explain, -a: it prints all prices, and means"},
      {o.checks > usual.checks || o.digest_elements > 0, "-c, --digest: it looks at no values"},
      {o.threads || o.hosts > 1 || !o.meet.empty(),
       "--threads, --hosts, --here, --meet: its ranks are processes of this host"},
  };
  for (const auto& [is, what] : refused)
    if (is)
      return invalid_argument(
          concat("--check-prices does not go with ", what, "; leave that or --check-prices out."));
  return {};
}

// What a call of weft-bench is for, and what goes with it.
Status check_purposes(const BenchOptions& o) {
  if (o.check_prices) WEFT_TRY(check_for_prices(o));
  if (o.check_prices && !o.peers.empty())
    return invalid_argument("--check-prices and --vs exclude each other; give one.");
  if (o.force && !o.tune)
    return invalid_argument("--force belongs to --tune; give that, too, or leave it out.");
  if (o.explain && !o.peers.empty())
    return invalid_argument("--explain says nothing beside --vs; give one.");
  return {};
}

// All that it uses is a place for its file.
Status check_for_tune(const BenchOptions& o, const std::vector<std::string>& given) {
  std::string idle;
  for (const std::string& flag : given)
    if (flag != "--tune" && flag != "--tuning" && flag != "--force")
      idle.append(idle.empty() ? "" : ", ").append(flag == "collective" ? "COLLECTIVE" : flag);
  if (!idle.empty())
    return invalid_argument(
        concat("--tune measures the machine and nothing else; leave ", idle, " out."));
  if (o.engine.tuning != "off" || std::ranges::find(given, "--tuning") == given.end()) return {};
  return invalid_argument(
      "--tuning off: with --tune it is where prices are written; give a FILE, or leave it out.");
}

Status keep_one_form(BenchOptions& o) {
  if (!o.one_form && o.peers.empty()) return {};
  std::erase_if(o.operations, [](Operation operation) {
    return info(operation).varying || info(operation).kind == Kind::exchange;
  });
  if (!o.operations.empty()) return {};
  return invalid_argument(
      "COLLECTIVE: v-forms, sends and receives are not compared with other libraries; name "
      "another one, or all.");
}

// What is priced at all.
Status keep_priced(BenchOptions& o) {
  if (!o.check_prices) return {};
  std::erase_if(o.operations, [](Operation operation) {
    const Kind kind = info(operation).kind;
    return info(operation).varying || kind == Kind::exchange || kind == Kind::barrier;
  });
  if (!o.operations.empty()) return {};
  return invalid_argument(
      "COLLECTIVE: --check-prices is for those that are chosen by price; name "
      "another one, or all.");
}

Status check_results(const BenchOptions& o, const Environment& environment) {
  for (const auto& [flag, file] : destinations(o))
    if (const Status status = can_write(file); !status.ok())
      return invalid_argument(std::string(status.message())).within(flag);
  return o.plot_file.empty() ? Status() : find_gnuplot(environment).status();
}

}  // namespace weft::bench
