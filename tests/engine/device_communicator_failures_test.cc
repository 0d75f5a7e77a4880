// Communicators that take device memory, and fail: all ranks in this process, on a GPU that they
// share.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <latch>
#include <thread>

#include "base/files.h"
#include "base/random.h"
#include "base/text.h"
#include "tests/support/device_ranks.h"
#include "tests/support/ranks_gpus.h"
#include "tests/support/sanitized.h"
#include "tests/support/sleep_while.h"

namespace weft::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSoon_s = 3;  // a second, and what the machine has to do besides

class Watch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  const Clock::time_point begin_ = Clock::now();
};

Status await_failure(const Communicator& comm) {
  const Watch watch;
  while (comm.health().ok() && watch.seconds() < 20)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return comm.health();
}

// Ranks 0 to 2 of 3 wait in device calls by each of the ways for rank 3 of 4, which does something
// else. Gives what each of them is told.
void expect_ended(const World& world, const std::function<void(const Here&)>& last,
                  const std::function<void(const Here&, const Status&)>& told) {
  std::atomic<int> waiting{0};
  run_ranks(world, [&](const Here& here) {
    const auto in = here.on_device<int32_t>(50, 1);
    auto out = here.on_device<int32_t>(50, 0);
    expect_device_sum(here, here.comm);
    if (here.me == 3) {
      sleep_while([&] { return waiting < 3; });
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return last(here);
    }
    const Call call = sum_call(in.data(), out.data(), 50);
    Status status;
    ++waiting;
    if (here.me == 0) {
      status = here.comm.run(call);
    } else if (here.me == 1) {
      status = here.comm.start(call).wait();
    } else {
      EXPECT_TRUE(here.comm.enqueue(call, here.streams[0]).ok());
      EXPECT_FALSE(await_failure(here.comm).ok());
      // Until all have told of it: they have a second at most (Engine::with_last_words()).
      const bool late = here.comm.health().code() == Code::timeout;
      std::this_thread::sleep_for(std::chrono::milliseconds(late ? 2000 : 500));
      status = here.comm.health();
    }
    told(here, status);
    const Watch watch;
    here.synchronize();  // its kernels have ended, or do so now
    EXPECT_LT(watch.seconds(), kSoon_s);
    EXPECT_EQ(here.comm.health().code(), status.code()) << here.comm.health().to_string();
    EXPECT_EQ(here.comm.synchronize().code(), status.code());
    EXPECT_EQ(here.comm.enqueue(call, here.streams[0]).code(), status.code());
    EXPECT_EQ(here.comm.run(call).code(), status.code());
    int32_t x = 1, sum = 0;
    EXPECT_EQ(here.comm.run(sum_call(&x, &sum)).code(), status.code());
    // The GPU itself is as usable as before.
    EXPECT_TRUE(here.device.copy(&sum, in.data(), sizeof sum, here.streams[0]).ok());
    here.synchronize();
    EXPECT_EQ(sum, 1);
  });
}

// Also where only one rank waits for it, and the others for that one and each other.
TEST(DeviceCommunicator, NamesTheRankThatDoesNotCome) {
  for (const char* algorithm : {"auto", "ring,auto"}) {
    World world{.ranks = 4};
    world.options.timeout_s = kSanitized ? 5 : 2;  // and a part of it for others' words
    world.options.algorithm = algorithm;
    std::atomic<int> heard{0};
    const auto last = [&](const Here&) { sleep_while([&] { return heard < 3; }); };
    expect_ended(world, last, [&](const Here&, const Status& status) {
      ++heard;
      EXPECT_EQ(status.code(), Code::timeout) << status.to_string();
      EXPECT_EQ(status.peer(), 3) << algorithm << ": " << status.to_string();
      EXPECT_NE(status.message().find("no word from rank 3"), std::string_view::npos)
          << status.to_string();
    });
  }
}

// A stream whose kernel gave up is idle like any other: who asks then is not told that all is well.
TEST(DeviceCommunicator, IsNotWellOnceAKernelHasGivenUp) {
  World world{.ranks = 2};
  world.options.timeout_s = kSanitized ? 2 : 0.5;
  std::latch asked(2);
  run_ranks(world, [&](const Here& here) {
    if (here.me == 0) {
      auto values = here.on_device<int32_t>(50, 1);
      (void)here.comm.enqueue(sum_call(values.data(), values.data(), 50), here.streams[0]);
      here.synchronize();
      EXPECT_EQ(here.comm.health().code(), Code::timeout) << here.comm.health().to_string();
    }
    asked.arrive_and_wait();
  });
}

// Behind a call that gave up another one is on the stream already. Peers that are still in the
// first do not take that rank for one that is in another call.
TEST(DeviceCommunicator, NamesTheRankThatDoesNotComeWhateverElseIsOnStreams) {
  World world{.ranks = 3};
  world.options.protocol = "simple";
  world.options.algorithm = "window_two_shot,auto";
  std::latch told(3);
  run_ranks(world, [&](const Here& here) {
    auto values = here.on_device<int32_t>(60'000, 1);
    expect_device_sum(here, here.comm);
    if (here.me < 2) {
      for (const size_t count : {size_t{50'000}, size_t{60'000}}) {
        Call call = sum_call(values.data(), values.data(), count);
        call.timeout_s = (kSanitized ? 2 : 0.5) + here.me;  // rank 1 waits longer
        (void)here.comm.enqueue(call, here.streams[0]);
      }
      Status status = await_failure(here.comm);
      here.synchronize();
      std::this_thread::sleep_for(std::chrono::milliseconds(2000));  // until all have told
      status = here.comm.health();
      EXPECT_EQ(status.code(), Code::timeout) << status.to_string();
      EXPECT_EQ(status.peer(), 2) << status.to_string();
    }
    told.arrive_and_wait();
  });
}

TEST(DeviceCommunicator, EndsWhereARankIsLost) {
  std::atomic<Clock::time_point::rep> left{0};
  // Its communicator goes when this returns.
  const auto last = [&](const Here&) { left = Clock::now().time_since_epoch().count(); };
  expect_ended({.ranks = 4}, last, [&](const Here& here, const Status& status) {
    EXPECT_EQ(status.code(), Code::peer_lost) << here.me << " " << status.to_string();
    EXPECT_EQ(status.peer(), 3) << status.to_string();
    EXPECT_LT(Clock::now(),
              Clock::time_point(Clock::duration(left)) + std::chrono::milliseconds(3000));
  });
}

// By the stream engine it has more steps than may be on a stream at once: it is lost while the call
// is put there, and no call is under way.
TEST(DeviceCommunicator, EndsAFirstCallOfManyStepsWhereARankIsLost) {
  World world{.ranks = 2};
  world.options.algorithm = "ring";
  world.options.chunk_bytes = 1024;
  run_ranks(world, [](const Here& here) {
    if (here.me == 1) return;  // and its communicator goes
    auto values = here.on_device<int32_t>(128 << 10, 1);
    const Watch watch;
    (void)here.comm.enqueue(sum_call(values.data(), values.data(), values.size()), here.streams[0]);
    const Status status = await_failure(here.comm);
    EXPECT_LT(watch.seconds(), 10);
    EXPECT_EQ(status.code(), Code::peer_lost) << status.to_string();
    EXPECT_EQ(status.peer(), 1) << status.to_string();
  });
}

// What is behind a call that has given up does not run on what that left, whichever of the two is a
// group, so that nobody gets that for good.
TEST(DeviceCommunicator, RunsNoCollectiveBehindAGroupThatGaveUp) {
  World world{.ranks = 3};
  world.options.timeout_s = kSanitized ? 5 : 2;
  std::latch failed(3);
  run_ranks(world, [&](const Here& here) {
    constexpr int32_t kNotReceived = -1000;
    auto value = here.on_device<int32_t>(1, here.me == 1 ? kNotReceived : 1);
    auto out = here.on_device<int32_t>(1, 0);
    const Transfer group[] = {receive_from(2, value.data(), 1, DataType::int32)};  // it sends none
    if (here.me == 1) {
      EXPECT_TRUE(here.comm.enqueue(group, here.streams[0]).ok());
    } else {  // to wait still when that gives up
      std::this_thread::sleep_for(std::chrono::duration<double>(0.6 * world.options.timeout_s));
    }
    EXPECT_TRUE(here.comm.enqueue(sum_call(value.data(), out.data()), here.streams[0]).ok());
    EXPECT_FALSE(await_failure(here.comm).ok()) << here.me;
    failed.arrive_and_wait();
    here.synchronize();
    EXPECT_NE(out[0], kNotReceived + 2) << here.me;
  });
}

TEST(DeviceCommunicator, RunsNoGroupBehindACollectiveThatGaveUp) {
  World world{.ranks = 3};
  world.options.timeout_s = kSanitized ? 5 : 2;
  std::latch failed(2);
  run_ranks(world, [&](const Here& here) {
    constexpr int32_t kNotReduced = -77;
    if (here.me == 2) return failed.wait();
    auto value = here.on_device<int32_t>(1, 1);
    auto out = here.on_device<int32_t>(1, kNotReduced);
    auto got = here.on_device<int32_t>(1, 0);
    Call call = sum_call(value.data(), out.data());
    call.kind = Kind::reduce;
    EXPECT_TRUE(here.comm.enqueue(call, here.streams[0]).ok());
    const Transfer group[] = {here.me == 0 ? send_to(1, out.data(), 1, DataType::int32)
                                           : receive_from(0, got.data(), 1, DataType::int32)};
    EXPECT_TRUE(here.comm.enqueue(group, here.streams[0]).ok());
    EXPECT_FALSE(await_failure(here.comm).ok()) << here.me;
    failed.arrive_and_wait();
    here.synchronize();
    EXPECT_NE(got[0], kNotReduced);
  });
}

TEST(DeviceCommunicator, EndsWhereARankAborts) {
  std::atomic<int> heard{0};
  Watch watch;
  const auto last = [&](const Here& here) {
    here.comm.abort("enough");
    sleep_while([&] { return heard < 3; });
  };
  expect_ended({.ranks = 4}, last, [&](const Here&, const Status& status) {
    ++heard;
    EXPECT_EQ(status.code(), Code::aborted) << status.to_string();
    EXPECT_NE(status.message().find("rank 3 aborted: enough"), std::string_view::npos)
        << status.to_string();
    EXPECT_LT(watch.seconds(), 10);
  });
}

// A host call that has waited too long ends device calls as well, and so does its own rank's.
TEST(DeviceCommunicator, EndsWhereAHostCallFails) {
  std::atomic<int> heard{0};
  World world{.ranks = 4};
  const auto last = [&](const Here& here) {
    int32_t x = 1;
    Call call{.kind = Kind::broadcast, .input = &x, .output = &x, .count = 1, .root = 0};
    call.timeout_s = 0.1;
    EXPECT_EQ(here.comm.run(call).code(), Code::timeout);
    sleep_while([&] { return heard < 3; });
  };
  expect_ended(world, last, [&](const Here&, const Status& status) {
    ++heard;
    EXPECT_EQ(status.code(), Code::timeout) << status.to_string();
  });
}

TEST(DeviceCommunicator, EndsAKernelThatWaitsWhenAborted) {
  std::atomic<bool> done = false;
  run_ranks({.ranks = 2}, [&done](const Here& here) {
    if (here.me == 1) return done.wait(false);
    auto values = here.on_device<int32_t>(50, 1);
    std::jthread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      here.comm.abort("enough");
    });
    const Watch watch;
    const Status status = here.comm.run(sum_call(values.data(), values.data(), 50));
    EXPECT_LT(watch.seconds(), kSoon_s);
    EXPECT_EQ(status.code(), Code::aborted) << status.to_string();
    done = true;
    done.notify_all();
  });
}

// A kernel that never comes to run has no timeout of its own.
TEST(DeviceCommunicator, EndsWhereAStreamDoesNotGoOn) {
  World world{.ranks = 1};
  world.options.timeout_s = 0.2;
  run_ranks(world, [](const Here& here) {
    std::atomic<bool> go = false;
    hold(here.streams[0], go);
    std::jthread other([&] {
      EXPECT_FALSE(await_failure(here.comm).ok());
      go = true;
    });
    auto values = here.on_device<int32_t>(50, 1);
    Call call = sum_call(values.data(), values.data(), 50);
    const int32_t factor = 1;
    call.op = ReduceOp::premulsum;  // else there is nothing to do
    call.scalar = &factor;
    EXPECT_TRUE(here.comm.enqueue(call, here.streams[0]).ok());
    const Watch watch;
    (void)here.comm.run(call);  // ends well, if late: this rank waits for nobody
    EXPECT_GT(watch.seconds(), 0.2);
    EXPECT_LT(watch.seconds(), kSoon_s);
    const Status failed = here.comm.health();
    EXPECT_EQ(failed.code(), Code::timeout) << failed.to_string();
    EXPECT_NE(failed.message().find("has not ended in time"), std::string_view::npos)
        << failed.to_string();
    EXPECT_EQ(here.comm.run(call).to_string(), failed.to_string());
  });
}

// Kernels end before their memory goes.
TEST(DeviceCommunicator, EndsCallsThatAreUnderWayWhenItGoes) {
  std::atomic<bool> done = false;
  create_ranks({.ranks = 2}, [&done](Rank r, Rendezvous& meet, const CreateConfig& config) {
    auto made = create_communicator(meet, config);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    with_streams(r, **made, *config.device, [&](const Here& here) {
      auto values = here.on_device<int32_t>(50, 1);
      const Call call = sum_call(values.data(), values.data(), 50);
      if (r == 1) return done.wait(false);
      ASSERT_TRUE(here.comm.enqueue(call, here.streams[0]).ok());
      const Work work = here.comm.start(call);
      const Watch watch;
      made->reset();
      EXPECT_LT(watch.seconds(), kSoon_s);
      ASSERT_TRUE(work.test());
      EXPECT_EQ(work.error().code(), Code::aborted);
      done = true;
      done.notify_all();
    });
  });
}

TEST(DeviceCommunicator, ShrinksToRanksThatTakeDeviceMemory) {
  create_ranks({.ranks = 3}, [](Rank r, Rendezvous& meet, const CreateConfig& config) {
    auto made = create_communicator(meet, config);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    if (r == 1) return;
    with_streams(r, **made, *config.device, [&](const Here& here) {
      auto values = here.on_device<int32_t>(50, 1);
      const Status status = here.comm.run(sum_call(values.data(), values.data(), 50));
      EXPECT_EQ(status.peer(), 1) << status.to_string();
      auto rest = here.comm.shrink();
      ASSERT_TRUE(rest.ok()) << rest.status().to_string();
      EXPECT_EQ((*rest)->size(), 2);
      expect_device_sum(here, **rest);
      EXPECT_TRUE((*rest)->barrier().ok());
    });
  });
}

TEST(DeviceCommunicator, ComparesWhereTheMemoryIsWhenAsked) {
  World world{.ranks = 2};
  world.options.check = true;
  run_ranks(world, [](const Here& here) {
    expect_device_sum(here, here.comm);
    auto there = here.on_device<int32_t>(1, 1);
    int32_t elsewhere = 1;
    int32_t* const memory = here.me == 0 ? there.data() : &elsewhere;
    const Status status = here.comm.run(sum_call(memory, memory));
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
    EXPECT_NE(status.message().find("on device memory"), std::string_view::npos)
        << status.to_string();
  });
}

TEST(DeviceCommunicator, DumpsItsDeviceCalls) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / concat("weft-device-", random_name());
  World world{.ranks = 2};
  world.options.dump = folder;
  world.options.dump_signal = "none";
  std::latch through(2);  // the barrier, which an abort may end where one has left it already
  run_ranks(world, [&through](const Here& here) {
    expect_host_sum(here);
    expect_device_sum(here, here.comm);
    auto values = here.on_device<int32_t>(50, 1);
    EXPECT_TRUE(here.comm.barrier().ok());
    through.arrive_and_wait();
    if (here.me == 1) return here.comm.abort("enough");
    EXPECT_FALSE(here.comm.run(sum_call(values.data(), values.data(), 50)).ok());
  });
  std::string text;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const auto read = read_text(entry.path().string()); read.ok()) text.append(*read);
  fs::remove_all(folder);
  for (const std::string_view call : {"all_reduce(count=1, int32, sum)\"",
                                      "all_reduce(count=100, int32, sum), collective call 1 on the "
                                      "device",
                                      "\"device/"})
    EXPECT_NE(text.find(call), std::string::npos) << call << " is not in " << text;
}

}  // namespace
}  // namespace weft::test
