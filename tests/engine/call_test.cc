// What a call may say before anything is done for it.
#include "engine/call.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace weft {
namespace {

Status of_counts(const std::vector<size_t>& counts, const std::vector<size_t>& offsets) {
  static std::byte memory[8];
  return validate({.kind = Kind::all_gather,
                   .input = memory,
                   .output = memory,
                   .type = DataType::uint8,
                   .varying = true,
                   .counts = counts,
                   .offsets = offsets},
                  static_cast<int>(counts.size()), 0);
}

// Each alone is small enough, and together they would be a few elements.
TEST(Validate, RefusesCountsThatAddUpToMoreThanThereCanBe) {
  const std::vector<size_t> many(64, (size_t{1} << 58) - 1);
  const Status status = of_counts(many, {});
  EXPECT_EQ(status.code(), Code::invalid_argument) << status.to_string();
  EXPECT_NE(status.message().find("counts[1] is 288230376151711743"), std::string_view::npos)
      << status.to_string();
}

TEST(Validate, RefusesOffsetsBeyondAnyMemory) {
  EXPECT_TRUE(of_counts({1, 1}, {0, 4}).ok());
  EXPECT_TRUE(of_counts({1, 0}, {0, SIZE_MAX}).ok()) << "of no elements it says nothing";
  const Status status = of_counts({1, 1}, {0, SIZE_MAX});
  EXPECT_EQ(status.code(), Code::invalid_argument) << status.to_string();
  EXPECT_NE(status.message().find("counts[1]"), std::string_view::npos) << status.to_string();
}

}  // namespace
}  // namespace weft
