#include "bench/comparison.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/text.h"
#include "bench/comparison_report.h"
#include "bench/plot.h"

namespace weft::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string row(size_t bytes, double time_us, int wrong = 0, double floor_us = 0,
                const char* collective = "all_reduce") {
  const Json figure = {{"time_us", time_us}, {"wrong", wrong}, {"touched", 0}};
  return Json{{"row",
               {{"collective", collective},
                {"size_bytes", bytes},
                {"type", "float32"},
                {"op", "sum"},
                {"root", nullptr},
                {"out_of_place", figure},
                {"in_place", nullptr},
                {"algorithm", "ring"},
                {"protocol", "simple"},
                {"floor_us", floor_us > 0 ? Json(floor_us) : Json(nullptr)}}}}
      .dump();
}

Comparison of_three() {
  std::vector<Library> libraries(3);
  libraries[0].name = "weft";
  libraries[1].name = "one";
  libraries[2].name = "two";
  return {libraries, 2};
}

void add(Comparison& comparison, size_t library, const std::string& line, double hop_us = 0) {
  const Result<Said> said = comparison.add(library, line);
  ASSERT_TRUE(said.ok()) << said.status().to_string();
  EXPECT_EQ(*said, Said::row);
  EXPECT_EQ(*comparison.add(library, R"({"totals":{}})"), Said::totals);
  comparison.end_run(library, {hop_us, hop_us});
}

TEST(Summary, QuartilesLieBetweenTheNearestValues) {
  const Summary five = summarize({5, 1, 4, 2, 3});
  EXPECT_EQ(five.median, 3);
  EXPECT_EQ(five.low, 2);
  EXPECT_EQ(five.high, 4);
  EXPECT_DOUBLE_EQ(five.spread(), 2.0 / 3);
  const Summary two = summarize({10, 20});
  EXPECT_EQ(two.median, 15);
  EXPECT_EQ(two.low, 12.5);
  EXPECT_EQ(two.high, 17.5);
  EXPECT_EQ(summarize({7}).high, 7);
}

TEST(Summary, OneDisturbedRoundDoesNotShow) {
  const Summary s = summarize({1, 1, 1, 1, 1000});
  EXPECT_EQ(s.median, 1);
  EXPECT_EQ(s.spread(), 0);
}

TEST(Comparison, TheRatioIsTheBestPeersMedianOverWefts) {
  Comparison comparison = of_three();
  for (const double us : {1.0, 2.0, 90.0}) add(comparison, 0, row(64, us));
  for (const double us : {6.0, 6.0, 1.0}) add(comparison, 1, row(64, us));
  for (const double us : {5.0, 5.0, 9.0}) add(comparison, 2, row(64, us));
  ASSERT_EQ(comparison.lines().size(), 1u);
  const std::optional<Best> best = comparison.best_peer(comparison.lines()[0]);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->library, 2u);
  EXPECT_EQ(best->ratio, 2.5);
}

TEST(Comparison, WrongFiguresDoNotCount) {
  Comparison comparison = of_three();
  add(comparison, 0, row(64, 2));
  add(comparison, 1, row(64, 1));
  add(comparison, 1, row(64, 1, 3));
  add(comparison, 2, row(64, 8));
  EXPECT_TRUE(comparison.has_wrong(1));
  EXPECT_FALSE(comparison.has_wrong(2));
  EXPECT_EQ(comparison.best_peer(comparison.lines()[0])->ratio, 4);
  add(comparison, 0, row(64, 2, 1));
  EXPECT_FALSE(comparison.best_peer(comparison.lines()[0])) << "weft's own are wrong";
}

TEST(Comparison, TheFloorIsTheLeastOfWefts) {
  Comparison comparison = of_three();
  add(comparison, 0, row(64, 2, 0, 0.5));
  add(comparison, 0, row(64, 2, 0, 0.4));
  add(comparison, 0, row(64, 2));
  add(comparison, 1, row(64, 2, 0, 0.1));
  EXPECT_EQ(comparison.floor_us(comparison.lines()[0]), 0.4);
  EXPECT_EQ(comparison.lines()[0].algorithm, "ring/simple");
}

TEST(Comparison, FiguresOfARoundThatBreaksOffDoNotCount) {
  Comparison comparison = of_three();
  add(comparison, 0, row(64, 2));
  add(comparison, 1, row(64, 4));
  EXPECT_TRUE(comparison.add(1, row(64, 400)).ok());
  ASSERT_EQ(comparison.lines()[0].measured[1].times.size(), 1u);
  EXPECT_EQ(comparison.summary(comparison.lines()[0], 1)->median, 4);
}

TEST(Comparison, MessagesOfNoBytesAreNone) {
  Comparison comparison = of_three();
  add(comparison, 0, row(0, 1));
  EXPECT_TRUE(comparison.lines().empty());
  add(comparison, 0, row(0, 1, 0, 0, "barrier"));
  EXPECT_EQ(comparison.lines().size(), 1u) << "which never has any";
}

TEST(Comparison, SaysWhatALineWas) {
  Comparison comparison = of_three();
  EXPECT_EQ(*comparison.add(1, "mpirun: hello"), Said::remark);
  EXPECT_EQ(*comparison.add(1, R"({"run":{"library":"One 1.0"}})"), Said::run);
  EXPECT_EQ(comparison.libraries()[1].run["library"], "One 1.0");
  EXPECT_EQ(*comparison.add(1, R"({"totals":{"rows":0}})"), Said::totals);
  EXPECT_FALSE(comparison.has_figures(1));
}

TEST(Comparison, RefusesWhatIsNoResult) {
  for (const std::string& line : {
           std::string("{"),
           std::string("{}"),
           std::string(R"({"rows":[]})"),
           std::string(R"({"row":{}})"),
           std::string(R"({"row":{"collective":"all_reduce","size_bytes":-1}})"),
           std::string(R"({"row":{"collective":"all_reduce","size_bytes":64}})"),
           row(64, 0),
           row(64, -1),
       }) {
    Comparison comparison = of_three();
    const Result<Said> said = comparison.add(1, line);
    ASSERT_FALSE(said.ok()) << line;
    EXPECT_NE(said.status().message().find("printed"), std::string::npos)
        << said.status().message();
    EXPECT_FALSE(comparison.has_figures(1));
  }
}

Comparison filled() {
  Comparison comparison = of_three();
  add(comparison, 0, row(64, 2, 0, 0.5));
  add(comparison, 1, row(64, 1));
  add(comparison, 0, row(1024, 4, 0, 1.5));
  add(comparison, 1, row(1024, 16));
  add(comparison, 2, row(1024, 12, 5));
  comparison.libraries()[2].note = "left out";
  return comparison;
}

TEST(ComparisonReport, NamesRatiosAndWhatIsMissing) {
  RunInfo run;
  run.machine.cpu = "Some CPU";
  const std::string text = comparison_text(filled(), run);
  for (const char* part :
       {"all_reduce float32 sum, 2 ranks", "0.50  one", "4.00  one", "wrong",
        "geometric mean 1.41, least 0.50; weft is behind in 1 of 2 rows", "# two: left out"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(ComparisonReport, JsonHasEveryTime) {
  EXPECT_EQ(to_json(filled(), RunInfo(), false)["complete"], false);
  const Json json = to_json(filled(), RunInfo(), true);
  EXPECT_EQ(json["complete"], true);
  ASSERT_EQ(json["rows"].size(), 2u);
  EXPECT_EQ(json["rows"][1]["ratio"], 4.0);
  EXPECT_EQ(json["rows"][1]["best_peer"], "one");
  EXPECT_EQ(json["rows"][1]["floor_us"], 1.5);
  EXPECT_EQ(json["rows"][1]["libraries"]["weft"]["times_us"], Json::array({4.0}));
  EXPECT_EQ(json["rows"][1]["libraries"]["two"]["wrong"], true);
  EXPECT_FALSE(json["rows"][1]["libraries"]["two"].contains("median_us"));
  EXPECT_TRUE(json["rows"][0]["libraries"]["two"]["times_us"].empty());
}

TEST(ComparisonReport, WhatWasNotCheckedIsNotCalledRight) {
  RunInfo run;
  EXPECT_EQ(comparison_text(filled(), run).find("not checked"), std::string::npos);
  run.options.checks = 0;
  EXPECT_NE(comparison_text(filled(), run).find("; values not checked\n"), std::string::npos);
  EXPECT_TRUE(to_json(filled(), run, true)["rows"][0]["libraries"]["weft"]["wrong"].is_null());
}

TEST(Plot, ChartHasTimesFloorsAndGaps) {
  RunInfo run;
  run.machine.cpu = "Someone's CPU";
  const Chart chart = chart_of(filled(), run);
  EXPECT_NE(chart.title.find("Someone's CPU"), std::string::npos);
  ASSERT_EQ(chart.panels.size(), 2u);
  const Panel& times = chart.panels[0];
  ASSERT_EQ(times.curves.size(), 4u);
  EXPECT_EQ(times.curves[2].name, "two");
  EXPECT_EQ(times.curves[0].spots[0].y, 2);
  EXPECT_EQ(times.curves[1].spots[1].y, 16);
  EXPECT_TRUE(std::isnan(times.curves[2].spots[0].y));
  EXPECT_EQ(times.curves[3].spots[1].y, 1.5);
  const Panel& rates = chart.panels[1];
  EXPECT_DOUBLE_EQ(rates.curves[0].spots[0].y, 0.032);
  EXPECT_DOUBLE_EQ(rates.curves[3].spots[0].y, 0.128);
}

TEST(Plot, PlainResultsAreASweepEach) {
  RunInfo run;
  run.library = "weft 1";
  run.ranks.resize(4);
  run.options.engine.algorithm = "ring";
  std::vector<Row> rows;
  for (const Operation operation : {Operation::all_reduce, Operation::all_gather})
    for (const size_t bytes : {size_t{0}, size_t{8}, size_t{64}}) {
      Row& row = rows.emplace_back();
      row.what.operation = operation;
      row.bytes = bytes;
      row.out_of_place.emplace().time_us = 2.0 + static_cast<double>(bytes);
      if (bytes == 8) row.in_place.emplace().time_us = 3;
      if (bytes == 64) row.floor_us = 0.5;
    }
  const Chart chart = chart_of(rows, run);
  EXPECT_NE(chart.title.find("weft 1, ring"), std::string::npos);
  EXPECT_EQ(chart.columns, 2);
  ASSERT_EQ(chart.panels.size(), 4u);
  EXPECT_NE(chart.panels[1].title.find("all_gather float32, 4 ranks"), std::string::npos);
  const Panel& times = chart.panels[0];
  ASSERT_EQ(times.curves.size(), 3u);
  ASSERT_EQ(times.curves[0].spots.size(), 2u);
  EXPECT_EQ(times.curves[0].spots[1].y, 66);
  ASSERT_EQ(times.curves[1].spots.size(), 1u);
  EXPECT_EQ(times.curves[1].spots[0].x, 8);
  EXPECT_EQ(times.curves[2].spots[0].y, 0.5);
  EXPECT_DOUBLE_EQ(chart.panels[2].curves[0].spots[1].y, 64e-3 / 66 * 2 * 3 / 4);
}

// A picture as wide as all of them is more than can be drawn, or looked at.
TEST(Plot, ManySweepsAreInSeveralRows) {
  std::vector<Row> rows;
  for (int root = 0; root < 11; ++root) {
    Row& row = rows.emplace_back();
    row.what.operation = Operation::broadcast;
    row.what.root = root;
    row.bytes = 8;
    row.in_place.emplace().time_us = root + 1;
  }
  const Chart chart = chart_of(rows, RunInfo());
  EXPECT_EQ(chart.columns, 8);
  ASSERT_EQ(chart.panels.size(), 32u);
  const auto time_of = [&](size_t panel) { return chart.panels[panel].curves[1].spots[0].y; };
  EXPECT_EQ(time_of(7), 8);
  EXPECT_EQ(chart.panels[8].y.label, "busbw (GB/s)");
  EXPECT_EQ(time_of(16), 9);
  EXPECT_EQ(time_of(18), 11);
  EXPECT_TRUE(chart.panels[19].curves.empty());
  EXPECT_EQ(chart.panels[24].y.label, "busbw (GB/s)");
}

TEST(ComparisonReport, SaysWhereTheCoresWere) {
  Comparison comparison = of_three();
  comparison.libraries()[2].note = "skipped";
  RunInfo run;
  add(comparison, 0, row(64, 2), 0.05);
  add(comparison, 1, row(64, 1), 0.06);
  std::string text = comparison_text(comparison, run);
  EXPECT_NE(text.find("us: weft 0.05 to 0.05 (1 of 1 runs), one 0.06 to 0.06 (1 of 1 runs)\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("The cores moved"), std::string::npos);
  EXPECT_NE(text.find(" 1 rounds in turn"), std::string::npos) << text;
  EXPECT_EQ(text.find("%"), std::string::npos) << "one run has no spread\n" << text;
  add(comparison, 1, row(64, 9), 0.26);
  text = comparison_text(comparison, run);
  EXPECT_NE(text.find("one 0.06 to 0.06 (1 of 2 runs)\n# The cores moved: runs count"),
            std::string::npos)
      << text;
  EXPECT_EQ(comparison_text(filled(), run).find("flag hop"), std::string::npos) << "none measured";
}

void add_run(Comparison& comparison, size_t library, double us, double hop_us) {
  add(comparison, library, row(64, us, 0, us / 10), hop_us);
}

TEST(Comparison, RunsCountWhoseCoresWereWhereTheOthersWere) {
  std::vector<Library> libraries(2);
  libraries[0].name = "weft";
  libraries[1].name = "one";
  Comparison comparison(libraries, 2);
  add_run(comparison, 0, 30, 0.25);
  add_run(comparison, 1, 20, 0.05);
  EXPECT_EQ(comparison.alike_runs(), 0u);
  EXPECT_EQ(comparison.summary(comparison.lines()[0], 0)->median, 30) << "none alike: all count";
  EXPECT_NE(comparison_text(comparison, RunInfo()).find("never had them alike"), std::string::npos);
  for (const double us : {10, 12}) add_run(comparison, 0, us, 0.05);
  for (const double us : {44, 48}) add_run(comparison, 1, us, 0.25);
  EXPECT_EQ(comparison.alike_runs(), 1u);
  add_run(comparison, 1, 24, 0.06);
  EXPECT_EQ(comparison.alike_runs(), 2u);
  const Line& line = comparison.lines()[0];
  EXPECT_EQ(comparison.summary(line, 0)->median, 11);
  EXPECT_EQ(comparison.summary(line, 1)->median, 22);
  EXPECT_EQ(comparison.best_peer(line)->ratio, 2);
  EXPECT_EQ(comparison.floor_us(line), 1) << "the least of weft's that count";
  const Json json = to_json(comparison, RunInfo(), true);
  EXPECT_EQ(json["rows"][0]["libraries"]["one"]["times_us"], Json::array({20.0, 24.0}));
  EXPECT_EQ(json["rows"][0]["libraries"]["one"]["other_times_us"], Json::array({44.0, 48.0}));
  EXPECT_EQ(json["libraries"][0]["runs"][0]["counts"], false);
  EXPECT_EQ(json["libraries"][0]["runs"][1]["hop_after_us"], 0.05);
}

TEST(Comparison, WhoIsLeftOutHasNoSayInWhatCounts) {
  Comparison comparison = of_three();
  add_run(comparison, 2, 1, 0.25);
  comparison.libraries()[2].note = "left out";
  add_run(comparison, 0, 2, 0.05);
  add_run(comparison, 1, 4, 0.05);
  EXPECT_EQ(comparison.alike_runs(), 1u);
  EXPECT_FALSE(comparison.summary(comparison.lines()[0], 2)) << "nor are its runs like the others'";
  EXPECT_EQ(comparison.best_peer(comparison.lines()[0])->library, 1u);
}

TEST(Comparison, FiguresOfARunThatDoesNotEndAreNone) {
  Comparison comparison = of_three();
  add(comparison, 0, row(64, 2, 0, 0.5), 0.05);
  add(comparison, 1, row(64, 4), 0.05);
  EXPECT_TRUE(comparison.add(0, row(64, 1, 0, 0.1)).ok());
  EXPECT_EQ(comparison.floor_us(comparison.lines()[0]), 0.5) << "without totals";
  EXPECT_TRUE(comparison.add(0, R"({"totals":{}})").ok());
  EXPECT_EQ(comparison.floor_us(comparison.lines()[0]), 0.5) << "nor has it ended";
  EXPECT_EQ(comparison.summary(comparison.lines()[0], 0)->median, 2);
}

TEST(Comparison, NothingComesAfterTheTotalsOfARun) {
  Comparison comparison = of_three();
  EXPECT_TRUE(comparison.add(1, row(64, 1)).ok());
  EXPECT_TRUE(comparison.add(1, R"({"totals":{}})").ok());
  EXPECT_TRUE(comparison.add(1, "mpirun: bye").ok());
  for (const std::string& late : {std::string(R"({"totals":{}})"), row(64, 1)}) {
    const Result<Said> said = comparison.add(1, late);
    ASSERT_FALSE(said.ok()) << late;
    EXPECT_NE(said.status().message().find("after its totals"), std::string::npos);
  }
  comparison.end_run(1, {});
  EXPECT_TRUE(comparison.add(1, row(64, 1)).ok());
}

// Whatever a peer's program prints, it is a figure or an error.
TEST(Comparison, RefusesWhatNestsTooDeepAndRanksThatAreNone) {
  Comparison comparison = of_three();
  const size_t levels = 200'000;
  std::string deep = R"({"run":{"a":)";
  deep.append(levels, '[').append(levels, ']').append("}}");
  EXPECT_FALSE(comparison.add(1, deep).ok());
  for (const char* root : {"1e300", "-1", "4294967295", "0.5"}) {
    const std::string row = concat(R"({"row":{"collective":"broadcast","type":"float32","root":)",
                                   root, R"(,"size_bytes":8,"out_of_place":{"time_us":2}}})");
    EXPECT_TRUE(comparison.add(0, row).ok());
  }
  ASSERT_EQ(comparison.lines().size(), 1u);
  EXPECT_EQ(comparison.lines()[0].point.root, -1);
}

}  // namespace
}  // namespace weft::bench
