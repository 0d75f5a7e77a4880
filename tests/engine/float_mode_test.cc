// Ranks whose threads are in different floating-point modes get the same bits.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>

#include "tests/support/cluster.h"
#include "tests/support/unusual_float_mode.h"

namespace weft::test {
namespace {

constexpr size_t kCount = 3000;

// Numbers of all sizes, subnormal ones among them.
std::vector<float> values_of(Rank rank) {
  std::mt19937 random(static_cast<uint32_t>(rank + 1));
  std::vector<float> values(kCount);
  for (float& value : values) {
    const uint32_t bits = random() & (random() % 4 == 0 ? 0x807fffffu : 0xbfffffffu);
    std::memcpy(&value, &bits, sizeof value);
  }
  return values;
}

TEST(FloatMode, OfACallerChangesNothing) {
  for (const char* algorithm : {"auto", "ring,auto", "direct_two_shot,auto"})
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
      Cluster cluster;
      cluster.ranks = 3;
      cluster.options.algorithm = algorithm;
      std::vector<std::vector<float>> unlike(3), alike(3);
      const auto reduce = [&](bool modes, std::vector<std::vector<float>>& results) {
        run_ranks(cluster, [&](Communicator& comm) {
          const std::vector<float> in = values_of(comm.rank());
          std::vector<float>& out = results[static_cast<size_t>(comm.rank())];
          out.resize(kCount);
          std::optional<UnusualFloatMode> unusual;
          if (modes && comm.rank() == 1) unusual.emplace();
          const Call call{.kind = Kind::all_reduce,
                          .input = in.data(),
                          .output = out.data(),
                          .count = kCount,
                          .type = DataType::float32,
                          .op = op};
          EXPECT_TRUE(comm.run(call).ok());
        });
      };
      reduce(true, unlike);
      reduce(false, alike);
      for (size_t r = 0; r < 3; ++r)
        EXPECT_EQ(std::memcmp(unlike[r].data(), alike[0].data(), kCount * sizeof(float)), 0)
            << algorithm << ", " << name(op) << ", rank " << r;
    }
}

}  // namespace
}  // namespace weft::test
