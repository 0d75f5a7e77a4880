#include "bench/options_check.h"

#include "base/files.h"
#include "base/text.h"
#include "plot/gnuplot.h"

namespace weft::bench {

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

// Results are written at the end, each file by itself.
Status check_destinations(const BenchOptions& o) {
  if (!o.plot_file.empty()) WEFT_TRY(check_plot_file(o.plot_file));
  const auto files = destinations(o);
  for (const auto& [flag, file] : files) {
    if (o.cycles == 0)
      return invalid_argument(concat(flag,
                                     ": -N 0 runs until it is stopped, and the file would be ",
                                     "written after that; give -N a number."));
    for (const auto& [other, same] : files)
      if (other != flag && same == file)
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
  const bool more = o.check_prices || !o.peers.empty() || o.explain || !destinations(o).empty();
  if (o.tune && more)
    return invalid_argument(
        "--tune measures the machine and nothing else; leave --check-prices, --vs, --explain, -J, "
        "--plot and --trace out.");
  if (o.check_prices) WEFT_TRY(check_for_prices(o));
  if (o.check_prices && !o.peers.empty())
    return invalid_argument("--check-prices and --vs exclude each other; give one.");
  if (o.explain && !o.peers.empty())
    return invalid_argument("--explain says nothing beside --vs; give one.");
  return {};
}

Status check_writable(const BenchOptions& o) {
  for (const auto& [flag, file] : destinations(o))
    if (const Status status = can_write(file); !status.ok())
      return invalid_argument(std::string(status.message())).within(flag);
  return {};
}

}  // namespace weft::bench
