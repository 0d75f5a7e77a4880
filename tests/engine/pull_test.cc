// Calls that read others' memory through the kernel (algorithm pull): when they do, what they do
// where that is not possible, and ranks that give up while others read.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "base/ptrace_scope.h"
#include "base/text.h"
#include "engine/arrange.h"
#include "engine/executor/plan.h"
#include "engine/tuner/choose.h"
#include "engine/tuner/tuning.h"
#include "kernels/claim.h"
#include "tests/support/cluster.h"
#include "tests/support/contains.h"
#include "tests/support/other_user.h"
#include "tests/support/sanitized.h"
#include "tests/support/sim_call.h"
#include "tests/support/sim_media.h"

namespace weft::test {
namespace {

const Kind kMovedOnly[] = {Kind::broadcast, Kind::all_gather, Kind::gather, Kind::scatter,
                           Kind::all_to_all};

// A network on which reading through the kernel takes so much by the byte.
Network network_that_reads(double gbytes) {
  Network network = *find_example_network("node");
  network.inside.read_s = 1e-6;
  network.inside.read_rates = {{4096, gbytes * kGiga}};
  network.inside.read_alone_rates.clear();
  return network;
}

std::string cheapest(const Network& network, const Call& call, bool readable) {
  Tuner tuner(network);
  Surroundings around{.ranks = 4, .windows = true, .readable = readable, .tuner = &tuner};
  around.slot_bytes = 64 << 10;
  around.slots = 8;
  const Result<Choice> choice = choose(call, around, Options());
  return choice.ok() ? std::string(choice->algorithm->name) : choice.status().to_string();
}

TEST(PullChoice, IsAMatterOfPriceAndOfWhatIsMoved) {
  int32_t memory[1] = {};
  Call call{.kind = Kind::all_gather, .input = memory, .output = memory, .count = 1 << 18};
  call.type = DataType::int32;
  EXPECT_EQ(cheapest(network_that_reads(1000), call, true), "pull");
  EXPECT_NE(cheapest(network_that_reads(0.1), call, true), "pull");
  EXPECT_NE(cheapest(network_that_reads(1000), call, false), "pull");
  Network unknown = network_that_reads(1000);
  unknown.inside.read_rates.clear();
  EXPECT_NE(cheapest(unknown, call, true), "pull") << "nothing is known of its price";
  Call small = call;
  small.count = 16;
  EXPECT_NE(cheapest(network_that_reads(1000), small, true), "pull");
  Call folded = call;
  folded.kind = Kind::all_reduce;
  EXPECT_NE(cheapest(network_that_reads(1000), folded, true), "pull");
}

// By rates of reading at which it is dearer than all else by so many per cent: whether it is taken.
std::vector<std::pair<int, bool>> taken_at(Kind kind, size_t block_bytes) {
  std::byte memory[2] = {};
  Call call{.kind = kind, .input = memory, .output = memory + 1, .count = block_bytes};
  call.type = DataType::uint8;
  std::vector<std::pair<int, bool>> found;
  constexpr int kMuchDearer = 40;  // where nothing changes from rate to rate
  double faster = 1.02;
  for (double gbytes = 1; gbytes < 100; gbytes *= faster) {
    Network network = network_that_reads(gbytes);
    network.inside.read_s = 1e-8;
    network.inside.window_rates = {{1, 5 * kGiga}};
    Tuner tuner(network);
    Surroundings around{.ranks = 4, .windows = true, .readable = true, .tuner = &tuner};
    around.slot_bytes = 64 << 10;
    around.slots = 8;
    const std::vector<Offer>& all = *offers(call, around, Options());
    const auto pull =
        std::find_if(all.begin(), all.end(), [](const Offer& o) { return o.algorithm->readable; });
    if (pull == all.begin()) break;
    if (pull == all.end()) continue;
    const int dearer = static_cast<int>(100 * (pull->seconds / all.front().seconds - 1));
    faster = dearer > kMuchDearer ? 1.2 : 1.02;
    found.emplace_back(dearer, choose(call, around, Options())->algorithm->readable);
  }
  return found;
}

// Its own price is the most exact, where others' are rather too low: a little dearer, it is taken.
TEST(PullChoice, IsTakenWhereItIsALittleDearer) {
  const auto expect_taken_to = [](int limit, Kind kind, size_t block_bytes) {
    int near = 0, far = 0;
    for (const auto& [dearer, taken] : taken_at(kind, block_bytes)) {
      (dearer < 15 ? near : far) += 1;
      EXPECT_EQ(taken, dearer < limit) << dearer << " %";
    }
    EXPECT_GT(near, 3) << block_bytes;
    EXPECT_GT(far, 3) << block_bytes;
  };
  expect_taken_to(15, Kind::all_gather, kClaimedNextMost + 1);
  expect_taken_to(0, Kind::all_gather, kClaimedNextMost);
}

// Cells of the signals of the plan with which a rank of four gathers, from others and to them.
struct Signals {
  std::multiset<int> waits, posts;
};
Signals signals_of(const Algorithm& algorithm, int copies) {
  SimMedia world(4, 1 << 20);
  const Call call{.kind = Kind::all_gather, .count = 4096, .type = DataType::float32};
  const Choice choice{.algorithm = &algorithm, .copies = copies, .segment_bytes = 1024};
  auto arranged = arrange(call, false, choice, 4, 0).take();
  arranged.request.links = Media::kUsualLinks;
  const auto plan =
      lower(arranged.request, std::move(arranged.program), std::move(arranged.layout), world.of(0));
  Signals signals;
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  if (!plan.ok()) return signals;
  for (const PlanLane& lane : (*plan)->lanes)
    for (const PlanStep& step : lane.steps) {
      for (const Signal& wait : step.waits) signals.waits.insert(wait.cell / copies);
      for (const Signal& post : step.posts) signals.posts.insert(post.cell / copies);
    }
  return signals;
}

// The exchange of places has said already that all are in the call.
TEST(PullPlan, ARankSaysOnceThatItIsInTheCall) {
  for (const int copies : {1, 2}) {
    Algorithm algorithm = *find_algorithm("pull");
    const auto times = static_cast<size_t>(3 * copies);
    const Signals once = signals_of(algorithm, copies);
    for (const auto& cells : {once.waits, once.posts}) {
      EXPECT_EQ(cells.size(), times);
      EXPECT_EQ(cells.count(algorithm.entered), 0u);
    }
    const int entered = std::exchange(algorithm.entered, -1);
    const Signals twice = signals_of(algorithm, copies);
    for (const auto& cells : {twice.waits, twice.posts}) {
      EXPECT_EQ(cells.size(), 2 * times);
      EXPECT_EQ(cells.count(entered), times);
    }
  }
}

class Pull : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    if (GetParam() == Mode::processes && !processes_read_each_other())
      GTEST_SKIP() << "kernel.yama.ptrace_scope keeps processes out of each other's memory";
  }
  Cluster cluster(int ranks, const std::string& algorithm) const {
    Cluster c{.ranks = ranks, .mode = GetParam(), .options = {}, .hosts = {}};
    c.options.transport = "shm";
    c.options.algorithm = algorithm;
    c.options.timeout_s = 20;
    return c;
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, Pull, testing::Values(Mode::threads, Mode::processes),
                         [](const auto& mode) {
                           return mode.param == Mode::threads ? "threads" : "processes";
                         });

// Memory of which parts can be closed, so that nobody can read them.
class Unreadable {
 public:
  explicit Unreadable(size_t bytes)
      : bytes_(bytes),
        memory_(
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    WEFT_CHECK(memory_ != MAP_FAILED);
  }
  ~Unreadable() { ::munmap(memory_, bytes_); }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  void close(size_t from, size_t bytes) const {
    WEFT_CHECK(::mprotect(data() + from, bytes, PROT_NONE) == 0);
  }

 private:
  const size_t bytes_;
  void* const memory_;
};

Call gather_call(const void* input, void* output, size_t bytes) {
  Call call{.kind = Kind::all_gather, .input = input, .output = output, .count = bytes};
  call.type = DataType::uint8;
  return call;
}

// As memory of devices can be, which is mapped, and not the kernel's to read: here nobody's.
TEST_P(Pull, AnInputThatCannotBeReadIsRefusedByAllAndNamed) {
  constexpr size_t kPage = 4096, kBytes = 16 * kPage;
  run_ranks(cluster(3, "pull"), [](Communicator& c) {
    const Unreadable secret(kBytes);
    secret.close(0, kBytes);
    std::vector<std::byte> in(kBytes, std::byte(c.rank() + 1)), out(3 * kBytes);
    ASSERT_TRUE(c.run(gather_call(in.data(), out.data(), kBytes)).ok());
    const Status status =
        c.run(gather_call(c.rank() == 1 ? secret.data() : in.data(), out.data(), kBytes));
    EXPECT_EQ(status.code(), Code::unsupported) << status.to_string();
    EXPECT_TRUE(contains(status, "rank 1's input is memory that the kernel cannot read"))
        << status.to_string();
    ASSERT_TRUE(c.run(gather_call(in.data(), out.data(), kBytes)).ok()) << "it goes on";
    for (size_t r = 0; r < 3; ++r) EXPECT_EQ(out[(r + 1) * kBytes - 1], std::byte(r + 1));
  });
}

// As a program that begins as root, and does its work as somebody else.
TEST_P(Pull, ARankThatGivesUpItsPrivilegesIsNotRead) {
  if (GetParam() == Mode::threads) GTEST_SKIP() << "this process keeps its own";
  const bool as_nobody = may_become_nobody();
  run_ranks(cluster(3, "pull,auto"), [as_nobody](Communicator& c) {
    constexpr size_t kBytes = 1 << 20;
    std::vector<std::byte> in(kBytes, std::byte(c.rank() + 1)), out(3 * kBytes);
    const Call call = gather_call(in.data(), out.data(), kBytes);
    ASSERT_TRUE(c.run(call).ok());
    // Others that may read everything could read root's all the same.
    ASSERT_EQ(as_nobody ? ::setresuid(kNobody, kNobody, kNobody) : ::prctl(PR_SET_DUMPABLE, 0), 0);
    for (int i = 0; i < 3; ++i) {
      std::fill(out.begin(), out.end(), std::byte{0});
      const Status status = c.run(call);
      ASSERT_TRUE(status.ok()) << status.to_string();
      for (size_t r = 0; r < 3; ++r) ASSERT_EQ(out[(r + 1) * kBytes - 1], std::byte(r + 1));
    }
  });
}

// By prices that are made up, and with any mixture of memory: what is large is read, and all of it
// is right.
TEST_P(Pull, AutoTakesItForWhatIsLarge) {
  Tuning tuning;
  tuning.shm = tuning.tcp = network_that_reads(1000);
  const std::string path = concat(testing::TempDir(), "pull_tuning_", ::getpid(), ".json");
  std::ofstream(path) << to_json(tuning);
  Cluster three = cluster(3, "auto");
  three.options.tuning = path;
  run_ranks(three, [](Communicator& c) {
    constexpr size_t kBytes = 1 << 20;
    const auto allocated = c.allocate(3 * kBytes);
    ASSERT_TRUE(allocated.ok());
    std::vector<std::byte> in(kBytes, std::byte(c.rank() + 1)), plain(3 * kBytes);
    for (int i = 0; i < 4; ++i) {
      std::byte* const out = (i + c.rank()) % 2 == 0 ? plain.data() : allocated->get();
      for (const size_t bytes : {kBytes, size_t{64}}) {
        const Call call = gather_call(in.data(), out, bytes);
        const auto told = c.explain(call);
        ASSERT_TRUE(told.ok());
        EXPECT_EQ(told->algorithm == "pull", bytes == kBytes) << told->algorithm;
        std::fill(out, out + 3 * kBytes, std::byte{0});
        ASSERT_TRUE(c.run(call).ok());
        for (size_t r = 0; r < 3; ++r) ASSERT_EQ(out[(r + 1) * bytes - 1], std::byte(r + 1));
      }
    }
  });
  ::unlink(path.c_str());
}

// In place on one rank: what it writes others may still have to read, so all go another way.
TEST_P(Pull, AllToAllInPlaceOnOneRank) {
  run_ranks(cluster(3, "pull,auto"), [](Communicator& c) {
    constexpr size_t kCount = 30'000;
    std::vector<int32_t> in(3 * kCount), out(3 * kCount);
    for (size_t i = 0; i < in.size(); ++i) in[i] = c.rank() * 10 + static_cast<int>(i / kCount);
    Call call = gather_call(in.data(), c.rank() == 1 ? in.data() : out.data(), kCount);
    call.kind = Kind::all_to_all;
    call.type = DataType::int32;
    ASSERT_TRUE(c.run(call).ok());
    const auto& result = c.rank() == 1 ? in : out;
    for (size_t i = 0; i < result.size(); ++i)
      ASSERT_EQ(result[i], static_cast<int>(i / kCount) * 10 + c.rank());
  });
}

// So many int32 of each rank to each, in place or not: what the call has as a result.
class ToAll {
 public:
  static constexpr size_t kCount = 3000;
  explicit ToAll(const Communicator& c)
      : me_(c.rank()), in_(static_cast<size_t>(c.size()) * kCount), out_(in_) {}

  Call call(int what, bool in_place) {
    for (size_t i = 0; i < in_.size(); ++i)
      in_[i] = value(what, me_, static_cast<Rank>(i / kCount));
    result_ = in_place ? in_.data() : out_.data();
    Call call = gather_call(in_.data(), result_, kCount);
    call.kind = Kind::all_to_all;
    call.type = DataType::int32;
    return call;
  }
  bool is_right(int what) const {
    for (size_t i = 0; i < in_.size(); ++i)
      if (result_[i] != value(what, static_cast<Rank>(i / kCount), me_)) return false;
    return true;
  }

 private:
  static int32_t value(int what, Rank from, Rank to) { return what * 100 + from * 10 + to; }
  const Rank me_;
  std::vector<int32_t> in_, out_;
  int32_t* result_ = nullptr;
};

// In place on one rank it cannot be, so there is no asking for a while; and then it can.
TEST_P(Pull, CallsDoWithoutTheExchangeWhereItIsInVain) {
  run_ranks(cluster(3, "pull,auto"), [](Communicator& c) {
    ToAll data(c);
    std::vector<size_t> steps;
    const auto next = [&] { return c.explain(data.call(0, false)).take().algorithm; };
    EXPECT_EQ(next(), "pull");
    for (int i = 0; i < 40; ++i) {
      ASSERT_TRUE(c.start_trace(1000).ok());
      ASSERT_TRUE(c.run(data.call(i, c.rank() == 1)).ok());
      ASSERT_TRUE(data.is_right(i)) << "call " << i;
      steps.push_back(c.end_trace().size());
    }
    std::vector<size_t> longer;
    for (size_t i = 0; i < steps.size(); ++i)
      if (steps[i] > *std::min_element(steps.begin(), steps.end())) longer.push_back(i);
    EXPECT_EQ(longer, (std::vector<size_t>{0, 3, 8, 17, 34}));
    EXPECT_NE(next(), "pull") << "as long as there is no asking";
    size_t last = 0;
    for (int i = 0; i < 40; ++i) {
      ASSERT_TRUE(c.start_trace(1000).ok());
      ASSERT_TRUE(c.run(data.call(i, false)).ok());
      ASSERT_TRUE(data.is_right(i)) << "call " << i;
      last = c.end_trace().size();
    }
    EXPECT_NE(last, steps.back()) << "it is read again";
    EXPECT_EQ(next(), "pull");
  });
}

// Which calls begin with an exchange all ranks have to decide alike, however each of them makes its
// calls.
TEST_P(Pull, BlockingOrNotAllRanksKnowWhetherThereIsAnExchange) {
  run_ranks(cluster(3, "pull,auto"), [](Communicator& c) {
    std::mt19937 random(static_cast<unsigned>(c.rank()) + 1);
    std::vector<ToAll> data(4, ToAll(c));
    for (int i = 0; i < 200; ++i) {
      const bool in_place = i / 70 != 1 && c.rank() == 1;
      std::vector<Work> works;
      for (size_t k = 0; k < data.size(); ++k) {
        const Call call = data[k].call(i, in_place);
        if (random() % 3 != 0)
          ASSERT_TRUE(c.run(call).ok());
        else
          works.push_back(c.start(call));
      }
      for (const Work& work : works) ASSERT_TRUE(work.wait().ok()) << work.error().to_string();
      for (const ToAll& each : data) ASSERT_TRUE(each.is_right(i)) << "round " << i;
    }
  });
}

// Ranks that neither read nor are read in a call know it, too.
TEST_P(Pull, ARootThatReadsNothingKnowsThatOthersDo) {
  run_ranks(cluster(3, "pull,auto"), [](Communicator& c) {
    std::vector<int32_t> in(3000), out(3000);
    for (int i = 0; i < 60; ++i) {
      const Rank root = static_cast<Rank>(i) % 3;
      if (c.rank() == root) std::fill(in.begin(), in.end(), i);
      const bool in_place = i / 20 == 1;
      auto& result = in_place ? in : out;
      ASSERT_TRUE(c.broadcast(in.data(), result.data(), in.size(), DataType::int32, root).ok());
      ASSERT_EQ(std::count(result.begin(), result.end(), i), 3000) << "call " << i;
    }
  });
}

// An input that ends early, between its ends.
TEST_P(Pull, AHoleInAnInputFailsAllAndNamesItsOwner) {
  constexpr size_t kPage = 4096, kBytes = 16 * kPage;
  run_ranks(cluster(3, "pull"), [](Communicator& c) {
    const Unreadable memory(kBytes);
    std::vector<std::byte> in(kBytes, std::byte{1}), out(3 * kBytes);
    if (c.rank() == 1) memory.close(5 * kPage, kPage);
    Call call = gather_call(c.rank() == 1 ? memory.data() : in.data(), out.data(), kBytes);
    call.kind = Kind::gather;  // to rank 0, so that the owner does not touch it
    const Status status = c.run(call);
    EXPECT_EQ(status.code(), Code::invalid_argument) << status.to_string();
    EXPECT_TRUE(contains(status, "rank 0 cannot read the input of rank 1")) << status.to_string();
  });
}

// With several calls under way, every rank in another one.
TEST_P(Pull, CallsThatFollowEachOtherDoNotMeet) {
  run_ranks(cluster(3, "pull"), [](Communicator& c) {
    constexpr int kCalls = 40;
    const auto me = static_cast<size_t>(c.rank());
    std::vector<std::vector<int32_t>> in(kCalls), out(kCalls);
    std::vector<Work> works;
    for (int i = 0; i < kCalls; ++i) {
      const size_t count = 1 + static_cast<size_t>(i) * 997;
      in[i].assign(count, i * 10 + c.rank());
      out[i].assign(3 * count, -1);
      Call call = gather_call(in[i].data(), out[i].data(), count);
      call.type = DataType::int32;
      works.push_back(c.start(call));
      if ((i + me) % 3 == 0) {
        ASSERT_TRUE(works.back().wait().ok());
      }
    }
    for (int i = 0; i < kCalls; ++i) {
      const Status status = works[i].wait();
      ASSERT_TRUE(status.ok()) << status.to_string();
      for (Rank r = 0; r < 3; ++r) {
        const auto* const part = &out[i][static_cast<size_t>(r) * in[i].size()];
        ASSERT_TRUE(
            std::all_of(part, part + in[i].size(), [&](int32_t x) { return x == i * 10 + r; }))
            << "call " << i << " of rank " << r;
      }
    }
  });
}

// A rank that cannot read, or whose memory cannot be read: all ranks learn it, and go another way.
TEST(PullSimulated, WhereOneRankCannotAllGoAnotherWay) {
  for (const bool blind : {false, true})
    for (const std::string algorithm : {"pull", "pull,auto"}) {
      SimOptions sim{.seed = 7, .windows = true};
      (blind ? sim.blind : sim.hidden) = 1;
      Options options;
      options.algorithm = algorithm;
      SimWorld world(3, sim, options);
      for (uint64_t call = 0; call < 10; ++call) {
        SimCall trial(world, {.kind = Kind::all_gather, .ranks = 3, .count = 3000}, call);
        ASSERT_TRUE(world.finish(trial.works)) << "call " << call;
        for (Rank r = 0; r < 3; ++r) {
          const Status status = trial.works[static_cast<size_t>(r)].error();
          if (algorithm == "pull") {
            EXPECT_EQ(status.code(), Code::unsupported) << status.to_string();
            EXPECT_TRUE(
                contains(status, blind ? "rank 1 may not read" : "rank 1's input is memory"))
                << status.to_string();
          } else {
            EXPECT_TRUE(status.ok() && trial.right(r)) << status.to_string();
          }
        }
      }
    }
}

// All but one give up, and use their memory for something else; the late one then goes on from
// wherever it was. It may have all it needs; else it must not end well.
TEST(PullSimulated, WhatIsReadTooLateIsNotTakenForGood) {
  int right = 0, errors = 0;
  for (uint64_t seed = 1; seed <= (kSanitized ? 100 : 1000); ++seed) {
    std::mt19937_64 random(seed);
    const int ranks = 2 + static_cast<int>(random() % 3);
    const SimOptions sim{.seed = seed, .windows = true};
    Options options;
    options.algorithm = "pull";
    options.timeout_s = 1;
    SimWorld world(ranks, sim, options);
    const Kind kind = kMovedOnly[random() % std::size(kMovedOnly)];
    const Shape shape{
        .kind = kind, .ranks = ranks, .count = 1 + random() % (seed % 50 == 0 ? 700'000 : 3000)};
    const auto late = static_cast<Rank>(random() % ranks);
    SimCall trial(world, shape, seed);
    for (uint64_t rounds = random() % 300; rounds > 0; --rounds) world.poll();
    std::vector<Work> others = trial.works;
    others.erase(others.begin() + late);
    ASSERT_TRUE(world.finish(others, late)) << "seed " << seed << " hangs";
    for (Rank r = 0; r < ranks; ++r)
      if (r != late) std::fill(trial.in[r].begin(), trial.in[r].end(), -7);
    ASSERT_TRUE(world.finish(trial.works)) << "seed " << seed << " hangs";
    if (!trial.works[static_cast<size_t>(late)].error().ok()) {
      ++errors;
    } else {
      ASSERT_TRUE(trial.right(late)) << "seed " << seed << ", " << name(kind);
      ++right;
    }
  }
  EXPECT_GT(errors, 0);
  EXPECT_GT(right, 0);
}

}  // namespace
}  // namespace weft::test
