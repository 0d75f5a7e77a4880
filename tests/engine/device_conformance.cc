#include "tests/engine/device_conformance.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "base/text.h"
#include "engine/algorithms/catalog.h"
#include "engine/executor/device_lower.h"
#include "tests/support/contains.h"

namespace weft::test {
namespace {

template <class T>
T must(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? *result : T{};
}

void keeps_memory(Gpu& device) {
  const Bytes memory = must(device.allocate(1000));
  const auto stream = must(device.make_stream());
  std::byte host[1000];
  std::memset(host, 1, sizeof host);
  EXPECT_TRUE(device.copy(host, memory.data(), sizeof host, stream).ok());
  EXPECT_TRUE(device.synchronize(stream).ok());
  for (const std::byte b : host) EXPECT_EQ(b, std::byte{0});
  EXPECT_EQ(must(device.kind_of(memory.data() + 999)), MemoryKind::device);
  EXPECT_EQ(must(device.kind_of(host)), MemoryKind::host);

  const Bytes pinned = must(device.allocate_host(64));
  EXPECT_EQ(must(device.kind_of(pinned.data())), MemoryKind::pinned);
  EXPECT_EQ(pinned[63], std::byte{0});
  EXPECT_FALSE(device.map("no handle at all").ok());
  device.release_host(pinned);
  device.destroy_stream(stream);
  device.release(memory);
}

// It may have its reasons not to, but not for memory of the host.
void gives_dma_bufs(Gpu& device) {
  const Bytes memory = must(device.allocate(2 << 20)), host = must(device.allocate_host(2 << 20));
  const auto buffer = device.dma_buf(memory);
  EXPECT_TRUE(buffer.ok() ? buffer->valid() && device.flush_remote_writes().ok()
                          : !buffer.status().message().empty());
  EXPECT_FALSE(device.dma_buf(host).ok());
  device.release_host(host);
  device.release(memory);
}

// A chain over two streams, in the order that events make.
void orders_streams(Gpu& device) {
  const Bytes a = must(device.allocate(1 << 20)), b = must(device.allocate(1 << 20));
  const auto one = must(device.make_stream()), two = must(device.make_stream());
  const auto event = must(device.make_event());
  EXPECT_TRUE(must(device.is_done(event)));
  std::vector<std::byte> in(1 << 20, std::byte{7}), out(1 << 20);
  for (int turn = 0; turn < 3; ++turn) {
    std::fill(in.begin(), in.end(), static_cast<std::byte>(7 + turn));
    EXPECT_TRUE(device.copy(a.data(), in.data(), in.size(), one).ok());
    EXPECT_TRUE(device.record(event, one).ok());
    EXPECT_TRUE(device.wait(two, event).ok());
    EXPECT_TRUE(device.copy(b.data(), a.data(), in.size(), two).ok());
    EXPECT_TRUE(device.copy(out.data(), b.data(), in.size(), two).ok());
    EXPECT_TRUE(device.synchronize(two).ok());
    EXPECT_TRUE(must(device.is_done(event)));
    EXPECT_EQ(in, out);
  }
  device.destroy_event(event);
  for (const auto stream : {one, two}) device.destroy_stream(stream);
  for (const Bytes memory : {a, b}) device.release(memory);
}

// Also where a handle is used again.
void numbers_streams(Gpu& device) {
  std::set<uint64_t> numbers;
  for (int turn = 0; turn < 3; ++turn) {
    const auto one = must(device.make_stream()), two = must(device.make_stream());
    for (const auto stream : {one, two}) {
      const uint64_t number = device.number_of(stream);
      EXPECT_NE(number, 0u);
      EXPECT_EQ(device.number_of(stream), number);
      EXPECT_TRUE(numbers.insert(number).second);
    }
    for (const auto stream : {one, two}) device.destroy_stream(stream);
  }
}

// A thread's turns nest, and leave nothing behind.
void takes_turns(Gpu& device) {
  const Gpu::Turn turn(device);
  {
    const Gpu::Turn inner(device);
    const Bytes memory = must(device.allocate(1000));
    EXPECT_EQ(must(device.kind_of(memory.data())), MemoryKind::device);
    device.release(memory);
  }
  const auto stream = must(device.make_stream());
  EXPECT_TRUE(device.synchronize(stream).ok());
  device.destroy_stream(stream);
}

// From when the stream comes to one until it comes to the other.
void times_events(Gpu& device) {
  using Clock = std::chrono::steady_clock;
  using Microseconds = std::chrono::duration<double, std::micro>;
  constexpr auto kBetween = std::chrono::milliseconds(20);
  const auto stream = must(device.make_stream());
  const auto begin = must(device.make_timer()), end = must(device.make_timer());
  EXPECT_FALSE(device.elapsed_us(begin, end).ok());
  for (int turn = 0; turn < 2; ++turn) {
    const auto before = Clock::now();
    EXPECT_TRUE(device.record(begin, stream).ok());
    EXPECT_TRUE(device.synchronize(stream).ok());
    std::this_thread::sleep_for(kBetween);
    EXPECT_TRUE(device.record(end, stream).ok());
    EXPECT_TRUE(device.synchronize(stream).ok());
    const double elapsed_us = must(device.elapsed_us(begin, end));
    EXPECT_GT(elapsed_us, 0.9 * Microseconds(kBetween).count());
    EXPECT_LT(elapsed_us, 1.1 * Microseconds(Clock::now() - before).count());
  }
  for (const auto event : {begin, end}) device.destroy_event(event);
  device.destroy_stream(stream);
}

// A chain over two streams, captured; it reads what is there whenever it is launched.
void captures_graphs(Gpu& device) {
  const Bytes in = must(device.allocate_host(1000)), out = must(device.allocate_host(1000));
  const Bytes between = must(device.allocate(1000));
  const auto one = must(device.make_stream()), two = must(device.make_stream());
  const auto fork = must(device.make_event()), join = must(device.make_event());
  EXPECT_EQ(must(device.capture_of(one)), 0u);
  ASSERT_TRUE(device.begin_capture(one).ok());
  const uint64_t number = must(device.capture_of(one));
  EXPECT_NE(number, 0u);
  EXPECT_EQ(must(device.capture_of(two)), 0u);
  const Bytes zeroed = must(device.allocate(1000, Gpu::Content::zero));  // is no part of it
  EXPECT_TRUE(device.copy(between.data(), in.data(), in.size(), one).ok());
  EXPECT_TRUE(device.record(fork, one).ok());
  EXPECT_TRUE(device.wait(two, fork).ok());
  EXPECT_EQ(must(device.capture_of(two)), number);
  EXPECT_TRUE(device.copy(out.data(), between.data(), in.size(), two).ok());
  EXPECT_TRUE(device.record(join, two).ok());
  EXPECT_TRUE(device.wait(one, join).ok());
  const Gpu::Graph graph = must(device.end_capture(one));
  EXPECT_EQ(must(device.capture_of(one)), 0u);
  EXPECT_EQ(must(device.capture_of(two)), 0u);
  for (int turn = 1; turn < 4; ++turn) {
    std::fill(in.begin(), in.end(), static_cast<std::byte>(turn));
    EXPECT_TRUE(device.launch_graph(graph, one).ok());
    EXPECT_TRUE(device.synchronize(one).ok());
    for (const std::byte b : out) ASSERT_EQ(b, static_cast<std::byte>(turn));
  }
  device.destroy_graph(graph);
  // What waits for nothing of a graph is not let in; the capture is lost then.
  EXPECT_TRUE(device.record(fork, two).ok());
  ASSERT_TRUE(device.begin_capture(one).ok());
  EXPECT_EQ(device.wait(one, fork).code(), Code::invalid_argument);
  if (const auto lost = device.end_capture(one); lost.ok()) device.destroy_graph(*lost);
  for (const auto stream : {one, two}) EXPECT_TRUE(device.synchronize(stream).ok());
  for (const auto event : {fork, join}) device.destroy_event(event);
  for (const auto stream : {one, two}) device.destroy_stream(stream);
  for (const Bytes memory : {in, out}) device.release_host(memory);
  for (const Bytes memory : {between, zeroed}) device.release(memory);
}

// A communicator of one rank or more, as bare as it can be: a ring of all_reduce in float32.
class BareRanks {
 public:
  BareRanks(Gpu& device, int ranks, size_t count) : device_(device), count_(count) {
    const DeviceShape shape{
        .ranks = ranks, .cells = 4, .links = 2, .slot_bytes = 4096, .window_bytes = 4096};
    const DeviceMemoryLayout layout(shape);
    for (Rank r = 0; r < ranks; ++r) {
      memory_.push_back(must(device.allocate(layout.bytes())));
      begins_.push_back(memory_.back().data());
      input_.push_back(must(device.allocate(count * sizeof(float))));
      output_.push_back(must(device.allocate(count * sizeof(float))));
      streams_.push_back(must(device.make_stream()));
    }
    for (Rank r = 0; r < ranks; ++r) lower_for(DeviceMap{r, layout, begins_});
  }
  ~BareRanks() {
    for (const auto stream : streams_) device_.destroy_stream(stream);
    for (const auto* all : {&memory_, &input_, &output_, &tables_})
      for (const Bytes memory : *all) device_.release(memory);
  }

  // Replays the same launches with other data; gives what rank 1 or the only one has.
  std::vector<float> all_reduce(float salt) {
    const auto ranks = streams_.size();
    std::vector<std::vector<float>> in(ranks, std::vector<float>(count_));
    for (size_t r = 0; r < ranks; ++r) {
      for (size_t i = 0; i < count_; ++i) in[r][i] = salt + static_cast<float>(r * 1000 + i % 100);
      EXPECT_TRUE(device_.copy(input_[r].data(), in[r].data(), count_ * 4, streams_[r]).ok());
    }
    for (size_t r = 0; r < ranks; ++r) {
      const device::Call call{.input = input_[r].data(),
                              .output = output_[r].data(),
                              .transfers = nullptr,
                              .scalar_memory = nullptr,
                              .scalar = {}};
      EXPECT_TRUE(device_.launch(programs_[r], call, {}, 1, streams_[r]).ok());
    }
    std::vector<float> out(count_);
    const size_t last = ranks - 1;
    EXPECT_TRUE(device_.copy(out.data(), output_[last].data(), count_ * 4, streams_[last]).ok());
    for (const auto stream : streams_) EXPECT_TRUE(device_.synchronize(stream).ok());
    return out;
  }

 private:
  void lower_for(const DeviceMap& map) {
    const Collective collective{Kind::all_reduce, static_cast<int>(streams_.size()), 0, false};
    PlanRequest request;
    request.algorithm = "ring";
    request.collective = collective;
    request.type = DataType::float32;
    request.segment_bytes = 2048;
    const Call call{.kind = Kind::all_reduce, .count = count_, .type = DataType::float32};
    const Program program = find_algorithm("ring")->build(collective, map.me, {});
    const auto image =
        lower(request, program, Layout(collective, map.me, call, program.pieces), map);
    ASSERT_TRUE(image.ok()) << image.status().to_string();
    std::vector<std::byte> tables(image->table_bytes());
    tables_.push_back(must(device_.allocate(tables.size())));
    programs_.push_back(image->place(tables, tables_.back().data(), nullptr));
    const auto stream = streams_[static_cast<size_t>(map.me)];
    EXPECT_TRUE(device_.copy(tables_.back().data(), tables.data(), tables.size(), stream).ok());
    EXPECT_TRUE(device_.synchronize(stream).ok());
  }

  Gpu& device_;
  size_t count_;
  std::vector<Bytes> memory_, input_, output_, tables_;
  std::vector<std::byte*> begins_;
  std::vector<Gpu::Stream> streams_;
  std::vector<device::Program> programs_;
};

void runs_programs(Gpu& device) {
  constexpr size_t kCount = 5000;
  EXPECT_GE(must(device.prepare(ReduceOp::sum, DataType::float32)), 2u);
  for (const int ranks : {1, 2}) {
    BareRanks bare(device, ranks, kCount);
    for (const float salt : {1.0f, 2.0f, 3.0f}) {
      const std::vector<float> got = bare.all_reduce(salt);
      for (size_t i = 0; i < kCount; ++i) {
        float wanted = 0;
        for (int r = 0; r < ranks; ++r)
          wanted += salt + static_cast<float>(static_cast<size_t>(r) * 1000 + i % 100);
        ASSERT_EQ(got[i], wanted) << i << " on " << ranks << " ranks";
      }
    }
  }
}

}  // namespace

void conforms(Gpu& device) {
  EXPECT_FALSE(device.identity().name.empty());
  EXPECT_FALSE(device.identity().uuid.empty());
  keeps_memory(device);
  gives_dma_bufs(device);
  orders_streams(device);
  numbers_streams(device);
  takes_turns(device);
  times_events(device);
  captures_graphs(device);
  runs_programs(device);
}

void tell_memory_apart(Gpu& one, Gpu& other) {
  const Bytes memory = must(one.allocate(1000)), pinned = must(one.allocate_host(64));
  EXPECT_EQ(must(one.kind_of(memory.data())), MemoryKind::device);
  const Status status = other.kind_of(memory.data()).status();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  for (const int ordinal : {one.identity().ordinal, other.identity().ordinal})
    EXPECT_TRUE(contains(status, concat("GPU ", ordinal))) << status.to_string();
  EXPECT_EQ(must(other.kind_of(pinned.data())), MemoryKind::pinned);
  one.release_host(pinned);
  one.release(memory);
}

}  // namespace weft::test
