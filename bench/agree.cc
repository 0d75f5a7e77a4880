#include "bench/agree.h"

#include <array>
#include <string>
#include <tuple>

#include "base/hash.h"
#include "base/text.h"
#include "bench/gather.h"

namespace weft::bench {
namespace {

constexpr size_t kValueShown = 256;

struct Term {
  const char* flag;
  std::string value;
};

template <class T>
std::string names(const std::vector<T>& list) {
  std::string text;
  for (const T& each : list) text.append(text.empty() ? "" : ",").append(name(each));
  return text;
}

std::string or_by_size(int value, int chosen) {
  return value == chosen ? "by size" : std::to_string(value);
}

// Everything that changes which calls are made, or on which data, but the options of the engine,
// which has ranks agree on these when a communicator is made.
auto terms_of(const BenchOptions& o) {
  return std::to_array<Term>({
      {"COLLECTIVE", names(o.operations)},
      {"-b/--minbytes", concat(o.min_bytes)},
      {"-e/--maxbytes", concat(o.max_bytes)},
      {"-i/--stepbytes", concat(o.step_bytes)},
      {"-f/--stepfactor", concat(o.step_factor)},
      {"-d/--datatype", names(o.types)},
      {"-o/--op", names(o.ops)},
      {"-r/--root", o.root == BenchOptions::kAllRoots ? "all" : concat(o.root)},
      {"-n/--iters", or_by_size(o.iterations, 0)},
      {"-w/--warmup_iters", or_by_size(o.warmup, -1)},
      {"-m/--agg_iters", concat(o.calls_per_iteration)},
      {"-N/--run_cycles", concat(o.cycles)},
      {"-c/--check", concat(o.checks)},
      {"-z/--blocking", concat(o.blocking)},
      {"--seed", concat(o.seed)},
      {"--misalign", concat(o.misalign_bytes)},
      {"--buffers", o.communicator_buffers ? "communicator" : "malloc"},
      {"--digest", concat(o.digest_elements)},
      {"--one-form", o.one_form ? "given" : "not given"},
      {"--device", o.gpu_memory ? "cuda" : "cpu"},
      {"-G/--cudagraph", concat(o.graph_launches)},
  });
}

}  // namespace

Result<Wanted> agree(Communicator& control, const BenchOptions& options) {
  const auto terms = terms_of(options);
  struct Share {
    std::array<uint64_t, std::tuple_size_v<decltype(terms_of(options))>> terms{};
    Wanted wanted;
  };
  Share mine;
  mine.wanted = {!options.output_file.empty(), !options.trace_file.empty(), options.floor};
  for (size_t i = 0; i < terms.size(); ++i) mine.terms[i] = hash_of(terms[i].value);
  const Result<std::vector<Share>> all = gather_values(control, mine);
  if (!all.ok()) return all.status();
  for (size_t i = 0; i < terms.size(); ++i)
    for (size_t rank = 0; rank < all->size(); ++rank) {
      if ((*all)[rank].terms[i] == all->front().terms[i]) continue;
      const auto values = gather_values(control, word_of<kValueShown>(terms[i].value));
      if (!values.ok()) return values.status();
      return invalid_argument(concat("rank 0 and rank ", rank, " differ in ", terms[i].flag, ": ",
                                     (*values)[0].data(), " and ", (*values)[rank].data(),
                                     "; give it alike to all ranks."));
    }
  return all->front().wanted;
}

}  // namespace weft::bench
