// What ranks tell each other while they make a communicator, right and wrong.
#include "engine/greeting.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_object.h"
#include "base/random.h"
#include "base/text.h"

namespace weft {
namespace {

Greeting greeting(const std::string& host) {
  Greeting g;
  g.host = host;
  g.cpus = {0, 1};
  g.name = random_name();
  g.options = shared_options(Options());
  return g;
}

std::string replaced(std::string text, std::string_view old, std::string_view with) {
  const size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old << " is not in " << text;
  return at == std::string::npos ? text : text.replace(at, old.size(), with);
}

Status greet(const std::string& rank_1) {
  return read_greetings({to_text(greeting("a")), rank_1}, "my.json").status();
}
Status introduce(const std::string& rank_1) {
  return read_introductions({R"({"addresses":{}})", rank_1}).status();
}

void expect_refused(const Status& status, std::string_view words) {
  EXPECT_EQ(status.code(), Code::mismatch) << words;
  EXPECT_EQ(status.peer(), 1) << words;
  EXPECT_NE(status.message().find("rank 1 "), std::string_view::npos) << status.to_string();
  EXPECT_NE(status.message().find(words), std::string_view::npos) << status.to_string();
}

TEST(Greetings, ComeBackAsTheyWent) {
  Greeting first = greeting("a \xff"), second = greeting("b");
  first.tuning = R"({"a": [1]})";
  first.file = second.file = "17";
  first.device = second.device_named = true;
  second.no_device = "it is \xfe full";
  second.machine = "8e1f";
  const auto read = read_greetings({to_text(first), to_text(second), to_text(second)}, "my.json");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ((*read)[0].tuning, first.tuning);
  EXPECT_EQ((*read)[1].host, "b");
  EXPECT_EQ((*read)[1].machine, second.machine);
  EXPECT_EQ((*read)[1].name, second.name);
  EXPECT_EQ((*read)[2].options, second.options);
  EXPECT_TRUE((*read)[0].device && !(*read)[0].device_named);
  EXPECT_TRUE(!(*read)[1].device && (*read)[1].device_named);
  EXPECT_TRUE((*read)[1].no_device.ends_with(" full")) << (*read)[1].no_device;
  EXPECT_EQ(number_hosts(*read), (std::vector<int>{0, 1, 1}));
  EXPECT_EQ((*read)[2].cpus, second.cpus);
}

TEST(Greetings, TellWhetherAHostsRanksShareCpus) {
  std::vector<Greeting> all{greeting("a"), greeting("b"), greeting("a"), greeting("a")};
  all[0].cpus = {0, 1, 2};
  all[1].cpus = {0, 1, 2, 3, 4};
  all[2].cpus = {2, 70};
  all[3].cpus = {};
  EXPECT_FALSE(shares_cpus(all, 0)) << "three ranks, four CPUs";
  all[2].cpus = {2};
  EXPECT_FALSE(shares_cpus(all, 3));
  all[0].cpus = {1, 2};
  EXPECT_TRUE(shares_cpus(all, 0)) << "three ranks, two CPUs";
  EXPECT_TRUE(shares_cpus(all, 3));
  EXPECT_FALSE(shares_cpus(all, 1)) << "a host of its own";
}

TEST(Greetings, HostsOfOneMachineShareItsCpus) {
  std::vector<Greeting> all{greeting("a"), greeting("b"), greeting("c"), greeting("c")};
  for (Greeting& each : all) each.machine = "m";
  EXPECT_TRUE(shares_cpus(all, 0)) << "four ranks, two CPUs";
  all[1].cpus = {2, 3};
  EXPECT_FALSE(shares_cpus(all, 0)) << "containers with CPUs of their own";
  all[1].machine = "n";
  EXPECT_TRUE(shares_cpus(all, 3));
  EXPECT_FALSE(shares_cpus(all, 1));
}

// They lease space in windows by it.
TEST(Greetings, RanksOfAHostFindTheSameAlsoWhereOneKnowsNoMachine) {
  std::vector<Greeting> all{greeting("a"), greeting("a"), greeting("b")};
  all[1].machine = all[2].machine = "m";
  EXPECT_TRUE(shares_cpus(all, 0)) << "three ranks of m, two CPUs";
  EXPECT_TRUE(shares_cpus(all, 1));
  all[0].machine = "virtual";
  EXPECT_EQ(shares_cpus(all, 0), shares_cpus(all, 1));
}

TEST(Greetings, ThatDifferAreRefused) {
  Options options;
  options.lanes = 3;
  Greeting other = greeting("a");
  other.options = shared_options(options);
  expect_refused(greet(to_text(other)), "differ in option lanes: 0 and 3");
  other.options = replaced(greeting("a").options, "\"radix\"", "\"xidar\"");
  expect_refused(greet(to_text(other)), "differ in option radix: 0 and nothing");
  other.options = replaced(greeting("a").options, "}", ",\"zeal\":7}");
  expect_refused(greet(to_text(other)), "rank 1 has some that rank 0 does not know");
  for (const char* text : {"", "7", "[]", "{", "{}"}) {
    other.options = text;
    expect_refused(greet(to_text(other)), "differ in option algorithm: \"auto\" and nothing");
  }
  other = greeting("a");
  other.file = "17";
  expect_refused(greet(to_text(other)), "read different algorithms from my.json");
  expect_refused(greet(R"({"version": 77, "host": []})"), "run different versions");
}

TEST(Greetings, WithAnErrorNameIt) {
  Greeting other = greeting("a");
  other.options = "{}";
  other.error = "cannot use its tuning: " + std::string(100'000, 'x');
  const Status status = greet(to_text(other));
  EXPECT_EQ(status.peer(), 1);
  EXPECT_TRUE(status.message().starts_with("rank 1 cannot use its tuning: xxx"))
      << status.message();
  EXPECT_LT(status.message().size(), 10'000u);
}

// A rendezvous refuses them on one rank alone.
TEST(Greetings, ThatAreTooLongBecomeAnError) {
  Greeting other = greeting("a");
  other.tuning = std::string(100'000, '"');
  EXPECT_LE(to_text(other).size(), 64u << 10);
  EXPECT_TRUE(
      greet(to_text(other)).message().starts_with("rank 1 cannot tell what it has to: 200"));
  Introduction introduction;
  introduction.addresses["tcp"] = std::string(70'000, 'x');
  EXPECT_LE(to_text(introduction).size(), 64u << 10);
  EXPECT_EQ(introduce(to_text(introduction)).peer(), 1);
}

// Every field, with a value of every other kind.
TEST(Greetings, OfAnotherTypeAreRefusedAndTheRankNamed) {
  Greeting full = greeting("a");
  full.file = full.tuning = "x";
  const std::string good = to_text(full);
  for (const std::string value : {"1", "[]", "{\"a\":{}}", "null", "1e300", "[[[{}]]]"}) {
    for (const std::string& text :
         {replaced(good, "\"a\"", value), replaced(good, "\"x\"", value),
          replaced(good, concat("\"", full.name, "\""), value),
          replaced(good, json_text(nlohmann::json(full.options)), value), value})
      expect_refused(greet(text), "all ranks must run the same version of weft");
    if (value != "1")
      expect_refused(greet(replaced(good, "\"version\":12", concat("\"version\":", value))),
                     "not a weft greeting");
  }
  for (const char* text :
       {"", "{", "{}", "\"\"", R"({"version":12})", R"({"version":12,"host":"a"})"})
    expect_refused(greet(text), "not a weft greeting");
  expect_refused(greet(std::string(60'000, '[')), "more than 64 deep");
}

TEST(Greetings, TellTheCpusAsAList) {
  const std::string good = to_text(greeting("a"));
  for (const char* value : {"\"\"1", "\"0-\"", "\"1,0\"", "[0]", "\"0-99999999\""})
    expect_refused(greet(replaced(good, "\"0-1\"", value)), "not a weft greeting");
}

// It becomes part of a dump's path.
TEST(Greetings, NameTheCommunicatorByAName) {
  Greeting other = greeting("a");
  for (const std::string& name :
       {std::string(), std::string("../../etc"), std::string(31, 'a'), std::string(33, 'a'),
        std::string(32, '/'), std::string(32, 'A'), std::string(32, '\0')}) {
    other.name = name;
    expect_refused(greet(to_text(other)), "at name: 32 hexadecimal digits");
  }
}

TEST(Introductions, ComeBackAsTheyWent) {
  Introduction one;
  one.addresses = {{"shm", "here"}, {"tcp", "there"}};
  one.algorithm = "{}";
  const auto read = read_introductions({to_text(one), to_text(Introduction())});
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ((*read)[0].addresses, one.addresses);
  EXPECT_EQ((*read)[0].algorithm, "{}");
  EXPECT_TRUE((*read)[1].addresses.empty());
  one.error = "no memory";
  EXPECT_EQ(introduce(to_text(one)).message(), "rank 1: no memory");
  EXPECT_EQ(introduce(to_text(one)).peer(), 1);
}

TEST(Introductions, OfAnotherTypeAreRefusedAndTheRankNamed) {
  for (const char* text : {"", "7", "[]", "{}", R"({"addresses":[]})", R"({"addresses":{"tcp":1}})",
                           R"({"addresses":{"tcp":{"a":"b"}}})", R"({"addresses":{},"error":1})",
                           R"({"addresses":{},"algorithm":{}})"})
    expect_refused(introduce(text), "not a weft greeting");
}

}  // namespace
}  // namespace weft
