#include "tests/support/device_ranks.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/env.h"
#include "base/text.h"
#include "tests/support/ranks_gpus.h"
#include "tests/support/with_memory.h"
#include "transport/backends.h"

namespace weft::test {

void Here::synchronize() const {
  for (Gpu::Stream stream : streams) EXPECT_TRUE(device.synchronize(stream).ok());
}

void create_ranks(const World& world,
                  const std::function<void(Rank, Rendezvous&, const CreateConfig&)>& create) {
  std::vector<std::string> hosts = world.hosts;
  const auto few = Environment::of_process().get("WEFT_TEST_HOSTS");
  for (Rank r = static_cast<Rank>(hosts.size()); r < world.ranks; ++r)
    hosts.push_back(concat("host ", few ? r % std::stoi(*few) : 0));
  const RanksGpus gpus(hosts);
  auto meetings = make_in_process_rendezvous(world.ranks);
  std::vector<std::jthread> threads;
  for (Rank r = 0; r < world.ranks; ++r)
    threads.emplace_back([&, r] {
      CreateConfig config{.options = world.options,
                          .host = hosts[r],
                          .names = {"shm", "tcp"},
                          .make = make_transport,
                          .device_queues = kDeviceQueuesMost};
      if (const auto engine = Environment::of_process().get("WEFT_DEVICE_ENGINE"))
        config.options.device_engine = *engine;
      if (config.options.timeout_s == Options().timeout_s) config.options.timeout_s = 60;
      if (r == world.without)
        config.no_device = unsupported("its GPU is at home");
      else
        config.device = gpus.of(r);
      create(r, *meetings[r], config);
    });
}

void with_streams(Rank me, Communicator& comm, Gpu& device, const Body& body) {
  const auto memory = static_cast<WithMemory&>(device).memory();
  Gpu::Stream streams[2] = {device.make_stream().take(), device.make_stream().take()};
  const Here here{me, comm, device, *memory, streams};
  body(here);
  here.synchronize();
  for (Gpu::Stream stream : streams) device.destroy_stream(stream);
}

void run_ranks(const World& world, const Body& body) {
  create_ranks(world, [&body](Rank r, Rendezvous& meet, const CreateConfig& config) {
    auto made = create_communicator(meet, config);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    with_streams(r, **made, *config.device, body);
  });
}

int sum_of(int ranks) { return ranks * (ranks + 1) / 2; }

Call sum_call(const void* in, void* out, size_t count) {
  return {.kind = Kind::all_reduce,
          .input = in,
          .output = out,
          .count = count,
          .type = DataType::int32};
}

void expect_host_sum(const Here& here) {
  const int32_t mine = here.me + 1;
  int32_t sum = 0;
  const Status status = here.comm.run(sum_call(&mine, &sum));
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(sum, sum_of(here.comm.size()));
}

void expect_device_sum(const Here& here, Communicator& comm) {
  const auto in = here.on_device<int32_t>(100, comm.rank() + 1);
  auto out = here.on_device<int32_t>(100, 0);
  const Status status = comm.run(sum_call(in.data(), out.data(), 100));
  EXPECT_TRUE(status.ok()) << status.to_string();
  for (const int32_t value : out) ASSERT_EQ(value, sum_of(comm.size()));
}

}  // namespace weft::test
