// Ranks that make different calls on device memory: all ranks in this process, on a GPU that they
// share. They are told so, by the call itself, and nothing of WEFT_CHECK is needed for it.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <string>
#include <vector>

#include "base/text.h"
#include "tests/support/device_ranks.h"
#include "tests/support/sleep_while.h"

namespace weft::test {
namespace {

struct Case {
  const char* what;
  Call all, last;  // the last rank's
  std::string algorithm = "auto";
};

Call call_of(Kind kind, size_t count, DataType type = DataType::int32,
             ReduceOp op = ReduceOp::sum) {
  return {.kind = kind, .count = count, .type = type, .op = op};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const Kind reduce = Kind::all_reduce;
  for (const size_t count : {size_t{2}, size_t{700}, size_t{50000}})
    for (const char* algorithm : {"auto", "ring,auto"}) {
      const Call call = call_of(reduce, count);
      all.push_back({"count", call, call_of(reduce, count - count / 5 - 1), algorithm});
      all.push_back(
          {"op", call, call_of(reduce, count, DataType::int32, ReduceOp::max), algorithm});
      all.push_back({"type", call, call_of(reduce, count, DataType::float32), algorithm});
    }
  all.push_back({"kind", call_of(reduce, 1000), call_of(Kind::broadcast, 1000)});
  all.push_back({"kind", call_of(reduce, 50000), call_of(Kind::broadcast, 50000)});
  all.push_back({"kind", call_of(reduce, 50000), call_of(Kind::all_gather, 25000)});
  return all;
}

// Its first two calls' results, where all make the same call at first. Nobody begins the second one
// before `all_done`: who is told of a mismatch tells the others, whichever call they are in.
void expect_told(const Here& here, Call call, std::atomic<int>& told, std::latch& all_done,
                 const std::string& what) {
  auto in = here.on_device<int32_t>(200000, 1);
  auto out = here.on_device<int32_t>(200000, 0);
  call.input = in.data();
  call.output = out.data();
  expect_device_sum(here, here.comm);
  all_done.arrive_and_wait();
  Status status = here.comm.run(call);
  told += status.code() == Code::mismatch;
  // Who waited for nobody is told by the next call, if it has not heard by then.
  if (status.ok()) status = here.comm.run(call);
  EXPECT_EQ(status.code(), Code::mismatch) << what << ": " << status.to_string();
}

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(DeviceMismatch, Ranks, testing::Values(2, 3));

TEST_P(Ranks, AreToldWhereTheirCallsMeet) {
  for (const Case& c : cases()) {
    World world{.ranks = GetParam()};
    world.options.timeout_s = 20;
    world.options.algorithm = c.algorithm;
    const std::string what = concat(c.what, " of ", c.all.count, ", ", c.algorithm);
    std::atomic<int> told{0};
    std::latch all_done(GetParam());
    run_ranks(world, [&](const Here& here) {
      expect_told(here, here.me + 1 == here.comm.size() ? c.last : c.all, told, all_done, what);
    });
    EXPECT_GT(told, 0) << what;
  }
  run_ranks({.ranks = GetParam()}, [](const Here& here) { expect_device_sum(here, here.comm); });
}

// What counts is how many bytes, and that of each transfer between two ranks, in order.
TEST(DeviceMismatch, IsOfSizesThatAreSentAndReceived) {
  for (const size_t received : {size_t{100}, size_t{1000}, size_t{90000}}) {
    std::atomic<int> told{0};
    run_ranks({.ranks = 2}, [&](const Here& here) {
      auto values = here.on_device<int32_t>(100000, here.me);
      std::vector<Transfer> group;
      for (const size_t count : {size_t{7}, here.me == 0 ? size_t{1000} : received})
        group.push_back(here.me == 0 ? send_to(1, values.data(), count * 4, DataType::uint8)
                                     : receive_from(0, values.data(), count, DataType::int32));
      // Who sends waits for nobody while there are slots, and who is behind such a one compares
      // with the last message that has come.
      Status status = here.comm.run(group);
      for (int i = 0; i < 8 && received != 1000 && status.ok(); ++i) status = here.comm.run(group);
      told += status.code() == Code::mismatch;
      if (received != 1000 && status.ok()) status = here.comm.barrier();
      EXPECT_EQ(status.code(), received == 1000 ? Code::ok : Code::mismatch)
          << received << ": " << status.to_string();
    });
    EXPECT_EQ(told > 0, received != 1000);
  }
}

// Launches of one graph again and again, beside calls that are in none.
TEST_P(Ranks, LaunchGraphsOfOneCallAndOfDifferentOnes) {
  for (const bool differ : {false, true}) {
    std::latch heard(GetParam());  // who leaves sooner is lost to the others
    run_ranks({.ranks = GetParam()}, [&](const Here& here) {
      auto values = here.on_device<int32_t>(1000, 1);
      Call call = sum_call(values.data(), values.data(), 1000);
      call.op = differ && here.me == 0 ? ReduceOp::min : ReduceOp::max;
      ASSERT_TRUE(here.device.begin_capture(here.streams[0]).ok());
      EXPECT_TRUE(here.comm.enqueue(call, here.streams[0]).ok());
      const Result<Gpu::Graph> graph = here.device.end_capture(here.streams[0]);
      ASSERT_TRUE(graph.ok());
      EXPECT_TRUE(here.comm.barrier().ok());
      for (int i = 0; i < 5 && !differ; ++i) {
        EXPECT_TRUE(here.device.launch_graph(*graph, here.streams[0]).ok());
        here.synchronize();
        expect_device_sum(here, here.comm);
      }
      if (differ) {
        EXPECT_TRUE(here.device.launch_graph(*graph, here.streams[0]).ok());
        here.synchronize();
        const Deadline patience = Deadline::after(20);
        sleep_while([&] { return here.comm.health().ok() && !patience.expired(); });
        EXPECT_EQ(here.comm.health().code(), Code::mismatch) << here.comm.health().to_string();
        heard.arrive_and_wait();
      }
      here.device.destroy_graph(*graph);
    });
  }
}

// Where nothing of one call comes to where the other waits, ranks tell each other.
TEST(DeviceMismatch, IsToldWhereCallsDoNotMeet) {
  std::latch all_done(2);
  run_ranks({.ranks = 2}, [&](const Here& here) {
    auto in = here.on_device<int32_t>(1000, 1);
    auto out = here.on_device<int32_t>(2000, 0);
    Call call = sum_call(in.data(), out.data(), 1000);
    expect_device_sum(here, here.comm);
    all_done.arrive_and_wait();
    if (here.me == 1)
      call = {.kind = Kind::all_to_all,
              .input = in.data(),
              .output = out.data(),
              .count = 500,
              .type = DataType::int32};
    const Status status = here.comm.run(call);
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
  });
}

}  // namespace
}  // namespace weft::test
