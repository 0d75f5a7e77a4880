#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/text.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// A folder of the test's own, which goes with it.
struct Folder {
  Folder() : path(concat(testing::TempDir(), "weft_files_test.", ::getpid())) {
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  std::string file(std::string_view name) const { return concat(path, "/", name); }
  const std::string path;
};

TEST(Files, AreReadAsTheyWereWritten) {
  const Folder folder;
  const std::string path = folder.file("deep/text"), text(200'000, 'x');
  EXPECT_FALSE(write_text(path, text).ok());  // there is no such folder
  EXPECT_TRUE(can_write_in_folder(folder.file("other/text")).ok());
  ASSERT_TRUE(write_text_in_folder(path, text).ok());
  EXPECT_EQ(read_text(path).take(), text);
  EXPECT_EQ(read_regular(path).take(), text);
  EXPECT_NE(read_regular(folder.file("none")).status().message().find("/none: No such file"),
            std::string_view::npos);
}

// The link stays, and so does what is no file: it is written to, not replaced.
TEST(Files, AreWrittenWhereTheyAre) {
  const Folder folder;
  const std::string path = folder.file("text"), link = folder.file("link"),
                    pipe = folder.file("pipe");
  fs::create_symlink("text", link);
  for (const char* text : {"one", "two"}) {
    ASSERT_TRUE(write_text(link, text).ok());
    ASSERT_TRUE(fs::is_symlink(link));
    EXPECT_EQ(read_text(path).take(), text);
  }
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string heard;
  std::thread reader([&] { heard = read_text(pipe).take(); });
  EXPECT_TRUE(write_text(pipe, "three").ok());
  reader.join();
  EXPECT_EQ(heard, "three");
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_FALSE(write_text(folder.path, "four").ok());
}

TEST(Files, ThatAreNotRegularAreNotWaitedFor) {
  const Folder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, folder.path, std::string("/dev/zero")}) {
    const auto read = read_regular(path);
    ASSERT_FALSE(read.ok()) << path;
    EXPECT_EQ(read.status().message(),
              concat(path, ": It is not a regular file; name one that is."));
  }
}

TEST(Files, LargerThanWhatIsReadAreRefused) {
  constexpr size_t kMost = 1 << 20;
  const Folder folder;
  const std::string path = folder.file("large");
  ASSERT_TRUE(write_text(path, "").ok());
  fs::resize_file(path, kMost);
  EXPECT_EQ(read_regular(path, kMost).take().size(), kMost);
  EXPECT_EQ(read_text(path, kMost).take().size(), kMost);
  fs::resize_file(path, kMost + 1);
  for (const auto& read : {read_regular(path, kMost), read_text(path, kMost)}) {
    ASSERT_FALSE(read.ok());
    EXPECT_NE(read.status().message().find("/large: It has more than 1048576 bytes"),
              std::string_view::npos);
  }
  EXPECT_FALSE(read_text("/dev/zero", kMost).ok());  // has no end
  fs::resize_file(path, kFileBytesMax + 1);          // its size is enough to refuse it
  EXPECT_FALSE(read_regular(path).ok());
}

// In a child: the limit of this process stays.
TEST(Files, LargerThanTheLimitAreRefusedWithoutASignal) {
  const Folder folder;
  const std::string path = folder.file("text");
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit some{1000, 1000};
    if (::setrlimit(RLIMIT_FSIZE, &some) != 0) ::_exit(1);
    if (!write_text(path, std::string(1000, 'x')).ok()) ::_exit(2);
    const Status refused = write_text(path, std::string(1001, 'y'));
    const std::string_view text = refused.message();
    const bool said = text.starts_with(path) && text.find("ulimit -f") != std::string_view::npos;
    ::_exit(refused.code() == Code::system && said ? 0 : 3);
  }
  int state = 0;
  ASSERT_EQ(::waitpid(child, &state, 0), child);
  EXPECT_EQ(state, 0);
  EXPECT_EQ(read_text(path).take(), std::string(1000, 'x'));
}

TEST(Files, CanBeTriedBeforeTheyAreWritten) {
  const std::string folder = testing::TempDir() + "weft-can-write-" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  EXPECT_TRUE(can_write(folder + "/new").ok());
  EXPECT_FALSE(std::filesystem::exists(folder + "/new"));
  ASSERT_TRUE(write_text(folder + "/old", "x").ok());
  EXPECT_TRUE(can_write(folder + "/old").ok());
  EXPECT_EQ(*read_text(folder + "/old"), "x");
  EXPECT_TRUE(can_write("/dev/null").ok());
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  EXPECT_TRUE(can_write("relative").ok());
  EXPECT_TRUE(can_write("./relative").ok());
  EXPECT_FALSE(can_write("none/relative").ok());
  std::filesystem::current_path(before);
  for (const std::string& path : {folder, folder + "/none/new", folder + "/old/new"}) {
    const Status status = can_write(path);
    EXPECT_EQ(status.code(), Code::system) << path;
    EXPECT_TRUE(status.message().starts_with(path)) << status.message();
  }
  std::filesystem::remove_all(folder);
}

// Ranks that are threads may write the same file at the same time.
TEST(Files, AreWrittenWholeByEveryThread) {
  constexpr int kThreads = 4, kTimes = 200;
  const Folder folder;
  const std::string path = folder.file("text");
  std::atomic<int> failed{0}, torn{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const std::string mine(static_cast<size_t>(10'000 * (t + 1)), static_cast<char>('a' + t));
      for (int i = 0; i < kTimes; ++i) {
        failed += !write_text(path, mine).ok();
        const auto there = read_text(path);
        if (!there.ok()) continue;  // it could not be written
        const char who = there->empty() ? 'a' : there->front();
        torn += *there != std::string(static_cast<size_t>(10'000 * (who - 'a' + 1)), who);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace weft
