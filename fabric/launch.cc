#include "fabric/launch.h"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/origin_process.h"
#include "base/text.h"
#include "base/thread.h"
#include "fabric/start.h"

namespace weft {
namespace {

// How long a rank that is done waits for the others to be done.
constexpr double kLeaveTogetherS = 24 * 3600;

// How a rank, or the job, has ended. The message is empty once it was told.
struct End {
  int exit_status = 0;
  std::string message;
};

// Whether all ranks know that the job has failed.
bool is_over(const Fabric& fabric) {
  return fabric.is_member() && !fabric.communicator().health().ok();
}

// Whether a failure is only the echo of another rank's: that has failed the fabric, or is an error
// that ranks have agreed on. Codes say the former only where the fabric has failed: a body may
// throw any, of a cause of its own. Ranks in a status are those of the group that threw it.
bool is_echo(const Fabric& fabric, const Error& error) {
  if (!is_over(fabric)) return error.is_of_another_rank();
  return error.code() == Code::aborted || error.code() == Code::peer_lost;
}

End run_and_catch(Fabric& fabric, const std::function<void(Fabric&)>& body) {
  const OriginProcess process;
  try {
    body(fabric);
    if (!process.here())
      return {kExitFailed, "it returned from the body of launch(); end it with _exit()"};
    fabric.barrier("end of the job", kLeaveTogetherS);
    return {};
  } catch (const Error& error) {
    return {is_echo(fabric, error) ? kExitSecondary : kExitFailed, error.what()};
  } catch (const std::exception& error) {
    return {kExitFailed, error.what()};
  } catch (...) {
    return {kExitFailed, "something that is no exception was thrown"};
  }
}

// A failure of the rank's own is told before the others hear of it: a launcher that sees one of
// them end may kill this process at once. What a forked child does in here is nobody else's.
End run_body(Fabric& fabric, Rank rank, const std::function<void(Fabric&)>& body) {
  const OriginProcess process;
  End end = run_and_catch(fabric, body);
  if (!process.here()) {
    complain(concat("a forked child of rank ", rank, ": ", end.message));
    std::_Exit(end.exit_status);
  }
  if (end.message.empty()) return end;
  const std::string what = end.message;
  end.message = concat("rank ", rank, ": ", what);
  const bool is_own = end.exit_status == kExitFailed;
  if (is_own) complain(end.message);
  if (is_own) end.message.clear();
  if (fabric.is_member() && (is_own || !is_over(fabric))) fabric.leave(what);
  return end;
}

End run_process(const FabricConfig& config, const std::function<void(Fabric&)>& body) {
  Fabric fabric(config);
  try {
    fabric.launch();
  } catch (const Error& error) {
    return {kExitCannotStart, error.what()};
  }
  return run_body(fabric, fabric.rank(), body);
}

// The end of the rank that failed by itself, if any.
End run_threads(const FabricConfig& config, int ranks, const std::function<void(Fabric&)>& body) {
  std::vector<std::unique_ptr<Rendezvous>> meeting = make_in_process_rendezvous(ranks);
  std::vector<End> ends(static_cast<size_t>(ranks));
  auto threads = start_threads(ends.size(), [&](size_t r) {
    try {
      Fabric fabric = Fabric::join(*meeting[r], config);
      ends[r] = run_body(fabric, static_cast<Rank>(r), body);
    } catch (const Error& error) {
      ends[r] = {kExitCannotStart, concat("rank ", r, ": ", error.what())};
    }
  });
  if (!threads.ok()) return {kExitCannotStart, threads.status().to_string()};
  for (std::thread& thread : *threads) thread.join();
  const auto failed = [](const End& end) { return end.exit_status != 0; };
  auto found = std::find_if(ends.begin(), ends.end(), [&](const End& end) {
    return failed(end) && end.exit_status != kExitSecondary;
  });
  if (found == ends.end()) found = std::find_if(ends.begin(), ends.end(), failed);
  return found == ends.end() ? End{} : *found;
}

}  // namespace

int launch(const FabricConfig& config, const std::function<void(Fabric&)>& body) {
  const Result<StartPlan> plan = plan_start(config, Environment::of_process());
  End end;
  if (!plan.ok())
    end = {kExitCannotStart, plan.status().to_string()};
  else if (plan->how == StartPlan::How::threads)
    end = run_threads(config, plan->job.ranks, body);
  else
    end = run_process(config, body);
  if (end.exit_status == kExitSecondary && !plan->ours) end.exit_status = kExitFailed;
  if (!end.message.empty()) complain(end.message);
  return end.exit_status;
}

}  // namespace weft
