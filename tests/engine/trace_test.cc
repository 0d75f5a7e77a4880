// What lanes did, as it is noted down: every step of the program once per round, in order, each
// message received after it was sent; and nothing allocated meanwhile.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "engine/algorithms/algorithm.h"
#include "engine/executor/step_ring.h"
#include "tests/support/allocations.h"
#include "tests/support/cluster.h"
#include "tests/support/sim_call.h"

namespace weft::test {
namespace {

constexpr size_t kCount = 3000, kRounds = 4;  // rounds of 256 floats, in each of three chunks

Cluster ring_of_three(const std::string& transport) {
  Cluster c{.ranks = 3, .mode = Mode::threads, .options = {}, .hosts = {}};
  c.options.transport = transport;
  c.options.algorithm = "ring";
  c.options.slot_bytes = 1024;
  return c;
}

using Trace = std::vector<StepDone>;

// By rank: what each noted down in the last of three calls.
std::vector<Trace> traces_of_a_call(const Cluster& cluster, size_t most) {
  std::vector<Trace> all(static_cast<size_t>(cluster.ranks));
  run_ranks(cluster, [&](Communicator& c) {
    std::vector<float> in(kCount, 1), out(kCount);
    const auto call = [&] {
      EXPECT_TRUE(
          c.all_reduce(in.data(), out.data(), kCount, DataType::float32, ReduceOp::sum).ok());
    };
    call();
    EXPECT_EQ(c.start_trace(~size_t{0}).code(), Code::invalid_argument);
    ASSERT_TRUE(c.start_trace(most).ok());
    call();
    count_allocations();
    call();
    EXPECT_EQ(counted_allocations(), 0);
    all[static_cast<size_t>(c.rank())] = c.end_trace();
    call();
    EXPECT_TRUE(c.end_trace().empty());
  });
  return all;
}

Program ring_program(Rank rank) {
  return find_algorithm("ring")->build({Kind::all_reduce, 3, 0, false}, rank, {});
}

// One entry for each time round each step.
std::vector<std::string> names_of(const Program& program, int chunks) {
  std::vector<std::string> names;
  for (const Step& step : program.lanes[0].steps)
    for (int i = 0; i < step.times; ++i)
      names.push_back(name(step) + " chunk " + std::to_string(chunk_at(step, i, chunks)));
  return names;
}

class Traced : public testing::TestWithParam<const char*> {};

TEST_P(Traced, EveryStepOfEveryRoundInOrder) {
  const std::vector<Trace> traces = traces_of_a_call(ring_of_three(GetParam()), 1000);
  for (Rank rank = 0; rank < 3; ++rank) {
    const std::vector<std::string> names = names_of(ring_program(rank), 3);
    const Trace& trace = traces[static_cast<size_t>(rank)];
    ASSERT_EQ(trace.size(), 2 * kRounds * names.size());
    int64_t last = 0;
    for (size_t i = 0; i < trace.size(); ++i) {
      EXPECT_LE(last, trace[i].begin_ns);
      EXPECT_LE(trace[i].begin_ns, trace[i].end_ns);
      last = trace[i].end_ns;
      const TraceEvent event = to_event(trace[i], rank, trace[0].begin_ns);
      EXPECT_EQ(event.name, names[i % names.size()]);
      EXPECT_EQ(event.round, static_cast<int>(i / names.size() % kRounds));
      EXPECT_EQ(event.rank, rank);
      EXPECT_GE(event.begin_s, 0);
      EXPECT_LT(event.end_s, 60);
    }
  }
}

TEST_P(Traced, MessagesAreReceivedAfterTheyWereSent) {
  const std::vector<Trace> traces = traces_of_a_call(ring_of_three(GetParam()), 1000);
  for (Rank rank = 0; rank < 3; ++rank) {
    std::vector<int64_t> sent, received;
    for (const StepDone& step : traces[static_cast<size_t>(rank)])
      if (step.sends) sent.push_back(step.begin_ns);
    for (const StepDone& step : traces[static_cast<size_t>((rank + 1) % 3)])
      if (step.receives) received.push_back(step.end_ns);
    ASSERT_EQ(sent.size(), received.size());
    for (size_t i = 0; i < sent.size(); ++i) EXPECT_LT(sent[i], received[i]);
  }
}

TEST_P(Traced, KeepsTheLastSteps) {
  const Trace all = traces_of_a_call(ring_of_three(GetParam()), 1000)[1];
  const Trace last = traces_of_a_call(ring_of_three(GetParam()), 7)[1];
  ASSERT_EQ(last.size(), 7u);
  for (size_t i = 0; i < last.size(); ++i) {
    EXPECT_EQ(last[i].chunk, all[all.size() - 7 + i].chunk);
    EXPECT_EQ(last[i].round, all[all.size() - 7 + i].round);
  }
  EXPECT_TRUE(traces_of_a_call(ring_of_three(GetParam()), 0)[1].empty());
}

INSTANTIATE_TEST_SUITE_P(Transports, Traced, testing::Values("shm", "tcp"),
                         [](const auto& how) { return std::string(how.param); });

// A step that was under way when the trace began is taken from there on.
TEST(Traces, HoldNothingFromBeforeTheyBegan) {
  const Shape shape{.kind = Kind::all_reduce, .ranks = 2, .count = 5000};
  for (int polls = 1; polls < 40; ++polls) {
    SimOptions sim{.seed = 1, .windows = false};
    sim.message.max_ns = 1000;
    Options options;
    options.slot_bytes = 64;
    SimWorld world(2, sim, options);
    SimCall call(world, shape, 1);
    for (int i = 0; i < polls; ++i) world.poll();
    const int64_t begin_ns = world.net().clock().now_ns();
    ASSERT_TRUE(world.engine(0).start_trace(10'000).ok());
    ASSERT_TRUE(world.finish(call.works));
    for (const StepDone& step : world.engine(0).end_trace())
      ASSERT_GE(step.begin_ns, begin_ns) << "after " << polls << " polls";
  }
}

TEST(Traces, StepsOverWindowsHaveTheirNames) {
  Cluster c = ring_of_three("shm");
  c.options.algorithm = "window_one_shot";
  std::map<std::string, int> seen;
  std::mutex mutex;
  run_ranks(c, [&](Communicator& communicator) {
    float x = 1, y = 0;
    ASSERT_TRUE(communicator.start_trace(100).ok());
    ASSERT_TRUE(communicator.all_reduce(&x, &y, 1, DataType::float32, ReduceOp::sum).ok());
    const std::lock_guard lock(mutex);
    for (const StepDone& step : communicator.end_trace())
      ++seen[to_event(step, 0, step.begin_ns).name];
  });
  EXPECT_EQ(seen, (std::map<std::string, int>{{"copy chunk 0", 3}, {"reduce chunk 0", 3}}));
}

TEST(Traces, AreJsonWithAProcessPerRankAndKind) {
  const StepDone step{.begin_ns = 5000,
                      .end_ns = 7500,
                      .chunk = 3,
                      .round = 2,
                      .lane = 1,
                      .sources = 1,
                      .receives = true,
                      .writes = true,
                      .sends = true};
  const std::string text =
      to_trace_json(std::vector{to_event(step, 4, 1000)}, TraceKind::measured, "a \"title\"");
  for (const char* part : {R"("title": "a \"title\"")", R"("name":"rank 4 measured")", R"("pid":8)",
                           R"("tid":1)", R"("name":"recv_reduce_copy_send chunk 3")", R"("ts":4.0)",
                           R"("dur":2.5)", R"("args":{"round":2})"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in " << text;
}

}  // namespace
}  // namespace weft::test
