// Jobs started by a real mpirun, without an option of ours. Exits with 77 where it is not
// installed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "base/text.h"

namespace weft {
namespace {

struct Output {
  int status = 0;
  std::vector<std::string> lines;  // sorted
};

Output run(const std::string& command) {
  Output output;
  FILE* pipe = ::popen(concat(command, " 2>&1").c_str(), "r");
  if (!pipe) std::abort();
  std::string text;
  char chunk[4096];
  for (size_t got; (got = std::fread(chunk, 1, sizeof chunk, pipe)) > 0;) text.append(chunk, got);
  output.status = ::pclose(pipe);
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) output.lines.push_back(line);
  std::sort(output.lines.begin(), output.lines.end());
  return output;
}

bool installed() { return run(concat("command -v ", WEFT_MPIRUN)).status == 0; }

std::string mpirun(int ranks) {
  const std::string root =
      std::string(WEFT_LAUNCHER) == "openmpi" ? "--allow-run-as-root --oversubscribe " : "";
  return concat("timeout 60 ", WEFT_MPIRUN, " ", root, "-n ", ranks, " ");
}

class Sizes : public testing::TestWithParam<int> {};

TEST_P(Sizes, RanksMeet) {
  const int size = GetParam();
  std::string words;
  for (int i = 0; i < size; ++i) words.append(concat(" 0+", i));
  const Output output = run(concat(mpirun(size), WEFT_MEET));
  EXPECT_EQ(output.status, 0);
  ASSERT_EQ(output.lines.size(), static_cast<size_t>(size)) << testing::PrintToString(output.lines);
  for (int r = 0; r < size; ++r)
    EXPECT_EQ(output.lines[static_cast<size_t>(r)], concat(r, " ", WEFT_LAUNCHER, ":", words));
}

INSTANTIATE_TEST_SUITE_P(Mpirun, Sizes, testing::Values(1, 2, 3, 6));

TEST(Mpirun, JobsOfOneUserAtTheSameTimeDoNotMix) {
  // Open MPI 4's mpiruns fail when they make their common session directory at the same moment.
  const std::string one = concat("d=$(mktemp -d); TMPDIR=$d ", mpirun(3), WEFT_MEET, " --word ");
  const Output output = run(concat("sh -c '(", one, "a; rm -rf $d) & (", one, "b; rm -rf $d) & (",
                                   one, "c; rm -rf $d) & wait'"));
  ASSERT_EQ(output.lines.size(), 9u) << testing::PrintToString(output.lines);
  for (const char* words : {" a+a a+a a+a", " b+b b+b b+b", " c+c c+c c+c"})
    EXPECT_EQ(std::count_if(output.lines.begin(), output.lines.end(),
                            [&](const std::string& line) { return line.ends_with(words); }),
              3);
}

TEST(Mpirun, ARankThatLeavesBeforeMeetingEndsTheJobInTime) {
  // Rank 1 leaves before it meets the others.
  const Output output =
      run(concat(mpirun(3), "sh -c 'test \"$OMPI_COMM_WORLD_RANK$PMI_RANK\" = 1 || exec ",
                 WEFT_MEET, " --seconds 2'"));
  EXPECT_NE(output.status, 0);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!weft::installed()) {
    std::printf("%s is not installed\n", WEFT_MPIRUN);
    return 77;
  }
  return RUN_ALL_TESTS();
}
