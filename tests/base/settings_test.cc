#include "base/settings.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using Lines = std::vector<std::string>;

Lines unread(const std::string& name) {
  Environment env;
  env.set(name, "1");
  return unread_settings(env);
}

TEST(Settings, OfOthersAndOnesThatAreReadAreNothingToSay) {
  for (const char* name : {"WEFT_ALGORITHM", "WEFT_WORLD_SIZE", "WEFT_IB_QPS", "WEFT", "WEFTWORK",
                           "WEFT_CUDA", "WEFT_NO_INSTALL", "WEFT_TEST_HOSTS", "WEFT_VM_ARGS",
                           "NCCL_DEBUG", "MY_WEFT_ALGORTHM", "weft_algorithm"})
    EXPECT_EQ(unread(name), Lines()) << name;
  EXPECT_EQ(unread_settings(Environment()), Lines());
}

TEST(Settings, MisspelledOnesAreToldWithTheNearest) {
  const auto meant = [](const std::string& name) {
    const Lines lines = unread(name);
    EXPECT_EQ(lines.size(), 1u) << name;
    if (lines.empty()) return std::string();
    EXPECT_TRUE(lines[0].starts_with(name + " is set, which weft does not read; ")) << lines[0];
    const size_t begin = lines[0].find("did you mean ");
    return begin == std::string::npos ? "" : lines[0].substr(begin + 13);
  };
  EXPECT_EQ(meant("WEFT_ALGORTHM"), "WEFT_ALGORITHM?");
  EXPECT_EQ(meant("WEFT_ALGO"), "WEFT_ALGORITHM?");
  EXPECT_EQ(meant("WEFT_PROTO"), "WEFT_PROTOCOL?");
  EXPECT_EQ(meant("WEFT_TRANS"), "WEFT_TRANSPORT?");
  EXPECT_EQ(meant("WEFT_A"), "");
  EXPECT_EQ(meant("WEFT_TRANSPROT"), "WEFT_TRANSPORT?");
  EXPECT_EQ(meant("WEFT_SLOTSS"), "WEFT_SLOTS?");
  EXPECT_EQ(meant("WEFT_RANKS"), "WEFT_RANK?");
  EXPECT_EQ(meant("WEFT_JOBX"), "WEFT_JOB?");
  EXPECT_EQ(meant("WEFT_IB_QP"), "WEFT_IB_QPS?");
  EXPECT_EQ(meant("WEFT_"), "");
  EXPECT_EQ(meant("WEFT_SOMETHING_ELSE"), "");
  EXPECT_NE(unread("WEFT_SOMETHING_ELSE")[0].find("docs/settings.md"), std::string::npos);
}

TEST(Settings, EachIsToldOfOnceAlsoWhereItSaysNothing) {
  Environment env;
  env.set("WEFT_TIMEOUTS", "");
  env.set("WEFT_TIMEOUT", "1");
  env.set("WEFT_WINDOWS", "2");
  EXPECT_EQ(unread_settings(env).size(), 2u);
}

}  // namespace
}  // namespace weft
