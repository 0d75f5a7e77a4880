#include "bench/tune.h"

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "base/files.h"
#include "base/text.h"
#include "bench/job.h"
#include "bench/launch.h"
#include "bench/machine.h"
#include "bootstrap/cpus.h"
#include "bootstrap/rendezvous.h"
#include "engine/measure/node.h"
#include "engine/tuner/tuning.h"

namespace weft::bench {
namespace {

// What is measured on cores that others have for more of the time is not kept.
constexpr double kShareLeast = 0.9;

void print(const char* what, const std::vector<Rate>& rates) {
  if (rates.empty()) return;
  std::printf("; %s:", what);
  for (const Rate& r : rates) std::printf(" %g: %.1f", r.bytes / 1024, r.rate * 1e-9);
}

void print(const Network& network) {
  const Medium& medium = network.inside;
  std::printf(
      "%s: a call %.3f us, a step %.3f or %.3f, a fold %.3f, a message out %.3f (%.3f after it has "
      "left), in %.3f, on its way %.3f, a signal %.3f, a look for one %.3f, patience %.3f",
      network.name.c_str(), network.call_s * 1e6, network.step_s * 1e6, network.short_step_s * 1e6,
      network.fold_s * 1e6, medium.send_s * 1e6, medium.send_tail_s * 1e6, medium.recv_s * 1e6,
      medium.latency_s * 1e6, medium.signal_s * 1e6, medium.poll_s * 1e6, medium.patience_s * 1e6);
  print("GB/s both ways, of KiB", medium.rank_rates);
  print("one way", medium.rank_one_way_rates);
  print("in windows", medium.window_rates);
  print("one way", medium.window_one_way_rates);
  std::printf("\n");
}

void print(const Tuning& tuning) {
  print(tuning.shm);
  print(tuning.tcp);
  std::printf("%d cores, a switch %.1f to %.1f us; memory", tuning.shm.node_cores,
              tuning.shm.switch_s * 1e6, (tuning.shm.switch_s + tuning.shm.switch_spread_s) * 1e6);
  for (const Rate& m : tuning.shm.memory)
    std::printf(" %.0f GB/s in %.0f KiB", m.rate * 1e-9, m.bytes / 1024);
  std::printf("\n");
}

// For that file, which is tried first: measuring takes its time.
Result<MeasuredTuning> measure_for(const std::string& path) {
  WEFT_TRY(can_write_in_folder(path).within("The tuning cannot be written"));
  Result<MeasuredNode> node = measure_node({"shm", "tcp"});
  if (!node.ok()) return node.status();
  return MeasuredTuning{{this_machine().host, node->networks[0], node->networks[1]}, node->share};
}

// Whether this process is to start ranks whose algorithms are chosen by what the cache holds.
bool starts_choosing_ranks(const BenchOptions& options, const Environment& environment) {
  const Result<Membership> member = membership_from(environment);
  return member.ok() && member->launcher == "none" && !options.gpu_memory &&
         ranks_to_start(options) > 1 && options.engine.tuning == "auto" &&
         options.engine.algorithm == "auto" && fit_to_start(options, environment).ok();
}

}  // namespace

Status check_measured(const MeasuredTuning& measured) {
  if (measured.share >= kShareLeast) return {};
  return Status(Code::system, concat("other programs had the cores for ",
                                     std::lround(100 * (1 - measured.share)), " % of the time"));
}

Status keep_tuning(const MeasuredTuning& measured, const std::string& path, bool forced) {
  const Status busy = check_measured(measured);
  if (busy.ok() || forced) return write_tuning(measured.tuning, path);
  return Status(Code::system,
                concat("nothing was written to ", path, ": ", busy.message(),
                       " meanwhile, and such prices are of no use; call --tune again when they "
                       "have ended, or with --force to keep them all the same."));
}

int tune(const BenchOptions& options, const Environment& environment) {
  const std::string& asked = options.engine.tuning;
  const std::string path = asked == "auto" || asked == "off" ? tuning_path(environment) : asked;
  if (path.empty()) {
    complain("--tune has no place for its file: set HOME, XDG_CACHE_HOME, or --tuning FILE.");
    return kExitUsage;
  }
  const Result<Membership> member = membership_from(environment);
  if (member.ok() && member->size > 1) {
    complain(concat(
        "--tune measures the whole machine, by itself, but this process is part of a job of ",
        member->size, " ranks (", member->launcher, "); call it without a launcher."));
    return kExitUsage;
  }
  const Result<MeasuredTuning> measured = measure_for(path);
  if (measured.ok()) print(measured->tuning);
  const Status kept =
      measured.ok() ? keep_tuning(*measured, path, options.force) : measured.status();
  if (!kept.ok()) {
    complain(kept.message());
    return kExitFailed;
  }
  const int cores = measured->tuning.shm.node_cores, all = this_machine().cores;
  if (cores < all)
    complain(concat("measured on ", cores, " of this machine's ", all,
                    " CPUs, those that this process may use: the prices are of no use to jobs on "
                    "others; for all, measure again without taskset."));
  if (const Status busy = check_measured(*measured); !busy.ok())
    complain(concat(busy.message(), " meanwhile: measure again when they have ended."));
  std::printf("Written to %s; %s\n", path.c_str(),
              path == tuning_path(environment)
                  ? "jobs on this host choose by it from now on."
                  : concat("jobs choose by it with WEFT_TUNING=", path, ".").c_str());
  return kExitOk;
}

void tune_once(const BenchOptions& options, const Environment& environment) {
  const std::string path = tuning_path(environment);
  if (path.empty() || !starts_choosing_ranks(options, environment)) return;
  std::error_code unreachable;
  if (std::filesystem::exists(path, unreachable)) {
    const Result<Tuning> known = read_cached_tuning(path);
    const int cpus = static_cast<int>(usable_cpus().size());
    // Of more CPUs they are what other jobs need; this one's rank 0 says that it ignores them.
    if (known.ok() && known->shm.node_cores >= cpus) return;
    complain(known.ok() ? concat("measures this machine again: ", path, " is of ",
                                 known->shm.node_cores, " CPUs, and here are ", cpus, ".")
                        : concat("ignored: ", known.status().message()));
  }
  if (options.first_here == 0)  // measuring may be interrupted, too
    begin_results(options, "none", environment);
  const Result<MeasuredTuning> measured = measure_for(path);
  if (const Status busy = measured.ok() ? check_measured(*measured) : Status(); !busy.ok()) {
    complain(concat("algorithms are chosen by table: this machine could not be measured, as ",
                    busy.message(), "; weft-bench tries again when it is next started."));
    return;
  }
  const Status written = measured.ok() ? write_tuning(measured->tuning, path) : measured.status();
  if (written.ok())
    complain(concat("measured this machine, once, on ", measured->tuning.shm.node_cores,
                    " CPUs, to choose algorithms by price (kept in ", path,
                    "; again with --tune, not at all with --tuning off)."));
  else
    complain(concat("algorithms are chosen by table: ", written.message()));
}

}  // namespace weft::bench
