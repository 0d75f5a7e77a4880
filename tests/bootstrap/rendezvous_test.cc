// Ranks that meet, and jobs that cannot: over every kind of rendezvous, as threads and as
// processes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/socket.h"
#include "base/text.h"
#include "bootstrap/place.h"
#include "tests/bootstrap/ranks.h"
#include "tests/support/contains.h"

namespace weft {
namespace {

using test::Mode;
using test::Ways;

using test::contains;

class Meet : public testing::TestWithParam<std::tuple<std::string, Mode>> {};

TEST_P(Meet, EveryRankGetsEveryRanksBlobs) {
  const auto& [kind, mode] = GetParam();
  for (const int size : {1, 2, 3, 5, 8, 12}) {
    Ways ways(kind);
    const auto said =
        test::run(mode, size, [&](Rank r) { return test::join(ways, r, size, 20, 3); });
    for (const std::string& text : said) EXPECT_EQ(text, test::expected_table(size, 2));
  }
}

INSTANTIATE_TEST_SUITE_P(, Meet,
                         testing::Combine(testing::Values("tcp", "unix", "file", "id", "fd"),
                                          testing::Values(Mode::threads, Mode::processes)),
                         [](const auto& tested) {
                           return std::get<0>(tested.param) + "_" +
                                  test::name(std::get<1>(tested.param));
                         });

// In a mount namespace of its own, where the name has two addresses; nobody is at that which
// getaddrinfo prefers.
std::string meet_by_name(Rank rank, int port) {
  const std::string path = concat("/tmp/weft-hosts-", ::getpid());
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return "not permitted";
  std::ofstream(path) << "127.0.0.1 localhost\n127.0.0.9 weft-two\n127.0.0.1 weft-two\n";
  const bool mounted = ::mount(path.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
  ::unlink(path.c_str());
  if (!mounted) return "not permitted";
  const std::string host = rank == 0 ? "127.0.0.9" : "weft-two";
  auto meeting = make_rendezvous({rank, 2, concat("tcp://", host, ":", port), "j"}, Environment());
  if (!meeting.ok()) return meeting.status().to_string();
  return test::describe((*meeting)->all_gather(concat(rank), Deadline::after(5)));
}

TEST(Rendezvous, EveryAddressOfANameIsTried) {
  const int port = test::free_port();
  for (const std::string& said :
       test::run(Mode::processes, 2, [&](Rank r) { return meet_by_name(r, port); })) {
    if (said == "not permitted") GTEST_SKIP() << "mount namespaces are not permitted here";
    EXPECT_EQ(said, "ok: 0,1");
  }
}

TEST(Rendezvous, ANameThatIsNotKnownHidesNoOther) {
  const int port = test::free_port();
  const auto said = test::run(Mode::threads, 2, [&](Rank r) -> std::string {
    const std::string lost = r == 0 ? "" : concat("weft-is-not-here.invalid:", port, ",");
    auto meeting = make_rendezvous({r, 2, concat("tcp://", lost, "127.0.0.1:", port), "j"}, {});
    if (!meeting.ok()) return meeting.status().to_string();
    return test::describe((*meeting)->all_gather(concat(r), Deadline::after(20)));
  });
  for (const std::string& text : said) EXPECT_EQ(text, "ok: 0,1");
}

TEST(Rendezvous, BlobsOfEverySizeArriveWhole) {
  Ways ways("tcp");
  const auto blob_of = [](Rank r) {
    return std::string(r == 0 ? 0 : r == 1 ? 65536 : 7000, static_cast<char>(r));
  };
  const auto said = test::run(Mode::threads, 5, [&](Rank r) -> std::string {
    auto meeting = make_rendezvous({r, 5, ways.address(), "j"}, Environment());
    const auto table = (*meeting)->all_gather(blob_of(r), Deadline::after(20));
    if (!table.ok()) return table.status().to_string();
    for (Rank other = 0; other < 5; ++other)
      if ((*table)[static_cast<size_t>(other)] != blob_of(other)) return "wrong";
    return (*meeting)->all_gather(std::string(65537, 'x'), Deadline::after(1)).status().to_string();
  });
  for (const std::string& text : said) EXPECT_TRUE(contains(text, "at most 65536")) << text;
}

// In a mount namespace of its own, on a disk without a byte left.
std::string meet_on_full_disk() {
  char folder[] = "/tmp/weft-full-XXXXXX";
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 || !::mkdtemp(folder))
    return "not permitted";
  std::string said = "not permitted";
  if (::mount("none", folder, "tmpfs", 0, "size=4096") == 0) {
    const std::string full(folder);
    std::ofstream(full + "/full") << std::string(8192, 'x');
    const RendezvousConfig config{0, 2, concat("file://", full, "/meeting"), "j"};
    auto meeting = make_rendezvous(config, Environment());
    said = (*meeting)->all_gather("x", Deadline::after(20)).status().to_string();
    if (std::distance(std::filesystem::directory_iterator(full), {}) != 1) said += " (leftovers)";
    ::umount2(folder, MNT_DETACH);
  }
  ::rmdir(folder);
  return said;
}

TEST(Rendezvous, AFullDiskIsNamed) {
  const auto said = test::run(Mode::processes, 1, [](Rank) { return meet_on_full_disk(); });
  if (said[0] == "not permitted") GTEST_SKIP() << "needs a mount namespace";
  EXPECT_TRUE(contains(said[0], "No space left on device")) << said[0];
  EXPECT_TRUE(contains(said[0], "/meeting")) << said[0];
  EXPECT_FALSE(contains(said[0], "leftovers")) << said[0];
}

TEST(Rendezvous, ALimitOnFilesIsNamed) {
  const auto said = test::run(Mode::processes, 1, [](Rank) {
    const Ways ways("file");
    const rlimit tiny{10, 10};
    ::setrlimit(RLIMIT_FSIZE, &tiny);
    auto meeting = make_rendezvous({0, 2, ways.address(), "j"}, Environment());
    return (*meeting)->all_gather("x", Deadline::after(20)).status().to_string();
  });
  EXPECT_TRUE(contains(said[0], "ulimit -f")) << said[0];
  EXPECT_TRUE(contains(said[0], "The rendezvous file ")) << said[0];
}

TEST(Rendezvous, CostsAConstantNumberOfMessagesPerRank) {
  for (const int size : {2, 12}) {
    Ways ways("tcp");
    test::run(Mode::threads, size, [&](Rank r) {
      auto meeting = make_rendezvous({r, size, ways.address(), "j"}, Environment());
      for (int round = 0; round < 2; ++round)
        EXPECT_TRUE((*meeting)->all_gather("x", Deadline::after(20)).ok());
      const RendezvousStats stats = (*meeting)->stats();
      EXPECT_EQ(stats.messages_sent, r ? 2 : 0);
      EXPECT_EQ(stats.messages_received, r ? 4 : 0);
      EXPECT_EQ(stats.store_received, r ? 0 : 2 * (size - 1));
      EXPECT_EQ(stats.store_sent, r ? 0 : 4 * (size - 1));
      return "";
    });
  }
}

TEST(Rendezvous, RankZeroMayComeLate) {
  for (const char* kind : {"tcp", "file", "unix"}) {
    Ways ways(kind);
    const auto said = test::run(Mode::threads, 3, [&](Rank r) {
      if (r == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return test::join(ways, r, 3, 20);
    });
    for (const std::string& text : said) EXPECT_EQ(text, test::expected_table(3, 0));
  }
}

// Rank 2 never comes; then one of the others is cancelled, and both end at once.
TEST(Rendezvous, ACancelledRankEndsAndTellsTheOthers) {
  for (const Rank who : {0, 1}) {
    Ways ways("tcp");
    std::atomic<bool> cancelled{false};
    const Deadline soon = Deadline::after(10);
    const auto said = test::run(Mode::threads, 3, [&](Rank r) -> std::string {
      if (r == 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        cancelled = true;
        return "";
      }
      auto meeting = make_rendezvous({r, 3, ways.address(), "j"}, Environment());
      const Deadline deadline = Deadline::after(60);
      return test::describe(
          (*meeting)->all_gather("x", r == who ? deadline.unless(cancelled) : deadline));
    });
    EXPECT_FALSE(soon.expired());
    const std::string aborted = concat("aborted: Rank ", who, " aborted");
    EXPECT_TRUE(contains(said[static_cast<size_t>(who)], aborted)) << said[0] << "\n" << said[1];
    EXPECT_TRUE(contains(said[static_cast<size_t>(1 - who)],
                         who == 0 ? aborted : "peer lost: Rank 1 ended"))
        << said[0] << "\n"
        << said[1];
  }
}

TEST(Rendezvous, ARankThatMeetsNobodyCanBeCancelled) {
  for (const Rank rank : {0, 1})
    for (const char* kind : {"tcp", "unix", "file"}) {
      Ways ways(kind);
      std::atomic<bool> cancelled{false};
      std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        cancelled = true;
      });
      const Deadline soon = Deadline::after(5);
      auto meeting = make_rendezvous({rank, 2, ways.address(), "j"}, Environment());
      const auto table = (*meeting)->all_gather("x", Deadline::after(60).unless(cancelled));
      other.join();
      EXPECT_EQ(table.status().code(), Code::aborted) << table.status().to_string();
      EXPECT_FALSE(soon.expired());
    }
}

TEST(Rendezvous, MissingRanksAreNamedToAllInTime) {
  Ways ways("tcp");
  const auto start = std::chrono::steady_clock::now();
  const auto said = test::run(Mode::processes, 6, [&](Rank r) -> std::string {
    return r == 2 || r == 4 || r == 5 ? "" : test::join(ways, r, 6, 0.8);
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  for (const Rank r : {0, 1, 3}) {
    const std::string& text = said[static_cast<size_t>(r)];
    EXPECT_TRUE(contains(text, "timeout: Ranks 2, 4, 5 of 6 did not come")) << text;
    EXPECT_TRUE(contains(text, "[peer 2]")) << text;
  }
  EXPECT_LT(took.count(), 10);
}

TEST(Rendezvous, AnImpatientRankLearnsWhoIsMissingToo) {
  Ways ways("tcp");
  const auto said = test::run(Mode::threads, 3, [&](Rank r) -> std::string {
    return r == 2 ? "" : test::join(ways, r, 3, r == 1 ? 0.6 : 30);
  });
  EXPECT_TRUE(contains(said[0], "Rank 2 of 3 did not come")) << said[0];
  EXPECT_TRUE(contains(said[1], "Rank 2 of 3 did not come")) << said[1];
}

TEST(Rendezvous, WithoutRankZeroTheOthersSaySo) {
  for (const char* kind : {"tcp", "file", "unix"}) {
    Ways ways(kind);
    const auto said = test::join(ways, 1, 2, 0.2);
    EXPECT_TRUE(contains(said, "timeout: Rank 1 could not meet")) << said;
    EXPECT_TRUE(contains(said, "[peer 0]")) << said;
  }
}

TEST(Rendezvous, ADoubledRankIsNamedToAll) {
  Ways ways("tcp");
  const auto said = test::run(Mode::processes, 4,
                              [&](Rank r) { return test::join(ways, r == 3 ? 1 : r, 4, 20); });
  for (const std::string& text : said) {
    EXPECT_TRUE(contains(text, "Two processes say that they are rank 1")) << text;
    EXPECT_TRUE(contains(text, "[peer 1]")) << text;
  }
}

TEST(Rendezvous, ADifferingNumberOfRanksIsNamedToAll) {
  Ways ways("tcp");
  const auto said =
      test::run(Mode::threads, 4, [&](Rank r) { return test::join(ways, r, r == 2 ? 5 : 4, 20); });
  for (const std::string& text : said)
    EXPECT_TRUE(contains(text, "says that the job has 5 ranks, rank 0 that it has 4")) << text;
}

TEST(Rendezvous, ARankThatDiesBetweenMeetingsIsNamed) {
  Ways ways("tcp");
  const auto said = test::run(Mode::processes, 4, [&](Rank r) -> std::string {
    auto meeting = make_rendezvous({r, 4, ways.address(), "j"}, Environment());
    if (!(*meeting)->all_gather("x", Deadline::after(20)).ok()) return "failed";
    if (r == 3) ::_exit(0);
    return test::describe((*meeting)->all_gather("x", Deadline::after(20)));
  });
  for (const Rank r : {0, 1, 2}) {
    EXPECT_TRUE(contains(said[static_cast<size_t>(r)], "peer lost: Rank 3 ended or died"))
        << said[static_cast<size_t>(r)];
    EXPECT_TRUE(contains(said[static_cast<size_t>(r)], "[peer 3]"));
  }
}

TEST(Rendezvous, TheDeathOfRankZeroIsNoticed) {
  Ways ways("tcp");
  const auto said = test::run(Mode::processes, 3, [&](Rank r) -> std::string {
    auto meeting = make_rendezvous({r, 3, ways.address(), "j"}, Environment());
    if (!(*meeting)->all_gather("x", Deadline::after(20)).ok()) return "failed";
    if (r == 0) ::_exit(0);
    return test::describe((*meeting)->all_gather("x", Deadline::after(20)));
  });
  for (const Rank r : {1, 2})
    EXPECT_TRUE(contains(said[static_cast<size_t>(r)], "peer lost: The rank that runs the store"))
        << said[static_cast<size_t>(r)];
}

TEST(Rendezvous, RanksThatAreNotAtTheSameMeetingSaySo) {
  Ways ways("tcp");
  const auto said = test::run(Mode::threads, 3, [&](Rank r) -> std::string {
    auto meeting = make_rendezvous({r, 3, ways.address(), "j"}, Environment());
    const Deadline deadline = Deadline::after(r == 2 ? 1 : 20);
    if (!(*meeting)->all_gather("x", deadline).ok()) return "failed";
    return r == 2 ? "" : test::describe((*meeting)->all_gather("x", Deadline::after(0.5)));
  });
  for (const Rank r : {0, 1})
    EXPECT_TRUE(contains(said[static_cast<size_t>(r)], "Rank 2")) << said[static_cast<size_t>(r)];
}

// A store that ends a meeting without having looked at the last offers says why all the same.
TEST(Rendezvous, AStoreThatFailsBeforeItReadsSaysSo) {
  Ways ways("tcp");
  const auto said = test::run(Mode::threads, 2, [&](Rank r) -> std::string {
    auto meeting = make_rendezvous({r, 2, ways.address(), "j"}, Environment());
    if (!(*meeting)->all_gather("x", Deadline::after(20)).ok()) return "failed";
    if (r == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return test::describe((*meeting)->all_gather("x", Deadline::after(r == 0 ? 0 : 20)));
  });
  for (const std::string& text : said)
    EXPECT_TRUE(contains(text, "Rank 1 of 2 did not come to meeting 1")) << text;
}

TEST(Rendezvous, AnotherJobAtTheSameAddressIsRefusedAndTheFirstGoesOn) {
  Ways ways("tcp");
  const auto said = test::run(Mode::threads, 3, [&](Rank r) {
    const Rank rank = r == 2 ? 1 : r;
    if (r == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    auto meeting =
        make_rendezvous({rank, 2, ways.address(), r == 2 ? "other" : "mine"}, Environment());
    return test::describe((*meeting)->all_gather(concat(r), Deadline::after(20)));
  });
  EXPECT_EQ(said[0], "ok: 0,1");
  EXPECT_EQ(said[1], "ok: 0,1");
  EXPECT_TRUE(contains(said[2], "belongs to the job \"other\", but another job meets here"))
      << said[2];
}

TEST(Rendezvous, OfSeveralPortsTheOneThatIsFreeServes) {
  const auto occupied = listen_on(*SocketAddress::parse("127.0.0.1:0"));  // listens, never answers
  const std::string where = concat("tcp://127.0.0.1:", local_address(*occupied)->port(),
                                   ",127.0.0.1:", test::free_port());
  const auto said = test::run(Mode::threads, 3, [&](Rank r) {
    auto meeting = make_rendezvous({r, 3, where, "j"}, Environment());
    return test::describe((*meeting)->all_gather(concat(r), Deadline::after(20)));
  });
  for (const std::string& text : said) EXPECT_EQ(text, "ok: 0,1,2");
}

TEST(Rendezvous, ALocalNameThatIsTakenIsPassedOver) {
  const std::string name = concat("rendezvous-taken-", ::getpid());
  const auto taken = listen_on(*SocketAddress::parse(concat("@weft-", ::geteuid(), "-", name)));
  ASSERT_TRUE(taken.ok());
  const auto said = test::run(Mode::threads, 3, [&](Rank r) {
    auto meeting = make_rendezvous({r, 3, concat("unix:", name), "j"}, Environment());
    return test::describe((*meeting)->all_gather(concat(r), Deadline::after(20)));
  });
  for (const std::string& text : said) EXPECT_EQ(text, "ok: 0,1,2");
}

// Hosts share addresses, as those of bridges to containers.
TEST(Rendezvous, OnlyAHostWithAllOfMpirunsAddressesServes) {
  for (const bool all : {true, false}) {
    const std::string first = concat("127.0.0.1:", test::free_port());
    const std::string targets = concat(first, all ? "" : ",203.0.113.7:1");
    const auto meeting = make_rendezvous({1, 2, concat("hnp:", targets), "j"}, Environment());
    ASSERT_TRUE(meeting.ok()) << meeting.status().to_string();
    EXPECT_EQ(listen_on(*SocketAddress::parse(first)).ok(), !all);
  }
}

// Which is rank 1 here, and who has not met it does not know that.
TEST(Rendezvous, WhoServesAtMpirunsHostIsBlamed) {
  const std::string where = concat("hnp:127.0.0.1:", test::free_port());
  Environment first, other;
  first.set("OMPI_COMM_WORLD_LOCAL_RANK", "0");
  other.set("OMPI_COMM_WORLD_LOCAL_RANK", "1");
  auto early = make_rendezvous({2, 3, where, "j"}, other);
  const std::string alone = test::describe((*early)->all_gather("x", Deadline::after(0.1)));
  EXPECT_TRUE(contains(alone, "Check that the first rank on mpirun's host runs")) << alone;
  EXPECT_TRUE(contains(alone, "[peer -1]")) << alone;
  const auto said = test::run(Mode::threads, 3, [&](Rank r) -> std::string {
    auto meeting = make_rendezvous({r, 3, where, "j"}, r == 1 ? first : other);
    if (!(*meeting)->all_gather("x", Deadline::after(20)).ok()) return "failed";
    return r == 1 ? "" : test::describe((*meeting)->all_gather("x", Deadline::after(20)));
  });
  for (const size_t r : {0, 2}) {
    EXPECT_TRUE(contains(said[r], "peer lost: The rank that runs the store (rank 1)")) << said[r];
    EXPECT_TRUE(contains(said[r], "[peer 1]")) << said[r];
  }
}

TEST(Rendezvous, ListensOnTheChosenInterfaceOnly) {
  const int port = test::free_port();
  const auto listener = listen_at(concat("a-name-of-some-host:", port), "=lo");
  ASSERT_TRUE(listener.ok()) << listener.status().to_string();
  EXPECT_EQ(local_address(*listener)->to_string(), concat("127.0.0.1:", port));
}

TEST(Rendezvous, WhoListensAndSaysNothingIsNamed) {
  const auto silent = listen_on(*SocketAddress::parse("127.0.0.1:0"));
  const std::string address = local_address(*silent)->to_string();
  auto meeting = make_rendezvous({1, 2, concat("tcp://", address), "j"}, Environment());
  const auto said = test::describe((*meeting)->all_gather("x", Deadline::after(0.2)));
  EXPECT_TRUE(contains(said, concat(address, " accepted the connection but does not answer")))
      << said;
}

// Rank 0's listener is there before any rank is.
TEST(Rendezvous, WhereAListenerIsGoneNobodyIsWaitedFor) {
  const std::string address = concat("open:127.0.0.1:", test::free_port());
  const Deadline soon = Deadline::after(10);
  auto meeting = make_rendezvous({1, 2, address, "j"}, Environment());
  const auto said = test::describe((*meeting)->all_gather("x", Deadline::after(20)));
  EXPECT_TRUE(contains(said, "peer lost: Rank 1 could not meet")) << said;
  EXPECT_FALSE(soon.expired());
}

// In a process of its own, as what was inherited is remembered.
TEST(Rendezvous, AnInheritedListenerIsTakenOnce) {
  const auto said = test::run(Mode::processes, 1, [](Rank) -> std::string {
    const int fd = make_meeting("")->listener.release();
    ::fcntl(fd, F_SETFD, 0);  // as after exec
    const RendezvousConfig config{0, 2, concat("fd:", fd), ""};
    if (!make_rendezvous(config, {}).ok()) return "not taken";
    const auto own = listen_on(*SocketAddress::parse("127.0.0.1:0"));
    if (own->get() != fd) return concat("another number: ", own->get());
    const auto again = make_rendezvous(config, {});
    return concat(again.status().message(), local_address(*own).ok() ? " (open)" : " (closed)");
  });
  EXPECT_TRUE(contains(said[0], "has met the others by fd:")) << said[0];
  EXPECT_TRUE(contains(said[0], "(open)")) << said[0];
}

TEST(Rendezvous, BadArgumentsAreErrorsAtOnce) {
  const auto message = [](Rank rank, int size, const std::string& where) {
    const auto made = make_rendezvous({rank, size, where, "j"}, Environment());
    return made.ok() ? "" : std::string(made.status().message());
  };
  EXPECT_TRUE(contains(message(2, 2, "tcp://127.0.0.1:1"), "Rank 2 is out of range"));
  EXPECT_TRUE(contains(message(-1, 2, "tcp://127.0.0.1:1"), "Rank -1"));
  EXPECT_TRUE(contains(message(0, 2, ""), "is no rendezvous for 2 ranks"));
  EXPECT_TRUE(contains(message(1, 2, "http://x:1"), "http://x:1"));
  EXPECT_TRUE(contains(message(0, 2, "tcp://127.0.0.1"), "not host:port"));
  for (const Rank rank : {0, 1})
    for (const char* empty : {"tcp://", "hnp:"})
      EXPECT_TRUE(contains(message(rank, 2, empty), "names no address")) << rank << empty;
  EXPECT_TRUE(contains(message(0, 2, "open:127.0.0.1:1"), "for the other ranks"));
  EXPECT_FALSE(message(1, 2, "open:nonsense").empty());
  EXPECT_TRUE(contains(message(0, 2, "fd:0"), "not a listening socket"));
  EXPECT_TRUE(contains(message(1, 2, "fd:3"), "fd:N is rank 0's"));
  EXPECT_TRUE(contains(message(1, 2, "id:nonsense"), "is not a unique id"));
  EXPECT_TRUE(contains(message(1, 2, "file://relative"), "absolute path"));
  EXPECT_TRUE(contains(message(0, 2, "pmi"), "PMI_FD"));
  EXPECT_TRUE(contains(message(0, 2, "file:///no/such/folder/f"), ""));
  const auto taken = listen_on(*SocketAddress::parse("127.0.0.1:0"));
  const std::string address = local_address(*taken)->to_string();
  EXPECT_TRUE(contains(message(0, 2, concat("tcp://", address)), address));
  EXPECT_EQ(message(0, 1, "whatever"), "");
}

TEST(Rendezvous, AMeetingIsOnLoopbackUnlessAnInterfaceIsAsked) {
  EXPECT_TRUE(make_meeting("")->address.starts_with("tcp://127.0.0.1:"));
  EXPECT_TRUE(make_meeting("=lo")->address.starts_with("tcp://127.0.0.1:"));
  EXPECT_FALSE(make_meeting("=nothing").ok());
  const auto id = make_unique_id("=lo");
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(parse_id(id->address)->job, id->job);
}

}  // namespace
}  // namespace weft
