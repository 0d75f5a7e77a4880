#include "engine/measure.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/thread.h"
#include "bootstrap/cpus.h"
#include "engine/backoff.h"
#include "engine/communicator.h"
#include "engine/executor/cpu_executor.h"
#include "engine/executor/shared_state.h"
#include "engine/schedule/window_lap.h"
#include "transport/backends.h"

namespace weft {
namespace {

constexpr double kPatience_s = 10;
constexpr int kRepeats = 9;

double now_s() { return static_cast<double>(steady_clock().now_ns()) * 1e-9; }

// The least of several: whatever else the machine does only adds to it.
double least(const std::function<double()>& measure, int repeats = kRepeats) {
  double best = measure();
  for (int i = 1; i < repeats; ++i) best = std::min(best, measure());
  return best;
}

// -- threads -----------------------------------------------------------------------------------

std::vector<int> usable_cpus() {
  std::vector<int> cpus = cpus_core_by_core();
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

// While waiting for another thread. It may need this core: then no relaxing helps, and where there
// is only one, it does.
void relax(uint64_t spins, bool one_core) {
  one_core || spins % 4096 == 0 ? void(::sched_yield()) : cpu_relax();
}

double cpu_s() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// What threads that measure have met with.
struct Watch {
  Status failed;                // there are no such threads
  double ran_s = 0, had_s = 0;  // and had their cores

  // 1 where nobody else ran.
  double share() const { return ran_s > 0 ? std::min(1.0, had_s / ran_s) : 1; }
};

// The seconds from the start of `count` threads, thread i on core `core(i)`, until all have ended;
// none where the watch says that there are no such threads.
double together(Watch& watch, int count, const std::function<int(int)>& core,
                const std::function<void(int)>& body) {
  const std::vector<int> cpus = usable_cpus();
  std::atomic<int> missing{count};
  std::vector<double> begins(static_cast<size_t>(count)), ends(begins), had(begins);
  auto threads = start_threads(static_cast<size_t>(count), [&](size_t thread) {
    const int i = static_cast<int>(thread);
    bind_to_cpu(cpus[static_cast<size_t>(core(i)) % cpus.size()]);
    missing.fetch_sub(1);
    while (missing.load() > 0) std::this_thread::yield();
    begins[thread] = now_s();
    const double cpu = cpu_s();
    body(i);
    had[thread] = cpu_s() - cpu;
    ends[thread] = now_s();
  });
  if (!threads.ok()) {
    watch.failed = threads.status();
    return 0;
  }
  for (std::thread& thread : *threads) thread.join();
  for (size_t i = 0; i < had.size(); ++i) {
    watch.ran_s += ends[i] - begins[i];
    watch.had_s += had[i];
  }
  return *std::max_element(ends.begin(), ends.end()) -
         *std::min_element(begins.begin(), begins.end());
}

int own_core(int thread) { return thread; }
int same_core(int) { return 0; }

// -- two ranks ---------------------------------------------------------------------------------

struct Way {
  LinkId id = 1;
  LinkShape shape;
};
constexpr Way kSharedMemory{1, Media::kUsualLinks}, kSockets{1, Media::kSocketLinks};

// Two ranks of one process, joined by links each way.
class Pair {
 public:
  static Result<Pair> make(std::string_view name) {
    Pair pair;
    const std::string job = random_name();
    for (Rank rank = 0; rank < 2; ++rank) {
      TransportConfig config;
      config.rank = rank;
      config.size = 2;
      config.job = config.host = job;
      auto made = make_transport(name, config);
      if (!made.ok()) return made.status();
      pair.transports_[rank] = made.take();
    }
    for (const auto& transport : pair.transports_)
      WEFT_TRY(transport->join({pair.transports_[0]->address(), pair.transports_[1]->address()}));
    return pair;
  }

  SendLink& out(Rank me, const Way& way) {
    return transports_[me]->open_send(1 - me, way.id, way.shape);
  }
  RecvLink& in(Rank me, const Way& way) {
    return transports_[me]->open_recv(1 - me, way.id, way.shape);
  }

  // Polls as an executor does until `ready`; false where that does not come.
  template <class Ready>
  bool await(Rank me, Ready ready) {
    for (uint64_t i = 1; !ready(); ++i) {
      relax(i, one_core_);
      if (i % (one_core_ ? 8 : 128) != 0) continue;
      transports_[me]->poll();
      if (late_.load(std::memory_order_relaxed) || deadline_.expired()) {
        late_.store(true);
        return false;
      }
    }
    return true;
  }
  // From now on the other end has so long to answer. REQUIRES: nobody waits.
  void be_patient() { deadline_ = Deadline::after(kPatience_s); }
  bool late() const { return late_.load(); }

  Pair(Pair&& other) noexcept {
    std::swap(transports_[0], other.transports_[0]);
    std::swap(transports_[1], other.transports_[1]);
  }

 private:
  Pair() = default;
  std::unique_ptr<Transport> transports_[2];
  const bool one_core_ = usable_cpus().size() == 1;
  Deadline deadline_ = Deadline::after(kPatience_s);
  std::atomic<bool> late_{false};
};

// -- a rank's own time -------------------------------------------------------------------------

// A call of `steps` that each copy eight bytes, or fold them `sources` times; of short steps, or,
// as it has a second lane, not.
Result<double> seconds_of_steps(int steps, size_t sources, bool short_steps) {
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
  return least([&] {
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
Result<double> seconds_of_call() {
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
  const double seconds = least([&] {
    const double begin = now_s();
    for (int i = 0; i < kCalls && status.ok(); ++i)
      status = (*communicator)->broadcast(&input, &output, 1, DataType::float64, 0);
    return (now_s() - begin) / kCalls;
  });
  if (!status.ok()) return status;
  return seconds;
}

Status measure_steps(Network& network) {
  constexpr int kMany = 65;
  const auto one = seconds_of_steps(1, 1, false), many = seconds_of_steps(kMany, 1, false),
             folds = seconds_of_steps(kMany, 2, false), one_short = seconds_of_steps(1, 1, true),
             many_short = seconds_of_steps(kMany, 1, true), call = seconds_of_call();
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
  const double seconds = least([&both] {
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
      [&] {
        return together(watch, cores, own_core, [&](int i) {
          std::byte* mine = memory[static_cast<size_t>(i)].data();
          for (size_t k = 0; k < times; ++k) copy_bytes(mine + half, mine, half, streaming);
        });
      },
      kRates);
  return static_cast<double>(2 * half * times) / seconds;
}

// -- links -------------------------------------------------------------------------------------

struct alignas(128) Flag {
  std::atomic<uint64_t> value{0};
};

double measure_flag_hop(Watch& watch) {
  constexpr uint64_t kTrips = 3000;
  const bool one_core = usable_cpus().size() == 1;
  return least([&watch, one_core] {
    Flag flags[2];
    const double seconds = together(watch, 2, own_core, [&](int me) {
      for (uint64_t i = 1; i <= kTrips; ++i) {
        if (me == 0) flags[1].value.store(i, std::memory_order_release);
        uint64_t spins = 0;
        while (flags[me].value.load(std::memory_order_acquire) < i) relax(++spins, one_core);
        if (me == 1) flags[0].value.store(i, std::memory_order_release);
      }
    });
    return seconds / (2 * kTrips);
  });
}

// Seconds that a rank itself was busy with a message, and that it took in all.
struct Trip {
  double whole = 0, send = 0, recv = 0;
};

// The lower quartile: contention of the two ends belongs to a link, that with other programs does
// not.
Trip typical(std::vector<Trip> trips) {
  std::sort(trips.begin(), trips.end(),
            [](const Trip& a, const Trip& b) { return a.whole < b.whole; });
  return trips[trips.size() / 4];
}

// Messages that both send at once, and then receive, as the ranks of most schedules do.
Trip measure_exchange(Watch& watch, Pair& pair, const Way& way, size_t bytes, int times) {
  double sending = 0, receiving = 0;
  const double seconds = together(watch, 2, own_core, [&](int me) {
    SendLink& out = pair.out(me, way);
    RecvLink& in = pair.in(me, way);
    for (int i = 0; i < times; ++i) {
      if (!pair.await(me, [&] { return !out.reserve().empty(); })) return;
      double begin = now_s();
      out.commit(bytes, 0);
      if (me == 0) sending += now_s() - begin;
      if (!pair.await(me, [&] { return begin = now_s(), in.peek() != nullptr; })) return;
      in.release();
      if (me == 0) receiving += now_s() - begin;
    }
  });
  return {seconds / times, sending / times, receiving / times};
}

constexpr size_t kSpan = 16;  // messages of memory that a stream comes from, and goes to
constexpr int kAhead = 1;     // messages under way each way, so that latency is hidden

// Messages of a length, one after the other.
struct Flow {
  size_t bytes = 0;
  Way way;
  double seconds = std::numeric_limits<double>::max();  // for one out and one in
};

// Seconds for a message out and one in, of flows both ways, out of memory and into memory.
double measure_flow(Watch& watch, Pair& pair, const Flow& flow, int messages, bool past_caches) {
  const size_t bytes = flow.bytes;
  const size_t span = kSpan * bytes;
  std::vector<std::byte> memory[2];
  for (auto& m : memory) m.assign(span, std::byte{1});
  const auto place = [&](int me, int i) {
    return &memory[me][static_cast<size_t>(i) * bytes % span];
  };
  return together(watch, 2, own_core,
                  [&](int me) {
                    SendLink& out = pair.out(me, flow.way);
                    RecvLink& in = pair.in(me, flow.way);
                    for (int i = 0; i < messages + kAhead; ++i) {
                      Bytes slot;
                      if (i < messages) {
                        if (!pair.await(me, [&] { return !(slot = out.reserve()).empty(); }))
                          return;
                        copy_bytes(slot.data(), place(me, i), bytes, past_caches);
                        out.commit(bytes, 0);
                      }
                      if (i < kAhead) continue;
                      if (!pair.await(me, [&] { return in.peek() != nullptr; })) return;
                      copy_bytes(place(me, i), in.peek()->data.data(), bytes, false);
                      in.release();
                    }
                    pair.await(me, [&] { return out.flushed(); });
                  }) /
         messages;
}

// Whichever way of writing is faster, in shared memory: plans find it, too.
void measure(Watch& watch, Pair& pair, bool in_shared_memory, Flow& flow) {
  constexpr size_t kBytes = 8 << 20;
  const int messages = static_cast<int>(std::clamp<size_t>(kBytes / flow.bytes, 64, 4096));
  const auto way = [&](bool past_caches) {
    const double seconds = measure_flow(watch, pair, flow, messages, past_caches);
    flow.seconds = std::min(flow.seconds, seconds);
  };
  way(false);
  if (in_shared_memory) way(true);
}

// Short messages are slower by the byte than long ones.
std::vector<Flow> flows_of_links(const Way& way) {
  std::vector<Flow> flows;
  for (const size_t bytes : {1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10})
    if (bytes <= way.shape.slot_bytes) flows.push_back({bytes, way});
  return flows;
}

// Windows are like links whose slots go round as leases do; short ones, like any.
std::vector<Flow> flows_of_windows() {
  std::vector<Flow> flows;
  LinkId id = kSharedMemory.id;
  for (const size_t bytes : {16 << 10, 64 << 10, 128 << 10}) {
    const auto slots = static_cast<uint32_t>(window_lap(bytes) / bytes);
    flows.push_back({bytes, {++id, {slots, static_cast<uint32_t>(bytes)}}});
  }
  return flows;
}

// Without what a rank pays for a message, and for its own memory.
std::vector<Rate> rates_of(const std::vector<Flow>& flows, const Network& network) {
  std::vector<Rate> rates;
  for (const Flow& flow : flows) {
    const double bytes = static_cast<double>(flow.bytes);
    const double own = 2 * bytes / network.memory_rate(kSpan * bytes);
    const double moving = flow.seconds - network.inside.send_s - network.inside.recv_s - own;
    rates.push_back({bytes, 2 * bytes / std::max(moving, own / 10)});
  }
  return rates;
}

// Of short ones, what each byte more adds to a link's messages: whatever else those cost is the
// link's, not memory's.
std::vector<Rate> rates_of_windows(const std::vector<Flow>& links, const std::vector<Flow>& windows,
                                   const Network& network) {
  std::vector<Rate> rates = rates_of(windows, network);
  const Flow &shorter = links[0], &longer = links[1];
  const double bytes = static_cast<double>(longer.bytes - shorter.bytes);
  const double seconds = std::max(longer.seconds - shorter.seconds, longer.seconds / 4);
  rates.insert(rates.begin(), {static_cast<double>(longer.bytes), 2 * bytes / seconds});
  return rates;
}

Status measure_links(std::string_view name, Watch& watch, Network& network) {
  Result<Pair> pair = Pair::make(name);
  if (!pair.ok()) return pair.status();
  const bool in_shared_memory = name == "shm";
  const Way& way = in_shared_memory ? kSharedMemory : kSockets;
  measure_exchange(watch, *pair, way, 8, 10);  // connects
  constexpr int kTimes = 500;
  std::vector<Flow> links = flows_of_links(way), windows;
  if (in_shared_memory) windows = flows_of_windows();
  std::vector<Trip> trips;
  for (int i = 0; i < kRepeats; ++i) {
    pair->be_patient();
    trips.push_back(measure_exchange(watch, *pair, way, 8, kTimes));
    for (std::vector<Flow>* flows : {&links, &windows})
      for (Flow& flow : *flows) measure(watch, *pair, in_shared_memory, flow);
  }
  if (pair->late())
    return Status(Code::timeout, "The link between two threads over " + std::string(name) +
                                     " did not answer within " + std::to_string(kPatience_s) +
                                     " seconds; nothing was measured.");
  Medium& medium = network.inside;
  medium.mapped = in_shared_memory;
  const double clock = least([] {  // what reading it adds to every part
    const double begin = now_s();
    for (int i = 0; i < 1000; ++i) now_s();
    return (now_s() - begin) / 1000;
  });
  const Trip trip = typical(trips);
  medium.send_s = std::max(0.0, trip.send - clock);
  medium.recv_s = std::max(0.0, trip.recv - clock);
  medium.latency_s = std::max(0.0, trip.whole - medium.send_s - medium.recv_s);
  medium.rank_rates = rates_of(links, network);
  if (!in_shared_memory) return watch.failed;
  // A flag alone says how soon another core can see something; messages that cross add to it.
  medium.latency_s = std::min(medium.latency_s, measure_flag_hop(watch));
  medium.window_rates = rates_of_windows(links, windows, network);
  return watch.failed;
}

}  // namespace

Result<MeasuredNode> measure_node(const std::vector<std::string_view>& transports) {
  Network node;
  const size_t cores = usable_cpus().size();
  node.node_cores = static_cast<int>(cores);
  WEFT_TRY(measure_steps(node));
  Watch watch;
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
