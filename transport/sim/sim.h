// A simulated medium: ranks of one process, with delays, losses, deaths and partitions from a seed.
//
// Two modes. In virtual time one thread drives all ranks (or several take turns): nothing moves but
// by calls, wait() jumps to the next event, and the same calls give the same run for the same seed.
// With `threads` the ranks are threads, time is real, and the seed gives only the delays.
//
// It is strict where the contract is: memory given to send() is read as late as the message
// arrives, and its ticket is done later still, in any order; posted memory holds garbage until its
// message is placed; slots hold garbage once released; free slots are reused in random order.
#pragma once

#include <functional>
#include <memory>

#include "transport/transport.h"

namespace weft {

struct SimRange {
  int64_t min_ns = 0;
  int64_t max_ns = 0;
};

struct SimOptions {
  uint64_t seed = 1;
  bool threads = false;
  SimRange message{1'000, 100'000};  // from commit or send to arrival
  SimRange other{0, 50'000};         // credits, tickets, notes, openings, windows
  double loss = 0;                   // of messages, each time they are tried; < 1
  int64_t retry_ns = 1'000'000;      // after which a lost one is tried again
  int64_t notice_ns = 1'000'000;     // from a death or a cut until peer_status() knows
  LinkTraits traits{.send_in_place = true, .send_from_memory = true, .recv_into_memory = true};
  bool windows = false;  // plain memory: what is written is seen at once
  // With windows ranks can read each other's own memory, too, but for one that cannot, and one
  // whose memory cannot be read.
  Rank blind = -1, hidden = -1;
  int cpus = 0;  // so many, that ranks have in turn (Transport::shares_cpu()); 0: one each
  // Called where a rank polls its transport: what others do between two of its looks. May be empty.
  std::function<void(Rank)> between = {};
};

namespace sim {
class State;
}

// What the ranks of one communicator share. Its own calls may come from any thread with `threads`,
// else from the one that drives the ranks.
class SimNet {
 public:
  SimNet(int size, const SimOptions& options);
  ~SimNet();

  const Clock& clock() const;
  // The rank falls silent: what is under way from it and to it is lost, the others notice.
  void kill(Rank rank);
  // The two hear nothing from each other any more and notice that.
  void cut(Rank a, Rank b);
  // Everything from and to this rank takes `factor` times as long.
  void slow(Rank rank, int factor);
  // Messages that have arrived so far.
  uint64_t arrivals() const;

  sim::State& state() { return *state_; }  // for the transports

 private:
  std::unique_ptr<sim::State> state_;
};

// The transport of config.rank; config.size must be the net's.
Result<std::unique_ptr<Transport>> make_sim(std::shared_ptr<SimNet> net,
                                            const TransportConfig& config);

}  // namespace weft
