// Which lines the loops claim before they write them, seen with a kit that writes it down.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "kernels/copy_loop.h"
#include "kernels/reduce_loop.h"

namespace weft {
namespace {

struct Seen {
  std::vector<const char*> claimed;       // in order
  std::map<const char*, size_t> written;  // by line: how many were claimed before
};

struct WatchedKit : GenericKit<WatchedKit, 16> {
  static Seen*& seen() {
    static Seen* now = nullptr;
    return now;
  }
  static const char* line_of(const void* at) {
    return reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(at) / kCopyLine * kCopyLine);
  }
  static void claim(const char* line) { seen()->claimed.push_back(line_of(line)); }
  template <class V>
  static void store(void* to, V value) {
    seen()->written.try_emplace(line_of(to), seen()->claimed.size());
    GenericKit::store(to, value);
  }
};

class ClaimTest : public testing::Test {
 protected:
  static constexpr size_t kMost = 64 << 10;
  ClaimTest() : from_(kMost), to_(kMost + 2 * kCopyLine) { WatchedKit::seen() = &seen_; }
  ~ClaimTest() override { WatchedKit::seen() = nullptr; }

  char* target(size_t past_a_line) {
    char* const line = to_.data() + kCopyLine - 1;
    return const_cast<char*>(WatchedKit::line_of(line)) + past_a_line;
  }

  // Of a target of so many bytes: each line once, none outside, all before they were written.
  void expect_own_lines(const char* to, size_t bytes) {
    std::vector<const char*> lines = seen_.claimed;
    std::sort(lines.begin(), lines.end());
    EXPECT_EQ(std::adjacent_find(lines.begin(), lines.end()), lines.end()) << "claimed twice";
    for (size_t i = 0; i < seen_.claimed.size(); ++i) {
      const char* const line = seen_.claimed[i];
      EXPECT_GE(line + kCopyLine, to);
      EXPECT_LT(line, to + bytes);
      EXPECT_GT(seen_.written[line], i) << "written before";
    }
  }

  // Of the lines of so many bytes, all but those at the beginning that come too soon.
  static size_t most_of(size_t bytes) {
    return bytes <= 2 * kClaimAhead ? 0 : (bytes - 2 * kClaimAhead) / kCopyLine;
  }

  void fold(char* to, size_t bytes, uint32_t shared, uint32_t streamed = 0) {
    seen_ = {};
    const void* const sources[] = {from_.data(), from_.data()};
    std::vector<char> other(bytes);
    void* const targets[] = {other.data(), to};
    ReduceCall call{.sources = sources,
                    .source_count = 2,
                    .targets = targets,
                    .target_count = 2,
                    .count = bytes / sizeof(float),
                    .streamed = streamed,
                    .shared = shared};
    Reducer<WatchedKit, float, Sum>::run(call);
  }

  Seen seen_;
  std::vector<char> from_, to_;
};

constexpr size_t kSizes[] = {64, 512, 1024, 1536, 2048, 4096, 4160, 10'048, 64 << 10};

TEST_F(ClaimTest, ACopyClaimsWhatItIsAboutToWrite) {
  for (const size_t bytes : kSizes) {
    seen_ = {};
    CopyLines<WatchedKit, false>::run(target(0), from_.data(), bytes);
    expect_own_lines(target(0), bytes);
    EXPECT_GE(seen_.claimed.size(), most_of(bytes)) << bytes;
  }
}

TEST_F(ClaimTest, ACopyPastTheCachesClaimsNothing) {
  CopyLines<WatchedKit, true>::run(target(0), from_.data(), kMost);
  EXPECT_TRUE(seen_.claimed.empty());
}

TEST_F(ClaimTest, AFoldClaimsOfASharedTarget) {
  for (const size_t bytes : kSizes) {
    for (const size_t past : {0, 4, 60}) {
      fold(target(past), bytes, /*shared=*/2);
      expect_own_lines(target(past), bytes);
      EXPECT_GE(seen_.claimed.size(), most_of(bytes)) << bytes;
    }
  }
}

TEST_F(ClaimTest, AFoldClaimsNothingElse) {
  fold(target(0), kMost, /*shared=*/0);
  EXPECT_TRUE(seen_.claimed.empty());
  fold(target(0), kMost, /*shared=*/1);
  EXPECT_TRUE(seen_.claimed.empty()) << "that is the other target";
  fold(target(0), kMost, /*shared=*/2, /*streamed=*/2);
  EXPECT_TRUE(seen_.claimed.empty());
}

}  // namespace
}  // namespace weft
