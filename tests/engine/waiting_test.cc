// What a call that waits says of itself, and what counts for its deadline.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/cluster.h"

namespace weft::test {
namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// By transport.
class Waiting : public testing::TestWithParam<std::string> {};

// More groups than the recorder remembers operations run beside an all_reduce that waits for two
// late ranks: what these are told of it is still that it is this one.
TEST_P(Waiting, ACallIsNotTakenForAnotherBehindManyGroups) {
  Cluster cluster{.ranks = 4, .mode = Mode::threads, .options = {}, .hosts = {}};
  cluster.options.transport = GetParam();
  cluster.options.timeout_s = 20;
  run_ranks(cluster, [](Communicator& c) {
    ASSERT_TRUE(c.barrier().ok());
    if (c.rank() >= 2) sleep_ms(c.rank() == 2 ? 500 : 1000);
    const float in = 1;
    float out = 0;
    Call call{.kind = Kind::all_reduce, .input = &in, .output = &out, .count = 1};
    call.type = DataType::float32;
    call.op = ReduceOp::sum;
    Work work = c.start(call);
    Status beside;
    for (int i = 0; c.rank() < 2 && i < 300 && beside.ok(); ++i) {
      char byte = 1;
      beside = c.rank() == 0 ? c.send(1, &byte, 1, DataType::uint8)
                             : c.recv(0, &byte, 1, DataType::uint8);
    }
    EXPECT_TRUE(beside.ok()) << beside.to_string();
    const Status status = work.wait();
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(out, 4);
  });
}

// Stops these processes for longer than their deadline, as a scheduler of jobs does; one goes on
// before the other does.
void suspend(const std::vector<int>& processes) {
  sleep_ms(700);
  for (const int process : processes) ::kill(process, SIGSTOP);
  sleep_ms(4000);
  for (const int process : processes) ::kill(process, SIGCONT), sleep_ms(200);
}

TEST_P(Waiting, TimeInWhichNobodyRanIsNobodysFault) {
  Cluster cluster{.mode = Mode::processes, .options = {}, .hosts = {}};
  cluster.options.transport = GetParam();
  run_ranks(cluster, [](Communicator& c) {
    const int mine = ::getpid();
    std::vector<int> processes(2);
    ASSERT_TRUE(c.all_gather(&mine, processes.data(), 1, DataType::int32).ok());
    const pid_t scheduler = c.rank() == 0 ? ::fork() : -1;
    if (scheduler == 0) {
      suspend(processes);
      ::_exit(0);
    }
    ASSERT_TRUE(c.rank() != 0 || scheduler > 0);
    int want = 1, going = 1;
    Call call{.kind = Kind::all_reduce, .input = &want, .output = &going, .count = 1};
    call.type = DataType::int32;
    call.op = ReduceOp::min;
    call.timeout_s = 3;
    Status status;
    while (going != 0 && status.ok()) {
      if (c.rank() == 1) sleep_ms(50);  // so that rank 0 waits nearly always
      if (c.rank() == 0) want = ::waitpid(scheduler, nullptr, WNOHANG) == 0;
      status = c.run(call);
    }
    EXPECT_TRUE(status.ok()) << status.to_string();
    if (scheduler > 0 && want != 0) ::waitpid(scheduler, nullptr, 0);
  });
}

// A thread of rank 0 waits for rank 1 in vain, beside calls that all ranks make without a pause. No
// rank has waited in those for as long, and none is in a circle: rank 1 did not send.
TEST_P(Waiting, WhoIsBusyIsInNoCircle) {
  Cluster cluster{.ranks = 3, .mode = Mode::threads, .options = {}, .hosts = {}};
  cluster.options.transport = GetParam();
  cluster.options.timeout_s = 5;
  run_ranks(cluster, [](Communicator& c) {
    Status received;
    std::thread receiver;
    if (c.rank() == 0)
      receiver = std::thread([&] {
        int value = 0;
        received = c.recv(1, &value, 1, DataType::int32);
      });
    Status status;
    const Deadline patience = Deadline::after(20);
    while (status.ok() && !patience.expired()) {
      int mine = 1, sum = 0;
      status = c.all_reduce(&mine, &sum, 1, DataType::int32, ReduceOp::sum);
    }
    if (receiver.joinable()) receiver.join();
    if (c.rank() == 0) status = received;
    EXPECT_EQ(status.code(), Code::timeout) << status.to_string();
    EXPECT_EQ(status.peer(), 1) << status.to_string();
    EXPECT_EQ(status.message().find("circle"), std::string_view::npos) << status.to_string();
    for (const std::string rank : {"rank 1", "rank 2"})
      EXPECT_EQ(status.message().find(rank + " waited 5 s"), std::string_view::npos)
          << status.to_string();
  });
}

INSTANTIATE_TEST_SUITE_P(Media, Waiting, testing::Values("shm", "tcp"));

}  // namespace
}  // namespace weft::test
