#include "bench/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/parse.h"
#include "base/text.h"
#include "bench/options_check.h"

namespace weft::bench {
namespace {

constexpr size_t kMaxBytes = std::numeric_limits<size_t>::max() / 64;
constexpr size_t kMaxSizes = 1'000'000;  // of a sweep
constexpr int kMaxRanks = 1 << 16;
constexpr int kDefaultRanks = 2;
constexpr std::string_view kBufferWords[] = {"malloc", "communicator"};

constexpr const char* kFooter = R"(
Sizes are bytes and accept K, M, G. Ranks: a process that mpirun, srun or torchrun started joins that
job; else --ranks local processes are started, or, where weft-bench is called on several hosts with
--ranks N --meet HOST:PORT, those of N that --here names. size and busbw are as in nccl-tests: size is the whole
message, for all_gather, reduce_scatter, gather, scatter and all_to_all the blocks of all ranks.

floor is what this machine could do at best, measured at the start of the run:
  max(hop, bytes / rate), where for shared memory
    hop    half a round trip of a flag between two cores
    bytes  (bytes that all ranks must read + bytes that they must write) / 2
    rate   memory copied per second by all cores in use, at this working set
  and for tcp on one host
    hop    half a round trip of one byte over a loopback connection
    bytes  bytes that must leave some rank
    rate   bytes per second over loopback connections that use all cores, the ends of each on one
           core or on two, whatever is faster
The hop counts where ranks need each other's data. Where it goes one way only (broadcast, reduce,
gather, scatter), a rank may be in a later call than another one, and calls overlap.
Between machines no floor is given, nor for what goes over both shm and tcp; hosts that --hosts
plays are one machine. With --device cuda it is, of the GPU that takes longest, bytes / rate:
    bytes  (bytes that its ranks must read + bytes that they must write) / 2
    rate   bytes copied per second within its memory
  and where each rank has a GPU of its own, if that is more, bytes / ranks / rate:
    bytes  bytes that must leave some rank
    rate   bytes copied per second from one GPU to all others

Exit status: 0 all right, 1 wrong values, 2 wrong arguments, 3 the run failed.)";

// Flags as text; each is parsed by parse_options with an error of ours.
struct Flags {
  std::string operations = "all_reduce";
  std::string min_bytes, max_bytes, step_bytes, step_factor;
  std::string op = "sum", type = "float32";
  std::string iterations, warmup, calls, cycles, average, checks, root, blocking;
  std::string timeout, ranks, hosts, here, transport, algorithm, protocol, lanes, chunk, slot,
      slots, radix, window, rounds;
  std::string tuning, price_job;
  std::string device = "cpu", gpus, graph_launches, buffers = "malloc", seed, misalign, digest;
  bool threads = false, processes = false, no_bind = false, no_floor = false, deterministic = false;
};

void declare_sweep(CLI::App& app, Flags& f) {
  app.add_option("collective", f.operations, "what to measure, or all; a comma separates several");
  app.add_option("-b,--minbytes", f.min_bytes, "smallest message (4)")->type_name("SIZE");
  app.add_option("-e,--maxbytes", f.max_bytes, "largest message (64M)")->type_name("SIZE");
  app.add_option("-i,--stepbytes", f.step_bytes, "grow by this many bytes")->type_name("SIZE");
  app.add_option("-f,--stepfactor", f.step_factor, "grow by this factor (4)")->type_name("N");
  app.add_option("-n,--iters", f.iterations, "timed iterations (by size: 20 to 2000 / ranks)")
      ->type_name("N");
  app.add_option("-w,--warmup_iters", f.warmup,
                 "iterations before timing (a fifth of the timed ones, 5 at least)")
      ->type_name("N");
  app.add_option("-m,--agg_iters", f.calls, "calls per iteration (1)")->type_name("N");
  app.add_option("-N,--run_cycles", f.cycles, "repeat the whole sweep; 0: until stopped (1)")
      ->type_name("N");
  app.add_option("-a,--average", f.average, "time over ranks: 0 rank 0, 1 mean, 2 min, 3 max (1)")
      ->type_name("0-3");
  app.add_option("-c,--check", f.checks, "checked runs per figure; 0: none (1)")->type_name("N");
  app.add_option("-o,--op", f.op, "reduction, all, or a list (sum)")->type_name("OP");
  app.add_option("-d,--datatype", f.type, "element type, all, or a list (float32)")
      ->type_name("TYPE");
  app.add_option("-r,--root", f.root, "root rank, or all (0)")->type_name("RANK");
  app.add_option("--buffers", f.buffers,
                 "whose memory the data is in: malloc, or communicator (Communicator::allocate; "
                 "with --vs, weft's only) (malloc)")
      ->type_name("NAME");
  app.add_option(
         "-z,--blocking", f.blocking,
         "1: blocking calls; 0: start the calls of an iteration, then wait (1). With --device "
         "cuda calls are enqueued; 1: wait after each iteration, 0: once for a figure's (0)")
      ->type_name("0|1");
}

void declare_run(CLI::App& app, Flags& f, BenchOptions& options) {
  app.add_option("-J,--output_file", options.output_file, "write the results as JSON")
      ->type_name("FILE");
  app.add_flag("--json-lines", options.json_lines,
               "print what -J writes a line at a time, as it comes, instead of the table");
  app.add_option("--vs", options.peers,
                 "compare with these libraries, side by side: openmpi, mpich, gloo, or all of them "
                 "(all); NAME=PROGRAM: anything that takes and prints what weft-bench does")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIBRARY,...");
  app.add_option("--rounds", f.rounds, "with --vs, --check-prices: measurements of each (5)")
      ->type_name("N");
  app.add_option("--plot", options.plot_file, "draw time and busbw over size (gnuplot)")
      ->type_name("FILE.svg");
  app.add_option("--trace", options.trace_file,
                 "write what each lane of each rank did in a call of each size, for Perfetto")
      ->type_name("FILE.json");
  app.add_option("-T,--timeout", f.timeout, "seconds a call may take (300)")->type_name("SECONDS");
  app.add_option("--ranks", f.ranks, "ranks to start (2)")->type_name("N");
  app.add_option("--here", f.here, "which of them this host starts: FIRST-LAST; needs --meet")
      ->type_name("RANKS");
  app.add_option("--meet", options.meet, "where rank 0's host can be reached, with a free port")
      ->type_name("HOST:PORT");
  app.add_flag("--no-bind", f.no_bind, "leave local ranks to the scheduler");
  app.add_flag("--threads", f.threads,
               "ranks are threads of one process; the default where they share a GPU");
  app.add_flag("--processes", f.processes, "ranks are processes, even so")->excludes("--threads");
  app.add_option("--hosts", f.hosts, "local ranks play this many hosts (1)")->type_name("N");
  app.add_flag("--tune", options.tune,
               "measure this machine's links and kernels, keep the prices for all jobs, and end");
  app.add_flag("--force", options.force, "with --tune: keep what a busy machine gave, too");
  app.add_flag("--check-prices", options.check_prices,
               "measure this machine, then every algorithm beside its price, and say how many "
               "prices and choices are good; over shm and tcp on 2 and 4 ranks, or as --transport "
               "and --ranks say");
  app.add_option("--price-job", f.price_job, "what --check-prices starts")->group("");
  app.add_flag("--explain", options.explain,
               "print below each row what the choice was made from, and how far prices are off");
  app.add_option("--device", f.device, "where the data is: cpu, or cuda: in GPUs' memory (cpu)")
      ->type_name("NAME");
  app.add_option("--gpus", f.gpus,
                 "with --device cuda: the GPUs that ranks have in turn, as 0,0,1 (all there are)")
      ->type_name("N,...");
  app.add_option(
         "-G,--cudagraph", f.graph_launches,
         "with --device cuda: capture the calls of a figure into a graph and launch that so "
         "often; 0: no graphs (0)")
      ->type_name("N");
  app.add_option("--seed", f.seed, "of inputs, uneven counts and orders (1)")->type_name("N");
  app.add_option("--misalign", f.misalign, "shift all buffers by this many bytes (0)")
      ->type_name("BYTES");
  app.add_option(
         "--digest", f.digest,
         "hash the first N elements of the output, from inputs that need rounding and depend "
         "only on seed, rank and element; no check")
      ->type_name("N");
  app.add_flag(
      "--one-form", options.one_form,
      "measure what other libraries have, too: a broadcast in place, everything else out of "
      "place, no v-forms, no sends and receives");
  app.add_flag("--no-floor", f.no_floor, "do not measure what the machine could do");
}

void declare_engine(CLI::App& app, Flags& f) {
  app.add_option("--transport", f.transport, "auto, shm, tcp, verbs, shm+tcp, verbs+tcp")
      ->type_name("NAME");
  app.add_option("--algorithm", f.algorithm,
                 "auto, one that weft-schedule list names, or a file that holds one (my.json)")
      ->type_name("NAME");
  app.add_option("--protocol", f.protocol, "auto, ll, simple")->type_name("NAME");
  app.add_option("--tuning", f.tuning,
                 "prices to choose by: auto (those that --tune left, if any), off, or a file")
      ->type_name("FILE");
  app.add_option("--lanes", f.lanes, "copies of an algorithm's lanes; 0 chooses")->type_name("N");
  app.add_option("--chunk", f.chunk, "bytes of a chunk in one round; 0 chooses")->type_name("SIZE");
  app.add_option("--slot", f.slot, "bytes of a link's slot; 0 chooses")->type_name("SIZE");
  app.add_option("--slots", f.slots, "slots of a link; 0 chooses")->type_name("N");
  app.add_option("--radix", f.radix, "of algorithms that take one; 0 chooses")->type_name("N");
  app.add_option("--window", f.window, "bytes of a rank's window; 0 chooses")->type_name("SIZE");
  app.add_flag("--deterministic", f.deterministic, "only schedules that reduce in rank order");
}

std::string accepted_operations() {
  std::string text = "all";
  for (const OperationInfo& entry : operations()) text.append(", ").append(entry.name);
  return text;
}

template <class T, int kCount>
std::string accepted_names() {
  std::string text = "all";
  for (int i = 0; i < kCount; ++i) text.append(", ").append(weft::name(static_cast<T>(i)));
  return text;
}

std::optional<ReduceOp> parse_op(std::string_view text) {
  return parse_reduce_op(text == "mulsum" ? "premulsum" : text);  // nccl-tests' name
}

// A comma-separated list of names, or "all" by itself.
template <class T, class Parse>
Status store_list(const char* flag, const std::string& text, int count, Parse parse,
                  const std::string& accepted, std::vector<T>& list) {
  list.clear();
  if (text == "all") {
    for (int i = 0; i < count; ++i) list.push_back(static_cast<T>(i));
    return {};
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (word == "all")
      return invalid_argument(
          concat(flag, ": \"", text, "\": all stands alone; leave it or the others out."));
    const std::optional<T> value = parse(word);
    if (!value)
      return invalid_argument(concat(flag, ": \"", word, "\" is not one of ", accepted, "."));
    list.push_back(*value);
    begin = end + 1;
  }
  return {};
}

template <class T, class From>
Status store(const char* flag, const Result<From>& from, T& value) {
  if (!from.ok()) return from.status().within(flag);
  value = static_cast<T>(*from);
  return {};
}

template <class T>
Status store_int(const char* flag, const std::string& text, int64_t at_least, int64_t at_most,
                 T& value) {
  return text.empty() ? Status() : store(flag, parse_int(text, at_least, at_most), value);
}

Status store_several(const char* flag, const std::string& text, int& value) {
  constexpr int kMost = 1 << 16;
  return text.empty() ? Status() : store(flag, parse_several(text, kMost), value);
}

Status store_bytes(const char* flag, const std::string& text, size_t at_most, size_t& value) {
  return text.empty() ? Status() : store(flag, parse_size(text, at_most), value);
}

Status store_word(const char* flag, const std::string& text,
                  std::span<const std::string_view> accepted, std::string& value) {
  return text.empty() ? Status() : store(flag, parse_word(text, accepted), value);
}

Status store_sizes(const Flags& f, BenchOptions& o) {
  WEFT_TRY(store_bytes("-b/--minbytes", f.min_bytes, kMaxBytes, o.min_bytes));
  WEFT_TRY(store_bytes("-e/--maxbytes", f.max_bytes, kMaxBytes, o.max_bytes));
  WEFT_TRY(store_bytes("-i/--stepbytes", f.step_bytes, kMaxBytes, o.step_bytes));
  WEFT_TRY(store_int("-f/--stepfactor", f.step_factor, 2, 1 << 30, o.step_factor));
  if (f.max_bytes.empty()) o.max_bytes = std::max(o.max_bytes, o.min_bytes);
  if (f.min_bytes.empty()) o.min_bytes = std::min(o.max_bytes, o.min_bytes);
  if (o.min_bytes > o.max_bytes)
    return invalid_argument(concat("-b/--minbytes ", f.min_bytes, " is more than -e/--maxbytes ",
                                   f.max_bytes, "; give a larger -e."));
  if (!f.step_bytes.empty() && o.step_bytes == 0)
    return invalid_argument("-i/--stepbytes: 0 would never reach -e/--maxbytes; give 1 or more.");
  if (!f.step_bytes.empty() && !f.step_factor.empty())
    return invalid_argument("-i/--stepbytes and -f/--stepfactor exclude each other; give one.");
  if (o.step_bytes > 0 && (o.max_bytes - o.min_bytes) / o.step_bytes >= kMaxSizes)
    return invalid_argument(concat("-i/--stepbytes: from ", o.min_bytes, " to ", o.max_bytes,
                                   " bytes, steps of ", o.step_bytes, " are more than ", kMaxSizes,
                                   " sizes; give -i ", (o.max_bytes - o.min_bytes) / kMaxSizes + 1,
                                   " or more."));
  return {};
}

Status store_root(const Flags& f, BenchOptions& o) {
  if (f.root == "all" || f.root == "-1") {
    o.root = BenchOptions::kAllRoots;
    return {};
  }
  return store_int("-r/--root (a rank, or all)", f.root, 0, kMaxRanks - 1, o.root);
}

Status store_measure(const Flags& f, BenchOptions& o) {
  constexpr int kMany = 1 << 30;
  WEFT_TRY(store_int("-n/--iters", f.iterations, 1, kMany, o.iterations));
  WEFT_TRY(store_int("-w/--warmup_iters", f.warmup, 0, kMany, o.warmup));
  WEFT_TRY(store_int("-m/--agg_iters", f.calls, 1, 1 << 16, o.calls_per_iteration));
  WEFT_TRY(store_int("-N/--run_cycles", f.cycles, 0, kMany, o.cycles));
  WEFT_TRY(store_int("-a/--average", f.average, 0, 3, o.average));
  WEFT_TRY(store_int("-c/--check", f.checks, 0, kMany, o.checks));
  WEFT_TRY(store_int("-z/--blocking", f.blocking, 0, 1, o.blocking));
  WEFT_TRY(store_root(f, o));
  WEFT_TRY(store_int("--seed", f.seed, 0, std::numeric_limits<int64_t>::max(), o.seed));
  WEFT_TRY(store_int("--misalign", f.misalign, 0, 4096, o.misalign_bytes));
  std::string buffers;
  WEFT_TRY(store_word("--buffers", f.buffers, kBufferWords, buffers));
  o.communicator_buffers = buffers == "communicator";
  WEFT_TRY(store_int("--digest", f.digest, 1, int64_t{1} << 40, o.digest_elements));
  if (o.digest_elements > 0 && !f.checks.empty() && o.checks > 0)
    return invalid_argument(concat(
        "--digest hashes values and checks none; leave it or -c/--check ", f.checks, " out."));
  if (o.digest_elements > 0) o.checks = 0;
  o.floor = !f.no_floor;
  return {};
}

Status store_engine(const Flags& f, Options& o) {
  WEFT_TRY(store_word("--transport", f.transport, kTransportWords, o.transport));
  WEFT_TRY(store_word("--protocol", f.protocol, kProtocolWords, o.protocol));
  if (!f.algorithm.empty()) o.algorithm = f.algorithm;
  if (!f.tuning.empty()) o.tuning = f.tuning;
  WEFT_TRY(store_int("--lanes", f.lanes, 0, kLanesMax, o.lanes));
  WEFT_TRY(store_several("--slots", f.slots, o.slots));
  WEFT_TRY(store_several("--radix", f.radix, o.radix));
  WEFT_TRY(store_bytes("--chunk", f.chunk, kSlotBytesMax, o.chunk_bytes));
  WEFT_TRY(store_bytes("--slot", f.slot, kSlotBytesMax, o.slot_bytes));
  WEFT_TRY(store_bytes("--window", f.window, kWindowBytesMax, o.window_bytes));
  if (!f.timeout.empty()) WEFT_TRY(store("-T/--timeout", parse_seconds(f.timeout), o.timeout_s));
  if (f.deterministic) o.deterministic = true;
  return validate(o);
}

// "2-3", or "2": ranks of this host in a job over several.
Status store_here(const Flags& f, BenchOptions& o) {
  if (f.here.empty() != o.meet.empty())
    return invalid_argument(
        "--here and --meet go together: on each host give --ranks N (of the whole job), --here "
        "FIRST-LAST (those of this host) and --meet HOST:PORT (the host of rank 0).");
  if (f.here.empty()) return {};
  if (o.threads || o.hosts > 1 || o.ranks == 0)
    return invalid_argument(
        "--here needs --ranks, and neither --threads nor --hosts: it starts its part of the "
        "--ranks N of a job over several hosts as processes.");
  const size_t dash = std::min(f.here.find('-'), f.here.size());
  const std::string last = dash == f.here.size() ? f.here : f.here.substr(dash + 1);
  int last_here = 0;
  constexpr const char* kFlag = "--here (FIRST-LAST, ranks of the job)";
  WEFT_TRY(store(kFlag, parse_int(f.here.substr(0, dash), 0, o.ranks - 1), o.first_here));
  if (parse_int(last, 0, o.first_here - 1).ok())
    return invalid_argument(concat("--here: \"", f.here, "\" ends before it begins; write ", last,
                                   "-", o.first_here, "."));
  WEFT_TRY(store(kFlag, parse_int(last, o.first_here, o.ranks - 1), last_here));
  o.ranks_here = last_here - o.first_here + 1;
  const size_t colon = o.meet.rfind(':');
  if (colon == std::string::npos || colon == 0)
    return invalid_argument(concat("--meet: \"", o.meet, "\" has no ", colon == 0 ? "host" : "port",
                                   "; give HOST:PORT, the same on all hosts."));
  int port = 0;
  return store("--meet (HOST:PORT, the same on all hosts)",
               parse_int(o.meet.substr(colon + 1), 1, 65535), port);
}

Status store_device(const Flags& f, BenchOptions& o) {
  constexpr std::string_view kDevices[] = {"cpu", "cuda"};
  std::string device;
  WEFT_TRY(store("--device", parse_word(f.device, kDevices), device));
  o.gpu_memory = device == "cuda";
  WEFT_TRY(store_int("-G/--cudagraph", f.graph_launches, 0, 1 << 20, o.graph_launches));
  if (!o.gpu_memory) {
    if (o.graph_launches > 0)
      return invalid_argument("-G/--cudagraph is for calls on GPUs; give --device cuda, too.");
    if (f.gpus.empty()) return {};
    return invalid_argument("--gpus says which GPUs ranks have; give --device cuda, too.");
  }
  if (f.blocking.empty()) o.blocking = false;
  const auto parse = [](const std::string& word) {
    const Result<int64_t> number = parse_int(word, 0, 1 << 16);
    return number.ok() ? std::optional(static_cast<int>(*number)) : std::nullopt;
  };
  if (!f.gpus.empty())
    WEFT_TRY(store_list("--gpus", f.gpus, 0, parse, "all, 0, 1, ... (numbers of GPUs)", o.gpus));
  return check_for_gpus(o);
}

Status store_ranks(const Flags& f, BenchOptions& o) {
  WEFT_TRY(store_int("--ranks", f.ranks, 1, kMaxRanks, o.ranks));
  WEFT_TRY(store_int("--hosts", f.hosts, 1, kMaxRanks, o.hosts));
  o.threads = f.threads;
  o.processes = f.processes;
  o.bind = !f.no_bind;
  WEFT_TRY(store_here(f, o));
  return store_device(f, o);
}

Status store_comparison(const Flags& f, BenchOptions& o) {
  WEFT_TRY(store_int("--rounds", f.rounds, 1, 1000, o.rounds));
  if (o.peers.empty()) {
    if (f.rounds.empty() || o.check_prices || o.prices) return {};
    return invalid_argument("--rounds belongs to a comparison; give --vs or --check-prices, too.");
  }
  if (o.threads || o.hosts > 1 || !o.meet.empty() || !o.blocking || o.digest_elements > 0 ||
      o.cycles != 1 || !o.trace_file.empty())
    return invalid_argument(
        "--vs compares blocking calls between processes of this host; leave --threads, --hosts, "
        "--here, --meet, --digest, --trace, -z 0 and -N out (--rounds says how often to measure).");
  return {};
}

Status store_all(const Flags& f, BenchOptions& o) {
  o.prices = !f.price_job.empty();
  WEFT_TRY(store_list("COLLECTIVE", o.prices ? f.price_job : f.operations,
                      static_cast<int>(operations().size()), parse_operation, accepted_operations(),
                      o.operations));
  WEFT_TRY(store_list("-d/--datatype", f.type, kDataTypes, parse_data_type,
                      accepted_names<DataType, kDataTypes>(), o.types));
  WEFT_TRY(store_list("-o/--op", f.op, kReduceOps, parse_op, accepted_names<ReduceOp, kReduceOps>(),
                      o.ops));
  WEFT_TRY(store_sizes(f, o));
  WEFT_TRY(store_measure(f, o));
  WEFT_TRY(store_engine(f, o.engine));
  WEFT_TRY(keep_one_form(o));
  WEFT_TRY(keep_priced(o));
  const bool bound = o.engine.algorithm != "auto" || o.engine.protocol != "auto";
  o.skip_unsupported = bound && o.operations.size() > 1;
  WEFT_TRY(store_ranks(f, o));
  WEFT_TRY(check_destinations(o));
  WEFT_TRY(check_purposes(o));
  return store_comparison(f, o);
}

// The flags of a command line, as "-J/--output_file", and "collective".
std::vector<std::string> given(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    std::string name;
    for (const std::string& letter : option->get_snames()) name.append(concat("-", letter, "/"));
    for (const std::string& word : option->get_lnames()) name.append(concat("--", word));
    names.push_back(name.empty() ? option->get_name(true) : name);
  }
  return names;
}

}  // namespace

Result<BenchOptions> parse_options(std::span<const std::string> args, const Environment& env) {
  Result<Options> engine = options_from(env);
  if (!engine.ok()) return engine.status();
  BenchOptions options;
  options.engine = engine.take();
  options.command_line.assign(args.begin(), args.end());

  CLI::App app("Measures and checks collectives between ranks.", "weft-bench");
  app.set_version_flag("--version", "weft-bench " WEFT_VERSION);
  Flags flags;
  declare_sweep(app, flags);
  declare_run(app, flags, options);
  declare_engine(app, flags);
  app.footer(concat("Collectives: ", accepted_operations(), ".\n", kFooter));
  const CLI::Validator something(
      [](std::string& value) { return value.empty() ? "an empty value says nothing" : ""; }, "");
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0) option->check(something);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    options.help = app.help();
    return options;
  } catch (const CLI::CallForVersion&) {
    options.help = concat(app.version(), "\n");
    return options;
  } catch (const CLI::ParseError& error) {
    const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    const std::string what = extras ? unexpected_here(app.remaining()) : error.what();
    return invalid_argument(concat(what, ". weft-bench --help lists what there is."));
  }
  WEFT_TRY(store_all(flags, options));
  if (options.tune) WEFT_TRY(check_for_tune(options, given(app)));
  return options;
}

std::vector<std::string> without(std::span<const std::string> command_line,
                                 std::span<const std::string_view> valued,
                                 std::span<const std::string_view> bare) {
  const auto among = [](std::span<const std::string_view> flags, std::string_view word) {
    return std::find(flags.begin(), flags.end(), word) != flags.end();
  };
  const auto short_with_value = [&](std::string_view word) {
    return word.size() > 2 && word[0] == '-' && word[1] != '-' && among(valued, word.substr(0, 2));
  };
  std::vector<std::string> kept;
  for (size_t i = 0; i < command_line.size(); ++i) {
    const std::string_view word = command_line[i];
    if (among(valued, word))
      ++i;  // its value is the next word
    else if (!among(valued, word.substr(0, word.find('='))) && !short_with_value(word) &&
             !among(bare, word))
      kept.emplace_back(word);
  }
  return kept;
}

std::vector<std::string> with(std::vector<std::string> flags,
                              std::span<const std::string> command_line) {
  flags.insert(flags.end(), command_line.begin(), command_line.end());
  return flags;
}

int ranks_to_start(const BenchOptions& options) {
  return options.ranks > 0 ? options.ranks : kDefaultRanks;
}

}  // namespace weft::bench
