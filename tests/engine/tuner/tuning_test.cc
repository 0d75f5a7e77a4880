#include "engine/tuner/tuning.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/text.h"
#include "tests/support/contains.h"
#include "tests/support/unusual_float_mode.h"

namespace weft {
namespace {

Tuning sample() {
  Tuning tuning{"here", *find_example_network("node"), *find_example_network("node")};
  tuning.tcp.name = "tcp";
  tuning.tcp.call_s = 2e-6;
  tuning.tcp.inside.send_s = 3e-6;
  return tuning;
}

using test::contains;

TEST(Tuning, ComesBackAsItWent) {
  const Result<Tuning> back = tuning_from_json(to_json(sample()));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(to_json(*back), to_json(sample()));
  EXPECT_EQ(back->host, "here");
  EXPECT_NEAR(back->tcp.call_s, 2e-6, 1e-15);
}

TEST(Tuning, OfAnotherVersionSaysWhatToDo) {
  std::string text = to_json(sample());
  text.replace(text.find("\"weft_tuning\": 21"), 17, "\"weft_tuning\": 9");
  const Status status = tuning_from_json(text).status();
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_TRUE(contains(status, "version 9") && contains(status, "weft-bench --tune --tuning FILE"))
      << status.message();
}

// Else fuzzing starts from files that are refused for their version.
TEST(Tuning, TheCorpusForFuzzingIsOfThisVersion) {
  for (const char* file :
       {"torus.json", "tree.json", "tuning.json", "vast.json", "vast-torus.json"}) {
    const auto text = read_text(concat(WEFT_TUNING_CORPUS, "/", file));
    ASSERT_TRUE(text.ok()) << text.status().message();
    const auto tuning = tuning_from_json(*text);
    EXPECT_TRUE(tuning.ok()) << file << ": " << tuning.status().message();
  }
}

TEST(Tuning, NamesWhatIsWrong) {
  EXPECT_TRUE(contains(tuning_from_json("{").status(), "not JSON"));
  EXPECT_TRUE(contains(tuning_from_json("{}").status(), "weft_tuning: it is missing"));
  EXPECT_TRUE(contains(tuning_from_json(R"({"weft_tuning": 21})").status(), "has no \"shm\""));
  std::string text = to_json(sample());
  text.replace(text.find("send_us"), 7, "sent_us");
  const Status status = tuning_from_json(text).status();
  EXPECT_TRUE(contains(status, "tuning's tcp") && contains(status, "inside.sent_us"))
      << status.message();
}

// Its parts are written again for their own reader, which takes stack for every level.
TEST(Tuning, ThatNestsTooDeepIsRefused) {
  constexpr size_t kLevels = 1'000'000;
  const std::string deep = concat(R"({"weft_tuning": 21, "host": "]\"]", "shm": )",
                                  std::string(kLevels, '['), std::string(kLevels, ']'), "}");
  const Status status = tuning_from_json(deep).status();
  EXPECT_TRUE(contains(status, "more than 64 deep")) << status.message();
}

TEST(Tuning, HasItsPlaceByHostInTheCache) {
  const Environment none;
  EXPECT_EQ(tuning_path(none), "");
  Environment env;
  env.set("HOME", "/home/me");
  EXPECT_EQ(tuning_path(env).find("/home/me/.cache/weft/tuning-"), 0u);
  env.set("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(tuning_path(env).find("/cache/weft/tuning-"), 0u);
}

TEST(Tuning, IsWrittenWholeAndReadBack) {
  std::string folder = (std::filesystem::temp_directory_path() / "weft-tuning-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/not/there/yet.json";
  ASSERT_TRUE(write_tuning(sample(), path).ok());
  const Result<Tuning> back = read_tuning(path);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(to_json(*back), to_json(sample()));
  std::ofstream(path) << "{}";
  EXPECT_TRUE(contains(read_tuning(path).status(), path));
  EXPECT_TRUE(contains(read_tuning(folder + "/none").status(), "cannot be read"));
  ASSERT_EQ(::mkfifo((folder + "/pipe").c_str(), 0600), 0);
  for (const std::string& other : {folder + "/pipe", std::string("/dev/zero")})  // nor waited for
    EXPECT_TRUE(contains(read_tuning(other).status(), "not a regular file"));
  EXPECT_FALSE(write_tuning(sample(), folder + "/not").ok());  // a folder
  EXPECT_FALSE(write_tuning(sample(), "/proc/none/of.json").ok());
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    files += entry.is_regular_file();
  EXPECT_EQ(files, 1u);  // no draft is left
  std::filesystem::remove_all(folder);
}

TEST(Tuning, InTheCacheIsOfThisHost) {
  char host[256] = "";
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  std::string path = (std::filesystem::temp_directory_path() / "weft-tuning-XXXXXX").string();
  const int file = ::mkstemp(path.data());
  ASSERT_GE(file, 0);
  ::close(file);
  Tuning tuning = sample();
  tuning.host = host;
  ASSERT_TRUE(write_tuning(tuning, path).ok());
  EXPECT_TRUE(read_cached_tuning(path).ok());
  tuning.host = "other";
  ASSERT_TRUE(write_tuning(tuning, path).ok());
  EXPECT_TRUE(read_tuning(path).ok());
  const Status status = read_cached_tuning(path).status();
  EXPECT_TRUE(contains(status, "host other") && contains(status, path)) << status.message();
  std::filesystem::remove(path);
}

TEST(Tuning, SuitsRanksThatShareCpusAsItHasThem) {
  Tuning tuning = sample();
  const auto suits = [&](int measured, int ranks, int cpus) {
    tuning.shm.node_cores = measured;
    return check_cpus(tuning, ranks, cpus).ok();
  };
  EXPECT_TRUE(suits(64, 64, 64) && suits(64, 128, 64));
  EXPECT_TRUE(suits(64, 4, 4));  // bound to a CPU each
  EXPECT_TRUE(suits(2, 4, 2));   // or in turn
  EXPECT_TRUE(suits(0, 4, 1));   // a core for each rank, whatever else
  EXPECT_TRUE(suits(1, 1, 64));
  EXPECT_FALSE(suits(1, 2, 2));
  EXPECT_FALSE(suits(64, 4, 2));
  EXPECT_FALSE(suits(2, 4, 64));
  const Status status = check_cpus(tuning, 4, 64);
  EXPECT_TRUE(contains(status, "measured on 2 CPUs are none for 4 ranks on 64"))
      << status.message();
}

TEST(Tuning, DescribesJobs) {
  const Tuning tuning = sample();
  EXPECT_EQ(network_of_job(tuning, {0, 0, 0}, "auto")->name, "node");
  EXPECT_EQ(network_of_job(tuning, {0, 0, 0}, "tcp")->name, "tcp");
  const Result<Network> two = network_of_job(tuning, {0, 0, 1, 1}, "auto");
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two->node_ranks, 2);
  EXPECT_EQ(two->between, tuning.tcp.inside);
  EXPECT_EQ(two->inside, tuning.shm.inside);
  Tuning small = tuning;
  small.shm.node_cores = 2;
  EXPECT_TRUE(network_of_job(small, {0, 0, 1, 1}, "auto").ok());
  EXPECT_TRUE(network_of_job(small, {0, 0, 0, 0}, "auto").ok());
  EXPECT_FALSE(network_of_job(small, {0, 0, 0, 0, 0, 0, 0, 0, 0}, "auto").ok());
  for (const std::vector<int>& mixed :
       {std::vector{0, 1, 0, 1}, {0, 1, 0}, {0, 1, 1, 0}, {0, 1, 2, 0}})
    EXPECT_FALSE(network_of_job(tuning, mixed, "auto").ok());
  EXPECT_FALSE(network_of_job(tuning, {0, 0, 0, 1}, "auto").ok());
  EXPECT_TRUE(network_of_job(tuning, {0, 0, 1}, "auto").ok());  // the last host has room left
}

// Ranks choose by the same numbers.
TEST(Tuning, IsReadAlikeInWhateverFloatingPointMode) {
  Tuning tuning = sample();
  double* const times[] = {&tuning.shm.call_s, &tuning.shm.step_s, &tuning.tcp.inside.send_s,
                           &tuning.tcp.inside.recv_s};
  for (size_t i = 0; i < std::size(times); ++i) *times[i] = 1e-6 / static_cast<double>(3 + 4 * i);
  const std::string text = to_json(tuning);
  const Result<Tuning> usual = tuning_from_json(text);
  const test::UnusualFloatMode mode;
  const Result<Tuning> unusual = tuning_from_json(text);
  ASSERT_TRUE(usual.ok() && unusual.ok());
  EXPECT_TRUE(usual->shm == unusual->shm && usual->tcp == unusual->tcp);
}

}  // namespace
}  // namespace weft
