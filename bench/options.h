// The command line of weft-bench.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/options.h"
#include "base/status.h"
#include "base/types.h"
#include "bench/operation.h"

namespace weft::bench {

enum class Average : uint8_t { rank0, mean, min, max };  // over ranks

struct BenchOptions {
  std::vector<Operation> operations;
  std::vector<DataType> types{DataType::float32};
  std::vector<ReduceOp> ops{ReduceOp::sum};
  int root = 0;  // kAllRoots: every rank in turn
  static constexpr int kAllRoots = -1;

  size_t min_bytes = 4;
  size_t max_bytes = size_t{64} << 20;
  size_t step_bytes = 0;  // > 0: sizes grow by addition
  size_t step_factor = 4;

  int iterations = 0;  // 0: by size, see sweep.h
  int warmup = -1;     // -1: by iterations, see sweep.h
  int calls_per_iteration = 1;
  int cycles = 1;  // 0: until stopped
  Average average = Average::mean;
  int checks = 1;  // checked runs per figure
  bool blocking = true;
  uint64_t seed = 1;
  size_t misalign_bytes = 0;
  bool communicator_buffers = false;  // data in memory that the communicator allocates, not malloc
  size_t digest_elements =
      0;  // > 0: print a hash of that many leading elements instead of checking
  bool floor = true;
  bool one_form = false;  // measure only what other libraries have, too
  // Rows that the library, or the algorithm asked for, cannot do are left out instead of ending the
  // run.
  bool skip_unsupported = false;

  int ranks = 0;  // 0: not given
  int hosts = 1;  // that local ranks pretend to be spread over
  bool threads = false, processes = false;
  // A job over several hosts, on each of which this program is started: where its rank 0 listens
  // ("host:port"), and which of its ranks this one starts. Empty: all, on this host.
  std::string meet;
  int first_here = 0;
  int ranks_here = 0;
  // Data is in GPUs' memory, and calls are enqueued on streams. Rank r has the GPU gpus[r mod
  // size]; empty: all that there are, in turn.
  bool gpu_memory = false;
  std::vector<int> gpus;
  int graph_launches = 0;  // > 0: a figure's calls are a graph, which is launched so often
  bool bind = true;        // local ranks, to a CPU each
  std::string output_file;
  bool json_lines = false;
  bool explain = false;       // print what each choice was made from
  bool tune = false;          // measure the machine instead
  bool force = false;         // and keep what was measured on a busy one
  bool check_prices = false;  // measure every algorithm beside its price instead
  bool prices = false;        // this is a job of such a check
  // A comparison: with which libraries, or programs ("name=path"), in how many rounds.
  std::vector<std::string> peers;
  int rounds = 5;
  std::string plot_file;
  std::string trace_file;

  Options engine;

  std::string help;  // not empty: asked for; print it and end well
  std::vector<std::string> command_line;
};

// `args` without the program's name. An error names the flag, its value and what it accepts. What
// is not given on the command line comes from the environment (WEFT_*), then from the defaults.
Result<BenchOptions> parse_options(std::span<const std::string> args, const Environment& env);

// A command line without some flags: those of `valued` go with their values.
std::vector<std::string> without(std::span<const std::string> command_line,
                                 std::span<const std::string_view> valued,
                                 std::span<const std::string_view> bare);

// And with more of them: in front, as there may be a "--".
std::vector<std::string> with(std::vector<std::string> flags,
                              std::span<const std::string> command_line);

// Ranks of a job that starts its own.
int ranks_to_start(const BenchOptions& options);

}  // namespace weft::bench
