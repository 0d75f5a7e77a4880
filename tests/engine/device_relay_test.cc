// Messages and credits that a relay carries between two ranks, whose kernels are played by hand: as
// those of either engine count them. All ranks in one thread; over host memory in virtual time,
// over GPUs' memory, which dies of every CPU that touches it, by RDMA in memory.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "engine/device/relay.h"
#include "transport/sim/sim.h"
#ifdef WEFT_HAVE_VERBS
#include "tests/support/fabric_gpu.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/guarded_memory.h"
#endif

namespace weft::test {
namespace {

constexpr DeviceShape kShape{
    .ranks = 2, .cells = 1, .links = 2, .slots = 2, .slot_bytes = 64, .window_bytes = 0};

uint64_t counted(uint64_t count) { return device::marked(count, 0); }
// Cells have counts; what there is to say of messages, besides, is a mark.
uint32_t mark_for(uint64_t number) { return static_cast<uint32_t>(0xabc0 + number); }
uint64_t head_for(uint64_t number) { return device::marked(number, mark_for(number)); }

struct End {
  std::vector<uint64_t> memory, own;
  DeviceMap map{.layout = DeviceMemoryLayout(kShape), .memory = {}};
  Media* media = nullptr;
  std::unique_ptr<DeviceRelay> relay;
};

// What lies between the two, and where their slots are.
class Medium {
 public:
  virtual ~Medium() = default;
  virtual Result<std::unique_ptr<Transport>> make(const TransportConfig& config) = 0;
  virtual Gpu* gpu() { return nullptr; }  // null: slots are the host's
  // `slots`, of a rank's: as relays know them, and as kernels see them.
  virtual std::byte* make_slots(Rank rank, Transport& transport, size_t bytes) = 0;
  virtual std::byte* seen(Rank, const std::byte* slot) { return const_cast<std::byte*>(slot); }
};

class SimMedium final : public Medium {
 public:
  Result<std::unique_ptr<Transport>> make(const TransportConfig& config) override {
    return make_sim(net_, config);
  }
  std::byte* make_slots(Rank rank, Transport&, size_t bytes) override {
    slots_[rank].resize(bytes);
    return slots_[rank].data();
  }

 private:
  std::shared_ptr<SimNet> net_ = std::make_shared<SimNet>(2, SimOptions());
  std::vector<std::byte> slots_[2];
};

#ifdef WEFT_HAVE_VERBS
class DirectMedium final : public Medium {
 public:
  Result<std::unique_ptr<Transport>> make(const TransportConfig& config) override {
    return verbs::make_verbs(config, fabric_->host(config.rank), {});
  }
  Gpu* gpu() override { return &gpu_; }
  void when_flushed(std::function<void()> look) { gpu_.look = std::move(look); }
  std::byte* make_slots(Rank rank, Transport& transport, size_t bytes) override {
    slots_[rank] = std::make_unique<GuardedMemory>(bytes);
    const GuardedMemory& slots = *slots_[rank];
    EXPECT_TRUE(transport.register_device(slots.bytes(), slots.descriptor()).ok());
    return slots.bytes().data();
  }
  std::byte* seen(Rank rank, const std::byte* slot) override {
    return slots_[rank]->seen({slot, 1}).data();
  }

 private:
  struct Looked final : FabricGpu {
    using FabricGpu::FabricGpu;
    Status flush_remote_writes() override {
      if (look) look();
      return FabricGpu::flush_remote_writes();
    }
    std::function<void()> look;
  };
  static verbs::test::FabricOptions one_thread() {
    verbs::test::FabricOptions options;
    options.thread = false;
    return options;
  }

  std::shared_ptr<verbs::test::Fabric> fabric_ =
      std::make_shared<verbs::test::Fabric>(one_thread());
  FakeGpu::Shared shared_;
  Looked gpu_{std::make_unique<FakeGpu>(shared_, "gpu"), fabric_};
  std::unique_ptr<GuardedMemory> slots_[2];
};
#endif

template <class Made>
std::unique_ptr<Medium> make_medium() {
  return std::make_unique<Made>();
}
const std::vector<std::unique_ptr<Medium> (*)()> kMedia = {
    make_medium<SimMedium>,
#ifdef WEFT_HAVE_VERBS
    make_medium<DirectMedium>,
#endif
};

class DeviceRelays : public testing::TestWithParam<std::unique_ptr<Medium> (*)()> {
 protected:
  DeviceRelays() : medium_(GetParam()()) {
    std::vector<std::unique_ptr<Transport>> transports;
    std::vector<std::string> addresses;
    for (Rank r = 0; r < 2; ++r) {
      TransportConfig config;
      config.rank = r;
      config.size = 2;
      config.job = "relays";
      transports.push_back(medium_->make(config).take());
      addresses.push_back(transports.back()->address());
    }
    for (Rank r = 0; r < 2; ++r) {
      EXPECT_TRUE(transports[r]->join(addresses).ok());
      End& end = ends_[r];
      DeviceMap& map = end.map;
      map.me = r;
      map.relay = RelayLayout(kShape, 1);
      end.memory.resize(map.relay.bytes() / sizeof(uint64_t));
      end.own.resize(map.layout.bytes() / sizeof(uint64_t));
      map.relay_memory = reinterpret_cast<std::byte*>(end.memory.data());
      map.relay_slots = medium_->make_slots(r, *transports[r], map.relay.slots_bytes());
      map.memory = {nullptr, nullptr};
      map.memory[r] = reinterpret_cast<std::byte*>(end.own.data());
      map.relayed = {1 - r};
      std::vector<std::unique_ptr<Transport>> own;
      own.push_back(std::move(transports[r]));
      auto media = std::make_unique<Media>(r, 2, std::move(own), 0);
      end.media = media.get();
      end.relay = std::make_unique<DeviceRelay>(map, std::move(media), medium_->gpu());
    }
  }

  // For a millisecond, or until something happens.
  static void pass(End& end) { end.media->wait(Deadline::after(0.001, end.media->clock())); }
  // All poll once; then something happens, or a millisecond goes by.
  bool step() {
    bool moved = false;
    for (End& end : ends_)
      if (end.relay) moved |= end.relay->poll();
    pass(ends_[0]);
    return moved;
  }
  // Until nothing more is carried.
  void settle() {
    for (int quiet = 0; quiet < 50; ++quiet)
      if (step()) quiet = 0;
  }
  device::Send sender(int link) const { return ends_[0].map.send_end(1, link); }
  device::Receive receiver(int link) const { return ends_[1].map.receive_end(0, link); }
  // What a kernel says of message `number` in its slot.
  void say(int link, uint64_t number, char what, size_t bytes) {
    const device::Send to = sender(link);
    const size_t slot = (number - 1) % kShape.slots;
    std::memset(medium_->seen(0, to.slots + slot * kShape.slot_bytes), what, bytes);
    to.marks[slot] = {bytes | uint64_t{mark_for(number)} << device::kMarkShift, number};
  }
  std::string heard(int link, uint64_t number, size_t bytes) const {
    const std::byte* const slot =
        medium_->seen(1, receiver(link).slots + (number - 1) % kShape.slots * kShape.slot_bytes);
    return {reinterpret_cast<const char*>(slot), bytes};
  }

  const std::unique_ptr<Medium> medium_;
  End ends_[2];
};
INSTANTIATE_TEST_SUITE_P(Over, DeviceRelays, testing::ValuesIn(kMedia));

TEST_P(DeviceRelays, CarryMessagesAndCredits) {
  for (const int link : {0, 1, 2}) {
    for (uint64_t number = 1; number <= 5; ++number) {
      const char what = static_cast<char>('a' + number + link);
      const size_t bytes = number * 7;
      say(link, number, what, bytes);
      settle();
      EXPECT_EQ(*receiver(link).head, head_for(number));
      EXPECT_EQ(heard(link, number, bytes), std::string(bytes, what));
      *receiver(link).credit = head_for(number);
      settle();
      EXPECT_EQ(*sender(link).credit, head_for(number));
    }
  }
  EXPECT_TRUE(ends_[0].relay->is_drained());
  EXPECT_TRUE(ends_[1].relay->is_drained());
}

// In whatever order it looks at slots.
TEST_P(DeviceRelays, CarryMessagesInOrder) {
  say(0, 1, 'a', 1);
  settle();
  *receiver(0).credit = counted(1);
  say(0, 2, 'b', 1);
  say(0, 3, 'c', 1);
  EXPECT_FALSE(ends_[0].relay->is_drained());
  settle();
  EXPECT_EQ(*receiver(0).head, head_for(3));
  EXPECT_EQ(heard(0, 2, 1), "b");
  EXPECT_EQ(heard(0, 3, 1), "c");
}

// Numbers begin anew with each call where steps are launched by themselves: number 2 of a call then
// looks like the one behind number 1 of the call before.
TEST_P(DeviceRelays, TellCallsApart) {
  for (int call = 0; call < 3; ++call) {
    say(0, 1, 'x', 1);
    settle();
    EXPECT_EQ(*receiver(0).head, head_for(1));
    *const_cast<uint64_t*>(receiver(0).head) = 0;
  }
  std::vector<uint64_t> heads;
  say(0, 1, 'a', 1);
  say(0, 2, 'b', 1);
  for (int i = 0; i < 200; ++i) {
    step();
    const uint64_t head = *receiver(0).head;
    if (head != 0 && (heads.empty() || heads.back() != head)) heads.push_back(head);
  }
  EXPECT_EQ(heads.back(), head_for(2));
  EXPECT_EQ(heard(0, 1, 1) + heard(0, 2, 1), "ab");
}

// The same number may be granted again, as soon as it is taken.
TEST_P(DeviceRelays, CarryEveryGrant) {
  for (int call = 0; call < 20; ++call) {
    *receiver(0).credit = counted(2);
    settle();
    EXPECT_EQ(*sender(0).credit, counted(2));
    *const_cast<uint64_t*>(sender(0).credit) = 0;
  }
}

// A peer whose rank has no call under way takes nothing.
TEST_P(DeviceRelays, CarryCreditsToWhoSleeps) {
  settle();  // both know of each other
  for (uint64_t number = 1; number <= kShape.slots + 2; ++number)
    for (int link = 0; link <= kShape.links; ++link) {
      *receiver(link).credit = counted(number);
      ends_[1].relay->poll();
      EXPECT_TRUE(ends_[1].relay->is_drained()) << "credit " << number << " of link " << link;
    }
  settle();
  for (int link = 0; link <= kShape.links; ++link)
    EXPECT_EQ(*sender(link).credit, counted(kShape.slots + 2));
}

// Who has done its part may go; what it sent arrives, whatever else is noticed first.
TEST_P(DeviceRelays, CarryTheLastWordsOfWhoIsGone) {
  settle();  // both know of each other
  for (const uint64_t number : {1, 2}) say(0, number, 'a', 3);
  while (!ends_[0].relay->is_drained()) {
    ends_[0].relay->poll();
    pass(ends_[1]);
  }
  for (int i = 0; i < 20; ++i) pass(ends_[1]);
  ends_[0].relay.reset();
  for (int i = 0; i < 20; ++i) pass(ends_[1]);
  ends_[1].media->poll();
  for (int i = 0; i < 5; ++i) ends_[1].relay->poll();
  EXPECT_EQ(*receiver(0).head, head_for(2));
  EXPECT_EQ(ends_[1].relay->peer_status(0).code(), Code::peer_lost);
}

TEST_P(DeviceRelays, TellWhoIsLost) {
  settle();  // both know of each other
  EXPECT_TRUE(ends_[0].relay->peer_status(1).ok());
  ends_[1].relay.reset();
  say(0, 1, 'a', 1);
  settle();
  const Status lost = ends_[0].relay->peer_status(1);
  EXPECT_EQ(lost.code(), Code::peer_lost) << lost.to_string();
  EXPECT_EQ(lost.peer(), 1);
  EXPECT_TRUE(ends_[0].relay->is_drained());  // nobody is there to take it
}

#ifdef WEFT_HAVE_VERBS
// A kernel that sees the head may read the slot at once.
class DirectRelays : public DeviceRelays {
 protected:
  DirectMedium& medium() { return static_cast<DirectMedium&>(*medium_); }
};
INSTANTIATE_TEST_SUITE_P(Over, DirectRelays, testing::Values(&make_medium<DirectMedium>));

TEST_P(DirectRelays, FlushBeforeTheyPublish) {
  std::vector<uint64_t> heads;
  medium().when_flushed([&] { heads.push_back(*receiver(0).head); });
  for (const uint64_t number : {1, 2}) {
    say(0, number, 'a', 5);
    settle();
  }
  EXPECT_EQ(heads, (std::vector<uint64_t>{0, head_for(1)}));
}

// What is under way a relay that goes would take away.
TEST_P(DirectRelays, AreDrainedOnceDataIsThere) {
  settle();  // both know of each other
  for (uint64_t number = 1; number <= 20; ++number) {
    say(0, number, static_cast<char>('a' + number), 5);
    do {
      ends_[0].relay->poll();
    } while (!ends_[0].relay->is_drained());
    (void)medium().gpu()->flush_remote_writes();
    EXPECT_EQ(heard(0, number, 5), std::string(5, static_cast<char>('a' + number)));
    settle();
  }
}
#endif

}  // namespace
}  // namespace weft::test
