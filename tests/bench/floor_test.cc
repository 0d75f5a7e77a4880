#include "bench/floor.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weft::bench {
namespace {

Calibration example() { return {1e-7, {{4096, 32e9}, {65536, 16e9}, {1048576, 8e9}}, 1e-5, 1e9}; }

TEST(Floor, RateIsInterpolatedBetweenSizes) {
  EXPECT_DOUBLE_EQ(copy_rate(example(), 1), 32e9);
  EXPECT_DOUBLE_EQ(copy_rate(example(), 4096), 32e9);
  EXPECT_DOUBLE_EQ(copy_rate(example(), 16384), 24e9);
  EXPECT_DOUBLE_EQ(copy_rate(example(), 65536), 16e9);
  EXPECT_DOUBLE_EQ(copy_rate(example(), 1e9), 8e9);
}

TEST(Floor, SmallMessagesCostAHopWhereTheyAreAnswered) {
  Traffic traffic{2, 16, 16, 16, {}, true};
  EXPECT_DOUBLE_EQ(*floor_seconds(example(), "shm", traffic), 1e-7);
  EXPECT_DOUBLE_EQ(*floor_seconds(example(), "tcp", traffic), 1e-5);
  traffic.answered = false;  // calls overlap
  EXPECT_DOUBLE_EQ(*floor_seconds(example(), "shm", traffic), 16 / 32e9);
  EXPECT_DOUBLE_EQ(*floor_seconds(example(), "tcp", traffic), 16 / 1e9);
}

TEST(Floor, LargeMessagesCostTheirBytes) {
  constexpr size_t kMessage = size_t{64} << 20;  // all_reduce on 2 ranks
  EXPECT_DOUBLE_EQ(*floor_seconds(example(), "shm", {2, 2 * kMessage, 2 * kMessage, 2 * kMessage}),
                   2.0 * kMessage / 8e9);
  EXPECT_DOUBLE_EQ(*floor_seconds(example(), "tcp", {2, 2 * kMessage, 2 * kMessage, 2 * kMessage}),
                   2.0 * kMessage / 1e9);
}

TEST(Floor, OneRankWaitsForNobody) {
  EXPECT_DOUBLE_EQ(*floor_seconds(example(), "", {1, 0, 0, 0}), 0);
}

TEST(Floor, NoneWhereNothingWasMeasured) {
  EXPECT_FALSE(floor_seconds(example(), "shm+tcp", {2, 8, 8, 8}));
  Calibration without_tcp = example();
  without_tcp.tcp_bytes_per_second = 0;
  EXPECT_FALSE(floor_seconds(without_tcp, "tcp", {2, 8, 8, 8}));
}

// The GPU that takes longest, or what leaves each of them.
TEST(Floor, GpusReadAndWriteWhatTheirRanksDo) {
  Calibration gpus;
  gpus.gpus = {{{0, 2}, {{1 << 20, 4e12}, {1 << 28, 2e12}}}, {{1}, {{1 << 20, 1e12}}}};
  Traffic traffic{3, 0, 0, 3'000'000, {1 << 19, 1 << 20, 1 << 19}};
  EXPECT_DOUBLE_EQ(*floor_seconds(gpus, "gpu", traffic), (1 << 19) / 1e12);
  traffic.moved_by_rank[2] = size_t{1} << 40;
  EXPECT_NEAR(*floor_seconds(gpus, "gpu", traffic), std::pow(2, 39) / 2e12, 1e-6);
  gpus.leaving_gpu_bytes_per_second = 1e4;
  EXPECT_DOUBLE_EQ(*floor_seconds(gpus, "gpu", traffic), 100);
  EXPECT_FALSE(floor_seconds(example(), "gpu", traffic));
  EXPECT_FALSE(floor_seconds(gpus, "shm", traffic));
}

TEST(Floor, CalibrationIsPlausible) {
  const Calibration measured = calibrate(2, size_t{1} << 20, true);
  EXPECT_GT(measured.flag_hop_s, 1e-9);
  EXPECT_LT(measured.flag_hop_s, 1e-2);
  ASSERT_GE(measured.copies.size(), 3u);
  for (const Calibration::CopyRate& copy : measured.copies) {
    EXPECT_GT(copy.bytes_per_second, 1e7);
    EXPECT_LT(copy.bytes_per_second, 1e14);
  }
  if (measured.tcp_hop_s > 0) {
    EXPECT_GT(measured.tcp_hop_s, 5e-7);
    EXPECT_GT(measured.tcp_bytes_per_second, 1e6);
  }
}

}  // namespace
}  // namespace weft::bench
