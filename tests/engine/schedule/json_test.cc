#include "engine/schedule/json.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/algorithms/algorithm.h"
#include "tests/engine/schedule/samples.h"

namespace weft {
namespace {

TEST(Json, EverythingInTheCatalogComesBackAsItWas) {
  for (const Algorithm& algorithm : catalog()) {
    for (int kind = 0; kind < kKinds; ++kind) {
      for (const int n : {1, 2, 3, 5, 8}) {
        const Collective c{static_cast<Kind>(kind), n, 0, n % 2 == 0};
        if (!algorithm.suits(c)) continue;
        Schedule schedule = schedule_of(algorithm, c, {});
        if (n == 5)
          for (Program& p : schedule.programs) p = replicate(p, 2);
        const Result<Schedule> back = from_json(to_json(schedule));
        ASSERT_TRUE(back.ok()) << back.status().message();
        EXPECT_EQ(*back, schedule) << algorithm.name << ' ' << name(c.kind) << " of " << n;
      }
    }
  }
}

TEST(Json, MessagesOfSeveralChunksComeBack) {
  const Schedule s = samples::doubling_all_gather(4);
  const Result<Schedule> back = from_json(to_json(s));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, s);
}

TEST(Json, PeersMemoryAndLagsComeBack) {
  Schedule s = samples::zero_copy_reduce(3);
  s.programs[1].lanes[0].steps[1].waits[0].lag = 2;
  const Result<Schedule> back = from_json(to_json(s));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, s);
}

std::string replaced(std::string text, const std::string& old, const std::string& with) {
  const size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old << " is not in " << text;
  return at == std::string::npos ? text : text.replace(at, old.size(), with);
}

struct Case {
  const char* old;
  const char* with;
  const char* expected;
};

TEST(Json, SaysWhereTheInputIsWrong) {
  const std::string good = to_json(samples::chain_broadcast(2));
  const Case cases[] = {
      {"\"pieces\"", "\"peices\"",
       "at peices: there is no such field; known are collective, pieces"},
      {"\"chunk\"", "\"chunks\"",
       "at programs[0].lanes[0].steps[0].chunks: there is no such field"},
      {"\"chunk\":0,", "", "at programs[0].lanes[0].steps[0].chunk: it is missing"},
      {"\"chunk\":0", "\"chunk\":\"0\"", "steps[0].chunk: a whole number is expected"},
      {"\"chunk\":0", "\"chunk\":0.5", "steps[0].chunk: a whole number is expected"},
      {"\"chunk\":0", "\"chunk\":99999999999", "99999999999 is not between 0 and 2147483647"},
      {"\"chunk\":0", "\"chunk\":-1", "-1 is not between 0 and 2147483647"},
      {"\"peer\":1", "\"peer\":5",
       "rank 0, lane 0, step 0 (copy_send of chunk 0): it sends to rank 5, "
       "which is not there"},
      {"\"peer\":1,", "", "steps[0].to.peer: it is missing"},
      {"\"buffer\":\"input\"", "\"buffer\":\"imput\"", "\"imput\" is no buffer"},
      {"\"kind\":\"broadcast\"", "\"kind\":\"broadcost\"", "\"broadcost\" is no collective"},
      {"\"ranks\":2", "\"ranks\":3", "There are 2 programs for 3 ranks."},
      {"\"root\":0", "\"root\":2", "Root 2 is not possible for broadcast of 2 ranks."},
      {"\"in_place\":false", "\"in_place\":0", "collective.in_place: true or false is expected"},
      {"\"sources\":[{\"buffer\":\"input\"}]", "\"sources\":{}", "sources: a list is expected"},
      {"\"copies\": 1", "\"copies\": 0", "0 is not between 1 and 2147483647"},
      {"\"chunk\":0", "\"chunk\":1,\"chunk\":0", "has \"chunk\" twice in one object"},
      {"{", "[", "The schedule is not JSON: "},
  };
  ASSERT_TRUE(from_json(good).ok());
  for (const Case& c : cases) {
    const Result<Schedule> read = from_json(replaced(good, c.old, c.with));
    ASSERT_FALSE(read.ok()) << c.with;
    EXPECT_NE(read.status().message().find(c.expected), std::string::npos)
        << read.status().message() << "\nshould have: " << c.expected;
  }
}

TEST(Json, AFileSaysWhichOfItsFieldsIsUnknown) {
  const Status misspelt = file_from_json(R"({"name": "a", "scheduels": []})", "a").status();
  EXPECT_NE(misspelt.message().find("at scheduels: there is no such field; known are name"),
            std::string::npos)
      << misspelt.message();
}

TEST(Json, NonsenseIsNoSchedule) {
  for (const char* text : {"", "null", "[]", "3", "{}", "{\"collective\":{},\"programs\":[]}",
                           "{\"collective\":{\"kind\":\"barrier\",\"ranks\":1},\"programs\":[7]}"})
    EXPECT_FALSE(from_json(text).ok()) << text;
  const Status deep = from_json(std::string(1'000'000, '[')).status();
  EXPECT_NE(deep.message().find("more than 64 deep"), std::string::npos) << deep.message();
}

}  // namespace
}  // namespace weft
