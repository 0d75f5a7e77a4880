// Ranks that meet by a file, and what else may lie there.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/random.h"
#include "base/socket.h"
#include "base/text.h"
#include "bootstrap/place.h"
#include "tests/bootstrap/ranks.h"
#include "tests/support/child.h"
#include "tests/support/contains.h"

namespace weft {
namespace {

using test::contains;
using test::Mode;
using test::Ways;

TEST(Rendezvous, AStaleFileMisleadsNobody) {
  Ways ways("file");
  const std::string path = ways.address().substr(7);
  // Left by a run whose port is now somebody else's, and who never answers.
  const auto stranger = listen_on(*SocketAddress::parse("127.0.0.1:0"));
  std::ofstream(path) << id_text({{*local_address(*stranger)}, random_name()}) << "\nthe job\n";
  const auto said = test::run(Mode::threads, 3, [&](Rank r) {
    if (r == 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return test::join(ways, r, 3, 20);
  });
  for (const std::string& text : said) EXPECT_EQ(text, test::expected_table(3, 0));
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "the file was not removed";
}

TEST(Rendezvous, WhatIsNoFileIsNotWaitedFor) {
  Ways ways("file");
  const std::string path = ways.address().substr(7);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int64_t begin_ns = steady_clock().now_ns();
  EXPECT_TRUE(contains(test::join(ways, 1, 2, 20), "is not a file"));
  EXPECT_LT(steady_clock().now_ns() - begin_ns, 10'000'000'000);
  EXPECT_EQ(::unlink(path.c_str()), 0);
}

TEST(Rendezvous, AForkedChildDoesNotWithdrawTheFile) {
  Ways ways("file");
  const std::string path = ways.address().substr(7);
  auto announced = file_announcement(path, "j", {{*SocketAddress::parse("127.0.0.1:1")}, "key"});
  ASSERT_TRUE(announced->announce(Deadline::after(20)).ok());
  ASSERT_EQ(test::in_child([&] { announced.reset(); }), 0);
  EXPECT_TRUE(std::filesystem::exists(path));
  announced.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Rendezvous, AFileOfAnotherJobIsLeftAlone) {
  Ways ways("file");
  const std::string path = ways.address().substr(7);
  std::ofstream(path) << "id:127.0.0.1:1/key\nanother job\n";
  const std::string said = test::join(ways, 1, 2, 0.2);
  EXPECT_TRUE(contains(said, "is of the job \"another job\", this rank's is \"the job\"")) << said;
  EXPECT_TRUE(contains(said, path)) << said;
  EXPECT_EQ(::unlink(path.c_str()), 0);
}

TEST(Rendezvous, WhatIsWrongWithTheFileIsSaid) {
  const auto said = [](const std::string& path) {
    auto meeting = make_rendezvous({1, 2, concat("file://", path), "j"}, Environment());
    return test::describe((*meeting)->all_gather("x", Deadline::after(0.1)));
  };
  const std::string missing = concat("/tmp/weft-no-such-", ::getpid());
  EXPECT_TRUE(contains(said(missing), concat("there is no file ", missing))) << said(missing);
  const std::string inside = missing + "/file";
  EXPECT_TRUE(contains(said(inside), concat("there is no folder ", missing))) << said(inside);
  EXPECT_TRUE(contains(said("/dev/null/file"), "Not a directory")) << said("/dev/null/file");
}

}  // namespace
}  // namespace weft
