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
    case device::Awaited::buffers: break;  // which is not waited for
  }
  return "something";
}

}  // namespace

Status explain(const device::Report& report, std::string_view algorithm, Rank me) {
  if (report.cause == device::Cause::none) return {};
  if (report.awaited == device::Awaited::buffers)
    return Status(Code::aborted,
                  concat("rank ", me, "'s GPU keeps off the input and output of rank ", report.peer,
                         ", which has given up ", algorithm),
                  report.peer);
  const bool timeout = report.cause == device::Cause::timed_out;
  return Status(
      timeout ? Code::timeout : Code::aborted,
      concat("rank ", me, "'s GPU ", timeout ? "waited too long" : "was told to stop waiting",
             " for ", words_for(report.awaited), " from rank ", report.peer, " in ", algorithm,
             ": lane ", report.lane, ", step ", report.step, ", round ", report.round, " of ",
             report.rounds, " (count ", report.needed, " was needed, ", report.seen, " was there)",
             timeout ? concat("; see whether rank ", report.peer, " is alive and in the same call")
                     : std::string()),
      report.peer);
}

}  // namespace weft
