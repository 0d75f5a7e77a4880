// Jobs over a fabric in memory whose links are pulled and whose ranks die in the middle of calls,
// seed after seed: nobody hangs, and who is left is told who is to blame.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "bootstrap/rendezvous.h"
#include "engine/engine.h"
#include "tests/support/oracle.h"
#include "tests/support/sleep_while.h"
#include "tests/transport/verbs/fabric.h"
#include "transport/verbs/verbs.h"

namespace weft::test {
namespace {

using verbs::test::Fabric;
using verbs::test::FabricOptions;

constexpr int kRanks = 3;

struct Setting {
  size_t slot_bytes = 0;
  double grace_s = 0.02;  // and until a port is given up
  Rank slow = -1;         // takes so much longer for it:
  double slow_s = 0.25;
};

CreateConfig config_on(const std::shared_ptr<Fabric>& fabric, const Setting& setting) {
  CreateConfig config;
  config.options.transport = "verbs";
  config.options.timeout_s = 30;
  config.options.slot_bytes = setting.slot_bytes;
  config.options.tuning = "off";
  config.host = "one host";
  config.names = {"verbs"};
  config.make = [fabric, setting](std::string_view, TransportConfig transport) {
    verbs::Tuning tuning;
    tuning.direct = 4096;
    tuning.grace = tuning.port_down =
        setting.grace_s + (transport.rank == setting.slow ? setting.slow_s : 0);
    return verbs::make_verbs(transport, fabric->host(transport.rank), tuning);
  };
  return config;
}

// Runs `body` on every rank, as threads.
void run_on(const std::shared_ptr<Fabric>& fabric, int ranks, const Setting& setting,
            const std::function<void(std::unique_ptr<Communicator>)>& body) {
  auto meeting = make_in_process_rendezvous(ranks);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto made = create_communicator(*meeting[rank], config_on(fabric, setting));
      ASSERT_TRUE(made.ok()) << made.status().to_string();
      body(made.take());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(VerbsJobs, AllCollectivesGiveWhatTheOracleGives) {
  const auto fabric = std::make_shared<Fabric>(FabricOptions());
  for (const size_t slot_bytes : {size_t{0}, size_t{8192}}) {
    run_on(fabric, 4, {.slot_bytes = slot_bytes}, [](std::unique_ptr<Communicator> c) {
      uint64_t salt = 0;
      for (const size_t count : {1, 100, 30000}) {
        for (const Kind kind :
             {Kind::all_reduce, Kind::reduce, Kind::broadcast, Kind::all_gather,
              Kind::reduce_scatter, Kind::gather, Kind::scatter, Kind::all_to_all}) {
          const Shape shape{.kind = kind, .ranks = c->size(), .root = 1, .count = count};
          ++salt;
          ASSERT_EQ(run_and_compare(*c, shape, salt % 2 == 0, salt), "");
        }
      }
      const Status met = c->barrier();
      EXPECT_TRUE(met.ok()) << met.to_string();
    });
  }
  EXPECT_EQ(fabric->violations(), std::vector<std::string>());
}

enum class Fault { die, pull, pull_and_tell, break_device };

// Calls until one fails, or until `calls` are over.
Status reduce_on(Communicator& c, size_t count, int calls) {
  std::vector<float> data(count, 1.0F);
  const Call call{.kind = Kind::all_reduce,
                  .input = data.data(),
                  .output = data.data(),
                  .count = count,
                  .type = DataType::float32};
  Status status;
  for (int i = 0; i < calls && status.ok(); ++i) status = c.run(call);
  return status;
}

void cause(Fabric& fabric, Fault fault, Rank victim) {
  switch (fault) {
    case Fault::die: return;  // at its own time
    case Fault::pull: return fabric.pull(victim);
    case Fault::pull_and_tell: return fabric.pull(victim, true);
    case Fault::break_device: return fabric.break_device(victim);
  }
}

// The victim is blamed, or, where it still talks, its own port is named.
void expect_blame(const Status& status, Rank victim) {
  EXPECT_EQ(status.code(), Code::peer_lost) << status.to_string();
  const std::string port = "fake" + std::to_string(victim) + " port 1";
  EXPECT_TRUE(status.peer() == victim || status.message().find(port) != std::string_view::npos)
      << "rank " << victim << " is to blame: " << status.to_string();
}

void run_with_fault(uint64_t seed, Fault fault) {
  std::mt19937_64 random(seed);
  FabricOptions options;
  options.seed = seed;
  options.retry_s = 0.01;
  const auto fabric = std::make_shared<Fabric>(options);
  const size_t count = size_t{1} << (4 + random() % 13);
  const auto victim = static_cast<Rank>(random() % kRanks);
  const auto calls = static_cast<int>(random() % 40);
  const auto after = std::chrono::microseconds(random() % 20000);
  std::atomic<int> begun = 0;
  std::thread destiny([&] {
    sleep_while([&] { return begun < kRanks; });
    std::this_thread::sleep_for(after);
    cause(*fabric, fault, victim);
  });
  run_on(fabric, kRanks, {.slot_bytes = 16384}, [&](std::unique_ptr<Communicator> c) {
    const Rank rank = c->rank();
    ASSERT_TRUE(c->barrier().ok());
    const bool dies = fault == Fault::die && rank == victim;
    ++begun;
    sleep_while([&] { return begun < kRanks; });
    const auto begin = std::chrono::steady_clock::now();
    const Status status = reduce_on(*c, count, dies ? calls : 1000000);
    if (dies) return fabric->pull(rank);  // nothing of it leaves any more
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(waited.count(), 15) << "rank " << rank;
    if (rank != victim) expect_blame(status, victim);
    EXPECT_FALSE(status.ok());
  });
  destiny.join();
  EXPECT_EQ(fabric->violations(), std::vector<std::string>());
  EXPECT_EQ(fabric->queue_pairs(), 0u);
  EXPECT_EQ(fabric->regions(), 0u);
}

class Faults : public testing::TestWithParam<Fault> {};

TEST_P(Faults, InTheMiddleOfAllReduceAreNamedByEverySurvivor) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_with_fault(seed, GetParam());
    if (HasFailure()) return;
  }
}

// Rank 2 leaves because of rank 0, before rank 1 has ever met it, or found out about rank 0.
TEST(VerbsJobs, WhoLeavesBecauseOfALossIsNotBlamedForIt) {
  FabricOptions options;
  options.retry_s = 0.01;
  const auto fabric = std::make_shared<Fabric>(options);
  std::atomic<bool> left = false, over = false;
  std::atomic<int> met = 0;
  const Setting setting{.slow = 1};
  run_on(fabric, 3, setting, [&](std::unique_ptr<Communicator> c) {
    float sent = 1, got[2] = {};
    const auto to = [&](Rank peer) { return send_to(peer, &sent, 1, DataType::float32); };
    const auto from = [&](Rank peer) {
      return receive_from(peer, &got[peer == 0 ? 0 : peer - 1], 1, DataType::float32);
    };
    const bool first = c->rank() == 0;
    const std::vector<Transfer> hello =
        first ? std::vector{to(1), to(2), from(1), from(2)} : std::vector{to(0), from(0)};
    EXPECT_TRUE(c->run(hello).ok());
    ++met;
    sleep_while([&] { return met < 3; });
    if (first) {
      fabric->pull(0);
      ++met;
      sleep_while([&] { return !over; });
      return;
    }
    sleep_while([&] { return met < 4; });
    if (c->rank() == 1) sleep_while([&] { return !left; });
    const std::vector<Transfer> rest =
        c->rank() == 2 ? std::vector{to(0), from(0)} : std::vector{to(0), from(0), to(2)};
    const Status status = c->run(rest);
    EXPECT_EQ(status.code(), Code::peer_lost) << status.to_string();
    EXPECT_EQ(status.peer(), 0) << status.to_string();
    const bool leaves_first = c->rank() == 2;
    c.reset();
    (leaves_first ? left : over) = true;
  });
}

std::string fault_name(const testing::TestParamInfo<Fault>& info) {
  constexpr const char* kNames[] = {"die", "pull", "pull_and_tell", "break_device"};
  return kNames[static_cast<size_t>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Verbs, Faults,
                         testing::Values(Fault::die, Fault::pull, Fault::pull_and_tell,
                                         Fault::break_device),
                         fault_name);

}  // namespace
}  // namespace weft::test
