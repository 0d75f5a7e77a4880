#include "engine/executor/lease.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "engine/executor/window_layout.h"
#include "engine/schedule/window_lap.h"

namespace weft {
namespace {

// Against a plain record of who used which byte last; each lease has a lap of its own.
TEST(LeaseRing, NamesEveryCallWhoseBytesAreReused) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    const size_t capacity = 64 + random() % 1000;
    LeaseRing ring(capacity);
    std::vector<uint64_t> last_user(capacity, 0);
    for (uint64_t call = 1; call <= 3000; ++call) {
      const size_t bytes = 1 + random() % (random() % 2 == 0 ? capacity : 64);
      const size_t lap = random() % 4 == 0 ? bytes + random() % (capacity - bytes + 1) : capacity;
      const LeaseRing::Lease lease = ring.lease(bytes, lap, call);
      ASSERT_LE(lease.offset + bytes, lap);
      ASSERT_LT(lease.calls_before, call);
      for (size_t i = lease.offset; i < lease.offset + bytes; ++i) {
        ASSERT_LE(last_user[i], lease.calls_before) << "call " << call << " byte " << i;
        last_user[i] = call;
      }
    }
  }
}

TEST(LeaseRing, WaitsForNobodyInTheFirstLap) {
  LeaseRing ring(1000);
  for (uint64_t call = 1; call <= 10; ++call)
    EXPECT_EQ(ring.lease(100, 1000, call).calls_before, 0u);
  EXPECT_EQ(ring.lease(100, 1000, 11).calls_before, 1u);
}

// A core's own cache holds half a lap of long ones, and all of one of short leases, of those of
// exchanges that are no longer than a few KiB, or of those handed back.
TEST(LeaseRing, ComesRoundLateWhereLeasesAreLong) {
  constexpr Traffic kOneWay = Traffic::one_way, kExchanged = Traffic::exchanged,
                    kHandedBack = Traffic::handed_back;
  const auto leases_in_a_lap = [](size_t bytes, Traffic traffic, bool crowded = false) {
    const size_t lap = window_lap(bytes, traffic, crowded);
    LeaseRing ring(64 << 20);
    int leases = 1;
    ring.lease(bytes, lap, 1);
    for (uint64_t call = 2; ring.lease(bytes, lap, call).offset != 0; ++call) ++leases;
    return leases;
  };
  EXPECT_EQ(leases_in_a_lap(64, kOneWay), 1024);
  EXPECT_EQ(leases_in_a_lap(512, kOneWay), 128);
  EXPECT_EQ(leases_in_a_lap(1024, kOneWay), 2048);
  EXPECT_EQ(leases_in_a_lap(2048, kOneWay), 1024);
  EXPECT_EQ(leases_in_a_lap(4096, kOneWay), 512);
  EXPECT_EQ(leases_in_a_lap(64 << 10, kOneWay), 32);
  EXPECT_EQ(leases_in_a_lap(1 << 20, kOneWay), 4);
  EXPECT_EQ(leases_in_a_lap(512, kExchanged), 128);
  EXPECT_EQ(leases_in_a_lap(1024, kExchanged), 256);
  EXPECT_EQ(leases_in_a_lap(8192, kExchanged), 256);
  EXPECT_EQ(leases_in_a_lap(16 << 10, kExchanged), 128);
  EXPECT_EQ(leases_in_a_lap(1 << 20, kExchanged), 4);
  const bool crowded = true;
  for (const Traffic traffic : {kOneWay, kExchanged}) {
    EXPECT_EQ(leases_in_a_lap(512, traffic, crowded), 128);
    EXPECT_EQ(leases_in_a_lap(1024, traffic, crowded), 512);
    EXPECT_EQ(leases_in_a_lap(4096, traffic, crowded), 128);
    EXPECT_EQ(leases_in_a_lap(1 << 20, traffic, crowded), 4);
  }
  for (const bool is_crowded : {false, true}) {
    EXPECT_EQ(leases_in_a_lap(512, kHandedBack, is_crowded), 128);
    EXPECT_EQ(leases_in_a_lap(4096, kHandedBack, is_crowded), 64);
    EXPECT_EQ(leases_in_a_lap(128 << 10, kHandedBack, is_crowded), 2);
    EXPECT_EQ(leases_in_a_lap(1 << 20, kHandedBack, is_crowded), 2);
  }
}

TEST(LeaseRing, GoesRoundByHowDataGo) {
  EXPECT_EQ(traffic_of(Kind::all_reduce, true), Traffic::handed_back);
  for (const Kind kind :
       {Kind::all_reduce, Kind::all_gather, Kind::reduce_scatter, Kind::all_to_all, Kind::barrier})
    EXPECT_EQ(traffic_of(kind, false), Traffic::exchanged);
  for (const Kind kind : {Kind::broadcast, Kind::reduce, Kind::gather, Kind::scatter})
    EXPECT_EQ(traffic_of(kind, false), Traffic::one_way);
}

TEST(LeaseRing, ForgetsNothingWhenTheRecordIsFull) {
  LeaseRing ring(1 << 20);
  for (uint64_t call = 1; call <= 5000; ++call) {
    const auto lease = ring.lease(64, 1 << 20, call);
    ASSERT_LT(lease.calls_before, call);
    if (call > 1024) {
      ASSERT_GE(lease.calls_before, call - 1025);
    }
  }
}

TEST(Signals, CountPastTheirRange) {
  constexpr uint64_t kTag = 0x1234'5678'9abc'def0, kWrap = uint64_t{1} << 32;
  for (const uint64_t count : {uint64_t{1}, kWrap - 1, kWrap, kWrap + 1, 5 * kWrap}) {
    const uint64_t value = signal_value(count, kTag);
    EXPECT_EQ(posts_missing(value, count), 0);
    EXPECT_EQ(posts_missing(value, count + 3), 3);
    EXPECT_EQ(posts_missing(value, count - 1), -1);
    EXPECT_TRUE(same_call(value, kTag));
    for (int bit = 0; bit < 32; ++bit)
      EXPECT_FALSE(same_call(value, kTag ^ uint64_t{1} << bit)) << bit;
  }
}

}  // namespace
}  // namespace weft
