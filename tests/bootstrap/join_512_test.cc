// Up to 512 processes on whatever cores there are: start, meet twice, end.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <sstream>

#include "tests/bootstrap/ranks.h"

namespace weft {
namespace {

constexpr int kRounds = 2;

// What a rank says of its messages: its own, and those of the store where it runs one.
std::string counts_of(Rank rank, int size, const std::string& where) {
  auto meeting = make_rendezvous({rank, size, where, "j"}, Environment());
  if (!meeting.ok()) return meeting.status().to_string();
  for (int round = 0; round < kRounds; ++round) {
    const auto table = (*meeting)->all_gather(std::string(200, 'x'), Deadline::after(60));
    if (!table.ok()) return table.status().to_string();
    if (table->size() != static_cast<size_t>(size)) return "short table";
  }
  const RendezvousStats stats = (*meeting)->stats();
  return "ok " + std::to_string(stats.messages_sent + stats.messages_received) + " " +
         std::to_string(stats.store_sent + stats.store_received);
}

struct Most {
  int own = 0;    // of any rank
  int store = 0;  // of the one that runs it
};

Most messages_of(int size) {
  test::Ways ways("tcp");
  Most most;
  for (const std::string& text : test::run(test::Mode::processes, size, [&](Rank rank) {
         return counts_of(rank, size, ways.address());
       })) {
    std::istringstream words(text);
    std::string ok;
    int own = 0, store = 0;
    EXPECT_TRUE(words >> ok >> own >> store && ok == "ok") << text;
    most.own = std::max(most.own, own);
    most.store = std::max(most.store, store);
  }
  return most;
}

// A rank's messages grow no faster than log n; the store's, which are counted apart, like n.
TEST(Join, UpToFiveHundredAndTwelveProcessesMeetWithFewMessages) {
  const int few = messages_of(2).own;
  EXPECT_GE(few, 2 * kRounds) << "each round takes an offer and a table";
  for (const int size : {8, 64, 512}) {
    const auto start = std::chrono::steady_clock::now();
    const Most most = messages_of(size);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 60) << size << " ranks";
    const int log2 = std::bit_width(static_cast<unsigned>(size)) - 1;
    EXPECT_LE(most.own, few * log2) << size << " ranks";
    EXPECT_LE(most.own, 8) << size << " ranks: a star needs no more however many there are";
    EXPECT_GE(most.store, 2 * kRounds * (size - 1)) << "the store's are not counted";
    EXPECT_LE(most.store, 4 * kRounds * size) << size << " ranks";
    RecordProperty("own_" + std::to_string(size), most.own);
    RecordProperty("store_" + std::to_string(size), most.store);
    RecordProperty("seconds_" + std::to_string(size), std::to_string(took.count()));
  }
}

}  // namespace
}  // namespace weft
