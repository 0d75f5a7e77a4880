#include "engine/measure/links.h"

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "bootstrap/cpus.h"
#include "engine/backoff.h"
#include "engine/measure/flows.h"
#include "engine/measure/pair.h"
#include "engine/measure/reads.h"
#include "engine/schedule/window_lap.h"
#include "kernels/claim.h"

namespace weft::measuring {
namespace {

// -- messages without bytes --------------------------------------------------------------------

struct alignas(128) Flag {
  std::atomic<uint64_t> value{0};
};

double measure_flag_hop(Watch& watch) {
  constexpr uint64_t kTrips = 3000;
  const bool one_core = usable_cpus().size() == 1;
  return typical(watch.until, [&watch, one_core] {
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
  bool operator<(const Trip& other) const { return whole < other.whole; }
};

// Messages that both send at once, and then receive, as the ranks of most schedules do.
Trip measure_exchange(Watch& watch, Pair& pair, size_t bytes, int times) {
  double sending = 0, receiving = 0;
  const double seconds = together(watch, 2, own_core, [&](int me) {
    SendLink& out = pair.out(me);
    RecvLink& in = pair.in(me);
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
double measure_turns(Watch& watch, Pair& pair, size_t bytes, int times) {
  const double seconds = together(watch, 2, own_core, [&](int me) {
    SendLink& out = pair.out(me);
    RecvLink& in = pair.in(me);
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

// Over loopback the other end has a message before its sender's system call is over. So in turns it
// is there by so much sooner; who sends as well has no use for that: all that an exchange takes
// beside sending is receiving.
void deliver_within_calls(Medium& medium, double exchange_s, double turn_s) {
  medium.send_tail_s = std::clamp(exchange_s - turn_s, 0.0, medium.send_s);
  medium.recv_s += std::exchange(medium.latency_s, 0);
}

template <class Look>
double seconds_alone(Watch& watch, Look look) {
  constexpr int kLooks = 1000;
  return typical(watch.until, [&] {
    return together(watch, 1, own_core,
                    [&](int) {
                      for (int i = 0; i < kLooks; ++i) look();
                    }) /
           kLooks;
  });
}

// A look that finds none.
double measure_poll(Watch& watch, Pair& pair) {
  return seconds_alone(watch, [&] { pair.in(0).peek(); });
}

// How long a rank spins for another one that runs (engine/backoff.h), whose looks cost what steps
// do.
double measure_patience(Watch& watch, double look_s) {
  return Backoff::kSpinsForRunning * (seconds_alone(watch, cpu_relax) + look_s);
}

// -- messages of many bytes --------------------------------------------------------------------

// Bytes per second; infinite where nothing is known.
double fastest_copy(const Network& network) {
  double most = 0;
  for (const auto& copy : network.memory) most = std::max(most, copy.rate);
  return most > 0 ? most : std::numeric_limits<double>::infinity();
}

// Without what a rank pays for each message, and for reading or writing its own memory.
Rate rate_of(const Flow& flow, int messages, double whole_s, double messages_s,
             const Network& network) {
  const auto bytes = static_cast<double>(flow.bytes);
  const double all = messages * bytes;
  // In sockets each message lies in memory, too, beside what it is read from or written to.
  const double socket = network.inside.mapped ? 0 : all;
  double own_s = all / network.memory_rate(kSpan * all + socket);
  if (socket > 0) own_s += socket / network.memory_rate(socket);
  // No faster than a core copies what it has at hand: what seems so is noise, or was paid for with
  // the messages.
  const double least_s = std::max(own_s / 10, all / fastest_copy(network));
  const double moving_s = std::max(whole_s - messages_s - own_s, least_s);
  return {bytes, all / moving_s};
}

// The first flow is of messages that are a line: what the others of those that are awaited take
// more is what their bytes take.
std::vector<Rate> exchange_rates(const std::vector<Flow>& flows, const Network& network) {
  const double paid_s = network.inside.send_s + network.inside.recv_s;
  std::vector<Rate> rates;
  for (size_t i = 1; i < flows.size(); ++i)
    rates.push_back(rate_of(flows[i], 2, flows[i].both_s,
                            flows[i].awaited ? flows[0].both_s : paid_s, network));
  return in_order(std::move(rates));
}

// The slower of the two ends is what is seen.
std::vector<Rate> one_way_rates(const std::vector<Flow>& flows, const Network& network) {
  const double paid_s = std::max(network.inside.send_s, network.inside.recv_s);
  std::vector<Rate> rates;
  for (size_t i = 1; i < flows.size(); ++i)
    rates.push_back(rate_of(flows[i], 1, flows[i].one_s, paid_s, network));
  return in_order(std::move(rates));
}

// Where memory is shared, whichever way of writing is faster: plans find it, too.
Status measure_flows(Watch& watch, Pair& pair, std::initializer_list<std::vector<Flow>*> all) {
  for (const bool past_caches : {false, true}) {
    if (past_caches && !pair.shares_memory()) return {};
    for (int i = 0; i < kRepeats && (i == 0 || !watch.until.expired()); ++i) {
      pair.be_patient();
      for (std::vector<Flow>* flows : all)
        for (Flow& flow : *flows) {
          measure(watch, pair, past_caches, flow);
          WEFT_TRY(pair.status());
        }
    }
  }
  return {};
}

}  // namespace

// By which a rate may fall from one length to the next, as where a cache ends.
constexpr double kFallMost = 8;

// Isotonic regression by pooling adjacent violators: M. Ayer et al., 1955.
std::vector<Rate> in_order(std::vector<Rate> rates) {
  struct Pool {
    double seconds = 0;  // of all of its messages
    size_t messages = 0;
    double each() const { return seconds / static_cast<double>(messages); }
  };
  std::vector<Pool> pools;
  for (const Rate& rate : rates) {
    pools.push_back({rate.bytes / rate.rate, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].each() > pools.back().each()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back() = {pools.back().seconds + last.seconds, pools.back().messages + last.messages};
    }
  }
  auto rate = rates.begin();
  for (const Pool& pool : pools)
    for (size_t i = 0; i < pool.messages; ++i, ++rate) rate->rate = rate->bytes / pool.each();
  for (size_t i = rates.size(); i-- > 1;)
    rates[i - 1].rate = std::min(rates[i - 1].rate, kFallMost * rates[i].rate);
  return rates;
}

Status measure_links(std::string_view transport, Watch& watch, Network& network) {
  Result<Pair> pair = Pair::make(transport, kWindowLapBytes);
  if (!pair.ok()) return pair.status();
  const bool in_shared_memory = pair->shares_memory();
  measure_exchange(watch, *pair, 8, 10);  // connects
  constexpr int kTimes = 500;
  std::vector<Flow> links = flows_of_links(*pair), windows;
  if (in_shared_memory) windows = flows_of_windows();
  std::vector<Trip> trips;
  std::vector<double> turns;
  for (int i = 0; i < kRepeats && (i == 0 || !watch.until.expired()); ++i) {
    pair->be_patient();
    trips.push_back(measure_exchange(watch, *pair, 8, kTimes));
    turns.push_back(measure_turns(watch, *pair, 8, kTimes));
    WEFT_TRY(pair->status());
  }
  WEFT_TRY(measure_flows(watch, *pair, {&links, &windows}));
  Medium& medium = network.inside;
  medium.mapped = in_shared_memory;
  medium.claims = in_shared_memory && claims_next();
  // As weft-bench binds them (bench/launch.cc).
  network.core_blocks = !in_shared_memory;
  const double clock = typical({}, [] {  // what reading it adds to every part
    const double begin = now_s();
    for (int i = 0; i < 1000; ++i) now_s();
    return (now_s() - begin) / 1000;
  });
  const Trip trip = median(trips);
  medium.send_s = std::max(0.0, trip.send - clock);
  medium.recv_s = std::max(0.0, trip.recv - clock);
  medium.latency_s = std::max(0.0, trip.whole - medium.send_s - medium.recv_s);
  medium.poll_s = measure_poll(watch, *pair);
  if (!in_shared_memory) deliver_within_calls(medium, trip.whole, median(turns));
  medium.rank_rates = exchange_rates(links, network);
  medium.rank_one_way_rates = one_way_rates(links, network);
  if (!in_shared_memory) return watch.failed;
  medium.patience_s = measure_patience(watch, network.step_s);
  // A flag alone says how soon another core can see something; messages that cross add to it.
  medium.latency_s = std::min(medium.latency_s, measure_flag_hop(watch));
  // A line through windows, each way, is a signal that has been given, and one that has been seen.
  medium.signal_s = std::max(0.0, windows[0].both_s - medium.latency_s) / 2;
  medium.window_rates = exchange_rates(windows, network);
  medium.window_one_way_rates = one_way_rates(windows, network);
  measure_reads(watch, *pair, network);
  return watch.failed;
}

}  // namespace weft::measuring
