#include "engine/measure_links.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/backoff.h"
#include "engine/media.h"
#include "engine/schedule/window_lap.h"
#include "kernels/reduce.h"
#include "transport/backends.h"

namespace weft::measuring {
namespace {

constexpr double kPatience_s = 10;

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

// -- messages without bytes --------------------------------------------------------------------

struct alignas(128) Flag {
  std::atomic<uint64_t> value{0};
};

double measure_flag_hop(Watch& watch) {
  constexpr uint64_t kTrips = 3000;
  const bool one_core = usable_cpus().size() == 1;
  return least(watch.until, [&watch, one_core] {
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

// A message there and one back, in turn: seconds for each.
double measure_turns(Watch& watch, Pair& pair, const Way& way, size_t bytes, int times) {
  const double seconds = together(watch, 2, own_core, [&](int me) {
    SendLink& out = pair.out(me, way);
    RecvLink& in = pair.in(me, way);
    for (int i = 0; i < 2 * times; ++i) {
      if (i % 2 == me) {
        if (!pair.await(me, [&] { return !out.reserve().empty(); })) return;
        out.commit(bytes, 0);
      } else {
        if (!pair.await(me, [&] { return in.peek() != nullptr; })) return;
        in.release();
      }
    }
  });
  return seconds / (2 * times);
}

// -- messages of many bytes --------------------------------------------------------------------

constexpr size_t kSpan = 16;  // messages of memory that a stream comes from, and goes to
constexpr int kAhead = 1;     // messages under way each way, so that latency is hidden

// Messages of a length, one after the other.
struct Flow {
  size_t bytes = 0;
  Way way;
  double both_s = std::numeric_limits<double>::max();  // for one out and one in, of flows both ways
  double one_s = both_s;  // for one, where they go from one rank to the other only
};

// One rank's part of a flow: out of its memory, or into it.
class End {
 public:
  End(Pair& pair, const Flow& flow, Rank me)
      : pair_(pair),
        me_(me),
        bytes_(flow.bytes),
        out_(pair.out(me, flow.way)),
        in_(pair.in(me, flow.way)),
        memory_(kSpan * bytes_, std::byte{1}) {}

  bool send(int message, bool past_caches) {
    Bytes slot;
    if (!pair_.await(me_, [&] { return !(slot = out_.reserve()).empty(); })) return false;
    copy_bytes(slot.data(), place(message), bytes_, past_caches);
    out_.commit(bytes_, 0);
    return true;
  }
  bool receive(int message) {
    if (!pair_.await(me_, [&] { return in_.peek() != nullptr; })) return false;
    copy_bytes(place(message), in_.peek()->data.data(), bytes_, false);
    in_.release();
    return true;
  }
  void flush() {
    pair_.await(me_, [&] { return out_.flushed(); });
  }

 private:
  std::byte* place(int message) {
    return &memory_[static_cast<size_t>(message) * bytes_ % memory_.size()];
  }

  Pair& pair_;
  const Rank me_;
  const size_t bytes_;
  SendLink& out_;
  RecvLink& in_;
  std::vector<std::byte> memory_;
};

double both_ways(Watch& watch, Pair& pair, const Flow& flow, int messages, bool past_caches) {
  End ends[2] = {{pair, flow, 0}, {pair, flow, 1}};
  const double seconds = together(watch, 2, own_core, [&](int me) {
    End& end = ends[me];
    for (int i = 0; i < messages + kAhead; ++i) {
      if (i < messages && !end.send(i, past_caches)) return;
      if (i >= kAhead && !end.receive(i)) return;
    }
    end.flush();
  });
  return seconds / messages;
}

double one_way(Watch& watch, Pair& pair, const Flow& flow, int messages, bool past_caches) {
  End from(pair, flow, 0), to(pair, flow, 1);
  const double seconds = together(watch, 2, own_core, [&](int me) {
    for (int i = 0; i < messages; ++i)
      if (me == 0 ? !from.send(i, past_caches) : !to.receive(i)) return;
    if (me == 0) from.flush();
  });
  return seconds / messages;
}

// Whichever way of writing is faster, in shared memory: plans find it, too.
void measure(Watch& watch, Pair& pair, bool in_shared_memory, Flow& flow) {
  constexpr size_t kBytes = 4 << 20;
  const int messages = static_cast<int>(std::clamp<size_t>(kBytes / flow.bytes, 32, 4096));
  for (const bool past_caches : {false, true}) {
    if (past_caches && !in_shared_memory) continue;
    flow.both_s = std::min(flow.both_s, both_ways(watch, pair, flow, messages, past_caches));
    flow.one_s = std::min(flow.one_s, one_way(watch, pair, flow, messages, past_caches));
  }
}

// Short messages are slower by the byte than long ones.
std::vector<Flow> flows_of_links(const Way& way) {
  std::vector<Flow> flows;
  for (const size_t bytes : {1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10})
    if (bytes <= way.shape.slot_bytes) flows.push_back({bytes, way});
  return flows;
}

// Windows are like links whose slots go round as leases do.
std::vector<Flow> flows_of_windows() {
  std::vector<Flow> flows;
  LinkId id = kSharedMemory.id;
  for (const size_t bytes : {1 << 10, 2 << 10, 4 << 10, 16 << 10, 64 << 10, 128 << 10}) {
    const auto slots = static_cast<uint32_t>(window_lap(bytes) / bytes);
    flows.push_back({bytes, {++id, {slots, static_cast<uint32_t>(bytes)}}});
  }
  return flows;
}

// Without what a rank pays for a message, and for its own memory. One way, the slower of the two
// ends is what is seen.
Rate exchange_rate(const Flow& flow, const Network& network) {
  const double bytes = static_cast<double>(flow.bytes);
  const double own = 2 * bytes / network.memory_rate(kSpan * bytes);
  const double moving = flow.both_s - network.inside.send_s - network.inside.recv_s - own;
  return {bytes, 2 * bytes / std::max(moving, own / 10)};
}
Rate one_way_rate(const Flow& flow, const Network& network) {
  const double bytes = static_cast<double>(flow.bytes);
  const double own = bytes / network.memory_rate(kSpan * bytes);
  const double moving = flow.one_s - std::max(network.inside.send_s, network.inside.recv_s) - own;
  return {bytes, bytes / std::max(moving, own / 10)};
}

// What each byte more of a short message adds: whatever else those cost is the link's, which
// windows are without.
std::vector<Rate> exchange_rates_of_windows(const std::vector<Flow>& flows,
                                            const Network& network) {
  std::vector<Rate> rates;
  for (const Flow& flow : flows) rates.push_back(exchange_rate(flow, network));
  const Flow &shorter = flows[0], &longer = flows[1];
  const double bytes = static_cast<double>(longer.bytes - shorter.bytes);
  const double seconds = std::max(longer.both_s - shorter.both_s, longer.both_s / 4);
  rates[0].rate = rates[1].rate = 2 * bytes / seconds;
  return rates;
}

}  // namespace

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
  std::vector<double> turns;
  for (int i = 0; i < kRepeats && (i == 0 || !watch.until.expired()); ++i) {
    pair->be_patient();
    trips.push_back(measure_exchange(watch, *pair, way, 8, kTimes));
    turns.push_back(measure_turns(watch, *pair, way, 8, kTimes));
    for (std::vector<Flow>* flows : {&links, &windows})
      for (Flow& flow : *flows) measure(watch, *pair, in_shared_memory, flow);
  }
  if (pair->late())
    return Status(Code::timeout, "The link between two threads over " + std::string(name) +
                                     " did not answer within " + std::to_string(kPatience_s) +
                                     " seconds; nothing was measured.");
  Medium& medium = network.inside;
  medium.mapped = in_shared_memory;
  const double clock = least({}, [] {  // what reading it adds to every part
    const double begin = now_s();
    for (int i = 0; i < 1000; ++i) now_s();
    return (now_s() - begin) / 1000;
  });
  const Trip trip = typical(trips);
  medium.send_s = std::max(0.0, trip.send - clock);
  medium.recv_s = std::max(0.0, trip.recv - clock);
  medium.latency_s = std::max(0.0, trip.whole - medium.send_s - medium.recv_s);
  // The other end has a message of a socket before its sender's system call is over.
  std::sort(turns.begin(), turns.end());
  if (!in_shared_memory)
    medium.send_tail_s = std::clamp(trip.whole - turns[turns.size() / 4], 0.0, medium.send_s);
  for (const Flow& flow : links) {
    medium.rank_rates.push_back(exchange_rate(flow, network));
    medium.rank_one_way_rates.push_back(one_way_rate(flow, network));
  }
  if (!in_shared_memory) return watch.failed;
  // A flag alone says how soon another core can see something; messages that cross add to it.
  medium.latency_s = std::min(medium.latency_s, measure_flag_hop(watch));
  medium.window_rates = exchange_rates_of_windows(windows, network);
  for (const Flow& flow : windows)
    medium.window_one_way_rates.push_back(one_way_rate(flow, network));
  return watch.failed;
}

}  // namespace weft::measuring
