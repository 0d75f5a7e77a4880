// Where the store is looked for and listens, by names that this program makes up.
#include "bootstrap/place.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "base/text.h"
#include "bootstrap/store.h"
#include "tests/bootstrap/ranks.h"
#include "tests/support/contains.h"

namespace weft {
namespace {

using test::contains;
using test::describe;

// What the resolver knows.
struct Name {
  std::string address;
  double takes_s = 0;
  int asked = 0;
};
struct Names {
  std::mutex mutex;
  std::map<std::string, Name> known;
};
Names& names() {
  static Names* const all = new Names;  // searches that were given up outlive the tests
  return *all;
}

void set_name(const std::string& name, const std::string& address, double takes_s = 0) {
  const std::lock_guard lock(names().mutex);
  names().known[name] = {address, takes_s};
}
int asked(const std::string& name) {
  const std::lock_guard lock(names().mutex);
  return names().known[name].asked;
}

std::string number_of(const char* name) {
  std::unique_lock lock(names().mutex);
  const auto known = names().known.find(name ? name : "");
  if (known == names().known.end()) return name ? name : "";
  ++known->second.asked;
  const auto [address, takes_s, count] = known->second;
  lock.unlock();
  std::this_thread::sleep_for(std::chrono::duration<double>(takes_s));
  return address;
}

}  // namespace
}  // namespace weft

// In place of the system's.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  static const auto real = reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, __func__));
  return real(weft::number_of(name).c_str(), service, hints, found);
}

namespace weft {
namespace {

std::string meet(const std::string& host, int port, Rank rank, const Environment& env) {
  auto meeting = make_rendezvous({rank, 2, concat("tcp://", host, ":", port), "j"}, env);
  if (!meeting.ok()) return meeting.status().to_string();
  return describe((*meeting)->all_gather(concat(rank), Deadline::after(5)));
}

// Where the system lets sockets have any address.
TEST(Place, OnlyAnAddressOfThisHostIsLocal) {
  const auto said = test::run(test::Mode::processes, 1, [](Rank) -> std::string {
    if (::unshare(CLONE_NEWNET) != 0) return "not permitted";
    std::ofstream setting("/proc/sys/net/ipv4/ip_nonlocal_bind");
    setting << 1 << std::flush;
    const SocketAddress other = *SocketAddress::parse("203.0.113.7:0");
    if (!setting || !listen_on(other).ok()) return "not permitted";
    return is_local(other) ? "local" : "not local";
  });
  EXPECT_TRUE(is_local(*SocketAddress::parse("127.0.0.1:4000")));
  EXPECT_TRUE(is_local(*SocketAddress::parse("127.0.0.9:4000")));
  EXPECT_FALSE(is_local(*SocketAddress::parse("203.0.113.7:4000")));
  const std::vector<Interface> all = list_interfaces("").take();
  for (const Interface& interface : all)
    EXPECT_TRUE(is_local(interface.address)) << interface.address.to_string();
  if (said[0] == "not permitted") GTEST_SKIP() << "network namespaces are not permitted here";
  EXPECT_EQ(said[0], "not local");
}

TEST(Place, AHostIsLookedUpOnceForAllItsPorts) {
  set_name("three-ports", "127.0.0.1");
  const auto place = known_place("three-ports:1,three-ports:2,three-ports:3", "j");
  const auto found = place->look(Deadline::after(20));
  ASSERT_TRUE(found.ok() && found->has_value()) << found.status().to_string();
  ASSERT_EQ((**found).addresses.size(), 3u);
  EXPECT_EQ((**found).addresses[2].to_string(), "127.0.0.1:3");
  EXPECT_EQ(asked("three-ports"), 1);
}

TEST(Place, ANameThatTakesLongIsAskedForUntilTheDeadline) {
  set_name("slow", "127.0.0.1", 0.3);
  const auto place = known_place("slow:1", "j", "", 0.1);
  const auto early = place->look(Deadline::after(20));
  EXPECT_EQ(early.status().code(), Code::system) << early.status().to_string();
  EXPECT_TRUE(contains(early.status().to_string(), "\"slow\" could not be resolved"));
  const auto late = known_place("slow:1", "j", "", 0.1)->look(Deadline::after(0.02));
  EXPECT_EQ(late.status().code(), Code::timeout) << late.status().to_string();

  const int port = test::free_port();
  std::string rank0;
  std::thread first([&] { rank0 = meet("127.0.0.1", port, 0, {}); });
  const auto client =
      make_store_client({1, 2, "j", {}}, known_place(concat("slow:", port), "j", "", 0.1));
  EXPECT_EQ(describe(client->all_gather("1", Deadline::after(20))), "ok: 0,1");
  first.join();
  EXPECT_EQ(rank0, "ok: 0,1");
}

// Also behind one that nobody knows.
TEST(Place, ANameThatTakesLongGetsTimeWhereNoOtherIsKnown) {
  set_name("late", "127.0.0.1", 0.3);
  const auto place = known_place("nobody.invalid:1,late:1", "j", "", 0.1);
  for (const Deadline patience = Deadline::after(20); !patience.expired();) {
    const auto found = place->look(Deadline::after(20));
    if (found.ok() && found->has_value()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  FAIL() << "it is not found";
}

// At once, as it has to know whether it serves; others when they meet.
TEST(Place, OnlyTheFirstRankOfAHostLooksForMpirunsHost) {
  set_name("mpirun-host", "127.0.0.1");
  const std::string where = concat("hnp:mpirun-host:", test::free_port());
  for (const int local_rank : {1, 0}) {
    Environment env;
    env.set("OMPI_COMM_WORLD_LOCAL_RANK", concat(local_rank));
    ASSERT_TRUE(make_rendezvous({local_rank, 2, where, "j"}, env).ok());
    EXPECT_EQ(asked("mpirun-host"), local_rank == 0 ? 1 : 0);
  }
}

TEST(Place, WhoWaitsForANameCanBeCancelled) {
  set_name("very-slow", "127.0.0.1", 2);
  std::atomic<bool> cancelled{false};
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cancelled = true;
  });
  const Deadline soon = Deadline::after(1.5);
  const auto found = known_place("very-slow:1", "j")->look(Deadline().unless(cancelled));
  EXPECT_FALSE(soon.expired());
  EXPECT_EQ(found.status().code(), Code::timeout) << found.status().to_string();
  other.join();
}

// The address that others connect to is another one than that of the chosen interface.
TEST(Place, RankZeroIsFoundByItsNameWhateverInterfaceIsChosen) {
  Environment env;
  env.set("WEFT_SOCKET_IFNAME", "=lo");
  const std::vector<Interface> all = list_interfaces("").take();
  if (all.front().loopback || all.front().address.is_link_local())
    GTEST_SKIP() << "needs an interface beside loopback";
  std::string address = all.front().address.to_string();
  address.resize(address.rfind(':'));
  std::erase_if(address, [](char c) { return c == '[' || c == ']'; });
  set_name("node0", address);
  const int port = test::free_port();
  for (const std::string& said :
       test::run(test::Mode::threads, 2, [&](Rank r) { return meet("node0", port, r, env); }))
    EXPECT_EQ(said, "ok: 0,1");
}

TEST(Place, ListensOnTheChosenInterfaceAloneWhereThatIsFound) {
  set_name("this-host", "127.0.1.1");  // as some systems call themselves
  for (const char* host : {"this-host", "another.invalid"}) {
    const int port = test::free_port();
    const auto listener = listen_at(concat(host, ":", port), "=lo");
    ASSERT_TRUE(listener.ok()) << listener.status().to_string();
    EXPECT_EQ(local_address(*listener)->to_string(), concat("127.0.0.1:", port));
  }
}

TEST(Place, ListensEverywhereWhereThatIsSaid) {
  for (const char* everywhere : {"0.0.0.0", "[::]"}) {
    const std::string target = concat(everywhere, ":", test::free_port());
    const auto listener = listen_at(target, "=lo");
    ASSERT_TRUE(listener.ok()) << listener.status().to_string();
    EXPECT_EQ(local_address(*listener)->to_string(), target);
  }
}

// Says the same addresses in another order each time.
class Shuffled final : public Announcement {
 public:
  explicit Shuffled(Place place) : place_(std::move(place)) {}
  Result<std::optional<Place>> look(const Deadline&) override {
    std::swap(place_.addresses.front(), place_.addresses.back());
    return std::optional(place_);
  }

 private:
  Place place_;
};

TEST(Place, AnAttemptGoesOnAsLongAsItsAddressIsKnown) {
  const Fd silent = listen_on(*SocketAddress::parse("127.0.0.1:0")).take();
  const SocketAddress nobody = *SocketAddress::parse(concat("127.0.0.1:", test::free_port()));
  const auto client = make_store_client(
      {1, 2, "j", {}}, std::make_unique<Shuffled>(Place{{*local_address(silent), nobody}, "j"}));
  const std::string said = describe(client->all_gather("1", Deadline::after(0.5)));
  EXPECT_TRUE(contains(said, "accepted the connection but does not answer")) << said;
  int calls = 0;
  while (accept_from(silent)->valid()) ++calls;
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace weft
