#include "transport/sim/sim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "tests/transport/conformance.h"

namespace weft {
namespace {

// The suite, in real time with threads and in virtual time with turns, with what may go wrong.
conformance::Backend backend(std::string name, conformance::Mode mode, SimOptions options) {
  struct World {
    std::mutex mutex;
    std::shared_ptr<SimNet> net;
  };
  conformance::Backend backend;
  backend.name = std::move(name);
  options.threads = mode == conformance::Mode::threads;
  options.notice_ns = 3'000'000;
  backend.world = [options] {
    return [options, world = std::make_shared<World>()](const TransportConfig& config) {
      const std::lock_guard lock(world->mutex);
      if (!world->net) world->net = std::make_shared<SimNet>(config.size, options);
      return make_sim(world->net, config);
    };
  };
  backend.modes = {mode};
  backend.traits = options.traits;
  backend.windows = backend.reads = options.windows;
  backend.delivers_after_close = true;
  return backend;
}

std::vector<conformance::Case> conformance_cases() {
  using conformance::Mode;
  SimOptions at_once{.message = {0, 0}, .other = {0, 0}, .windows = true};
  SimOptions quick{.seed = 2, .message = {0, 20'000}, .other = {0, 20'000}};
  SimOptions usual{.seed = 3, .windows = true};
  SimOptions lossy{.seed = 4, .message = {0, 300'000}, .other = {0, 300'000}, .loss = 0.2};
  SimOptions slots_only{.seed = 5, .traits = {}};
  std::vector<conformance::Case> all;
  for (const conformance::Backend& each :
       {backend("at_once", Mode::threads, at_once), backend("quick", Mode::threads, quick),
        backend("at_once", Mode::turns, at_once), backend("usual", Mode::turns, usual),
        backend("lossy", Mode::turns, lossy), backend("slots_only", Mode::turns, slots_only)})
    for (const conformance::Case& one : conformance::cases(each)) all.push_back(one);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Sim, Conformance, testing::ValuesIn(conformance_cases()),
                         conformance::case_name);

constexpr LinkShape kShape{2, 128};

// All ranks of a net, driven by this thread.
class World {
 public:
  World(int size, const SimOptions& options) : net_(std::make_shared<SimNet>(size, options)) {
    std::vector<std::string> addresses;
    for (Rank rank = 0; rank < size; ++rank) {
      TransportConfig config;
      config.rank = rank;
      config.size = size;
      ranks_.push_back(make_sim(net_, config).take());
      addresses.push_back(ranks_.back()->address());
    }
    for (auto& rank : ranks_) EXPECT_TRUE(rank->join(addresses).ok());
  }

  SimNet& net() { return *net_; }
  Transport& operator[](Rank rank) { return *ranks_[static_cast<size_t>(rank)]; }
  void close(Rank rank) { ranks_[static_cast<size_t>(rank)].reset(); }
  int size() const { return static_cast<int>(ranks_.size()); }
  double now_s() const { return static_cast<double>(net_->clock().now_ns()) * 1e-9; }

  template <class Ready>
  bool until(Ready ready, double seconds = 10) {
    const Deadline deadline = Deadline::after(seconds, net_->clock());
    while (!ready()) {
      if (deadline.expired()) return false;
      ranks_[0]->wait(deadline);
    }
    return true;
  }
  SendLink& out(Rank from, Rank to) { return (*this)[from].open_send(to, 1, kShape); }
  RecvLink& in(Rank from, Rank to) { return (*this)[to].open_recv(from, 1, kShape); }
  bool send(Rank from, Rank to, uint64_t tag) {
    SendLink& link = out(from, to);
    if (!until([&] { return !link.reserve().empty(); })) return false;
    link.commit(0, tag);
    return true;
  }
  std::optional<uint64_t> receive(Rank from, Rank to, double seconds = 10) {
    RecvLink& link = in(from, to);
    if (!until([&] { return link.peek() != nullptr; }, seconds)) return std::nullopt;
    const uint64_t tag = link.peek()->tag;
    link.release();
    return tag;
  }
  void connect_all() {
    for (Rank a = 0; a < size(); ++a)
      for (Rank b = 0; b < size(); ++b)
        if (a != b) out(a, b), in(a, b);
    until([&] {
      for (Rank a = 0; a < size(); ++a)
        for (Rank b = 0; b < size(); ++b)
          if (a != b && out(a, b).reserve().empty()) return false;
      return true;
    });
  }

 private:
  std::shared_ptr<SimNet> net_;
  std::vector<std::unique_ptr<Transport>> ranks_;
};

// When what arrived where, over some traffic among three ranks.
std::string trace_of(uint64_t seed) {
  World world(3, {.seed = seed, .loss = 0.1});
  world.connect_all();
  std::string trace;
  uint64_t sent = 0;
  for (int seen = 0; seen < 60;) {
    for (Rank a = 0; a < 3; ++a) {
      for (Rank b = 0; b < 3; ++b) {
        if (a == b) continue;
        if (sent < 60 && !world.out(a, b).reserve().empty()) world.out(a, b).commit(8, sent++);
        const Message* message = world.in(a, b).peek();
        if (!message) continue;
        trace +=
            std::to_string(world.net().clock().now_ns()) + ":" + std::to_string(message->tag) + " ";
        world.in(a, b).release();
        ++seen;
      }
    }
    world[0].wait(Deadline::after(1, world.net().clock()));
    if (world.now_s() > 100) return "stuck after " + trace;
  }
  return trace;
}

TEST(Sim, TheSameSeedGivesTheSameRun) {
  for (const uint64_t seed : {1, 2, 3}) EXPECT_EQ(trace_of(seed), trace_of(seed));
}

TEST(Sim, OtherSeedsGiveOtherRuns) {
  EXPECT_NE(trace_of(1), trace_of(2));
  EXPECT_EQ(trace_of(1).find("stuck"), std::string::npos);
}

// Virtual seconds for 20 messages from 0 to 1.
double duration_of(const SimOptions& options, int slowness) {
  World world(2, options);
  world.connect_all();
  world.net().slow(1, slowness);
  const double begin_s = world.now_s();
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(world.send(0, 1, i));
    EXPECT_EQ(world.receive(0, 1), i);
  }
  return world.now_s() - begin_s;
}

TEST(Sim, DelaysAreAsAsked) {
  const double usual = duration_of({.message = {10'000, 10'000}, .other = {0, 0}}, 1);
  EXPECT_NEAR(usual, 20 * 10e-6, 1e-6 + 10e-6);
  EXPECT_GT(duration_of({.message = {10'000, 10'000}, .other = {0, 0}}, 50), 20 * usual);
  EXPECT_GT(duration_of({.message = {10'000, 10'000}, .other = {0, 0}, .loss = 0.5}, 1),
            usual + 5e-3);
  // Credits take their time, too: of two slots.
  EXPECT_GT(duration_of({.message = {0, 0}, .other = {10'000, 10'000}}, 50), 8 * 500e-6);
}

TEST(Sim, MemoryIsReadAtArrivalAndWrittenWhenPlaced) {
  World world(2, {.message = {50'000, 50'000}, .other = {10'000, 10'000}});
  world.connect_all();
  std::vector<std::byte> from(100, std::byte{1}), to(100, std::byte{2});
  const std::optional<Ticket> post = world.in(0, 1).post(to);
  const std::optional<Ticket> send = world.out(0, 1).send(from, 5);
  ASSERT_TRUE(post && send);
  EXPECT_NE(to[0], std::byte{2}) << "posted memory kept its content";
  EXPECT_FALSE(world.out(0, 1).done(*send));
  std::ranges::fill(from, std::byte{3});  // breaks the contract, and that shows:
  std::optional<RecvLink::Placed> placed;
  ASSERT_TRUE(world.until([&] { return (placed = world.in(0, 1).done(*post)).has_value(); }));
  EXPECT_EQ(placed->bytes, 100u);
  EXPECT_EQ(to[99], std::byte{3});
}

TEST(Sim, AReleasedSlotHoldsGarbage) {
  World world(2, {});
  world.connect_all();
  const Bytes slot = world.out(0, 1).reserve();
  std::ranges::fill(slot, std::byte{9});
  world.out(0, 1).commit(100, 1);
  RecvLink& in = world.in(0, 1);
  ASSERT_TRUE(world.until([&] { return in.peek() != nullptr; }));
  const ConstBytes data = in.peek()->data;
  EXPECT_EQ(data[0], std::byte{9});
  in.release();
  EXPECT_NE(data[0], std::byte{9});
}

void expect_lost(World& world, Rank at, Rank peer) {
  const auto noticed = [&] { return !world[at].peer_status(peer).ok(); };
  ASSERT_TRUE(world.until(noticed, 1)) << "rank " << at << " does not notice";
  for (const Status& status :
       {world[at].peer_status(peer), world.out(at, peer).status(), world.in(peer, at).status()}) {
    EXPECT_EQ(status.code(), Code::peer_lost);
    EXPECT_EQ(status.peer(), peer);
    EXPECT_NE(status.message().find("rank " + std::to_string(peer)), std::string_view::npos)
        << status.to_string();
  }
}

TEST(Sim, AKilledRankIsLostToAll) {
  World world(3, {.message = {500'000, 500'000}});
  world.connect_all();
  ASSERT_TRUE(world.send(1, 0, 7));
  world.net().kill(1);
  expect_lost(world, 0, 1);
  expect_lost(world, 2, 1);
  EXPECT_EQ(world.in(1, 0).peek(), nullptr) << "what was under way is lost";
  EXPECT_TRUE(world[0].peer_status(2).ok());
  ASSERT_TRUE(world.send(0, 2, 8));
  EXPECT_EQ(world.receive(0, 2), 8u);
}

TEST(Sim, ACutPartsTwoRanksOnly) {
  World world(3, {});
  world.connect_all();
  world.net().cut(0, 1);
  expect_lost(world, 0, 1);
  expect_lost(world, 1, 0);
  for (const auto& [from, to] : {std::pair{0, 2}, {2, 0}, {1, 2}, {2, 1}}) {
    EXPECT_TRUE(world[from].peer_status(to).ok());
    ASSERT_TRUE(world.send(from, to, 3));
    EXPECT_EQ(world.receive(from, to), 3u);
  }
}

// Tickets of a lost peer end, and the memory is not touched any more.
TEST(Sim, ALossFreesTheCallersMemory) {
  World world(2, {.message = {500'000, 500'000}});
  world.connect_all();
  auto memory = std::make_unique<std::array<std::byte, 64>>();
  auto posted = std::make_unique<std::array<std::byte, 64>>();
  const std::optional<Ticket> ticket = world.out(0, 1).send(*memory, 1);
  ASSERT_TRUE(ticket && world.in(1, 0).post(*posted));
  ASSERT_TRUE(world.send(1, 0, 1));
  world.net().kill(1);
  ASSERT_TRUE(world.until([&] { return world.out(0, 1).done(*ticket); }, 1));
  expect_lost(world, 0, 1);
  memory.reset();
  posted.reset();
  const Deadline later = Deadline::after(1, world.net().clock());
  world.until([&] { return later.expired(); });
}

TEST(Sim, NothingIsPlacedAfterALoss) {
  World world(2, {.message = {0, 0}, .other = {5'000'000, 5'000'000}, .notice_ns = 1'000'000});
  world.connect_all();
  std::vector<std::byte> posted(64);
  ASSERT_TRUE(world.in(1, 0).post(posted));
  ASSERT_FALSE(world.out(1, 0).reserve().empty());
  world.out(1, 0).commit(64, 1);
  EXPECT_EQ(world.net().arrivals(), 1u);
  world.net().kill(1);
  expect_lost(world, 0, 1);
  std::ranges::fill(posted, std::byte{4});
  const Deadline later = Deadline::after(1, world.net().clock());
  world.until([&] { return later.expired(); });
  EXPECT_EQ(posted[0], std::byte{4});
}

TEST(Sim, ASlotReservedBeforeASendKeepsItsContent) {
  World world(2, {});
  world.connect_all();
  const std::vector<std::byte> memory(128, std::byte{5});
  for (int i = 0; i < 20; ++i) {  // the slots are drawn at random
    SendLink& out = world.out(0, 1);
    RecvLink& in = world.in(0, 1);
    ASSERT_TRUE(world.until([&] { return !out.reserve().empty(); }));
    std::ranges::fill(out.reserve(), std::byte{6});
    ASSERT_TRUE(out.send(memory, 1));
    out.commit(128, 2);
    for (const uint64_t tag : {1, 2}) {
      ASSERT_TRUE(world.until([&] { return in.peek() != nullptr; }));
      EXPECT_EQ(in.peek()->tag, tag);
      EXPECT_EQ(in.peek()->data[127], tag == 1 ? std::byte{5} : std::byte{6});
      in.release();
    }
    ASSERT_TRUE(world.until([&] { return world.out(0, 1).done(static_cast<Ticket>(i + 1)); }));
    ASSERT_TRUE(world.until(
        [deadline = Deadline::after(0.001, world.net().clock())] { return deadline.expired(); }));
  }
}

// The caller's memory may go with the transport; slots are the net's.
TEST(Sim, AClosedSenderLeavesItsSlotsButNotItsCallersMemory) {
  World world(2, {.message = {500'000, 500'000}});
  world.connect_all();
  auto memory = std::make_unique<std::array<std::byte, 64>>();
  ASSERT_TRUE(world.send(1, 0, 1));
  ASSERT_TRUE(world.out(1, 0).send(*memory, 2));
  world.close(1);
  memory.reset();
  EXPECT_EQ(world.receive(1, 0, 1), 1u);
  EXPECT_EQ(world.receive(1, 0, 1), std::nullopt);
  EXPECT_EQ(world[0].peer_status(1).code(), Code::peer_lost);
}

TEST(Sim, NotesDoNotCrossACut) {
  World world(3, {});
  world[0].tell(1, NoteKind::failure, "lost");
  world[0].tell(2, NoteKind::failure, "heard");
  world.net().cut(0, 1);
  std::optional<Note> note;
  ASSERT_TRUE(world.until([&] { return (note = world[2].hear()).has_value(); }));
  EXPECT_EQ(note->text, "heard");
  EXPECT_FALSE(world.until([&] { return world[1].hear().has_value(); }, 1));
}

TEST(Sim, WrongSizesAndAddressesAreRefused) {
  const auto net = std::make_shared<SimNet>(2, SimOptions{});
  TransportConfig config;
  config.size = 3;
  EXPECT_EQ(make_sim(net, config).status().code(), Code::invalid_argument);
  config.size = 2;
  auto made = make_sim(net, config);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(make_sim(net, config).status().code(), Code::invalid_argument) << "rank 0 twice";
  EXPECT_EQ((*made)->join({"sim:0"}).code(), Code::invalid_argument);
  EXPECT_EQ((*made)->join({"sim:0", "elsewhere"}).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace weft
