#include "tests/support/device_calls_ranks.h"

#include <gtest/gtest.h>

#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"

namespace weft::test {

void run_calls(const CallsWorld& world, const std::function<void(const CallsHere&)>& body) {
  const int resident = world.ranks * world.blocks;
  std::deque<emulator::Device> gpus;
  // Copies and waits for events take a block, too.
  for (int host = 0; host < world.hosts; ++host) gpus.emplace_back(resident + 4 * world.ranks);
  auto meetings = make_in_process_rendezvous(world.ranks);
  std::vector<std::jthread> threads;
  for (Rank r = 0; r < world.ranks; ++r)
    threads.emplace_back([&, r] {
      const int host = r % world.hosts;
      auto device = emulated_device(gpus[static_cast<size_t>(host)], resident);
      if (world.in_front) device = world.in_front(r, std::move(device));
      DeviceMediaConfig config{.rank = r, .host = concat("host ", host), .process = 1};
      config.queues = kDeviceQueuesMost;
      config.connect = world.connect;
      config.shape = {.ranks = world.ranks, .links = 8, .slots = 2, .slot_bytes = 1024};
      config.shape.window_bytes = 64 << 10;
      config.wish = world.engine;
      config.direct = world.options.gpu_direct;
      auto& meet = *meetings[static_cast<size_t>(r)];
      auto joined =
          DeviceCalls::join(*device, meet, config, world.options, Deadline::after(60), world.room);
      ASSERT_TRUE(joined.ok()) << joined.status().to_string();
      auto calls = joined.take();
      Gpu::Stream streams[2] = {device->make_stream().take(), device->make_stream().take()};
      body({r, *device, calls, streams});
      for (Gpu::Stream stream : streams) EXPECT_TRUE(device->synchronize(stream).ok());
      EXPECT_TRUE(meet.all_gather("", Deadline::after(60)).ok());
      calls.reset();
      for (Gpu::Stream stream : streams) device->destroy_stream(stream);
    });
}

bool settle(const CallsHere& here) {
  for (const Deadline patience = Deadline::after(120); !*here.calls->idle();) {
    (void)here.calls->health();
    if (patience.expired()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

std::vector<Shape> shapes_of_calls(int ranks) {
  std::vector<Shape> all;
  for (int kind = 0; kind < kKinds; ++kind)
    for (const size_t count : {size_t{0}, size_t{1}, size_t{37}, size_t{5000}}) {
      const Shape shape{.kind = static_cast<Kind>(kind), .ranks = ranks, .count = count};
      if (shape.kind == Kind::exchange || shape.kind == Kind::barrier) continue;
      all.push_back(shape);
      if (has_root(shape.kind) && ranks > 1) {
        all.push_back(shape);
        all.back().root = ranks - 1;
      }
    }
  return all;
}

}  // namespace weft::test
