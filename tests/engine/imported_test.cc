// Algorithms as files: they come back as they were written, and what cannot run is refused with its
// place.
#include "engine/algorithms/imported.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "base/files.h"
#include "engine/schedule/json.h"
#include "tests/engine/schedule/samples.h"

namespace weft {
namespace {

constexpr int kSlots[] = {2, 3};

Result<ScheduleFile> import(const ScheduleFile& file) {
  return import_schedules(to_json(file), "some/where/my.json");
}

// Everything that an algorithm serves with so many ranks, as a file can hold it.
ScheduleFile everything(const Algorithm& algorithm, int ranks) {
  ScheduleFile file{std::string(algorithm.name), std::string(algorithm.summary), {}};
  for (int k = 0; k < kKinds; ++k)
    for (Rank root = 0; root < (has_root(static_cast<Kind>(k)) ? ranks : 1); ++root) {
      const Collective c{static_cast<Kind>(k), ranks, root, false};
      if (!algorithm.suits(c)) continue;
      file.schedules.push_back(schedule_of(algorithm, c, {}));
      Collective in_place = c;
      in_place.in_place = true;
      if (!has_root(c.kind) && algorithm.suits(in_place))
        file.schedules.push_back(schedule_of(algorithm, in_place, {}));
    }
  return file;
}

TEST(Imported, EverythingBuiltInComesBackAndServesTheSame) {
  int collectives = 0;
  for (const Algorithm& built_in : catalog())
    for (const int ranks : {1, 2, 3, 4, 5, 8}) {
      const ScheduleFile file = everything(built_in, ranks);
      if (file.schedules.empty() || built_in.registered || built_in.readable) continue;
      const Result<ScheduleFile> back = import(file);
      ASSERT_TRUE(back.ok()) << back.status().message();
      ASSERT_EQ(*back, file) << built_in.name << " of " << ranks;
      const Algorithm again = imported(std::make_shared<const ScheduleFile>(*back), Evidence());
      EXPECT_EQ(again.name, built_in.name);
      EXPECT_EQ(again.windows, built_in.windows && ranks > 1) << built_in.name << " of " << ranks;
      for (const Schedule& schedule : file.schedules) {
        ASSERT_TRUE(again.suits(schedule.collective));
        EXPECT_EQ(schedule_of(again, schedule.collective, {}), schedule);
        ++collectives;
      }
    }
  EXPECT_GT(collectives, 500);
}

TEST(Imported, WhatIsProvenOfBuiltInsIsWhatTheyClaim) {
  for (const Algorithm& built_in : catalog()) {
    if (built_in.name == "exchange" || built_in.readable) continue;
    const ScheduleFile file = everything(built_in, 4);
    const Result<Evidence> evidence = prove(file, 0, kSlots);
    if (file.schedules.empty()) continue;
    ASSERT_TRUE(evidence.ok()) << evidence.status().message();
    EXPECT_TRUE(evidence->canonical || !built_in.canonical) << built_in.name;
    EXPECT_EQ(evidence->lines, built_in.lines || built_in.registered) << built_in.name;
  }
}

TEST(Imported, OneScheduleServesBothFormsWhereItIsProvenForBoth) {
  const Algorithm& pairwise = *find_algorithm("pairwise");
  const Collective apart{Kind::all_to_all, 3, 0, false}, within{Kind::all_to_all, 3, 0, true};
  const Collective sum{Kind::all_reduce, 3, 0, false}, sum_within{Kind::all_reduce, 3, 0, true};
  auto file = std::make_shared<ScheduleFile>();
  file->name = "two";
  file->schedules = {schedule_of(pairwise, apart, {}),
                     schedule_of(*find_algorithm("ring"), sum, {})};
  const Result<Evidence> evidence = prove(*file, 0, kSlots);
  ASSERT_TRUE(evidence.ok()) << evidence.status().message();
  EXPECT_EQ(evidence->also_in_place, std::vector<int>{1});
  const Algorithm algorithm = imported(file, *evidence);
  EXPECT_TRUE(algorithm.suits(sum_within));
  EXPECT_EQ(algorithm.build(sum_within, 1, {}), file->schedules[1].programs[1]);
  EXPECT_TRUE(algorithm.suits(apart));
  EXPECT_FALSE(algorithm.suits(within));
  EXPECT_FALSE(algorithm.suits({Kind::all_reduce, 4, 0, false}));

  file->schedules.push_back(schedule_of(pairwise, within, {}));
  const Result<Evidence> more = prove(*file, 3, kSlots);
  ASSERT_TRUE(more.ok()) << more.status().message();
  EXPECT_EQ(schedule_of(imported(file, *more), within, {}), file->schedules[2]);
}

TEST(Imported, AScheduleByItselfIsNamedAfterItsFile) {
  const Schedule chain = samples::chain_broadcast(3);
  const Result<ScheduleFile> file = import_schedules(to_json(chain), "/a.b/my chain.v2.json");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->name, "my_chain_v2");
  EXPECT_EQ(file->schedules, std::vector<Schedule>{chain});
  EXPECT_EQ(list_served(*file), "broadcast of 3 ranks");
}

TEST(Imported, SaysWhichCallsAFileServesInPlaceOnly) {
  const Algorithm& ring = *find_algorithm("ring");
  ScheduleFile file;
  for (const auto& [ranks, in_place] : {std::pair{2, false}, {2, true}, {3, true}})
    file.schedules.push_back(schedule_of(ring, {Kind::all_gather, ranks, 0, in_place}, {}));
  EXPECT_EQ(list_served(file), "all_gather of 2 ranks; all_gather of 3 ranks, in place only");
}

// The complaint about a file with these schedules: when it is read, or else when it is proven.
std::string complaint(std::vector<Schedule> schedules) {
  const Result<ScheduleFile> file = import({"bad", "", std::move(schedules)});
  if (!file.ok()) return std::string(file.status().message());
  const Result<Evidence> evidence = prove(*file, 0, kSlots);
  return evidence.ok() ? "" : std::string(evidence.status().message());
}

void expect_refused(std::vector<Schedule> schedules, const std::vector<const char*>& words) {
  const std::string text = complaint(std::move(schedules));
  EXPECT_NE(text, "") << "it is not refused: " << words[0];
  for (const char* word : words) EXPECT_NE(text.find(word), std::string::npos) << text;
}

Schedule ring(int ranks) {
  return schedule_of(*find_algorithm("ring"), {Kind::all_reduce, ranks, 0, false}, {});
}

TEST(Imported, WhatCannotBeRightIsRefusedWithLaneAndStep) {
  ASSERT_EQ(complaint({ring(3)}), "");
  Schedule s = ring(3);  // all receive before they send
  for (Program& p : s.programs) std::swap(p.lanes[0].steps[0], p.lanes[0].steps[1]);
  expect_refused({s}, {"all_reduce of 3 ranks", "Deadlock", "rank 0, lane 0, step 0"});

  s = samples::window_all_reduce(3);  // one reads before the other has written
  s.programs[1].lanes[0].steps[1].waits.clear();
  expect_refused({s}, {"rank 1, lane 0, step 1", "all_reduce of 3 ranks (with"});

  s = ring(3);  // computes something else
  s.programs[2].lanes[0].steps[1].sources.clear();
  expect_refused({s}, {"lane 0, step", "is wrong in round 0", "the input of rank"});

  s = ring(3);
  s.programs[1].lanes[0].steps[0].to.peer = 7;
  expect_refused({s}, {"rank 1, lane 0, step 0", "rank 7, which is not there"});

  s = samples::window_all_reduce(3);  // the next call that waits for the cell would not wait
  s.programs[2].lanes[0].steps[0].post(0, 1);
  expect_refused({s}, {"rank 2, lane 0, step 0", "cell 1 of rank 0, which no step of that rank"});

  s = samples::window_all_reduce(2);
  s.programs[1].lanes[0].steps[1].waits[0].lag = 100000;
  expect_refused({s}, {"rank 1, lane 0, step 1", "lag 100000"});
}

// Right out of place, but rank 0 changes what it still has to send where both are one buffer.
TEST(Imported, WithARootInPlaceHasToBeRightToo) {
  Schedule s = samples::chain_broadcast(2);
  s.collective.kind = Kind::reduce;
  s.programs[0].lanes[0].steps.clear();
  s.programs[1].lanes[0].steps.clear();
  Lane& root = s.programs[0].lanes[0];
  root.step(0).recv({1, 0}).read(input()).write(output()).finished();
  root.step(0).read(input()).send({1, 0});
  Lane& leaf = s.programs[1].lanes[0];
  leaf.step(0).read(input()).send({0, 0});
  leaf.step(0).recv({0, 0});
  expect_refused({s}, {"reduce of 2 ranks, root 0, in place", "rank 0, lane 0, step"});
  root.steps.pop_back();
  leaf.steps.pop_back();
  EXPECT_EQ(complaint({s}), "");
}

TEST(Imported, WhatExecutorsCannotDoIsRefusedWithLaneAndStep) {
  expect_refused({samples::zero_copy_reduce(3)},
                 {"my.json: reduce of 3 ranks, root 0: rank 0, lane 0, step 0", "rank 1's input"});
  Schedule many = samples::window_all_reduce(2);
  for (int i = 0; i < 63; ++i) many.programs[1].lanes[0].steps[1].read(window(0, 0));
  expect_refused({many}, {"rank 1, lane 0, step 1", "folds 65 values"});
  Schedule far = samples::chain_broadcast(2);
  far.programs[0].lanes[0].steps[0].to.id = far.programs[1].lanes[0].steps[0].from.id = 1 << 19;
  expect_refused({far}, {"rank 0, lane 0, step 0", "link number 524288 is too large"});
}

TEST(Imported, WindowsAreRefusedWhereExecutorsCannotUseThem) {
  Schedule s = samples::window_all_reduce(2);  // its last step also talks over a link
  s.programs[0].lanes[0].steps[1].send({1, 0});
  s.programs[1].lanes[0].steps[1].recv({0, 0});
  expect_refused({s}, {"rank 0, lane 0, step 1", "one of both"});
  s = samples::chain_broadcast(2);
  s.programs[0].lanes[0].steps[0].post(1, 0);
  s.programs[1].lanes[0].steps[0].wait(0, 0);
  expect_refused({s}, {"rank 0, lane 0, step 0", "there are no window slots"});
  s = samples::window_all_reduce(2);
  s.programs[1].lanes[0].steps[0].posts[0].cell = s.programs[0].lanes[0].steps[1].waits[0].cell =
      16;
  expect_refused({s}, {"rank 0, lane 0, step 1", "there is no cell 16"});
  s.programs[0].scratch_slots = 1 << 20;
  expect_refused({s}, {"rank 0 has 1048576 scratch slots"});
}

// In a window "rank" may be left out where it is the rank's own, and elsewhere it may be given.
TEST(Imported, OperandsNameTheRankOfAWindowOnly) {
  const Schedule good = samples::window_all_reduce(3);
  Schedule s = good;
  for (Rank r = 0; r < 3; ++r) {
    Lane& lane = s.programs[r].lanes[0];
    lane.steps[0].targets[0].rank = -1;
    lane.steps[0].sources[0].rank = lane.steps[1].targets[0].rank = r;
  }
  const Result<ScheduleFile> file = import({"own", "", {s}});
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->schedules[0], good);
}

TEST(Imported, WhatServesACallTwiceIsRefused) {
  expect_refused({ring(3), ring(2), ring(3)}, {"my.json", "two schedules for all_reduce of 3"});
  Schedule s = samples::chain_broadcast(2);
  s.collective.in_place = true;
  expect_refused({s}, {"broadcast of 2 ranks, root 0, in place", "leave \"in_place\" out"});
}

TEST(Imported, WhatNoProofCouldFinishIsRefused) {
  Schedule s = samples::window_all_reduce(2);
  for (Program& p : s.programs) p.window_slots = 1 << 20, p.window_halves = 1024;
  expect_refused({s}, {"too large to be verified", "chunks, slots or halves"});
  s = samples::chain_broadcast(2);
  for (Program& p : s.programs) {
    p.pieces = 64;
    p.window_halves = p.copies = 1024;
    p.lanes[0].steps[0].repeat(64, 1);
  }
  expect_refused({s}, {"too large to be verified"});
}

TEST(Imported, FilesThatAreNoAlgorithmAreRefused) {
  struct Case {
    const char* text;
    const char* expected;
  };
  const Case cases[] = {
      {"", "my.json: The schedule is not JSON"},
      {"{\"schedules\": 3}", "at name: it is missing"},
      {"{\"name\": \"a\", \"schedules\": 3}", "at schedules: a list is expected"},
      {"{\"name\": \"a\", \"schedules\": []}", "at schedules: there is none"},
      {"{\"name\": \"a b\", \"schedules\": []}", "at name: a name has 1 to 64 letters"},
      {"{\"name\": \"a\", \"schedule\": [], \"schedules\": [{}]}", "at schedule: there is no such"},
      {"{\"name\": \"a\", \"schedules\": [{}]}", "at schedules[0].collective: it is missing"},
      {"{\"name\": \"a\", \"schedules\": [7]}", "at schedules[0]: an object is expected"},
  };
  for (const Case& c : cases) {
    const Result<ScheduleFile> file = import_schedules(c.text, "my.json");
    ASSERT_FALSE(file.ok()) << c.text;
    EXPECT_NE(file.status().message().find(c.expected), std::string::npos)
        << file.status().message() << "\nshould have: " << c.expected;
  }
}

TEST(Imported, FilesThatCannotBeReadAreNamed) {
  EXPECT_NE(read_text("/nowhere/my.json").status().message().find("/nowhere/my.json"),
            std::string::npos);
  EXPECT_FALSE(read_text("/").ok());
  EXPECT_TRUE(names_file("my.json"));
  EXPECT_FALSE(names_file("ring"));
}

}  // namespace
}  // namespace weft
