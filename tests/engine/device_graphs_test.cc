// Calls on device memory that streams capture into graphs: all ranks in this process, on a GPU that
// they share.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/device_ranks.h"
#include "tests/support/oracle.h"
#include "tests/support/sanitized.h"
#include "tests/support/sleep_while.h"

namespace weft::test {
namespace {

// What streams are given in between; launched as often as is wanted. All ranks make theirs before
// any is launched: to make one may take memory of the GPU, for which CUDA waits for kernels.
class Graph {
 public:
  Graph(const Here& here, const std::function<void()>& capture)
      : here_(here), graph_(make(here, capture)) {
    EXPECT_TRUE(here.comm.barrier().ok());
  }
  Graph(const Graph&) = delete;
  ~Graph() {
    if (graph_.ok()) here_.device.destroy_graph(*graph_);
  }

  void launch() const {
    ASSERT_TRUE(graph_.ok()) << graph_.status().to_string();
    EXPECT_TRUE(here_.device.launch_graph(*graph_, here_.streams[0]).ok());
  }
  void run() const {
    launch();
    EXPECT_TRUE(here_.device.synchronize(here_.streams[0]).ok());
  }

 private:
  static Result<Gpu::Graph> make(const Here& here, const std::function<void()>& capture) {
    WEFT_TRY(here.device.begin_capture(here.streams[0]));
    capture();
    return here.device.end_capture(here.streams[0]);
  }

  const Here& here_;
  Result<Gpu::Graph> graph_;
};

void expect_put(const Here& here, const Call& call, int stream = 0) {
  const Status status = here.comm.enqueue(call, here.streams[stream]);
  EXPECT_TRUE(status.ok()) << status.to_string();
}

Status await_failure(const Communicator& comm) {
  const Deadline patience = Deadline::after(20);
  while (comm.health().ok() && !patience.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return comm.health();
}

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(DeviceGraphs, Ranks, testing::Values(1, 2, 3));

// Other data each time, and calls on the stream in between, of the same shape, also with other
// buffers, and of another shape.
void run_again_and_again(const Here& here, const Shape& shape) {
  CallMemory memory(shape, here.me, false, ReduceOp::sum, 0, &here.memory);
  CallMemory other(shape, here.me, false, ReduceOp::sum, 0, &here.memory);
  const Graph graph(here, [&] { expect_put(here, memory.call()); });
  for (uint64_t salt = 1; salt < 7; ++salt) {
    CallMemory& used = salt % 3 == 2 ? other : memory;
    used.fill(salt);
    if (salt == 6 || &used == &other) {
      expect_put(here, used.call());
      here.synchronize();
    } else {
      graph.run();
    }
    ASSERT_EQ(used.compare(), "") << name(shape.kind) << " of " << shape.count << ", " << salt;
    used.scribble();
    if (salt == 3) expect_device_sum(here, here.comm);
  }
}

// Short ones, and such that run between the ranks' own buffers where one GPU has them all.
TEST_P(Ranks, RunEveryCollectiveAgainAndAgain) {
  run_ranks({.ranks = GetParam()}, [](const Here& here) {
    for (int kind = 0; kind < kKinds; ++kind)
      for (const size_t count : {700, 9000}) {
        const Shape shape{.kind = static_cast<Kind>(kind),
                          .ranks = here.comm.size(),
                          .root = here.comm.size() - 1,
                          .count = count};
        if (shape.kind == Kind::exchange || shape.kind == Kind::barrier) continue;
        ASSERT_NO_FATAL_FAILURE(run_again_and_again(here, shape));
      }
    EXPECT_TRUE(here.comm.health().ok());
    EXPECT_TRUE(here.comm.synchronize().ok());
    EXPECT_EQ(here.comm.on_streams(), 0u);
    expect_host_sum(here);
  });
}

// Calls of a graph run in the order in which they were captured, whichever streams they were on,
// and launches of several graphs in that of their stream. Each call reads what the one before
// wrote.
TEST_P(Ranks, KeepTheOrderOfCalls) {
  run_ranks({.ranks = GetParam()}, [](const Here& here) {
    const auto ranks = static_cast<uint32_t>(here.comm.size());
    auto value = here.on_device<uint32_t>(1, 1);
    const Call call{.kind = Kind::all_reduce,
                    .input = value.data(),
                    .output = value.data(),
                    .count = 1,
                    .type = DataType::uint32};
    const auto both = [&] {
      expect_put(here, call);
      EXPECT_TRUE(here.comm.put_behind(here.streams[0], here.streams[1]).ok());
      for (int i = 0; i < 5; ++i) expect_put(here, call, i % 2);
      EXPECT_TRUE(here.comm.put_behind(here.streams[1], here.streams[0]).ok());
    };
    const Graph six(here, both), one(here, [&] { expect_put(here, call); });
    uint32_t expected = 1;
    for (int i = 0; i < 4; ++i) {
      six.launch();
      one.launch();
      one.launch();
      expect_put(here, call);
      here.synchronize();
      for (int k = 0; k < 9; ++k) expected *= ranks;
      EXPECT_EQ(value[0], expected);
    }
  });
}

TEST_P(Ranks, SendAndReceive) {
  run_ranks({.ranks = GetParam()}, [](const Here& here) {
    const Rank next = (here.me + 1) % here.comm.size();
    const Rank before = (here.me + here.comm.size() - 1) % here.comm.size();
    auto out = here.on_device<int32_t>(3000, 0), in = here.on_device<int32_t>(3000, -1);
    auto more = here.on_device<int32_t>(3000, -1);
    const std::vector<Transfer> first{send_to(next, out.data(), 3000, DataType::int32),
                                      receive_from(before, in.data(), 3000, DataType::int32)};
    const std::vector<Transfer> second{send_to(next, in.data(), 3000, DataType::int32),
                                       receive_from(before, more.data(), 3000, DataType::int32)};
    const Graph graph(here, [&] {
      EXPECT_TRUE(here.comm.enqueue(first, here.streams[0]).ok());
      EXPECT_TRUE(here.comm.enqueue(second, here.streams[0]).ok());
    });
    for (int i = 1; i < 4; ++i) {
      std::fill(out.begin(), out.end(), 100 * i + here.me);
      graph.run();
      const Rank twice = (before + here.comm.size() - 1) % here.comm.size();
      EXPECT_EQ(in, here.on_device<int32_t>(3000, 100 * i + before));
      EXPECT_EQ(more, here.on_device<int32_t>(3000, 100 * i + twice));
    }
  });
}

TEST(DeviceGraphs, RefuseWhatCannotBeCaptured) {
  run_ranks({.ranks = 2}, [](const Here& here) {
    auto value = here.on_device<int32_t>(1, 1);
    const Graph graph(here, [&] {
      const Status mixed = here.comm.put_behind(here.streams[1], here.streams[0]);
      EXPECT_EQ(mixed.code(), Code::invalid_argument) << mixed.to_string();
      const Status waits = here.comm.synchronize(here.streams[0]);
      EXPECT_NE(waits.message().find("captured into a graph"), std::string_view::npos);
      int32_t host = 1;
      EXPECT_FALSE(here.comm.enqueue(sum_call(&host, &host), here.streams[0]).ok());
      expect_put(here, sum_call(value.data(), value.data()));
    });
    graph.run();
    EXPECT_EQ(value[0], 2);
    expect_device_sum(here, here.comm);
  });
}

// The rank that did not launch its graph is named, and nothing runs any more.
TEST(DeviceGraphs, NameTheRankThatDoesNotCome) {
  World world{.ranks = 3};
  world.options.timeout_s = kSanitized ? 5 : 2;  // and a tenth of it for others' words
  std::atomic<int> told{0};
  run_ranks(world, [&](const Here& here) {
    auto value = here.on_device<int32_t>(50, 1);
    const Call call = sum_call(value.data(), value.data(), 50);
    const Graph graph(here, [&] { expect_put(here, call); });
    graph.run();
    if (here.me == 2) {
      sleep_while([&] { return told < 2; });
      return;
    }
    graph.launch();
    (void)await_failure(here.comm);
    std::this_thread::sleep_for(std::chrono::seconds(2));  // all have told whom they wait for
    const Status status = here.comm.health();
    EXPECT_EQ(status.code(), Code::timeout) << status.to_string();
    EXPECT_EQ(status.peer(), 2) << status.to_string();
    EXPECT_NE(status.message().find("graph: all_reduce"), std::string_view::npos)
        << status.to_string();
    EXPECT_EQ(here.comm.enqueue(call, here.streams[1]).code(), Code::timeout);
    graph.run();  // ends at once
    ++told;
  });
}

// A rank that leaves does no harm to graphs that do not run; those that do end, and name it.
TEST(DeviceGraphs, EndWhereARankIsLost) {
  std::atomic<int> away{0};
  run_ranks({.ranks = 3}, [&](const Here& here) {
    auto value = here.on_device<int32_t>(50, 1);
    const Graph graph(here, [&] { expect_put(here, sum_call(value.data(), value.data(), 50)); });
    graph.run();
    if (here.me == 2) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    EXPECT_TRUE(here.comm.health().ok()) << here.comm.health().to_string();
    ++away;
    sleep_while([&] { return away < 2; });
    graph.launch();
    const Status status = await_failure(here.comm);
    EXPECT_EQ(status.code(), Code::peer_lost) << status.to_string();
    EXPECT_EQ(status.peer(), 2) << status.to_string();
    here.synchronize();
  });
}

TEST(DeviceGraphs, EndWhenAborted) {
  std::atomic<int> told{0};
  run_ranks({.ranks = 2}, [&](const Here& here) {
    auto value = here.on_device<int32_t>(50, 1);
    const Graph graph(here, [&] { expect_put(here, sum_call(value.data(), value.data(), 50)); });
    if (here.me == 1) {
      sleep_while([&] { return told == 0; });
      return;
    }
    graph.launch();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    here.comm.abort("enough");
    here.synchronize();
    EXPECT_EQ(here.comm.health().code(), Code::aborted) << here.comm.health().to_string();
    ++told;
  });
}

}  // namespace
}  // namespace weft::test
