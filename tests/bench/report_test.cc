#include "bench/report.h"

#include <gtest/gtest.h>

#include <sstream>

#include "bench/report_json.h"

namespace weft::bench {
namespace {

Row example_row() {
  Row row;
  row.what = {Operation::reduce, DataType::bfloat16, ReduceOp::max, 3, 1024, 7};
  row.bytes = 1024;
  row.count = 512;
  row.iterations = 20;
  row.checked = true;
  row.out_of_place = Figure{12.345, 1.5, 2.25, 0, 0, std::nullopt};
  row.in_place = Figure{123456, 0.01, 0.02, 3, 1, Percentiles{1, 2, 3, 4, 5}};
  row.info.algorithm = "knomial";
  row.info.protocol = "simple";
  row.info.transports = "shm";
  row.info.lanes = 2;
  row.floor_us = 0.5;
  return row;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> list;
  for (std::string word; stream >> word;) list.push_back(word);
  return list;
}

TEST(Report, ExplainsByPriceWhatIsChosenByPrice) {
  Row row = example_row();
  row.what.operation = Operation::all_gather_v;  // whose sizes all ranks know
  EXPECT_NE(explanation_text(row).find("nothing is known"), std::string::npos);
  CallInfo::Price& price = row.info.prices.emplace_back();
  price.algorithm = "ring";
  price.seconds = 2e-6;
  EXPECT_NE(explanation_text(row).find("us by price: ring    2.00"), std::string::npos)
      << explanation_text(row);
  row.info.prices.clear();
  for (const Operation operation :
       {Operation::all_to_all_v, Operation::barrier, Operation::groups}) {
    row.what.operation = operation;
    EXPECT_NE(explanation_text(row).find("no prices"), std::string::npos);
  }
}

// The columns of nccl-tests, at the same places, so that scripts that read those can read ours.
TEST(Report, RowHasTheColumnsOfNcclTests) {
  const std::vector<std::string> expected{
      "1024",   "512",  "bfloat16", "max", "3",    "12.35",          "1.50", "2.25", "0",
      "123456", "0.01", "0.02",     "4",   "0.50", "knomial/simple", "x2",   "shm"};
  EXPECT_EQ(words(row_text(example_row())), expected);
}

TEST(Report, WhatWasNotDoneIsNotCalledRight) {
  Row row = example_row();
  row.checked = false;
  row.in_place.reset();
  row.floor_us.reset();
  row.what.op.reset();
  row.what.root.reset();
  const std::vector<std::string> list = words(row_text(row));
  EXPECT_EQ(list[3], "none");
  EXPECT_EQ(list[4], "-1");
  EXPECT_EQ(list[8], "N/A");
  EXPECT_EQ(list[9], "-");
  EXPECT_EQ(list[13], "-");
}

TEST(Report, DigestsAreShown) {
  Row row = example_row();
  row.digest = 0xabc;
  EXPECT_NE(row_text(row).find("0000000000000abc\n"), std::string::npos);
  row.digests_differ = true;
  EXPECT_NE(row_text(row).find("ranks differ"), std::string::npos);
}

TEST(Report, TotalsCountEveryFault) {
  Totals totals;
  totals.add(example_row());
  EXPECT_EQ(totals.faults, 4u);
  EXPECT_DOUBLE_EQ(totals.average_bus_gbps(), (2.25 + 0.02) / 2);
  EXPECT_NE(footer_text(totals, true).find("# Out of bounds values : 4 FAILED"), std::string::npos);
  Row differs = example_row();
  differs.in_place.reset();
  differs.digests_differ = true;
  totals.add(differs);
  EXPECT_EQ(totals.faults, 5u);
  totals = {};
  totals.skipped_undefined = 6;
  EXPECT_NE(footer_text(totals, true).find("# Out of bounds values : 0 OK"), std::string::npos);
  EXPECT_NE(footer_text(totals, true).find("6 rows"), std::string::npos);
  EXPECT_NE(footer_text(totals, false).find("values : not checked"), std::string::npos);
}

TEST(Report, HeaderNamesRanks) {
  RunInfo run;
  run.version = "1.2.3";
  run.ranks = {{"alpha", 11}, {"beta", 12}};
  run.machine.cpu = "A processor";
  run.calibration = Calibration{2e-7, {{4096, 3e10}}, 0, 0};
  const std::string text = header_text(run);
  for (const char* part :
       {"1.2.3", "Rank  1 Pid     12 on       beta", "A processor", "0.200 us", "4K:30.0"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
}

TEST(Report, HeaderSaysWhereManyRanksShareCores) {
  RunInfo run;
  run.machine = {"alpha", "A processor", "Linux", 2};
  run.ranks.assign(63, {"alpha", 11});
  run.ranks.push_back({"beta", 12});
  EXPECT_EQ(header_text(run).find("share"), std::string::npos);
  run.ranks.push_back({"alpha", 13});
  EXPECT_NE(header_text(run).find("# 64 ranks share 2 cores: a row may take minutes"),
            std::string::npos)
      << header_text(run);
}

TEST(Report, Percentiles) {
  EXPECT_FALSE(percentiles({}));
  std::vector<double> times;
  for (int i = 100; i >= 0; --i) times.push_back(i);
  const Percentiles p = *percentiles(times);
  EXPECT_EQ(p.min, 0);
  EXPECT_EQ(p.p50, 50);
  EXPECT_EQ(p.p90, 90);
  EXPECT_EQ(p.p99, 99);
  EXPECT_EQ(p.max, 100);
}

// The worst of few counts, too.
TEST(Report, PercentilesOfFew) {
  std::vector<double> times(20, 1);
  times.back() = 101;
  EXPECT_NEAR(percentiles(times)->p99, 82, 1e-9);
  EXPECT_EQ(percentiles({1, 2})->p50, 1.5);
}

TEST(ReportJson, HoldsWhatRepeatsTheRun) {
  RunInfo run;
  run.version = "1.2.3";
  run.ranks = {{"alpha", 11}};
  run.options.seed = 42;
  run.options.engine.algorithm = "ring";
  run.options.command_line = {"reduce", "-n", "20"};
  run.environment = {{"WEFT_LANES", "2"}};
  Totals totals;
  totals.add(example_row());
  const auto json = nlohmann::json::parse(to_json(run, {example_row()}, totals, true).dump());
  EXPECT_EQ(json["run"]["command_line"], (std::vector<std::string>{"reduce", "-n", "20"}));
  EXPECT_EQ(json["run"]["options"]["seed"], 42);
  EXPECT_EQ(json["run"]["options"]["engine"]["algorithm"], "ring");
  EXPECT_EQ(json["run"]["environment"]["WEFT_LANES"], "2");
  EXPECT_EQ(json["run"]["ranks"][0]["host"], "alpha");
  const auto& row = json["rows"][0];
  EXPECT_EQ(row["collective"], "reduce");
  EXPECT_EQ(row["size_bytes"], 1024);
  EXPECT_EQ(row["type"], "bfloat16");
  EXPECT_EQ(row["op"], "max");
  EXPECT_EQ(row["root"], 3);
  EXPECT_EQ(row["in_place"]["wrong"], 3);
  EXPECT_EQ(row["in_place"]["touched"], 1);
  EXPECT_EQ(row["in_place"]["rank0_iteration_us"]["p50"], 2);
  EXPECT_EQ(row["algorithm"], "knomial");
  EXPECT_EQ(row["floor_us"], 0.5);
  EXPECT_EQ(json["totals"]["out_of_bounds"], 4);
}

TEST(ReportJson, AFileThatCannotBeWrittenIsAnError) {
  const Status status = write_json("/dev/null/x.json", {});
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("-J/--output_file"), std::string::npos);
}

}  // namespace
}  // namespace weft::bench
