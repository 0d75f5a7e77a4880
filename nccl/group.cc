#include "nccl/group.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/text.h"
#include "nccl/debug.h"

namespace weft::nccl {
namespace {

struct Group {
  int depth = 0;
  Status failure;
  std::vector<Item> items;
  std::vector<Job> jobs;
};

Group& group() {
  static thread_local Group own;
  return own;
}

// The calls of one communicator in a group.
struct Share {
  std::shared_ptr<ncclComm> comm;
  ncclComm::Engine engine;
  std::vector<const Item*> calls;
  std::vector<Transfer> transfers;
};

std::vector<Share> shares_of(const std::vector<Item>& items) {
  std::vector<Share> shares;
  for (const Item& item : items) {
    auto share = std::find_if(shares.begin(), shares.end(),
                              [&](const Share& s) { return s.comm == item.comm; });
    if (share == shares.end())
      share = shares.insert(shares.end(), Share{item.comm, item.engine, {}, {}});
    if (item.is_transfer)
      share->transfers.push_back(item.transfer);
    else
      share->calls.push_back(&item);
  }
  return shares;
}

bool choices_are_told() { return info_enabled(Subsystem::coll) || info_enabled(Subsystem::tuning); }

// Says once for every shape of call what runs it.
void tell_choice(const Item& item) {
  const Call& call = item.call;
  const std::string text = describe(call);
  info(Subsystem::coll, item.comm->device,
       concat(text, " comm ", item.comm->config.comm_name, " rank ", item.engine->rank()));
  if (!info_enabled(Subsystem::tuning) || call.count == 0 || !item.comm->first_of(text)) return;
  const Result<CallInfo> choice = item.engine->explain(call);
  if (choice.ok())
    info(Subsystem::tuning, item.comm->device,
         concat(text, " of ", item.engine->size(), " ranks: algorithm ", choice->algorithm,
                ", protocol ", choice->protocol, ", over ", choice->transports, ", ", choice->lanes,
                " lanes, ", choice->rounds, " rounds"));
}

Status run_at_once(const Item& item) {
  if (item.is_transfer) return item.engine->run(std::span(&item.transfer, 1));
  if (choices_are_told()) tell_choice(item);
  return item.engine->run(item.call);
}

void start_all(const Share& share, std::vector<Outstanding>& started) {
  for (const Item* item : share.calls) {
    if (choices_are_told()) tell_choice(*item);
    started.push_back({item->engine->start(item->call), item->scalar});
  }
  if (!share.transfers.empty()) started.push_back({share.engine->start(share.transfers), nullptr});
}

Answer run_blocking(const std::vector<Share>& shares) {
  if (shares.size() == 1 && shares.front().calls.empty()) {
    WEFT_TRY(shares.front().engine->run(shares.front().transfers));
    return ncclSuccess;
  }
  std::vector<Outstanding> started;
  for (const Share& share : shares) start_all(share, started);
  Status first;
  for (const Outstanding& call : started)
    if (Status status = call.work.wait(); first.ok()) first = std::move(status);
  if (!first.ok()) return first;
  return ncclSuccess;
}

Answer run_items(const std::vector<Item>& items) {
  if (items.empty()) return ncclSuccess;
  const std::vector<Share> shares = shares_of(items);
  if (shares.front().comm->config.blocking) return run_blocking(shares);
  for (const Share& share : shares) {
    std::vector<Outstanding> started;
    start_all(share, started);
    for (Outstanding& call : started) share.comm->keep(std::move(call));
  }
  return ncclInProgress;
}

void begin(const Job& job) {
  for (const auto& comm : job.busy) comm->begin_task();
}

Status finish(const Job& job) {
  Status status = job.make();
  for (const auto& comm : job.busy) comm->end_task(comm == job.comm ? status : Status());
  return status;
}

// What a failed one leaves behind: nothing.
void undo(const Job& job) {
  Registry::of_process().remove(job.comm.get());
  if (job.out) *job.out = nullptr;
}

// Each on a thread of its own, as each waits for others.
Answer run_jobs(std::vector<Job>& jobs) {
  if (jobs.empty()) return ncclSuccess;
  for (const Job& job : jobs) begin(job);
  if (!jobs.front().comm->config.blocking) {
    for (Job& job : jobs)
      std::thread([job = std::move(job)] {
        if (const Status status = finish(job); !status.ok()) report("ncclCommInit", status);
      }).detach();
    return ncclInProgress;
  }
  std::vector<Status> ends(jobs.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < jobs.size(); ++i)
    threads.emplace_back([&ends, &jobs, i] { ends[i] = finish(jobs[i]); });
  ends[0] = finish(jobs[0]);
  for (std::thread& thread : threads) thread.join();
  Status first;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (ends[i].ok()) continue;
    undo(jobs[i]);
    if (first.ok()) first = ends[i];
  }
  if (!first.ok()) return first;
  return ncclSuccess;
}

Status check_same_mode(const Group& g) {
  std::vector<bool> blocking;
  for (const Item& item : g.items) blocking.push_back(item.comm->config.blocking);
  for (const Job& job : g.jobs) blocking.push_back(job.comm->config.blocking);
  if (std::adjacent_find(blocking.begin(), blocking.end(), std::not_equal_to<>()) == blocking.end())
    return {};
  return invalid_argument(
      "the group has communicators that block and such that do not; give each kind its own group");
}

// Leaves the innermost group; the outermost one's content, or nothing.
Result<Group> leave_group() {
  if (group().depth == 0)
    return invalid_usage("this thread is in no group; call ncclGroupStart first");
  if (--group().depth > 0) return Group{};
  Group done = std::exchange(group(), Group{});
  if (done.failure.ok()) done.failure = check_same_mode(done);
  if (done.failure.ok()) return done;
  for (const Job& job : done.jobs) undo(job);
  return done.failure;
}

// How long it would take: communicators beside each other, the calls of one after each other.
Result<double> price(const std::vector<Item>& items) {
  double longest = 0;
  for (const Share& share : shares_of(items)) {
    double seconds = 0;
    for (const Item* item : share.calls) {
      if (item->call.count == 0 || item->engine->size() == 1) continue;
      const Result<CallInfo> info = item->engine->explain(item->call);
      if (!info.ok()) return info.status();
      if (info->prices.empty())
        return invalid_usage(
            "no prices are known on this machine; measure it once with weft-bench --tune, and do "
            "not "
            "set WEFT_TUNING=off");
      seconds += info->prices.front().seconds;
    }
    longest = std::max(longest, seconds);
  }
  return longest;
}

Answer simulate(ncclSimInfo_t* out) {
  Result<Group> done = leave_group();
  if (!done.ok()) return done.status();
  for (const Job& job : done->jobs) undo(job);
  if (!out) return ncclSuccess;
  size_t size = 0;
  std::memcpy(&size, &out->size, sizeof size);
  ncclSimInfo_t read{};
  std::memcpy(&read, out, std::min(size, sizeof read));
  if (read.magic != 0x74685283)
    return invalid_argument("simInfo was not begun with NCCL_SIM_INFO_INITIALIZER");
  if (!done->jobs.empty()) return invalid_usage("the making of communicators cannot be simulated");
  const Result<double> seconds = price(done->items);
  if (!seconds.ok()) return seconds.status();
  read.estimatedTime = static_cast<float>(*seconds * 1e6);
  std::memcpy(out, &read, std::min(size, sizeof read));
  return ncclSuccess;
}

}  // namespace

void start_group() { ++group().depth; }

Answer end_group() {
  Result<Group> done = leave_group();
  if (!done.ok()) return done.status();
  Answer made = run_jobs(done->jobs);
  if (!made.ok()) return made;
  Answer ran = run_items(done->items);
  return ran.ok() && *made == ncclInProgress ? made : ran;
}

bool in_group() { return group().depth > 0; }

void fail_group(const Status& status) {
  if (group().failure.ok()) group().failure = status;
}

Answer submit(Item item) {
  const bool blocking = item.comm->config.blocking;
  if (!in_group() && blocking) {
    WEFT_TRY(run_at_once(item));
    return ncclSuccess;
  }
  if (!in_group()) {
    std::vector<Item> alone;
    alone.push_back(std::move(item));
    return run_items(alone);
  }
  group().items.push_back(std::move(item));
  return blocking ? ncclSuccess : ncclInProgress;
}

Answer submit(Job job) {
  std::vector<Job> jobs;
  const bool blocking = job.comm->config.blocking;
  std::vector<Job>& to = in_group() ? group().jobs : jobs;
  to.push_back(std::move(job));
  if (!in_group()) return run_jobs(jobs);
  return blocking ? ncclSuccess : ncclInProgress;
}

}  // namespace weft::nccl

ncclResult_t pncclGroupStart() {
  return weft::nccl::answer("ncclGroupStart", []() -> weft::nccl::Answer {
    weft::nccl::start_group();
    return ncclSuccess;
  });
}
WEFT_NCCL_TWIN(ncclGroupStart);

ncclResult_t pncclGroupEnd() {
  return weft::nccl::answer("ncclGroupEnd", [] { return weft::nccl::end_group(); });
}
WEFT_NCCL_TWIN(ncclGroupEnd);

ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* info) {
  return weft::nccl::answer("ncclGroupSimulateEnd", [&] { return weft::nccl::simulate(info); });
}
WEFT_NCCL_TWIN(ncclGroupSimulateEnd);
