#include "engine/measure/node.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "bootstrap/cpus.h"
#include "engine/communicator.h"
#include "engine/executor/cpu_executor.h"
#include "engine/executor/shared_state.h"
#include "engine/measure/links.h"
#include "engine/measure/threads.h"
#include "kernels/copy.h"

namespace weft {
namespace {

using namespace measuring;

// -- a rank's own time -------------------------------------------------------------------------

// What `make` gives, for every core.
template <class Rank>
Result<std::vector<std::unique_ptr<Rank>>> one_per_core(
    const std::function<Result<std::unique_ptr<Rank>>()>& make) {
  std::vector<std::unique_ptr<Rank>> ranks(usable_cpus().size());
  for (auto& rank : ranks) {
    auto made = make();
    if (!made.ok()) return made.status();
    rank = made.take();
  }
  return ranks;
}

// Seconds of each of `calls` calls, of a rank on every core at once: cores that share more than
// memory are slower where both are busy, as they are in a job.
template <class Rank>
double seconds_of_calls(Watch& watch, std::vector<std::unique_ptr<Rank>>& ranks, int calls) {
  return typical(watch.until, [&] {
    return together(watch, static_cast<int>(ranks.size()), own_core,
                    [&](int i) {
                      for (int call = 0; call < calls; ++call)
                        ranks[static_cast<size_t>(i)]->call();
                    }) /
           calls;
  });
}

// Calls of `steps` that each copy eight bytes, or fold them `sources` times; of short steps, or,
// as there is a second lane, not.
struct StepsSpec {
  int steps = 1;
  size_t sources = 1;
  bool short_steps = false;
};
class Steps {
 public:
  static Result<std::unique_ptr<Steps>> make(const StepsSpec& spec) {
    std::unique_ptr<Steps> made(new Steps);
    Program program;
    Step step;
    step.sources.assign(spec.sources, Operand{.buffer = Buffer::input});
    step.targets = {Operand{.buffer = Buffer::output}};
    program.lanes.emplace_back().steps.assign(static_cast<size_t>(spec.steps), step);
    if (!spec.short_steps) program.lanes.emplace_back().steps.assign(1, step);
    const Call call{.kind = Kind::all_reduce, .count = 1, .type = DataType::float64};
    PlanRequest request;
    request.collective = {call.kind, 1, 0, false};
    request.type = call.type;
    request.links = Media::kUsualLinks;
    request.segment_bytes = request.links.slot_bytes;
    auto plan = lower(request, program, Layout(request.collective, 0, call, 1), made->media_);
    if (!plan.ok()) return plan.status();
    made->plan_ = plan.take();
    return made;
  }

  void call() {
    executor_.binding() = {.input = reinterpret_cast<const std::byte*>(&input_),
                           .output = reinterpret_cast<std::byte*>(&output_)};
    executor_.identity() = {};
    executor_.start(*plan_);
    while (executor_.poll() != CpuExecutor::Progress::done) {
    }
  }

 private:
  Steps() = default;
  Media media_{0, 1, {}, 0};
  SharedState shared_{media_};
  CpuExecutor executor_{media_, shared_};
  std::unique_ptr<Plan> plan_;
  double input_ = 1, output_ = 0;
};

Result<double> seconds_of_steps(Watch& watch, const StepsSpec& spec) {
  auto ranks = one_per_core<Steps>([&] { return Steps::make(spec); });
  if (!ranks.ok()) return ranks.status();
  constexpr int kSteps = 64'000;
  return seconds_of_calls(watch, *ranks, kSteps / (spec.steps + 7));
}

// Calls of a communicator, which are one copy where there is one rank.
class CallsAlone {
 public:
  static Result<std::unique_ptr<CallsAlone>> make() {
    auto alone = make_rendezvous({}, {});
    if (!alone.ok()) return alone.status();
    Options options;
    options.tuning = "off";
    auto communicator = Communicator::create(**alone, options);
    if (!communicator.ok()) return communicator.status();
    std::unique_ptr<CallsAlone> made(new CallsAlone);
    made->communicator_ = communicator.take();
    return made;
  }

  void call() {
    if (status_.ok())
      status_ = communicator_->broadcast(&input_, &output_, 1, DataType::float64, 0);
  }
  const Status& status() const { return status_; }

 private:
  CallsAlone() = default;
  std::unique_ptr<Communicator> communicator_;
  Status status_;
  double input_ = 1, output_ = 0;
};

Result<double> seconds_of_call(Watch& watch) {
  auto ranks = one_per_core<CallsAlone>(CallsAlone::make);
  if (!ranks.ok()) return ranks.status();
  const double seconds = seconds_of_calls(watch, *ranks, 2000);
  for (const auto& rank : *ranks)
    if (!rank->status().ok()) return rank->status();
  return seconds;
}

Status measure_steps(Watch& watch, Network& network) {
  constexpr int kMany = 65;
  const auto one = seconds_of_steps(watch, {1, 1, false}),
             many = seconds_of_steps(watch, {kMany, 1, false}),
             folds = seconds_of_steps(watch, {kMany, 2, false}),
             one_short = seconds_of_steps(watch, {1, 1, true}),
             many_short = seconds_of_steps(watch, {kMany, 1, true}), call = seconds_of_call(watch);
  for (const auto* measured : {&one, &many, &folds, &one_short, &many_short, &call})
    if (!measured->ok()) return measured->status();
  network.step_s = std::max(0.0, (*many - *one) / (kMany - 1));
  network.short_step_s = std::max(0.0, (*many_short - *one_short) / (kMany - 1));
  network.fold_s = std::max(0.0, (*folds - *many) / kMany);
  network.call_s = std::max(0.0, *call - network.short_step_s);
  return {};
}

// Two that take turns on a core, and how long each turn took to come.
struct Turns {
  static constexpr int kEach = 10'000, kLeast = 20;
  std::atomic<int> whose{0};
  std::atomic<bool> over{false};
  double left = 0;
  int taken = 0;
  double took[2 * kEach];

  // Fewer turns where they last too long. False: the other one has gone.
  bool take(int me, const Deadline& until) {
    const Deadline patience = Deadline::after(10);
    for (int i = 0; i < kEach; ++i) {
      for (int looks = 1; whose.load() != me; ++looks) {
        if (over.load()) return true;
        if (looks % 4096 == 0 && patience.expired()) return false;
        ::sched_yield();
      }
      took[taken++] = now_s() - left;
      if (i >= kLeast && until.expired()) return over.store(true), true;
      left = now_s();
      whose.store(1 - me);
    }
    return true;
  }
};

// From one process of a core to another, as ranks turn that wait: in most cases at least, and at
// most. Between threads, which have their memory in common, it takes a tenth less.
Status measure_switch(Watch& watch, Network& network) {
  void* const shared =
      ::mmap(nullptr, sizeof(Turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return system_error("mmap");
  Turns& turns = *new (shared) Turns;
  Status failed;
  Watch both;  // each has the core half of the time
  together(both, 1, same_core, [&](int) {
    turns.left = now_s();
    const pid_t other = ::fork();
    if (other < 0) return void(failed = system_error("fork"));
    if (other == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      turns.take(1, watch.until);
      ::_exit(0);
    }
    if (!turns.take(0, watch.until))
      failed = Status(Code::system, "A process that shares this one's core does not answer.");
    turns.over.store(true);
    while (::waitpid(other, nullptr, 0) < 0 && errno == EINTR) {
    }
  });
  std::vector<double> took(turns.took, turns.took + turns.taken);
  ::munmap(shared, sizeof(Turns));
  WEFT_TRY(failed);
  watch.failed = both.failed;
  if (took.empty()) return {};
  std::sort(took.begin(), took.end());
  const size_t few = took.size() / 20;
  network.switch_s = took[few];
  network.switch_spread_s = took[took.size() - 1 - few] - took[few];
  return {};
}

// -- memory ------------------------------------------------------------------------------------

// Bytes that every core reads and writes per second while all copy, each within `footprint`.
double copy_rate(Watch& watch, size_t footprint, int cores, CopyWay way) {
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
          for (size_t k = 0; k < times; ++k) copy_bytes(mine + half, mine, half, way);
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
  WEFT_TRY(measure_steps(watch, node));
  WEFT_TRY(measure_switch(watch, node));
  constexpr size_t kLargest = 64 << 20;
  for (const size_t footprint :
       {size_t{16} << 10, size_t{64} << 10, size_t{256} << 10, size_t{512} << 10, size_t{1} << 20,
        size_t{2} << 20, size_t{4} << 20, size_t{8} << 20, size_t{16} << 20, size_t{32} << 20,
        kLargest})  // caches end between
    node.memory.push_back({static_cast<double>(footprint),
                           copy_rate(watch, footprint, node.node_cores, CopyWay::taken)});
  node.stream_rate = copy_rate(watch, kLargest, node.node_cores, CopyWay::streamed);
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
