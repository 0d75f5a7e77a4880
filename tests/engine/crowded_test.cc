// Ranks that are more than the CPUs that they may use let each other run, and say when they do
// (Transport::running()); others do not.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "bootstrap/cpus.h"
#include "engine/engine.h"
#include "tests/support/cluster.h"
#include "transport/backends.h"

namespace weft::test {
namespace {

constexpr int kRounds = 10;

// Whether ranks, each bound to a CPU, say when they run.
bool say(const std::vector<int>& cpu_of_rank) {
  const int ranks = static_cast<int>(cpu_of_rank.size());
  std::vector<Transport*> transports(cpu_of_rank.size());
  std::atomic<int> waited = 0, looked = 0;  // rounds
  bool said = false;
  const Deadline patience = Deadline::after(20);
  run_bare_ranks({.ranks = ranks, .options = {}, .hosts = {}}, [&](Rendezvous& meet) {
    const Rank me = meet.rank();
    bind_to_cpu(cpu_of_rank[static_cast<size_t>(me)]);
    CreateConfig config;
    config.options.tuning = "off";
    config.host = "here";
    config.names = {"shm"};
    config.make = [&transports, me](std::string_view name, const TransportConfig& mine) {
      auto made = make_transport(name, mine);
      if (made.ok()) transports[static_cast<size_t>(me)] = made->get();
      return made;
    };
    auto made = create_communicator(meet, config);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    ASSERT_TRUE((*made)->barrier().ok());
    for (int round = 1; round <= kRounds; ++round) {
      if (me == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // others wait
      ASSERT_TRUE((*made)->barrier().ok());
      // In a call, rank 1 might be waiting again.
      if (me == 1) waited = round;
      while ((me == 0 ? waited : looked) < round && !patience.expired()) std::this_thread::yield();
      if (me == 0) said |= transports[0]->running(1);
      if (me == 0) looked = round;
    }
    ASSERT_TRUE((*made)->barrier().ok());
  });
  return said;
}

TEST(Crowded, AreRanksThatShareACpu) {
  const int first = usable_cpus().front();
  EXPECT_TRUE(say({first, first}));
}

TEST(Crowded, AreNotRanksWithACpuEach) {
  const std::vector<int> cpus = usable_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "there is only one CPU";
  EXPECT_FALSE(say({cpus[0], cpus[1]}));
}

TEST(Crowded, AreMoreRanksThanCpus) {
  const std::vector<int> cpus = usable_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "there is only one CPU";
  EXPECT_TRUE(say({cpus[0], cpus[1], cpus[1]}));
}

}  // namespace
}  // namespace weft::test
