#include "bench/tune.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"

namespace weft::bench {
namespace {

using test::contains;

MeasuredTuning measured(const char* host, double share) {
  return {{host, *find_example_network("node"), *find_example_network("node")}, share};
}

struct Tune : testing::Test {
  std::string host() const { return read_tuning(path)->host; }

  test::TemporaryFolder folder;
  const std::string path = folder.path() / "tuning.json";
};

TEST_F(Tune, KeepsWhatAQuietMachineGave) {
  EXPECT_TRUE(keep_tuning(measured("first", 1), path, false).ok());
  EXPECT_EQ(host(), "first");
  EXPECT_TRUE(keep_tuning(measured("second", 0.95), path, false).ok());
  EXPECT_EQ(host(), "second");
}

TEST_F(Tune, LeavesWhatIsThereWhereOthersHadTheCores) {
  const Status none = keep_tuning(measured("busy", 0.07), path, false);
  EXPECT_TRUE(contains(none, "nothing was written to " + path)) << none.to_string();
  EXPECT_TRUE(contains(none, "other programs had the cores for 93 % of the time"));
  EXPECT_TRUE(contains(none, "again when they have ended, or with --force"));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(keep_tuning(measured("quiet", 1), path, false).ok());
  EXPECT_FALSE(keep_tuning(measured("busy", 0.5), path, false).ok());
  EXPECT_EQ(host(), "quiet");
}

TEST_F(Tune, KeepsItWhereItIsForcedTo) {
  EXPECT_TRUE(keep_tuning(measured("busy", 0.07), path, true).ok());
  EXPECT_EQ(host(), "busy");
}

}  // namespace
}  // namespace weft::bench
