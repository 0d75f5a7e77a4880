// 512 processes on whatever cores there are: start, meet twice, end.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/bootstrap/ranks.h"

namespace weft {
namespace {

TEST(Join, FiveHundredAndTwelveProcesses) {
  constexpr int kSize = 512;
  test::Ways ways("tcp");
  const auto start = std::chrono::steady_clock::now();
  const auto said = test::run(test::Mode::processes, kSize, [&](Rank r) -> std::string {
    auto meeting = make_rendezvous({r, kSize, ways.address(), "j"}, Environment());
    if (!meeting.ok()) return meeting.status().to_string();
    for (int round = 0; round < 2; ++round) {
      const auto table = (*meeting)->all_gather(std::string(200, 'x'), Deadline::after(60));
      if (!table.ok()) return table.status().to_string();
      if (table->size() != kSize) return "short table";
    }
    const RendezvousStats stats = (*meeting)->stats();
    return stats.messages_sent <= 4 && stats.messages_received <= 4 ? "ok" : "too many messages";
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  for (const std::string& text : said) ASSERT_EQ(text, "ok");
  RecordProperty("seconds", std::to_string(took.count()));
  EXPECT_LT(took.count(), 60);
}

}  // namespace
}  // namespace weft
