#include "tools/study.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "tools/schedule_tool.h"

namespace weft {
namespace {

Simulated of(double seconds) {
  Simulated simulated;
  simulated.seconds = seconds;
  return simulated;
}

// Times in microseconds of four algorithms at 8 and 1,000,008 bytes, for one count of ranks.
Study study_of(const std::vector<std::pair<double, double>>& times) {
  Study study;
  study.ranks = {4};
  study.bytes = {8, 1'000'008};
  study.network.name = "net";
  for (size_t i = 0; i < times.size(); ++i) study.algorithms.push_back(&catalog()[i]);
  for (const int64_t bytes : study.bytes) {
    Study::Row& row = study.rows.emplace_back();
    row.ranks = 4;
    row.bytes = bytes;
    row.bound_s = bytes == 8 ? 1e-6 : 11e-6;
    for (const auto& [small, large] : times)
      row.cells.push_back({of((bytes == 8 ? small : large) * 1e-6), ""});
  }
  return study;
}

std::vector<const Curve*> with(const Panel& panel, Curve::Style style) {
  std::vector<const Curve*> curves;
  for (const Curve& curve : panel.curves)
    if (curve.style == style) curves.push_back(&curve);
  return curves;
}

TEST(StudyChart, TimesAndTheirBound) {
  Study study = study_of({{2, 100}, {5, 50}});
  study.rows[1].cells[0] = {{}, "why not"};
  const Chart chart = chart_of(study);
  ASSERT_EQ(chart.panels.size(), 2u);
  const Panel& times = chart.panels[0];
  ASSERT_EQ(times.curves.size(), 3u);
  EXPECT_EQ(times.curves[0].name, catalog()[0].name);
  ASSERT_EQ(times.curves[0].spots.size(), 1u);
  EXPECT_DOUBLE_EQ(times.curves[1].spots[1].y, 50);
  EXPECT_EQ(times.curves[2].style, Curve::Style::bound);
  EXPECT_DOUBLE_EQ(times.curves[2].spots[1].y, 11);
  // What has no time for the largest message has no beta.
  EXPECT_EQ(with(chart.panels[1], Curve::Style::points).size(), 1u);
}

TEST(StudyChart, NamesThoseThatNothingIsBetterThanInBoth) {
  // The third is worse than the second in both, the fourth as good in alpha only.
  const Chart chart = chart_of(study_of({{10, 20}, {2, 102}, {3, 203}, {10, 30}}));
  const Panel& pareto = chart.panels[1];
  EXPECT_EQ(with(pareto, Curve::Style::points).size(), 4u);
  const auto best = with(pareto, Curve::Style::labels);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0]->name, catalog()[1].name);
  EXPECT_EQ(best[1]->name, catalog()[0].name);
  EXPECT_DOUBLE_EQ(best[0]->spots[0].x, 2);
  EXPECT_NEAR(best[0]->spots[0].y, 100, 1e-9);
  const auto steps = with(pareto, Curve::Style::frontier);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0]->spots.size(), 2u);
  const auto bound = with(pareto, Curve::Style::bound);
  ASSERT_EQ(bound.size(), 1u);
  EXPECT_NEAR(bound[0]->spots[0].y, 10, 1e-9);
}

TEST(StudyChart, AColumnForEveryCountOfRanks) {
  Study study = study_of({{2, 100}});
  study.ranks = {4, 8};
  const std::vector<Study::Row> rows = study.rows;
  for (Study::Row row : rows) {
    row.ranks = 8;
    row.cells[0].found->seconds *= 2;
    study.rows.push_back(row);
  }
  const Chart chart = chart_of(study);
  EXPECT_EQ(chart.columns, 2);
  ASSERT_EQ(chart.panels.size(), 4u);
  EXPECT_EQ(chart.panels[1].title, "8 ranks");
  EXPECT_DOUBLE_EQ(chart.panels[1].curves[0].spots[0].y, 4);
}

// What is wrong has no price, whoever wrote it.
TEST(Study, AlgorithmsOfOnesOwnAreProvenFirst) {
  Algorithm own = *find_algorithm("ring");
  own.name = "mine";
  const auto simulate = [&] {
    std::vector<std::string> words{"weft-schedule", "simulate", "--algorithm", "mine",
                                   "--ranks",       "64",       "--bytes",     "1K"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    return schedule_tool(static_cast<int>(argv.size()), argv.data(), std::span(&own, 1));
  };
  testing::internal::CaptureStdout();
  EXPECT_EQ(simulate(), 0);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("mine"), std::string::npos);
  own.build = [](const Collective& c, Rank me, const Parameters& parameters) {
    Program program = find_algorithm("ring")->build(c, me, parameters);
    if (c.ranks > 1) program.lanes[0].steps.back().targets.clear();
    return program;
  };
  testing::internal::CaptureStderr();
  EXPECT_EQ(simulate(), 2);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("mine all_reduce of 2 ranks"), std::string::npos) << told;
}

}  // namespace
}  // namespace weft
