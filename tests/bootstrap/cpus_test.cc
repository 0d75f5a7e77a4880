#include "bootstrap/cpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class CpusTest : public testing::Test {
 protected:
  void describe(int cpu, int package, int core) const {
    const fs::path topology = folder_ / ("cpu" + std::to_string(cpu)) / "topology";
    fs::create_directories(topology);
    std::ofstream(topology / "physical_package_id") << package << '\n';
    std::ofstream(topology / "core_id") << core << '\n';
  }
  const test::TemporaryFolder own_;
  const fs::path& folder_ = own_.path();
};

TEST_F(CpusTest, WithoutADescriptionEveryCpuIsACore) {
  const std::vector<int> cpus = cpus_core_by_core(folder_.string());
  ASSERT_FALSE(cpus.empty());
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end()));
}

TEST_F(CpusTest, SiblingsComeAfterAllCores) {
  const std::vector<int> usable = cpus_core_by_core(folder_.string());
  // Neighbours share a core, as on many servers.
  for (size_t i = 0; i < usable.size(); ++i) describe(usable[i], 0, static_cast<int>(i / 2));
  std::vector<int> expected;
  for (const size_t first : {0, 1})
    for (size_t i = first; i < usable.size(); i += 2) expected.push_back(usable[i]);
  EXPECT_EQ(cpus_core_by_core(folder_.string()), expected);
}

TEST_F(CpusTest, CoresOfTwoPackagesAreTwoCores) {
  const std::vector<int> usable = cpus_core_by_core(folder_.string());
  for (size_t i = 0; i < usable.size(); ++i) describe(usable[i], static_cast<int>(i), 0);
  EXPECT_EQ(cpus_core_by_core(folder_.string()), usable);
}

TEST(Cpus, BindingIsUndone) {
  std::thread([] {
    unbind_from_cpus();
    const std::vector<int> all = cpus_core_by_core();
    bind_to_cpu(all.back());
    EXPECT_EQ(cpus_core_by_core(), std::vector<int>{all.back()});
    unbind_from_cpus();
    EXPECT_EQ(cpus_core_by_core(), all);
  }).join();
}

TEST(CpuList, ComesBackAsItWent) {
  for (const std::vector<int>& cpus : {std::vector<int>{},
                                       {0},
                                       {7},
                                       {0, 1},
                                       {0, 2},
                                       {0, 1, 2, 3, 8},
                                       {3, 5, 6, 9, 10, 11, 65'535}}) {
    const auto read = read_cpu_list(cpu_list(cpus));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(*read, cpus);
  }
  EXPECT_EQ(cpu_list({0, 1, 2, 3, 8}), "0-3,8");
}

TEST(CpuList, OfAnotherKindIsRefused) {
  for (const char* text :
       {" ", "a", "-1", "1-", "-", "1,", ",1", "1,,2", "2-1", "1,1", "2,1", "0-3,2", "65536",
        "0-65536", "99999999999", "0x1", "1 ,2", "1-2-3", "+1"}) {
    const auto read = read_cpu_list(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_TRUE(read.status().message().starts_with(std::string("\"") + text)) << text;
  }
}

TEST(Cpus, ThatAThreadMayUseAreThoseItIsBoundTo) {
  const std::vector<int> all = usable_cpus();
  ASSERT_FALSE(all.empty());
  std::thread([last = all.back()] {
    bind_to_cpu(last);
    EXPECT_EQ(usable_cpus(), std::vector<int>{last});
  }).join();
  EXPECT_EQ(usable_cpus(), all);
}

}  // namespace
}  // namespace weft
