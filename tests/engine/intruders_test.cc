// A job over TCP goes on undisturbed, every call right, while somebody who has no business there
// calls all its ports with all that he can think of.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "base/socket.h"
#include "base/text.h"
#include "tests/support/cluster.h"
#include "tests/support/shared_value.h"
#include "transport/tcp/frame.h"

namespace weft::test {
namespace {

constexpr const char* kSecret = "tulips in the rain";
constexpr int kRanks = 4;
constexpr rlim_t kDescriptors = 512;  // of a rank: fewer than the intruder has connections

// What the processes of a test see of each other.
struct Shared {
  std::atomic<int> ready{0}, calls{0}, intrusions{0}, held{0};
  std::atomic<bool> over{false};
  std::array<std::atomic<pid_t>, kRanks> ranks{};
};

// Sockets that listen, by inode: ports on loopback.
std::map<std::string, int> listeners() {
  std::map<std::string, int> found;
  std::ifstream table("/proc/net/tcp");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state, skipped, inode;
    words >> number >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) words >> skipped;
    words >> inode;
    if (state == "0A" && local.starts_with("0100007F:"))
      found[concat("socket:[", inode, "]")] = std::stoi(local.substr(9), nullptr, 16);
  }
  return found;
}

std::set<int> ports_of(const Shared& shared) {
  const std::map<std::string, int> all = listeners();
  std::set<int> ports;
  for (const std::atomic<pid_t>& rank : shared.ranks) {
    const std::string folder = concat("/proc/", rank.load(), "/fd");
    DIR* const open = ::opendir(folder.c_str());
    while (const dirent* entry = open ? ::readdir(open) : nullptr) {
      char target[64] = {};
      const std::string path = concat(folder, "/", static_cast<const char*>(entry->d_name));
      if (::readlink(path.c_str(), target, sizeof target - 1) <= 0) continue;
      if (const auto port = all.find(target); port != all.end()) ports.insert(port->second);
    }
    if (open) ::closedir(open);
  }
  return ports;
}

class Intruder {
 public:
  explicit Intruder(Shared& shared) : shared_(shared) {}

  void run() {
    while (shared_.ready < kRanks && !shared_.over) ::usleep(1000);
    for (int round = 0; round < 4; ++round) {
      const std::set<int> ports = ports_of(shared_);
      for (const int port : ports) {
        call(port, "");
        call(port, "GET / HTTP/1.1\r\nHost: weft\r\n\r\n");
        call(port, hello(tcp::kVersion));
        call(port, hello(99));
        for (int i = 0; i < 10; ++i) call(port, garbage());
      }
      flood(ports, 1000);
    }
    shared_.over = true;
    ::usleep(200'000);
  }

 private:
  void call(int port, const std::string& text) {
    Result<Fd> socket = start_connect(*SocketAddress::parse(concat("127.0.0.1:", port)));
    if (!socket.ok()) return;
    (void)send_all(*socket, std::as_bytes(std::span(text)), Deadline::after(5));
    ++shared_.intrusions;
  }
  void flood(const std::set<int>& ports, int calls) {
    for (int i = 0; i < calls && !ports.empty(); ++i) {
      const int port = *std::next(ports.begin(), i % static_cast<int>(ports.size()));
      Result<Fd> socket = start_connect(*SocketAddress::parse(concat("127.0.0.1:", port)));
      if (socket.ok()) held_.push_back(socket.take());
    }
    shared_.held = static_cast<int>(held_.size());
    ::usleep(300'000);
    held_.clear();
  }
  std::string hello(uint32_t version) {
    const tcp::Badge badge = tcp::badge_of("a job", Key("not the secret of this job"));
    const tcp::Hello hello{version, badge.job, 1, 0, 0, 1, fresh_nonce()};
    return text_of(tcp::encode(hello, badge.key, tcp::Challenge()));
  }
  std::string garbage() {
    std::string bytes(random_() % 500, '\0');
    for (char& c : bytes) c = static_cast<char>(random_());
    return bytes;
  }
  static std::string text_of(ConstBytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  Shared& shared_;
  std::mt19937 random_{7};
  std::vector<Fd> held_;
};

void check_all_reduce(Communicator& communicator, size_t count) {
  const int32_t mine = communicator.rank() + 1;
  const int32_t sum = communicator.size() * (communicator.size() + 1) / 2;
  const std::vector<int32_t> in(count, mine);
  std::vector<int32_t> out(count, -1);
  const Status status =
      communicator.all_reduce(in.data(), out.data(), count, DataType::int32, ReduceOp::sum);
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_EQ(out, std::vector<int32_t>(count, sum));
}

// Calls on the job's communicator, and on new ones, for which the ranks connect anew.
void work(Communicator& communicator, Shared& shared) {
  const rlimit few{kDescriptors, kDescriptors};
  ::setrlimit(RLIMIT_NOFILE, &few);
  shared.ranks[static_cast<size_t>(communicator.rank())] = ::getpid();
  ++shared.ready;
  for (int round = 0;; ++round) {
    ASSERT_NO_FATAL_FAILURE(check_all_reduce(communicator, round % 5 == 0 ? 50'000 : 3));
    if (round % 10 == 0) {
      auto part = communicator.split(0, 0);
      ASSERT_TRUE(part.ok()) << part.status().to_string();
      ASSERT_NO_FATAL_FAILURE(check_all_reduce(**part, 100));
    }
    if (communicator.rank() == 0) ++shared.calls;
    int32_t over = shared.over;
    const Status agreed = communicator.all_reduce(&over, &over, 1, DataType::int32, ReduceOp::min);
    ASSERT_TRUE(agreed.ok()) << agreed.to_string();
    if (over) return;
  }
}

TEST(Intruders, CostARunningJobNothing) {
  auto& shared = shared_value<Shared>();
  ::setenv("WEFT_SECRET", kSecret, 1);
  std::fflush(nullptr);
  const pid_t intruder = ::fork();
  ASSERT_GE(intruder, 0);
  if (intruder == 0) {
    const rlimit many{4096, 4096};
    (void)::setrlimit(RLIMIT_NOFILE, &many);
    Intruder(shared).run();
    ::_exit(0);
  }
  testing::internal::CaptureStderr();
  Cluster cluster;
  cluster.ranks = kRanks;
  cluster.mode = Mode::processes;
  cluster.options.transport = "tcp";
  run_ranks(cluster, [&](Communicator& communicator) { work(communicator, shared); });
  shared.over = true;
  const std::string log = testing::internal::GetCapturedStderr();
  ::waitpid(intruder, nullptr, 0);
  EXPECT_GT(shared.calls, 20);
  EXPECT_GT(shared.intrusions, 4 * kRanks * 10);
  EXPECT_GT(shared.held, 900) << "the flood was none";
  EXPECT_NE(log.find("Refused a connection from 127.0.0.1:"), std::string::npos) << log;
  EXPECT_EQ(log.find(kSecret), std::string::npos) << "the secret is in the log";
  RecordProperty("calls", shared.calls.load());
  ::unsetenv("WEFT_SECRET");
}

TEST(Encryption, WorksWithASecret) {
  ::setenv("WEFT_SECRET", kSecret, 1);
  Cluster cluster;
  cluster.ranks = 3;
  cluster.mode = Mode::processes;
  cluster.options.transport = "tcp";
  cluster.options.encrypt = true;
  run_ranks(cluster, [](Communicator& communicator) {
    for (const size_t count : {0, 1, 1000, 1'000'000}) check_all_reduce(communicator, count);
    auto half = communicator.split(communicator.rank() % 2, 0);
    ASSERT_TRUE(half.ok()) << half.status().to_string();
    check_all_reduce(**half, 1000);
  });
  ::unsetenv("WEFT_SECRET");
}

// Keys that everybody could compute would only look like protection.
TEST(Encryption, IsRefusedWithoutASecret) {
  Cluster cluster;
  cluster.ranks = 2;
  cluster.mode = Mode::threads;
  run_bare_ranks(cluster, [](Rendezvous& meet) {
    Options options;
    options.encrypt = true;
    const auto made = Communicator::create(meet, options);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), Code::invalid_argument);
    EXPECT_NE(made.status().message().find("WEFT_SECRET"), std::string_view::npos);
  });
}

}  // namespace
}  // namespace weft::test
