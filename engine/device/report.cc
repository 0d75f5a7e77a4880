#include "engine/device/report.h"

#include "base/text.h"

namespace weft {
namespace {

std::string_view words_for(device::Awaited awaited) {
  switch (awaited) {
    case device::Awaited::lease: return "the end of the call before last";
    case device::Awaited::signal: return "a signal";
    case device::Awaited::message: return "a message";
    case device::Awaited::credit: return "a free slot";
    case device::Awaited::packet: return "data";
    case device::Awaited::begin: return "the begin of this call";
    case device::Awaited::end: return "the end of this call";
    case device::Awaited::buffers: return "the place of buffers";
  }
  return "something";
}

// As it stands in a cell, where other than counts does.
uint64_t count_in(const device::Report& report, uint64_t cell) {
  switch (report.awaited) {
    case device::Awaited::lease:
    case device::Awaited::begin: return device::number_of(cell);
    case device::Awaited::message:
    case device::Awaited::credit: return device::count_of(cell);
    default: return cell;
  }
}

Status another_call(const device::Report& report, std::string_view algorithm, Rank me) {
  return Status(
      Code::mismatch,
      concat(
          "rank ", me, "'s GPU found rank ", report.peer, " in another call when it had ",
          words_for(report.awaited), " of it in ", algorithm, ": lane ", report.lane, ", step ",
          report.step, ", round ", report.round, " of ", report.rounds,
          "; all ranks must make the same calls in the same order, and a send and its receive be "
          "of one size (WEFT_CHECK=1 finds the first collective that differs)"),
      report.peer);
}

}  // namespace

Status explain(const device::Report& report, std::string_view algorithm, Rank me) {
  if (report.cause == device::Cause::none) return {};
  if (report.cause == device::Cause::mismatched) return another_call(report, algorithm, me);
  if (report.awaited == device::Awaited::buffers)
    return Status(Code::aborted,
                  concat("rank ", me, "'s GPU keeps off the input and output of rank ", report.peer,
                         ", which has given up ", algorithm),
                  report.peer);
  const bool timeout = report.cause == device::Cause::timed_out;
  const std::string at = concat("lane ", report.lane, ", step ", report.step, ", round ",
                                report.round, " of ", report.rounds);
  if (report.peer < 0)
    return Status(timeout ? Code::timeout : Code::aborted,
                  concat("rank ", me, "'s GPU ", timeout ? "took too long" : "was told to stop",
                         " in ", algorithm, ": ", at, " (what it waited for had come by then)"));
  return Status(
      timeout ? Code::timeout : Code::aborted,
      concat("rank ", me, "'s GPU ", timeout ? "waited too long" : "was told to stop waiting",
             " for ", words_for(report.awaited), " from rank ", report.peer, " in ", algorithm,
             ": ", at, " (count ", count_in(report, report.needed), " was needed, ",
             count_in(report, report.seen), " was there)",
             timeout ? concat("; see whether rank ", report.peer, " is alive and in the same call")
                     : std::string()),
      report.peer);
}

}  // namespace weft
