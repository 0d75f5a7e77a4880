#include "engine/measure/node.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "engine/communicator.h"
#include "engine/executor/cpu_executor.h"
#include "engine/executor/shared_state.h"
#include "engine/measure/links.h"
#include "engine/measure/threads.h"

namespace weft {
namespace {

using namespace measuring;

// -- a rank's own time -------------------------------------------------------------------------

// A call of `steps` that each copy eight bytes, or fold them `sources` times; of short steps, or,
// as it has a second lane, not.
Result<double> seconds_of_steps(const Deadline& until, int steps, size_t sources,
                                bool short_steps) {
  Media media(0, 1, {}, 0);
  SharedState shared(media);
  CpuExecutor executor(media, shared);
  const double input = 1;
  double output = 0;
  Program program;
  Step step;
  step.sources.assign(sources, Operand{.buffer = Buffer::input});
  step.targets = {Operand{.buffer = Buffer::output}};
  program.lanes.emplace_back().steps.assign(static_cast<size_t>(steps), step);
  if (!short_steps) program.lanes.emplace_back().steps.assign(1, step);
  const Call call{.kind = Kind::all_reduce, .count = 1, .type = DataType::float64};
  PlanRequest request;
  request.collective = {call.kind, 1, 0, false};
  request.type = call.type;
  request.links = Media::kUsualLinks;
  request.segment_bytes = request.links.slot_bytes;
  auto plan = lower(request, program, Layout(request.collective, 0, call, 1), media);
  if (!plan.ok()) return plan.status();
  const Binding binding{.input = reinterpret_cast<const std::byte*>(&input),
                        .output = reinterpret_cast<std::byte*>(&output)};
  constexpr int kCalls = 1000;
  return least(until, [&] {
    const double begin = now_s();
    for (int i = 0; i < kCalls; ++i) {
      executor.binding() = binding;
      executor.identity() = {};
      executor.start(**plan);
      while (executor.poll() != CpuExecutor::Progress::done) {
      }
    }
    return (now_s() - begin) / kCalls;
  });
}

// A call of a communicator, which is one copy where there is one rank.
Result<double> seconds_of_call(const Deadline& until) {
  auto alone = make_rendezvous({}, {});
  if (!alone.ok()) return alone.status();
  Options options;
  options.tuning = "off";
  auto communicator = Communicator::create(**alone, options);
  if (!communicator.ok()) return communicator.status();
  const double input = 1;
  double output = 0;
  Status status;
  constexpr int kCalls = 1000;
  const double seconds = least(until, [&] {
    const double begin = now_s();
    for (int i = 0; i < kCalls && status.ok(); ++i)
      status = (*communicator)->broadcast(&input, &output, 1, DataType::float64, 0);
    return (now_s() - begin) / kCalls;
  });
  if (!status.ok()) return status;
  return seconds;
}

Status measure_steps(const Deadline& until, Network& network) {
  constexpr int kMany = 65;
  const auto one = seconds_of_steps(until, 1, 1, false),
             many = seconds_of_steps(until, kMany, 1, false),
             folds = seconds_of_steps(until, kMany, 2, false),
             one_short = seconds_of_steps(until, 1, 1, true),
             many_short = seconds_of_steps(until, kMany, 1, true), call = seconds_of_call(until);
  for (const auto* measured : {&one, &many, &folds, &one_short, &many_short, &call})
    if (!measured->ok()) return measured->status();
  network.step_s = std::max(0.0, (*many - *one) / (kMany - 1));
  network.short_step_s = std::max(0.0, (*many_short - *one_short) / (kMany - 1));
  network.fold_s = std::max(0.0, (*folds - *many) / kMany);
  network.call_s = std::max(0.0, *call - network.short_step_s);
  return {};
}

// From one thread of a core to the other and back, as ranks do that wait in turn.
double measure_switch(Watch& watch) {
  constexpr int kTurns = 300;
  Watch both;  // each has the core half of the time
  const double seconds = least(watch.until, [&both] {
    std::atomic<int> turn{0};
    return together(both, 2, same_core,
                    [&](int me) {
                      for (int i = 0; i < kTurns; ++i) {
                        while (turn.load() != me) ::sched_yield();
                        turn.store(1 - me);
                      }
                    }) /
           (2 * kTurns);
  });
  watch.failed = both.failed;
  return seconds;
}

// -- memory ------------------------------------------------------------------------------------

// Bytes that every core reads and writes per second while all copy, each within `footprint`.
double copy_rate(Watch& watch, size_t footprint, int cores, bool streaming) {
  constexpr size_t kBytes = 8 << 20;  // moved by a core in one measurement, at least
  constexpr int kRates = 25;          // memory beyond the caches is shared with whoever is there
  const size_t half = footprint / 2, times = std::max<size_t>(1, kBytes / footprint);
  std::vector<std::vector<std::byte>> memory(static_cast<size_t>(cores));
  for (auto& m : memory) m.assign(2 * half, std::byte{1});
  const double seconds = least(
      watch.until,
      [&] {
        return together(watch, cores, own_core, [&](int i) {
          std::byte* mine = memory[static_cast<size_t>(i)].data();
          for (size_t k = 0; k < times; ++k) copy_bytes(mine + half, mine, half, streaming);
        });
      },
      kRates);
  return static_cast<double>(2 * half * times) / seconds;
}

}  // namespace

Result<MeasuredNode> measure_node(const std::vector<std::string_view>& transports,
                                  double budget_s) {
  Network node;
  const size_t cores = usable_cpus().size();
  node.node_cores = static_cast<int>(cores);
  Watch watch;
  watch.until = Deadline::after(budget_s);
  WEFT_TRY(measure_steps(watch.until, node));
  node.switch_s = measure_switch(watch);
  constexpr size_t kLargest = 64 << 20;
  for (size_t footprint = 16 << 10; footprint <= kLargest; footprint *= 4)
    node.memory.push_back(
        {static_cast<double>(footprint), copy_rate(watch, footprint, node.node_cores, false)});
  node.stream_rate = copy_rate(watch, kLargest, node.node_cores, true);
  if (!watch.failed.ok()) return watch.failed;
  MeasuredNode measured;
  for (const std::string_view transport : transports) {
    Network& network = measured.networks.emplace_back(node);
    network.name = std::string(transport);
    WEFT_TRY(measure_links(transport, watch, network));
  }
  if (cores > 1) measured.share = watch.share();
  return measured;
}

}  // namespace weft
