// Which lines the loops claim before they write them, seen with a kit that writes it down.
#include "kernels/claim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "kernels/copy_loop.h"
#include "kernels/reduce_loop.h"

namespace weft {
namespace {

struct Seen {
  std::vector<const char*> claimed;  // lines, in order
  std::set<const char*> written;
  size_t late = 0;   // claims of lines that were written before
  size_t ahead = 0;  // lines that were claimed and not yet written, at most
};

const char* line_of(const void* at) {
  return reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(at) / kCacheLine * kCacheLine);
}

struct WatchedKit : GenericKit<WatchedKit, 16> {
  static Seen*& seen() {
    static Seen* now = nullptr;
    return now;
  }
  static void claim(const char* at) {
    Seen& now = *seen();
    now.late += now.written.contains(line_of(at));
    now.claimed.push_back(line_of(at));
    const auto waits = [&](const char* line) { return !now.written.contains(line); };
    now.ahead = std::max<size_t>(now.ahead, static_cast<size_t>(std::count_if(
                                                now.claimed.begin(), now.claimed.end(), waits)));
  }
  template <class V>
  static void store(void* to, V value) {
    seen()->written.insert(line_of(to));
    seen()->written.insert(line_of(static_cast<char*>(to) + sizeof(V) - 1));
    GenericKit::store(to, value);
  }
};

class ClaimTest : public testing::Test {
 protected:
  static constexpr size_t kMost = 10'048;
  ClaimTest() : from_(kMost), to_(kMost + 2 * kCacheLine) { WatchedKit::seen() = &seen_; }
  ~ClaimTest() override { WatchedKit::seen() = nullptr; }

  char* target(size_t past_a_line) {
    return const_cast<char*>(line_of(to_.data() + kCacheLine - 1)) + past_a_line;
  }

  // So many lines of a target of so many bytes, each once, none outside, none too late and none
  // sooner than it has to be.
  void expect_claimed(size_t lines, const char* to, size_t bytes) {
    std::vector<const char*> all = seen_.claimed;
    EXPECT_EQ(all.size(), lines) << bytes << " bytes";
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "claimed twice";
    for (const char* const line : all) {
      EXPECT_GT(line + kCacheLine, to);
      EXPECT_LT(line, to + bytes);
    }
    EXPECT_EQ(seen_.late, 0u);
    EXPECT_LE(seen_.ahead, 2 * kClaimAhead / kCacheLine);
  }

  template <class T>
  void fold(std::vector<char*> targets, size_t bytes, uint32_t shared, uint32_t streamed = 0) {
    seen_ = {};
    const void* const sources[] = {from_.data(), from_.data()};
    const std::vector<void*> to(targets.begin(), targets.end());
    ReduceCall call{.sources = sources,
                    .source_count = 2,
                    .targets = to.data(),
                    .target_count = static_cast<int>(to.size()),
                    .count = bytes / sizeof(T),
                    .streamed = streamed,
                    .shared = shared};
    Reducer<WatchedKit, T, Sum>::run(call);
  }

  template <class T>
  void check_folds() {
    std::vector<char> other(kMost);
    for (const size_t bytes : {64, 512, 1024, 1536, 2048, 4096, 4160, 10'048}) {
      const size_t stretches = bytes / (kClaimAhead / 2);
      const size_t lines = stretches < 2 ? 0 : (stretches - 1) * kClaimAhead / 2 / kCacheLine;
      for (const size_t past : {0, 16, 48}) {
        fold<T>({other.data(), target(past)}, bytes, /*shared=*/2);
        expect_claimed(lines, target(past), bytes);
        fold<T>({target(past)}, bytes, /*shared=*/1);
        expect_claimed(lines, target(past), bytes);
      }
    }
  }

  Seen seen_;
  std::vector<char> from_, to_;
};

TEST_F(ClaimTest, ACopyClaimsWhatItIsAboutToWrite) {
  constexpr size_t kBlock = 8 * 16;  // eight vectors of this kit
  for (const size_t bytes : {64, 1024, 1152, 1536, 2048, 4096, 4160, 10'048}) {
    seen_ = {};
    CopyLines<WatchedKit, LineStores::claimed>::run(target(0), from_.data(), bytes);
    const size_t behind = bytes < kClaimAhead ? 0 : bytes - kClaimAhead;
    expect_claimed(behind / kBlock * kBlock / kCacheLine, target(0), bytes);
    seen_ = {};
    CopyLines<WatchedKit, LineStores::plain>::run(target(0), from_.data(), bytes);
    expect_claimed(0, target(0), bytes);
  }
}

TEST(CacheLines, AreThoseThatHoldOneOfTheBytes) {
  const auto lines = [](uintptr_t begin, size_t bytes) {
    std::vector<uintptr_t> found;
    each_line(reinterpret_cast<const void*>(begin), bytes,
              [&](const char* line) { found.push_back(reinterpret_cast<uintptr_t>(line)); });
    return found;
  };
  using Lines = std::vector<uintptr_t>;
  EXPECT_EQ(lines(128, 0), Lines());
  EXPECT_EQ(lines(130, 0), Lines());
  EXPECT_EQ(lines(128, 64), Lines({128}));
  EXPECT_EQ(lines(128, 65), Lines({128, 192}));
  EXPECT_EQ(lines(191, 2), Lines({128, 192}));
}

TEST_F(ClaimTest, MemoryThatIsNotThereIsNoFault) { claim_memory(nullptr, 4096); }

TEST_F(ClaimTest, ACopyPastTheCachesClaimsNothing) {
  CopyLines<WatchedKit, LineStores::streamed>::run(target(0), from_.data(),
                                                   kMost / kCacheLine * kCacheLine);
  EXPECT_TRUE(seen_.claimed.empty());
}

TEST_F(ClaimTest, AFoldClaimsOfASharedTarget) {
  check_folds<uint8_t>();
  check_folds<float>();
  check_folds<double>();
}

TEST_F(ClaimTest, AFoldClaimsNothingElse) {
  std::vector<char> other(kMost);
  const auto claims = [&](uint32_t shared, uint32_t streamed) {
    fold<float>({other.data(), target(0)}, kMost, shared, streamed);
    return !seen_.claimed.empty();
  };
  EXPECT_TRUE(claims(2, 0));
  EXPECT_FALSE(claims(0, 0));
  EXPECT_FALSE(claims(1, 0)) << "that is the other target";
  EXPECT_FALSE(claims(2, 2));
}

}  // namespace
}  // namespace weft
