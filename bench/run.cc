#include "bench/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <thread>

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "bench/machine.h"
#include "bench/random.h"
#include "bench/sweep.h"
#include "bootstrap/topology.h"

namespace weft::bench {
namespace {

constexpr int kSamplesMax = 10000;  // iterations up to which each one is timed on its own
constexpr int kFaultsReported = 5;  // by a rank in a run

// Ranks whose part of a plan touches no link or window name no transport; others do.
constexpr std::string_view kTransports[] = {"shm", "tcp", "verbs", "gpu"};

uint32_t transport_bits(const std::string& names) {
  uint32_t bits = 0;
  for (size_t i = 0; i < std::size(kTransports); ++i)
    if (names.find(kTransports[i]) != std::string::npos) bits |= 1u << i;
  return bits;
}

std::string transport_names(uint32_t bits) {
  std::string names;
  for (size_t i = 0; i < std::size(kTransports); ++i)
    if (bits >> i & 1) names.append(names.empty() ? "" : "+").append(kTransports[i]);
  return names;
}

// Of the in-place form, which an algorithm may not have though it has the other.
Status with_way_out(const Status& status) {
  if (status.code() != Code::unsupported) return status;
  return unsupported(concat(status.message(), " (--one-form leaves the in-place form out)"));
}

// Which forms of a case are measured. In one form a broadcast is in place, as everybody else's is.
bool measures_in_place(const Case& what, const BenchOptions& options) {
  if (options.one_form) return what.operation == Operation::broadcast;
  return info(what.operation).has_in_place;
}
bool measures_out_of_place(const Case& what, const BenchOptions& options) {
  return !options.one_form || !measures_in_place(what, options);
}

// Bytes of the two buffers of a rank.
struct Room {
  size_t first = 0, second = 0;
};

Room room_for(const Case& what, const BenchOptions& options, int ranks, Rank me) {
  const size_t size = size_of(what.type);
  Room room;
  // What a communicator allocates is as large on all ranks.
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (rank != me && !options.communicator_buffers) continue;
    const Layout layout = make_layout(what, ranks, rank);
    const size_t shared = std::max(layout.shared_input + layout.input_count,
                                   layout.shared_output + layout.output_count);
    room.first = std::max({room.first, layout.input_count * size,
                           measures_in_place(what, options) ? shared * size : 0});
    room.second = std::max(room.second, layout.output_count * size);
  }
  return room;
}

double average(Average how, const std::vector<double>& by_rank) {
  switch (how) {
    case Average::rank0: return by_rank[0];
    case Average::min: return *std::min_element(by_rank.begin(), by_rank.end());
    case Average::max: return *std::max_element(by_rank.begin(), by_rank.end());
    case Average::mean: break;
  }
  double sum = 0;
  for (const double value : by_rank) sum += value;
  return sum / static_cast<double>(by_rank.size());
}

}  // namespace

struct Runner::Share {
  double time_us[2] = {0, 0};
  uint64_t wrong[2] = {0, 0};
  uint64_t touched[2] = {0, 0};
  uint64_t digest = 0;
  uint32_t transports = 0;  // bits
  uint64_t moved = 0;       // bytes that this rank has to read and to write
};

// Memory of a case, filled, and the call on it.
struct Runner::Placed {
  Recipe recipe;
  Bytes whole_input, whole_output;  // in place: the shared buffer, and nothing
  Bytes input, output;
  Invocation invocation;

  CheckResult check(const Layout& layout, Rank me) const {
    if (whole_output.empty()) return bench::check(recipe, layout, me, whole_input, input, output);
    CheckResult result = bench::check(recipe, layout, me, whole_output, {}, output);
    const CheckResult kept = bench::check(recipe, layout, me, whole_input, input, {});
    result.touched += kept.touched;
    if (result.first.empty()) result.first = kept.first;
    return result;
  }
};

Runner::Runner(const Setup& setup)
    : setup_(setup),
      options_(setup.options),
      ranks_(setup.measured.size()),
      me_(setup.measured.rank()),
      input_(setup.place.make_buffer()),
      output_(setup.place.make_buffer()) {}

Status Runner::run(const Sink& sink, Progress& progress) {
  const CaseList list = list_cases(options_, ranks_);
  totals_.skipped_undefined += list.skipped;
  WEFT_TRY(check_memory(list.cases));
  for (size_t i = 0; i < list.cases.size(); ++i) {
    progress.show(concat("[", i + 1, "/", list.cases.size(), "] ", describe(list.cases[i])));
    WEFT_TRY(run_case(list.cases[i], [&](const Row& row) {
               progress.clear();
               sink(row);
             }).within(describe(list.cases[i])));
  }
  progress.clear();
  return {};
}

// Of the largest case of each sweep, on all ranks of a host together: a system that promises more
// than it has would end one of them in the middle. All ranks end alike.
Status Runner::check_memory(const std::vector<Case>& cases) {
  struct Memory {
    uint64_t machine = 0;        // 0: not known
    double wanted = 0, has = 0;  // by this rank, by its machine
  };
  Room most;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (i + 1 < cases.size() && cases[i + 1].bytes > cases[i].bytes) continue;
    const Room room = room_for(cases[i], options_, ranks_, me_);
    most = {std::max(most.first, room.first), std::max(most.second, room.second)};
  }
  const std::string machine = machine_identity();
  const Memory mine{machine.empty() ? 0 : hash_of(machine),
                    static_cast<double>(most.first) + static_cast<double>(most.second),
                    memory_bytes()};
  const Result<std::vector<Memory>> all = gather_values(setup_.control, mine);
  if (!all.ok()) return all.status();
  const std::vector<int>& host = setup_.measured.host_of_rank();
  std::map<std::pair<uint64_t, int>, Memory> machines;
  for (size_t rank = 0; rank < all->size(); ++rank) {
    const Memory& one = (*all)[rank];
    Memory& memory = machines[{one.machine, one.machine == 0 ? host[rank] : 0}];
    memory = {one.machine, memory.wanted + one.wanted, one.has};
  }
  constexpr double kGib = 1 << 30;
  for (const auto& [which, memory] : machines)
    if (memory.wanted > memory.has)
      return invalid_argument(concat(
          "There is no memory for buffers of ", std::llround(std::ceil(memory.wanted / kGib)),
          " GiB on all ranks of a machine that has ", std::llround(std::floor(memory.has / kGib)),
          " GiB; lower -e/--maxbytes."));
  return {};
}

Status Runner::run_case(const Case& what, const Sink& sink) {
  WEFT_TRY(prepare_case(what));
  Row row;
  row.what = what;
  row.bytes = layout_.message_count * size_of(what.type);
  row.count = layout_.block_count;
  row.checked = options_.checks > 0;
  row.iterations = iterations_for(options_, row.bytes, ranks_);
  Result<bool> runs = supported(row);
  if (!runs.ok()) return runs.status();
  if (!*runs) {
    ++totals_.skipped_unsupported;
    return {};
  }
  Share share;
  share.transports = transport_bits(row.info.transports);
  share.moved = (layout_.read_here + layout_.written_here) * size_of(what.type);
  if (measures_out_of_place(what, options_)) WEFT_TRY(measure(false, row, share));
  if (measures_in_place(what, options_)) WEFT_TRY(with_way_out(measure(true, row, share)));
  if (setup_.tracer) WEFT_TRY(trace_call());
  if (options_.digest_elements > 0) WEFT_TRY(take_digest(share));
  Result<Row> whole = combine(std::move(row), share);
  if (!whole.ok()) return whole.status();
  totals_.add(*whole);
  if (me_ == 0) sink(*whole);
  return {};
}

Status Runner::prepare_case(const Case& what) {
  what_ = what;
  layout_ = make_layout(what, ranks_, me_);
  const auto [first, second] = room_for(what, options_, ranks_, me_);
  const Result<bool> has = setup_.place.reserve(input_, first, output_, second);
  if (!has.ok() || *has) return has.status();
  return Status(Code::system, concat("There is no memory for buffers of ", first, " and ", second,
                                     " bytes; lower -e/--maxbytes."));
}

// Fills in what will run. False where this cannot be done, and such rows are skipped.
Result<bool> Runner::supported(Row& row) {
  Result<Placed> placed = place(/*in_place=*/!measures_out_of_place(what_, options_), 0);
  if (!placed.ok()) return placed.status();
  Result<CallInfo> told = setup_.place.explain(placed->invocation);
  if (told.ok()) {
    row.info = told.take();
    return true;
  }
  if (options_.skip_unsupported && told.status().code() == Code::unsupported) return false;
  return told.status();
}

Recipe Runner::recipe(int iteration) const {
  const bool digests = options_.digest_elements > 0;
  const uint64_t seed =
      digests ? options_.seed
              : mix(mix(options_.seed, what_.bytes), static_cast<uint64_t>(iteration));
  return {what_.type, what_.op, ranks_, seed, digests};
}

Result<Runner::Placed> Runner::place(bool in_place, int iteration) {
  const size_t size = size_of(what_.type);
  const size_t in = layout_.input_count * size, out = layout_.output_count * size;
  const Recipe how = recipe(iteration);
  std::vector<std::byte> scalar;
  if (what_.op == ReduceOp::premulsum) scalar = scalar_of(how, me_);
  if (!in_place) {
    const Bytes input = input_.data(in), output = output_.data(out);
    prepare(how, me_, input_.whole(in), input);
    prepare(how, me_, output_.whole(out), {});
    WEFT_TRY(setup_.place.deliver(input_, input_.whole(in)));
    WEFT_TRY(setup_.place.deliver(output_, output_.whole(out)));
    Invocation invocation(what_, layout_, input_.of_calls(input), output_.of_calls(output),
                          std::move(scalar));
    return Placed{how, input_.whole(in), output_.whole(out), input, output, std::move(invocation)};
  }
  const size_t in_at = layout_.shared_input * size, out_at = layout_.shared_output * size;
  const size_t shared = std::max(in_at + in, out_at + out);
  const Bytes input = input_.data(shared).subspan(in_at, in);
  const Bytes output = input_.data(shared).subspan(out_at, out);
  prepare(how, me_, input_.whole(shared), input);
  WEFT_TRY(setup_.place.deliver(input_, input_.whole(shared)));
  Invocation invocation(what_, layout_, input_.of_calls(input), input_.of_calls(output),
                        std::move(scalar));
  return Placed{how, input_.whole(shared), {}, input, output, std::move(invocation)};
}

// What the same call does in place may be something else, which is told, too.
Status Runner::measure(bool in_place, Row& row, Share& share) {
  {
    Result<Placed> placed = place(in_place, 0);
    if (!placed.ok()) return placed.status();
    if (in_place && measures_out_of_place(what_, options_)) {
      Result<CallInfo> told = setup_.place.explain(placed->invocation);
      if (!told.ok()) return told.status();
      row.in_place_info = told.take();
    }
    WEFT_TRY(time_calls(*placed, row.iterations, share, in_place));
  }
  if (what_.operation != Operation::barrier) return check_calls(in_place, share);
  return options_.checks > 0 ? check_barrier(share) : Status();
}

// What a call left, to where it is checked.
Status Runner::fetch(const Placed& placed) {
  WEFT_TRY(setup_.place.fetch(input_, placed.whole_input));
  return placed.whole_output.empty() ? Status() : setup_.place.fetch(output_, placed.whole_output);
}

Status Runner::time_calls(const Placed& placed, int iterations, Share& share, bool in_place) {
  const int calls = options_.calls_per_iteration;
  WEFT_TRY(setup_.place.run(placed.invocation, warmup_for(options_, iterations), calls));
  WEFT_TRY(setup_.control.barrier());
  const Result<double> all_us = setup_.place.time(placed.invocation, iterations, calls);
  if (!all_us.ok()) return all_us.status();
  share.time_us[in_place] = *all_us / iterations / calls;
  // Who is done computes next, checks or prices, perhaps on the core of a rank that is not.
  WEFT_TRY(setup_.control.barrier());

  // Again for single iterations, so that reading the clock does not spoil the figure above.
  std::vector<double>& samples = samples_us_[in_place];
  samples.clear();
  if (!setup_.samples || iterations > kSamplesMax) return {};
  for (int i = 0; i < iterations; ++i) {
    const Result<double> one_us = setup_.place.time(placed.invocation, 1, calls);
    if (!one_us.ok()) return one_us.status();
    samples.push_back(*one_us / calls);
  }
  return {};
}

Status Runner::trace_call() {
  Result<Placed> placed = place(!measures_out_of_place(what_, options_), 0);
  if (!placed.ok()) return placed.status();
  return setup_.tracer->add(describe(what_), [&] {
    return setup_.place.run(placed->invocation, 1, options_.calls_per_iteration);
  });
}

Status Runner::check_calls(bool in_place, Share& share) {
  for (int i = 0; i < options_.checks; ++i) {
    Result<Placed> placed = place(in_place, i + 1);
    if (!placed.ok()) return placed.status();
    WEFT_TRY(setup_.place.run(placed->invocation, 1, 1));
    WEFT_TRY(fetch(*placed));
    const CheckResult result = placed->check(layout_, me_);
    share.wrong[in_place] += result.wrong;
    share.touched[in_place] += result.touched;
    if (result.faults() > 0) report_fault(result.first, in_place);
  }
  return {};
}

// Nobody may leave before the last one came. Ranks of one host read the same clock.
Status Runner::check_barrier(Share& share) {
  struct Times {
    int64_t came = 0, left = 0;
  };
  for (int i = 0; i < options_.checks; ++i) {
    Random random(mix(options_.seed, static_cast<uint64_t>(i)));
    if (static_cast<Rank>(random.next_below(static_cast<uint64_t>(ranks_))) == me_)
      std::this_thread::sleep_for(std::chrono::milliseconds(1 + random.next_below(3)));
    Times mine;
    mine.came = steady_clock().now_ns();
    WEFT_TRY(setup_.measured.barrier());
    mine.left = steady_clock().now_ns();
    Result<std::vector<Times>> all = gather_values(setup_.control, mine);
    if (!all.ok()) return all.status();
    const std::vector<int>& host = setup_.measured.host_of_rank();
    bool early = false;
    for (size_t r = 0; r < all->size(); ++r)
      early |= host[r] == host[static_cast<size_t>(me_)] && (*all)[r].came > mine.left;
    share.wrong[0] += early;
    if (early) report_fault("this rank left before another one came", false);
  }
  return {};
}

Status Runner::take_digest(Share& share) {
  Result<Placed> placed = place(false, 0);
  if (!placed.ok()) return placed.status();
  WEFT_TRY(setup_.place.run(placed->invocation, 1, 1));
  WEFT_TRY(fetch(*placed));
  share.digest = digest(placed->recipe, layout_, placed->output, options_.digest_elements);
  return {};
}

Result<Row> Runner::combine(Row row, const Share& mine) {
  Result<std::vector<Share>> shares = gather_values(setup_.control, mine);
  if (!shares.ok()) return shares.status();
  if (measures_out_of_place(what_, options_)) row.out_of_place = figure(*shares, 0, row.bytes);
  if (measures_in_place(what_, options_)) row.in_place = figure(*shares, 1, row.bytes);
  uint32_t transports = 0;
  for (const Share& share : *shares) transports |= share.transports;
  if (transports != 0) row.info.transports = transport_names(transports);
  row.floor_us = floor_us(row.info.transports, *shares);
  if (options_.digest_elements > 0) combine_digests(row, *shares);
  return row;
}

Figure Runner::figure(const std::vector<Share>& shares, int form, size_t bytes) const {
  Figure result;
  std::vector<double> times;
  for (const Share& share : shares) {
    times.push_back(share.time_us[form]);
    result.wrong += share.wrong[form];
    result.touched += share.touched[form];
  }
  result.time_us = average(options_.average, times);
  if (result.time_us > 0)
    result.algorithm_gbps = static_cast<double>(bytes) * 1e-3 / result.time_us;
  result.bus_gbps = result.algorithm_gbps * bus_factor(what_.operation, ranks_);
  result.spread = percentiles(samples_us_[form]);
  return result;
}

std::optional<double> Runner::floor_us(std::string_view transports,
                                       const std::vector<Share>& shares) const {
  if (!setup_.calibration) return std::nullopt;
  const size_t size = size_of(what_.type);
  Traffic traffic{ranks_, layout_.elements_read * size, layout_.elements_written * size,
                  layout_.elements_crossing * size};
  traffic.answered = layout_.answered;
  for (const Share& share : shares) traffic.moved_by_rank.push_back(share.moved);
  const auto floor = floor_seconds(*setup_.calibration, transports, traffic);
  return floor ? std::optional(*floor * 1e6) : std::nullopt;
}

// Every element once: from rank 0 where all ranks have the result, else added up.
void Runner::combine_digests(Row& row, const std::vector<Share>& shares) const {
  const Kind kind = info(what_.operation).kind;
  const bool everywhere =
      kind == Kind::all_reduce || kind == Kind::broadcast || kind == Kind::all_gather;
  uint64_t sum = 0;
  for (const Share& share : shares) {
    sum += share.digest;
    row.digests_differ |= everywhere && share.digest != shares[0].digest;
  }
  row.digest = everywhere ? shares[0].digest : sum;
}

void Runner::report_fault(const std::string& first, bool in_place) {
  if (++faults_ > kFaultsReported) return;
  const std::string line = concat("weft-bench: rank ", me_, ": wrong after ", describe(what_),
                                  in_place ? " (in place): " : ": ", first, "\n");
  std::fputs(line.c_str(), stderr);
}

}  // namespace weft::bench
