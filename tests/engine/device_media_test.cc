// Ranks that make and map device memory together; the GPU is a fake one in host memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "base/text.h"
#include "engine/device/media.h"
#include "tests/support/connect_by_tcp.h"
#include "tests/support/fake_gpu.h"

namespace weft::test {
namespace {

DeviceMediaConfig config_of(Rank rank, int ranks) {
  return {.rank = rank,
          .host = "a",
          .process = 1,
          .shape = {.ranks = ranks, .cells = 2, .links = 1, .slot_bytes = 64, .window_bytes = 128},
          .queues = kDeviceQueuesMost};
}

// The same meeting, in which what rank 1 tells is what `change` makes of it.
class Changed final : public ForwardingRendezvous {
 public:
  using Change = std::function<std::string(std::string)>;
  Changed(Rendezvous& meet, const Change& change) : ForwardingRendezvous(meet), change_(change) {}
  Result<std::vector<std::string>> all_gather(std::string mine, const Deadline& deadline) override {
    if (rank() == 1) mine = change_(std::move(mine));
    return ForwardingRendezvous::all_gather(std::move(mine), deadline);
  }

 private:
  const Change& change_;
};

struct Outcome {
  Status status;
  std::unique_ptr<DeviceMedia> media;
};

// All ranks join, each with a GPU and a configuration that `prepare` may change.
std::vector<Outcome> join(
    FakeGpu::Shared& shared, std::vector<std::unique_ptr<FakeGpu>>& gpus, int ranks,
    const std::function<void(Rank, FakeGpu&, DeviceMediaConfig&)>& prepare,
    const Changed::Change& change = [](std::string text) { return text; }) {
  auto meetings = make_in_process_rendezvous(ranks);
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  for (Rank r = 0; r < ranks; ++r) gpus.push_back(std::make_unique<FakeGpu>(shared, "gpu"));
  std::vector<std::jthread> threads;
  for (Rank r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      DeviceMediaConfig config = config_of(r, ranks);
      prepare(r, *gpus[r], config);
      Changed meeting(*meetings[r], change);
      auto media = DeviceMedia::join(*gpus[r], meeting, config, Deadline::after(20));
      outcomes[r].status = media.status();
      if (media.ok()) outcomes[r].media = std::move(*media);
    });
  threads.clear();
  return outcomes;
}

// Whether all see the same memory: what each writes into everybody's, the owners find.
void meet(std::vector<Outcome>& outcomes) {
  const int ranks = static_cast<int>(outcomes.size());
  for (Rank r = 0; r < ranks; ++r)
    for (Rank peer = 0; peer < ranks; ++peer) {
      const DeviceMap& map = outcomes[r].media->map();
      *map.at<uint64_t>(peer, map.layout.cell(r, 1)) = static_cast<uint64_t>(r * 10 + peer + 1);
    }
  for (Rank r = 0; r < ranks; ++r)
    for (Rank peer = 0; peer < ranks; ++peer) {
      const DeviceMap& map = outcomes[r].media->map();
      EXPECT_EQ(*map.at<uint64_t>(r, map.layout.cell(peer, 1)),
                static_cast<uint64_t>(peer * 10 + r + 1));
    }
}

TEST(DeviceMedia, IsReachedWithinAProcess) {
  FakeGpu::Shared shared;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  const auto no_handles = [](Rank, FakeGpu& gpu, DeviceMediaConfig&) {
    gpu.refuses_sharing = true;
  };
  auto outcomes = join(shared, gpus, 3, no_handles);
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.to_string();
    EXPECT_EQ(outcome.media->choice().engine, DeviceEngine::persistent);
    EXPECT_EQ(outcome.media->choice().blocks, 20u);  // of the largest kernel's 60
    EXPECT_TRUE(outcome.media->map().shares_buffers);
  }
  meet(outcomes);
  EXPECT_EQ(shared.mapped, 0);
  EXPECT_EQ(shared.reached, 6);
  outcomes.clear();
  EXPECT_EQ(shared.allocated, 0);
}

// Callers' buffers are in reach of all only where one GPU has them all, on one host.
TEST(DeviceMedia, ReachesCallersBuffersOnOneGpuOnly) {
  for (const bool other_gpu : {false, true}) {
    FakeGpu::Shared shared;
    std::vector<std::unique_ptr<FakeGpu>> gpus;
    auto outcomes = join(shared, gpus, 2, [&](Rank r, FakeGpu& gpu, DeviceMediaConfig& config) {
      if (other_gpu && r == 1) gpu.become("another");
      if (!other_gpu) config.host = r == 0 ? "a" : "b";
      config.connect = connect_by_tcp;
    });
    for (const Outcome& outcome : outcomes) {
      ASSERT_TRUE(outcome.status.ok()) << outcome.status.to_string();
      EXPECT_FALSE(outcome.media->map().shares_buffers);
    }
  }
}

// A rank may be done, and its media and device gone, while others of its process write to it.
TEST(DeviceMedia, StaysWhileOthersOfItsProcessUseIt) {
  FakeGpu::Shared shared;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  std::vector<std::weak_ptr<FakeGpu>> devices(3);
  auto outcomes = join(shared, gpus, 3, [&](Rank r, FakeGpu&, DeviceMediaConfig& config) {
    const auto device = std::make_shared<FakeGpu>(shared, "gpu");
    devices[r] = device;
    config.keep = device;
  });
  outcomes.erase(outcomes.begin(), outcomes.begin() + 2);
  EXPECT_EQ(shared.allocated, 3);
  for (const auto& device : devices) EXPECT_FALSE(device.expired());
  const DeviceMap& map = outcomes[0].media->map();
  for (Rank r = 0; r < 3; ++r) *map.at<uint64_t>(r, map.layout.cell(2, 1)) = 1;
  outcomes.clear();
  EXPECT_EQ(shared.allocated, 0);
  for (const auto& device : devices) EXPECT_TRUE(device.expired());
}

// Its last meetings fail for one rank and not for the others, who are slower.
class LeftBy final : public ForwardingRendezvous {
 public:
  LeftBy(Rendezvous& meet, Rank who) : ForwardingRendezvous(meet), who_(who) {}
  Result<std::vector<std::string>> all_gather(std::string mine, const Deadline& deadline) override {
    auto all = ForwardingRendezvous::all_gather(std::move(mine), deadline);
    if (++meetings_ < 2) return all;
    if (rank() == who_) return Status(Code::timeout, "it has waited too long");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return all;
  }

 private:
  const Rank who_;
  int meetings_ = 0;
};

// What it has told of is not there any more when others of its process look for it.
TEST(DeviceMedia, MayBeLeftByARankOfItsProcess) {
  FakeGpu::Shared shared;
  auto meetings = make_in_process_rendezvous(3);
  std::vector<std::jthread> threads;
  for (Rank r = 0; r < 3; ++r)
    threads.emplace_back([&, r] {
      const auto gpu = std::make_shared<FakeGpu>(shared, "gpu");
      DeviceMediaConfig config = config_of(r, 3);
      config.keep = gpu;
      LeftBy meeting(*meetings[r], 1);
      const auto media = DeviceMedia::join(*gpu, meeting, config, Deadline::after(1));
      EXPECT_FALSE(media.ok());
    });
  threads.clear();
  EXPECT_EQ(shared.allocated, 0);
}

// Memory is of the shape of the engine that was chosen.
TEST(DeviceMedia, IsMappedBetweenProcesses) {
  FakeGpu::Shared shared;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  auto outcomes = join(shared, gpus, 4, [](Rank r, FakeGpu&, DeviceMediaConfig& config) {
    config.process = r / 2;
    config.stream_shape = config.shape;
    config.stream_shape->slots = 4;
    config.shape.slots = 2;
  });
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.to_string();
    EXPECT_EQ(outcome.media->choice().engine, DeviceEngine::stream);
    EXPECT_FALSE(outcome.media->map().shares_buffers);
  }
  meet(outcomes);
  EXPECT_EQ(shared.mapped, 8);
  EXPECT_EQ(outcomes[0].media->map().layout.shape().slots, 4u);
  outcomes.clear();
  EXPECT_EQ(shared.mapped, 0);
  EXPECT_EQ(shared.allocated, 0);
}

// Who cannot map a peer's memory has a relay to it, and the peer has one back.
TEST(DeviceMedia, IsRelayedWhereItCannotBeMapped) {
  FakeGpu::Shared shared;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  auto outcomes = join(shared, gpus, 4, [](Rank r, FakeGpu& gpu, DeviceMediaConfig& config) {
    config.host = r == 3 ? "b" : "a";
    config.process = r;
    config.connect = connect_by_tcp;
    gpu.refuses_mapping = r == 1;
  });
  const std::vector<std::vector<Rank>> relayed = {{1, 3}, {0, 2, 3}, {1, 3}, {0, 1, 2}};
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.to_string();
    const DeviceMap& map = outcome.media->map();
    EXPECT_EQ(map.relayed, relayed[map.me]);
    EXPECT_EQ(map.layout.shape().window_bytes, 0u);
    EXPECT_NE(outcome.media->relay(), nullptr);
    for (Rank r = 0; r < 4; ++r) {
      const bool mapped = std::ranges::find(relayed[map.me], r) == relayed[map.me].end();
      EXPECT_EQ(map.is_mapped(r), mapped);
    }
  }
  EXPECT_EQ(shared.mapped, 2);
  outcomes.clear();
  EXPECT_EQ(shared.mapped, 0);
  EXPECT_EQ(shared.allocated, 0);
}

// So has who cannot give another process a handle. Ranks of its own process need none.
TEST(DeviceMedia, IsRelayedWhereItCannotBeShared) {
  FakeGpu::Shared shared;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  auto outcomes = join(shared, gpus, 4, [](Rank r, FakeGpu& gpu, DeviceMediaConfig& config) {
    config.process = r / 2;
    config.connect = connect_by_tcp;
    gpu.refuses_sharing = r == 1;
  });
  const std::vector<std::vector<Rank>> relayed = {{}, {2, 3}, {1}, {1}};
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.to_string();
    EXPECT_EQ(outcome.media->map().relayed, relayed[outcome.media->map().me]);
  }
  EXPECT_EQ(shared.mapped, 4);
  outcomes.clear();
  EXPECT_EQ(shared.allocated, 0);
}

// Who insists on direct ways gets them or an error, on all ranks.
TEST(DeviceMedia, GoesThroughHostsOnlyWhereNobodyMinds) {
  for (const bool insists : {false, true}) {
    FakeGpu::Shared shared;
    std::vector<std::unique_ptr<FakeGpu>> gpus;
    auto outcomes = join(shared, gpus, 3, [&](Rank r, FakeGpu&, DeviceMediaConfig& config) {
      config.host = r == 2 ? "b" : "a";
      config.connect = connect_by_tcp;
      if (r == 1) config.direct = insists ? "on" : "off";
    });
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.status.ok(), !insists);
      EXPECT_TRUE(outcome.media || outcome.status.message().starts_with(
                                       "option gpu_direct (WEFT_GPU_DIRECT) is on, but RDMA does "
                                       "not reach the memory of all ranks' GPUs (rank 0: the fake "
                                       "GPU gives no dma-bufs)"))
          << outcome.status.to_string();
    }
    outcomes.clear();
    EXPECT_EQ(shared.allocated, 0);
  }
}

// One rank's failure is everyone's, with its name, and nothing is left.
void all_fail(const std::function<void(Rank, FakeGpu&, DeviceMediaConfig&)>& prepare,
              std::string_view words) {
  FakeGpu::Shared shared;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  auto outcomes = join(shared, gpus, 3, prepare);
  for (const Outcome& outcome : outcomes) {
    EXPECT_FALSE(outcome.status.ok());
    EXPECT_NE(outcome.status.message().find(words), std::string::npos)
        << outcome.status.to_string();
  }
  EXPECT_EQ(shared.allocated, 0);
  EXPECT_EQ(shared.mapped, 0);
}

TEST(DeviceMedia, FailsOnAllRanksWhereItFailsOnOne) {
  all_fail([](Rank r, FakeGpu& gpu, DeviceMediaConfig&) { gpu.refuses_memory = r == 1; },
           "the GPU is full");
  all_fail(
      [](Rank r, FakeGpu& gpu, DeviceMediaConfig& config) {
        config.process = r;
        gpu.refuses_mapping = r == 2;
      },
      "it cannot be mapped");
  all_fail(
      [](Rank r, FakeGpu& gpu, DeviceMediaConfig& config) {
        config.process = r;
        gpu.refuses_sharing = r == 2;
      },
      "memory cannot be shared");
  all_fail([](Rank r, FakeGpu&, DeviceMediaConfig& config) { config.shape.slots += r == 1; },
           "has other device memory");
  all_fail([](Rank r, FakeGpu&, DeviceMediaConfig& config) { config.host += r == 0 ? "x" : ""; },
           "no transport leads from one to the other");
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  const size_t at = text.find(what);
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

TEST(DeviceMedia, WhoTellsSomethingElseIsNamed) {
  const std::string deep = concat(std::string(100, '['), std::string(100, ']'));
  const std::vector<Changed::Change> changes = {
      [](const std::string&) { return std::string("{"); },
      [](const std::string&) { return std::string("[]"); },
      [](const std::string& text) { return text.substr(1); },
      [](std::string text) {
        return replaced(std::move(text), "\"process\":1", "\"process\":1e300");
      },
      [](std::string text) {
        return replaced(std::move(text), "\"handle\":[]", "\"handle\":[1.5]");
      },
      [&deep](const std::string& text) { return concat("{\"more\":", deep, ",", text.substr(1)); }};
  for (const Changed::Change& change : changes) {
    FakeGpu::Shared shared;
    std::vector<std::unique_ptr<FakeGpu>> gpus;
    const auto same = [](Rank, FakeGpu&, DeviceMediaConfig&) {};
    for (const Outcome& outcome : join(shared, gpus, 2, same, change)) {
      EXPECT_EQ(outcome.status.code(), Code::mismatch) << outcome.status.to_string();
      EXPECT_EQ(outcome.status.peer(), 1);
      EXPECT_TRUE(outcome.status.message().starts_with("rank 1 told of its GPU in another way"))
          << outcome.status.to_string();
    }
  }
}

}  // namespace
}  // namespace weft::test
