// The PMI-1 client against a process manager of our own on socket pairs.
#include "bootstrap/pmi.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <map>
#include <thread>

#include "base/random.h"
#include "base/socket.h"
#include "base/text.h"
#include "tests/bootstrap/ranks.h"
#include "tests/support/contains.h"

namespace weft {
namespace {

using test::contains;

// What one rank's connection to the manager says and hears.
class Manager {
 public:
  Manager(int ranks, size_t value_limit) : value_limit_(value_limit) {
    for (int r = 0; r < ranks; ++r) {
      int ends[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
      ours_.emplace_back(ends[0]);
      theirs_.emplace_back(ends[1]);
    }
  }
  int fd(int rank) const { return theirs_[static_cast<size_t>(rank)].get(); }

  // Serves all ranks, in order, up to their barrier, and then to their end.
  void serve() {
    for (Fd& rank : ours_) serve_until(rank, "barrier_in");
    for (Fd& rank : ours_) send(rank, "cmd=barrier_out");
    for (Fd& rank : ours_) serve_until(rank, "finalize");
    for (Fd& rank : ours_) {
      send(rank, "cmd=finalize_ack");
      rank.reset();
    }
  }

  std::string value() const { return stored_; }

 private:
  void serve_until(Fd& rank, std::string_view last) {
    while (true) {
      const auto words = parse_pmi(read_line(rank));
      const auto cmd = words.find("cmd");
      if (cmd == words.end() || cmd->second == last) return;
      send(rank, answer(cmd->second, words));
    }
  }

  std::string answer(const std::string& cmd,
                     const std::map<std::string, std::string, std::less<>>& words) {
    if (cmd == "init") return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
    if (cmd == "get_maxes")
      return concat("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=", value_limit_);
    if (cmd == "get_my_kvsname") return "cmd=my_kvsname kvsname=kvs_1_0";
    if (words.at("kvsname") != "kvs_1_0") return "cmd=error";
    if (cmd == "put") {
      stored_ = words.at("value");
      return stored_.size() < value_limit_ ? "cmd=put_result rc=0 msg=success"
                                           : "cmd=put_result rc=-1 msg=value_too_long";
    }
    if (cmd == "get") return concat("cmd=get_result rc=0 msg=success value=", stored_);
    return "cmd=error";
  }

  static void send(const Fd& rank, std::string line) {
    line.append("\n");
    (void)!::send(rank.get(), line.data(), line.size(), MSG_NOSIGNAL);
  }
  static std::string read_line(const Fd& rank) {
    std::string line;
    for (char c; ::recv(rank.get(), &c, 1, 0) == 1 && c != '\n';) line.push_back(c);
    return line;
  }

  const size_t value_limit_;
  std::vector<Fd> ours_, theirs_;
  std::string stored_;
};

TEST(Pmi, ParsesLines) {
  const auto words = parse_pmi("cmd=get_result rc=0 msg=key not found value=a=b");
  EXPECT_EQ(words.at("cmd"), "get_result");
  EXPECT_EQ(words.at("msg"), "key not found");
  EXPECT_EQ(words.at("value"), "a=b");
  EXPECT_TRUE(parse_pmi("").empty());
  EXPECT_TRUE(parse_pmi("no words here").empty());
}

TEST(Pmi, RanksMeet) {
  for (const int size : {2, 3, 5}) {
    Manager manager(size, 1024);
    std::thread server([&] { manager.serve(); });
    const auto said = test::run(test::Mode::threads, size, [&](Rank r) {
      const Environment env({{"PMI_FD", std::to_string(manager.fd(r))}});
      auto meeting = make_rendezvous({r, size, "pmi", ""}, env);
      if (!meeting.ok()) return meeting.status().to_string();
      return test::describe((*meeting)->all_gather(concat(r, ".0"), Deadline::after(20)));
    });
    server.join();
    for (const std::string& text : said) EXPECT_EQ(text, test::expected_table(size, 0));
  }
}

TEST(Pmi, LongListsOfAddressesAreCutToWhatFits) {
  Place place{{}, random_name()};
  for (int i = 0; i < 30; ++i)
    place.addresses.push_back(*SocketAddress::parse(concat("10.0.0.", i, ":4000")));
  Manager manager(1, 128);
  std::thread server([&] { manager.serve(); });
  EXPECT_TRUE(exchange_by_pmi(manager.fd(0), id_text(place), Deadline::after(10)).ok());
  server.join();
  EXPECT_LT(manager.value().size(), 128u);
  const auto cut = parse_id(manager.value());
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->job, place.job);
  EXPECT_EQ(cut->addresses.front().to_string(), "10.0.0.0:4000");
}

TEST(Pmi, ASecondUseInAProcessIsAClearError) {
  Manager manager(1, 1024);
  std::thread server([&] { manager.serve(); });
  EXPECT_TRUE(exchange_by_pmi(manager.fd(0), "x", Deadline::after(10)).ok());
  server.join();
  const auto again = exchange_by_pmi(manager.fd(0), "x", Deadline::after(10));
  ASSERT_FALSE(again.ok());
  EXPECT_TRUE(contains(again.status().to_string(), "can meet the others by PMI once"));
  EXPECT_FALSE(exchange_by_pmi(99999, "x", Deadline::after(10)).ok());
}

// A manager that reads one line and answers `answer`.
std::string error_after(const std::string& answer, double seconds = 5) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
  const Fd ours(ends[0]), theirs(ends[1]);
  (void)!::send(ours.get(), answer.data(), answer.size(), 0);
  const auto result = exchange_by_pmi(theirs.get(), std::nullopt, Deadline::after(seconds));
  return result.ok() ? "no error" : result.status().to_string();
}

TEST(Pmi, RefusalsNonsenseAndSilenceAreErrors) {
  EXPECT_TRUE(contains(error_after("cmd=response_to_init rc=-1\n"), "rc=-1"));
  EXPECT_TRUE(contains(error_after("hello\n"), "answered \"hello\" to \"cmd=init"));
  EXPECT_TRUE(contains(error_after("\n"), "answered \"\""));
  EXPECT_TRUE(contains(error_after(std::string(70000, 'x')), "a line without end"));
  EXPECT_TRUE(contains(error_after("", 0.1), "timeout: The process manager did not answer"));
  EXPECT_TRUE(contains(error_after("cmd=response_to_init rc=0", 0.1), "timeout"));
}

}  // namespace
}  // namespace weft
