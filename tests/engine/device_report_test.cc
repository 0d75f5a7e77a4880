#include <gtest/gtest.h>

#include "engine/device/report.h"

namespace weft {
namespace {

device::Report report_of(device::Cause cause) {
  device::Report report{};
  report.cause = cause;
  report.awaited = device::Awaited::message;
  report.peer = 3;
  report.lane = 1;
  report.step = 2;
  report.round = 4;
  report.rounds = 5;
  report.needed = device::marked(9, 0);
  report.seen = device::marked(8, 77);
  return report;
}

TEST(DeviceReport, NamesWhoWasWaitedForAndWhere) {
  const Status status = explain(report_of(device::Cause::timed_out), "ring", 0);
  EXPECT_EQ(status.code(), Code::timeout);
  EXPECT_EQ(status.peer(), 3);
  EXPECT_EQ(
      status.message(),
      "rank 0's GPU waited too long for a message from rank 3 in ring: lane 1, step 2, round 4 "
      "of 5 (count 9 was needed, 8 was there); see whether rank 3 is alive and in the same "
      "call");
}

TEST(DeviceReport, NamesWhoGaveUp) {
  device::Report report = report_of(device::Cause::aborted);
  report.awaited = device::Awaited::buffers;
  const Status status = explain(report, "zero_copy", 0);
  EXPECT_EQ(status.code(), Code::aborted);
  EXPECT_EQ(status.peer(), 3);
  EXPECT_EQ(status.message(),
            "rank 0's GPU keeps off the input and output of rank 3, which has given up zero_copy");
}

TEST(DeviceReport, NamesWhoIsInAnotherCall) {
  for (const auto awaited : {device::Awaited::message, device::Awaited::buffers}) {
    device::Report report = report_of(device::Cause::mismatched);
    report.awaited = awaited;
    const Status status = explain(report, "ring", 0);
    EXPECT_EQ(status.code(), Code::mismatch);
    EXPECT_EQ(status.peer(), 3);
    EXPECT_TRUE(status.message().find("found rank 3 in another call") != std::string_view::npos)
        << status.message();
  }
}

TEST(DeviceReport, NamesNobodyWhereAllHadCome) {
  device::Report report = report_of(device::Cause::timed_out);
  report.peer = -1;
  const Status status = explain(report, "ring", 0);
  EXPECT_EQ(status.code(), Code::timeout);
  EXPECT_EQ(status.peer(), -1);
  EXPECT_EQ(status.message(),
            "rank 0's GPU took too long in ring: lane 1, step 2, round 4 of 5 (what it waited for "
            "had come by then)");
}

TEST(DeviceReport, TellsAbortFromTimeout) {
  EXPECT_EQ(explain(report_of(device::Cause::aborted), "ring", 0).code(), Code::aborted);
  EXPECT_TRUE(explain(device::Report{}, "ring", 0).ok());
}

}  // namespace
}  // namespace weft
