// What the recorder keeps, also while it is read by another thread.
#include "engine/recorder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace weft {
namespace {

Signature call_of(size_t count) {
  return {.kind = Kind::broadcast, .type = DataType::float64, .root = 3, .count = count};
}

TEST(Recorder, KeepsTheLastOperations) {
  Recorder recorder;
  const Recorder::Label ring = recorder.label("ring/simple"), tree = recorder.label("tree/ll");
  EXPECT_EQ(recorder.label("ring/simple"), ring);
  EXPECT_EQ(recorder.sequence(), 0u);
  EXPECT_TRUE(recorder.records().empty());
  const uint64_t total = Recorder::kOperations + 10;
  for (uint64_t i = 1; i <= total; ++i) {
    const bool group = i % 10 == 0;
    const uint64_t number =
        recorder.begin(group ? 0 : recorder.sequence() + 1, call_of(i), i % 2 == 0 ? ring : tree);
    EXPECT_EQ(number, i);
    if (i < total)
      recorder.end(number, i % 7 == 0 ? Recorder::State::failed : Recorder::State::done,
                   i % 3 == 0);
  }
  const std::vector<Recorder::Record> records = recorder.records();
  ASSERT_EQ(records.size(), Recorder::kOperations);
  for (size_t k = 0; k < records.size(); ++k) {
    const Recorder::Record& record = records[k];
    const uint64_t i = 11 + k;
    EXPECT_EQ(record.number, i);
    EXPECT_EQ(record.sequence, i % 10 == 0 ? 0 : i - i / 10);
    EXPECT_EQ(record.call.kind, Kind::broadcast);
    EXPECT_EQ(record.call.type, DataType::float64);
    EXPECT_EQ(record.call.root, 3);
    EXPECT_EQ(record.call.count, i);
    EXPECT_EQ(record.algorithm, i % 2 == 0 ? "ring/simple" : "tree/ll");
    EXPECT_EQ(record.state, i == total   ? Recorder::State::running
                            : i % 7 == 0 ? Recorder::State::failed
                                         : Recorder::State::done);
    EXPECT_EQ(record.ended_ns > 0, i % 3 == 0 && i < total);
  }
  ASSERT_TRUE(recorder.call(recorder.sequence()));
  EXPECT_EQ(recorder.call(recorder.sequence())->count, total);
  EXPECT_FALSE(recorder.call(1)) << "written over";
}

TEST(Recorder, TellsTheTime) {
  using namespace std::chrono;
  const auto now_ns = [] {
    return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
  };
  Recorder recorder;
  const int64_t before = now_ns();
  const uint64_t number = recorder.begin(1, call_of(1), recorder.label("ring"));
  std::this_thread::sleep_for(milliseconds(50));
  recorder.end(number, Recorder::State::done, true);
  const int64_t after = now_ns();
  const Recorder::Record record = recorder.records().at(0);
  constexpr int64_t kClose = 5'000'000;
  EXPECT_NEAR(static_cast<double>(record.begun_ns - before), 0, kClose);
  EXPECT_NEAR(static_cast<double>(record.ended_ns - after), 0, kClose);
}

TEST(Recorder, AnEndThatComesTooLateHarmsNobody) {
  Recorder recorder;
  const uint64_t first = recorder.begin(1, call_of(1), recorder.label("ring"));
  for (size_t i = 0; i < Recorder::kOperations; ++i) recorder.begin(i + 2, call_of(2), 0);
  recorder.end(first, Recorder::State::failed, true);
  for (const Recorder::Record& record : recorder.records())
    EXPECT_EQ(record.state, Recorder::State::running);
}

// Every record that is read is one that was written, whole.
TEST(Recorder, IsReadWhileItIsWritten) {
  Recorder recorder;
  const Recorder::Label label = recorder.label("ring");
  std::atomic<bool> over = false;
  std::thread writer([&] {
    for (uint64_t i = 1; !over; ++i) {
      Signature call = call_of(i);
      call.counts = i * 3;
      recorder.end(recorder.begin(i, call, label), Recorder::State::done, i % 2 == 0);
    }
  });
  for (size_t seen = 0; seen < 100'000;) {
    for (const Recorder::Record& record : recorder.records()) {
      ++seen;
      EXPECT_EQ(record.sequence, record.number);
      EXPECT_EQ(record.call.count, record.number);
      EXPECT_EQ(record.call.counts, record.number * 3);
    }
    if (HasFailure()) break;
  }
  over = true;
  writer.join();
}

}  // namespace
}  // namespace weft
