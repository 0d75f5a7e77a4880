#include "nccl/group.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/text.h"
#include "base/thread.h"

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

// The jobs of one parent, which take turns; or one that has none.
struct Lane {
  std::shared_ptr<ncclComm> parent;
  std::vector<Job> jobs;
  std::vector<Outstanding> started;  // of the parent's calls
  Status failure;                    // of the first job that failed
  // Where nobody waits: the parent's calls after the jobs, and what ends when all of its have.
  std::vector<Item> after;
  std::shared_ptr<WorkState> calls;  // null: there are none
};

std::vector<Lane> lanes_of(std::vector<Job> jobs) {
  std::vector<Lane> lanes;
  for (Job& job : jobs) {
    auto lane = std::find_if(lanes.begin(), lanes.end(),
                             [&](const Lane& l) { return job.parent && l.parent == job.parent; });
    if (lane == lanes.end()) {
      lane = lanes.insert(lanes.end(), Lane{});
      lane->parent = job.parent;
    }
    lane->jobs.push_back(std::move(job));
  }
  return lanes;
}

void begin(const Lane& lane) {
  if (lane.parent) lane.parent->begin_task();
  for (const Job& job : lane.jobs) job.comm->begin_task();
}

void end_parents_task(const Lane& lane) {
  if (lane.parent) lane.parent->end_task({});
}

// What a failed one leaves behind: nothing.
void undo(const Job& job) {
  Registry::of_process()->remove(job.comm->handle());
  if (job.out) *job.out = nullptr;
}

// Of what has begun and cannot start.
Status undo(const std::vector<Lane>& lanes, const Status& why) {
  for (const Lane& lane : lanes) {
    if (lane.calls) lane.calls->complete({});
    end_parents_task(lane);
    for (const Job& job : lane.jobs) {
      job.comm->end_task(why);
      undo(job);
    }
  }
  return why;
}

Status run_job(const Job& job, Lane& lane) {
  WEFT_TRY(start_all(job.before, lane.started));
  if (job.alone) (void)wait_for(lane.started);
  return job.make();
}

void run_jobs(Lane& lane) {
  for (const Job& job : lane.jobs) {
    const Status status = guarded([&] { return run_job(job, lane); });
    job.comm->end_task(status);
    if (status.ok()) continue;
    if (lane.failure.ok()) lane.failure = status;
    if (job.blocks())
      undo(job);
    else if (!job.comm->given_up() && !Registry::of_process()->find(job.comm->handle()))
      (void)job.comm->state();  // which nobody else can ask for
  }
}

// Each lane on a thread of its own, as it waits for other ranks; then the other calls.
Answer run_blocking(std::vector<Lane> lanes, const std::vector<Item>& items) {
  auto threads = start_threads(lanes.size() - 1, [&lanes](size_t i) { run_jobs(lanes[i + 1]); });
  if (!threads.ok()) return undo(lanes, threads.status());
  run_jobs(lanes.front());
  for (std::thread& thread : *threads) thread.join();
  Status first;
  for (const Lane& lane : lanes) {
    end_parents_task(lane);
    if (first.ok()) first = lane.failure;
  }
  if (first.ok()) first = run_items(items).status();
  for (const Lane& lane : lanes)
    if (Status status = wait_for(lane.started); first.ok()) first = std::move(status);
  if (!first.ok()) return first;
  return ncclSuccess;
}

// In a thread that nobody waits for.
void run_unattended(Lane lane) {
  run_jobs(lane);
  Status status;
  if (lane.failure.ok())
    status = start_all(lane.after, lane.started);
  else if (!lane.after.empty())
    status = lane.failure.within(
        "not started, as a communicator that the group makes before it was not made");
  end_parents_task(lane);
  if (Status ended = wait_for(lane.started); status.ok()) status = std::move(ended);
  if (lane.calls) lane.calls->complete(std::move(status));
}

// What `items` has of the communicator's, in its order; it keeps the others.
std::vector<Item> take_calls_of(const std::shared_ptr<ncclComm>& comm, std::vector<Item>& items) {
  std::vector<Item> taken;
  for (Item& item : items)
    if (item.comm == comm) taken.push_back(std::move(item));
  std::erase_if(items, [](const Item& item) { return item.comm == nullptr; });
  return taken;
}

Answer run_unattended(std::vector<Lane> lanes, std::vector<Item> items) {
  for (Lane& lane : lanes) {
    lane.after = take_calls_of(lane.parent, items);
    const bool called = std::any_of(lane.jobs.begin(), lane.jobs.end(),
                                    [](const Job& job) { return !job.before.empty(); });
    if (!called && lane.after.empty()) continue;
    lane.calls = std::make_shared<WorkState>();
    lane.parent->keep({Work(lane.calls), nullptr});
  }
  const auto shared = std::make_shared<std::vector<Lane>>(std::move(lanes));
  auto threads = start_threads(shared->size(),
                               [shared](size_t i) { run_unattended(std::move((*shared)[i])); });
  if (!threads.ok()) return undo(*shared, threads.status());
  for (std::thread& thread : *threads) thread.detach();
  WEFT_TRY(run_items(items).status());
  return ncclInProgress;
}

Answer run(Group group) {
  if (group.jobs.empty()) return run_items(group.items);
  const bool blocking = group.jobs.front().blocks();
  std::vector<Lane> lanes = lanes_of(std::move(group.jobs));
  for (const Lane& lane : lanes) begin(lane);
  return blocking ? run_blocking(std::move(lanes), group.items)
                  : run_unattended(std::move(lanes), std::move(group.items));
}

Status check_same_mode(const Group& g) {
  std::vector<bool> blocking;
  for (const Item& item : g.items) blocking.push_back(item.comm->config.blocking);
  for (const Job& job : g.jobs) blocking.push_back(job.blocks());  // as the calls before it
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

Answer simulate(ncclSimInfo_t* out) {
  Result<Group> done = leave_group();
  if (!done.ok()) return done.status();
  if (in_group()) return ncclSuccess;  // what it is to take is not known yet
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
  return run(done.take());
}

bool in_group() { return group().depth > 0; }

void fail_group(const Status& status) {
  if (group().failure.ok()) group().failure = status;
}

Answer submit(Item item) {
  if (in_group()) {  // nothing is in progress before the group ends
    group().items.push_back(std::move(item));
    return ncclSuccess;
  }
  if (item.comm->config.blocking) {
    WEFT_TRY(run_at_once(item));
    return ncclSuccess;
  }
  std::vector<Item> alone;
  alone.push_back(std::move(item));
  return run_items(alone);
}

Answer submit(Job job) {
  if (!in_group()) {
    Group alone;
    alone.jobs.push_back(std::move(job));
    return run(std::move(alone));
  }
  if (job.parent) job.before = take_calls_of(job.parent, group().items);
  group().jobs.push_back(std::move(job));
  return ncclSuccess;
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
