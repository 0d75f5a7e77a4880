// Calls on memory that the communicator allocated: every collective against the oracle, with all
// buffers there, some, or none; what happens when ranks die; and that memory goes and comes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>

#include "base/text.h"
#include "bench/data.h"
#include "tests/support/cluster.h"
#include "tests/support/oracle.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

const Kind kMoving[] = {Kind::all_reduce,     Kind::reduce, Kind::broadcast, Kind::all_gather,
                        Kind::reduce_scatter, Kind::gather, Kind::scatter,   Kind::all_to_all};

constexpr size_t kLargest = 20'000;  // elements of a block: above what calls must have to be used
constexpr size_t kSlack = 512;

// Two pieces of memory of either kind.
struct Memories {
  std::shared_ptr<std::byte> shared[2];
  std::vector<std::byte> plain[2];

  explicit Memories(Communicator& c, size_t bytes) {
    for (int i : {0, 1}) {
      auto made = c.allocate(bytes);
      EXPECT_TRUE(made.ok()) << made.status().to_string();
      if (made.ok()) shared[i] = made.take();
      plain[i].resize(bytes);
    }
  }
  std::byte* at(int which, bool registered, size_t offset) {
    return (registered ? shared[which].get() : plain[which].data()) + offset;
  }
};

struct Form {
  bool in_place = false;
  bool input_registered = true, output_registered = true;
  size_t offset = 0;
};

size_t own_block(const Shape& s, Rank me) {
  const bool blocks = s.kind == Kind::all_gather || s.kind == Kind::reduce_scatter ||
                      ((s.kind == Kind::gather || s.kind == Kind::scatter) && me == s.root);
  return blocks ? static_cast<size_t>(me) * s.count * sizeof(int32_t) : 0;
}

void compare(const std::byte* got, const std::vector<int32_t>& wanted, const char* what) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    int32_t value;
    std::memcpy(&value, got + i * sizeof value, sizeof value);
    ASSERT_EQ(value, wanted[i]) << what << " element " << i;
  }
}

// The call, and the bytes around its buffers.
void run_form(Communicator& c, Memories& memories, const Shape& shape, const Form& form,
              uint64_t salt) {
  const Rank me = c.rank();
  const auto in = expected_input(shape, me, salt);
  const auto wanted = expected_output(shape, me, ReduceOp::sum, salt);
  const size_t in_bytes = in.size() * sizeof(int32_t), out_bytes = wanted.size() * sizeof(int32_t);
  const size_t own = own_block(shape, me);
  const bool input_is_part = form.in_place && in.size() < wanted.size();
  const bool output_is_part = form.in_place && !input_is_part && !wanted.empty();
  std::byte* input = memories.at(0, form.input_registered, form.offset + 64);
  std::byte* output =
      form.in_place ? input : memories.at(1, form.output_registered, form.offset + 64);
  if (input_is_part) input += own;
  if (output_is_part) output += own;
  std::memset(memories.at(0, form.input_registered, form.offset), 0x5a, kSlack);
  if (!form.in_place) std::memset(output - 64, 0x5a, out_bytes + 128);
  if (!in.empty()) std::memcpy(input, in.data(), in_bytes);
  const Status status = c.run({.kind = shape.kind,
                               .input = input,
                               .output = output,
                               .count = shape.count,
                               .type = DataType::int32,
                               .op = ReduceOp::sum,
                               .root = shape.root});
  ASSERT_TRUE(status.ok()) << status.to_string();
  compare(output, wanted, "output");
  if (form.in_place) return;
  compare(input, in, "input");
  for (int i = 1; i <= 64; ++i) {
    ASSERT_EQ(output[-i], std::byte{0x5a}) << "before the output";
    ASSERT_EQ(output[out_bytes + i - 1], std::byte{0x5a}) << "behind the output";
  }
}

size_t bytes_for(int ranks) { return (kLargest * ranks * sizeof(int32_t)) + 4 * kSlack; }

class Registered : public testing::TestWithParam<Mode> {
 protected:
  Cluster cluster(int ranks, const std::string& algorithm = "auto") const {
    Cluster c{.ranks = ranks, .mode = GetParam(), .options = {}, .hosts = {}};
    c.options.transport = "shm";
    c.options.algorithm = algorithm;
    return c;
  }
};

std::vector<int> ranks_to_try() {
  return kSanitized ? std::vector<int>{2, 3} : std::vector<int>{1, 2, 3, 5, 8};
}

std::string where(const Communicator& c, const Shape& s, const Form& f) {
  return concat(name(s.kind), " of ", s.count, " on rank ", c.rank(), " of ", c.size(), ", root ",
                s.root, f.in_place ? ", in place" : "", ", offset ", f.offset);
}

// Sizes of one element to many, where nothing may be copied.
TEST_P(Registered, EveryCollectiveGivesWhatTheOracleGives) {
  for (const int ranks : ranks_to_try())
    run_ranks(cluster(ranks, ranks > 1 ? "zero_copy" : "auto"), [](Communicator& c) {
      Memories memories(c, bytes_for(c.size()));
      uint64_t salt = 0;
      for (const size_t count : {1, 3, 17, 129, 4097, 19'999})
        for (const Kind kind : kMoving)
          for (Rank root = 0; root < (has_root(kind) ? c.size() : 1); ++root)
            for (const bool in_place : {false, true}) {
              if (in_place && kind == Kind::all_to_all) continue;
              const Shape shape{.kind = kind, .ranks = c.size(), .root = root, .count = count};
              const Form form{.in_place = in_place, .offset = ++salt % 7 * 3};
              SCOPED_TRACE(where(c, shape, form));
              run_form(c, memories, shape, form, salt);
              if (testing::Test::HasFatalFailure()) return;
            }
    });
}

// Every rank chooses for itself where its buffers are: all ranks have to find the same way.
TEST_P(Registered, AnyMixtureGivesWhatTheOracleGives) {
  for (const int ranks : ranks_to_try())
    run_ranks(cluster(ranks), [](Communicator& c) {
      Memories memories(c, bytes_for(c.size()));
      std::mt19937_64 shared(11), own(100 + c.rank());
      for (int i = 0; i < (kSanitized ? 60 : 250); ++i) {
        const Kind kind = kMoving[shared() % std::size(kMoving)];
        const bool large = shared() % 4 != 0;
        Shape shape{.kind = kind, .ranks = c.size()};
        shape.root = has_root(kind) ? static_cast<Rank>(shared() % c.size()) : 0;
        shape.count = large ? 8192 + shared() % (kLargest - 8192) : shared() % 3000 + 1;
        const auto mixture = shared() % 3;  // none, all or some registered
        const auto pick = [&] { return mixture == 2 ? own() % 4 != 0 : mixture == 1; };
        const bool some_in_place = shared() % 2 == 0;
        Form form{.input_registered = pick(), .output_registered = pick(), .offset = own() % 300};
        form.in_place = some_in_place && (own() % 2 == 0);
        SCOPED_TRACE(concat("call ", i, ": ", where(c, shape, form)));
        run_form(c, memories, shape, form, static_cast<uint64_t>(i));
        if (testing::Test::HasFatalFailure()) return;
      }
    });
}

TEST_P(Registered, CallsWithinAllocationsAreNotCopied) {
  run_ranks(cluster(3), [](Communicator& c) {
    Memories memories(c, bytes_for(3));
    const auto algorithm = [&](std::byte* in, std::byte* out, size_t count) {
      const auto told = c.explain({.kind = Kind::all_reduce,
                                   .input = in,
                                   .output = out,
                                   .count = count,
                                   .type = DataType::int32});
      return told.ok() ? told->algorithm : std::string(told.status().message());
    };
    std::byte *in = memories.shared[0].get(), *out = memories.shared[1].get();
    const size_t all = bytes_for(3) / sizeof(int32_t);
    EXPECT_EQ(algorithm(in, out, all), "zero_copy");
    EXPECT_EQ(algorithm(in, in, all), "zero_copy");
    EXPECT_NE(algorithm(in + 4096, out, all), "zero_copy") << "it ends behind the allocation";
    EXPECT_NE(algorithm(in, memories.plain[1].data(), all), "zero_copy");
    EXPECT_NE(algorithm(in, out, 64), "zero_copy") << "too small to pay";
  });
}

// Elements of every type with every operation, in odd places.
TEST_P(Registered, EveryTypeAndOperation) {
  for (const int ranks : {2, 3})
    run_ranks(cluster(ranks, "zero_copy"), [](Communicator& c) {
      constexpr size_t kCount = 1543;
      Memories memories(c, 16 * kCount * 4);
      for (int t = 0; t < kDataTypes; ++t)
        for (int o = 0; o < kReduceOps; ++o) {
          const auto type = static_cast<DataType>(t);
          const auto op = static_cast<ReduceOp>(o);
          if (!defined(op, type) || op == ReduceOp::premulsum) continue;
          const bench::Recipe recipe{type, op, c.size(), 7};
          const size_t bytes = kCount * size_of(type);
          const Bytes in{memories.at(0, true, 8), bytes}, out{memories.at(1, true, 16), bytes};
          bench::fill_input(recipe, c.rank(), 0, in);
          const Status status = c.all_reduce(in.data(), out.data(), kCount, type, op);
          ASSERT_TRUE(status.ok()) << status.to_string();
          std::vector<std::byte> wanted(bytes);
          bench::fill_expected(recipe, 0, wanted);
          ASSERT_EQ(std::memcmp(out.data(), wanted.data(), bytes), 0)
              << name(op) << " of " << name(type);
        }
    });
}

// Each rank's factor is its own, so inputs cannot be read as they are: the usual way.
TEST_P(Registered, PremulsumTakesTheUsualWay) {
  run_ranks(cluster(2), [](Communicator& c) {
    constexpr size_t kCount = 20'000;
    Memories memories(c, kCount * sizeof(int32_t));
    auto* in = reinterpret_cast<int32_t*>(memories.shared[0].get());
    auto* out = reinterpret_cast<int32_t*>(memories.shared[1].get());
    for (size_t i = 0; i < kCount; ++i) in[i] = static_cast<int32_t>(i);
    const int32_t factor = c.rank() + 2;
    const Status status = c.run({.kind = Kind::all_reduce,
                                 .input = in,
                                 .output = out,
                                 .count = kCount,
                                 .type = DataType::int32,
                                 .op = ReduceOp::premulsum,
                                 .scalar = &factor});
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(out[i], static_cast<int32_t>(5 * i));
  });
}

TEST_P(Registered, AsynchronousCallsAndGroupsMix) {
  run_ranks(cluster(3), [](Communicator& c) {
    constexpr size_t kCount = 10'000;
    constexpr int kCalls = 8;
    Memories memories(c, 2 * kCalls * kCount * sizeof(int32_t));
    auto* in = reinterpret_cast<int32_t*>(memories.shared[0].get());
    auto* out = reinterpret_cast<int32_t*>(memories.shared[1].get());
    for (int round = 0; round < 5; ++round) {
      std::vector<Work> works;
      int32_t sent = c.rank(), got = -1;
      for (size_t k = 0; k < kCalls; ++k) {
        for (size_t i = 0; i < kCount; ++i) in[k * kCount + i] = c.rank() + round + int32_t(k * i);
        works.push_back(c.start({.kind = Kind::all_reduce,
                                 .input = in + k * kCount,
                                 .output = out + k * kCount,
                                 .count = kCount,
                                 .type = DataType::int32}));
      }
      const Transfer group[] = {send_to((c.rank() + 1) % 3, &sent, 1, DataType::int32),
                                receive_from((c.rank() + 2) % 3, &got, 1, DataType::int32)};
      works.push_back(c.start(group));
      for (const Work& work : works) ASSERT_TRUE(work.wait().ok()) << work.wait().to_string();
      EXPECT_EQ(got, (c.rank() + 2) % 3);
      for (size_t k = 0; k < kCalls; ++k)
        for (size_t i = 0; i < kCount; ++i)
          ASSERT_EQ(out[k * kCount + i], 3 + 3 * round + 3 * int32_t(k * i));
    }
  });
}

TEST_P(Registered, OneThatIsAskedForMustBePossible) {
  run_ranks(cluster(2, "zero_copy"), [](Communicator& c) {
    std::vector<float> plain(100);
    Status status = c.all_reduce(plain.data(), plain.data(), 100, DataType::float32, ReduceOp::sum);
    EXPECT_EQ(status.code(), Code::unsupported);
    Memories memories(c, 4096);
    // Rank 1's input is elsewhere, and both say so.
    const void* in = c.rank() == 1 ? static_cast<void*>(plain.data()) : memories.shared[0].get();
    status = c.all_reduce(in, memories.shared[1].get(), 100, DataType::float32, ReduceOp::sum);
    EXPECT_EQ(status.code(), Code::unsupported) << status.to_string();
    EXPECT_NE(status.message().find("rank 1 passed other memory"), std::string::npos)
        << status.to_string();
    EXPECT_TRUE(c.health().ok());
    EXPECT_TRUE(c.barrier().ok());
  });
}

// Counts by rank and premulsum cannot run between buffers, and a wish is no order.
TEST_P(Registered, AWishThatCannotBeFallsBack) {
  run_ranks(cluster(2, "zero_copy,auto"), [](Communicator& c) {
    constexpr size_t kCount = 10'000;
    Memories memories(c, 3 * kCount * sizeof(int32_t));
    auto* in = reinterpret_cast<int32_t*>(memories.shared[0].get());
    auto* out = reinterpret_cast<int32_t*>(memories.shared[1].get());
    std::fill(in, in + 2 * kCount, c.rank() + 1);
    const size_t counts[] = {kCount, 2 * kCount};
    Call gather{.kind = Kind::all_gather, .input = in, .output = out, .count = kCount};
    gather.type = DataType::int32;
    gather.varying = true;
    gather.counts = counts;
    Status status = c.run(gather);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(std::count(out, out + kCount, 1), static_cast<ptrdiff_t>(kCount));
    EXPECT_EQ(std::count(out + kCount, out + 3 * kCount, 2), static_cast<ptrdiff_t>(2 * kCount));
    const int32_t factor = c.rank() + 2;
    status = c.run({.kind = Kind::reduce_scatter,
                    .input = in,
                    .output = out,
                    .count = kCount,
                    .type = DataType::int32,
                    .op = ReduceOp::premulsum,
                    .scalar = &factor});
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(std::count(out, out + kCount, 2 + 2 * 3), static_cast<ptrdiff_t>(kCount));
  });
}

TEST_P(Registered, SizesHaveToAgree) {
  run_ranks(cluster(3), [](Communicator& c) {
    const auto made = c.allocate(c.rank() == 2 ? 8192 : 4096);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), Code::mismatch);
    EXPECT_NE(made.status().message().find("rank 0 asks for 4096 bytes and rank 2 for 8192"),
              std::string::npos)
        << made.status().to_string();
    const auto again = c.allocate(c.rank() == 1 ? 0 : 0);
    EXPECT_TRUE(again.ok());
    EXPECT_TRUE(c.barrier().ok());
  });
}

size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("weft") != line.npos;
  return count;
}

TEST_P(Registered, MemoryComesAndGoesInAnyOrder) {
  run_ranks(cluster(2), [](Communicator& c) {
    constexpr size_t kCount = 10'000;
    std::vector<std::shared_ptr<std::byte>> held;
    size_t after_some = 0;
    const int cycles = kSanitized ? 100 : 1000;
    for (int i = 0; i < cycles; ++i) {
      auto made = c.allocate(kCount * sizeof(int32_t));
      ASSERT_TRUE(made.ok()) << made.status().to_string();
      auto* values = reinterpret_cast<int32_t*>(made->get());
      for (size_t k = 0; k < kCount; k += 97) ASSERT_EQ(values[k], 0) << "not zeroed";
      values[17] = i;
      ASSERT_TRUE(c.all_reduce(values, values, kCount, DataType::int32, ReduceOp::sum).ok());
      ASSERT_EQ(values[17], 2 * i);
      held.push_back(made.take());
      // Ranks free in orders of their own.
      if (held.size() == 5) held.erase(held.begin() + (c.rank() == 0 ? 0 : 4));
      if (i == cycles / 2) after_some = mappings();
    }
    EXPECT_LE(mappings(), after_some + 16);
  });
}

TEST_P(Registered, MemoryOutlivesItsCommunicator) {
  std::vector<std::shared_ptr<std::byte>> kept(2);
  run_ranks(cluster(2), [&](Communicator& c) {
    auto made = c.allocate(100'000);
    ASSERT_TRUE(made.ok());
    ASSERT_TRUE(
        c.all_reduce(made->get(), made->get(), 20'000, DataType::int32, ReduceOp::sum).ok());
    kept[c.rank()] = made.take();
  });
  for (const auto& memory : kept)
    if (memory) std::memset(memory.get(), 1, 100'000);
}

// On other media the same calls give the same, in memory like any other.
TEST(RegisteredElsewhere, MemoryIsLikeAnyOther) {
  for (const bool hosts : {false, true}) {
    Cluster cluster{.ranks = 3, .mode = Mode::threads, .options = {}, .hosts = {}};
    if (hosts)
      cluster.hosts = {"a", "b", "a"};
    else
      cluster.options.transport = "tcp";
    run_ranks(cluster, [](Communicator& c) {
      Memories memories(c, bytes_for(3));
      for (const Kind kind : kMoving)
        run_form(c, memories, {.kind = kind, .ranks = 3, .count = 10'000}, {}, 1);
      EXPECT_EQ(c.allocate(c.rank() + 1).status().code(), Code::mismatch);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Registered, testing::Values(Mode::threads, Mode::processes),
                         [](const auto& test) { return name(test.param); });

}  // namespace
}  // namespace weft::test
