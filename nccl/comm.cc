#include "nccl/comm.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "nccl/api.h"

using weft::concat;
using weft::invalid_argument;
using weft::Result;
using weft::Status;
using weft::nccl::address_text;
using weft::nccl::invalid_usage;
using weft::nccl::Outstanding;
using weft::nccl::PreMulSum;

namespace {

constexpr std::string_view kAborted = "the communicator was aborted";
constexpr size_t kFewCalls = 16;  // that have ended may be kept

}  // namespace

// Odd numbers, which are no pointers' to anything that has a size.
ncclComm_t ncclComm::next_handle() {
  static std::atomic<uintptr_t> made{0};
  return reinterpret_cast<ncclComm_t>((++made << 4) + 1);
}

void ncclComm::begin_task() {
  const std::lock_guard lock(mutex_);
  ++tasks_;
}

void ncclComm::end_task(const Status& status) {
  const std::lock_guard lock(mutex_);
  --tasks_;
  if (unmade_.ok()) unmade_ = status;
}

void ncclComm::become(std::unique_ptr<weft::Communicator> engine) {
  Engine made(std::move(engine));
  {
    const std::lock_guard lock(mutex_);
    if (phase_ != Phase::given_up) engine_.swap(made);
  }
  if (made) made->abort(kAborted);
}

Result<ncclComm::Engine> ncclComm::usable(bool also_resting) const {
  const std::lock_guard lock(mutex_);
  if (tasks_ > 0)
    return invalid_argument(
        "the communicator's last call is still in progress; wait until ncclCommGetAsyncError does "
        "not "
        "say ncclInProgress");
  if (!unmade_.ok()) return unmade_;
  if (!failed_call_.ok() && !also_resting) return failed_call_;
  if (phase_ == Phase::finalized)
    return invalid_usage("the communicator was finalized; only ncclCommDestroy is left");
  if (phase_ == Phase::revoked && !also_resting)
    return invalid_usage(
        "the communicator was revoked; only ncclCommShrink, ncclCommDestroy and ncclCommAbort are "
        "left");
  if (suspended_ && !also_resting)
    return invalid_usage("the communicator is suspended; call ncclCommResume first");
  if (phase_ == Phase::given_up) return invalid_argument("the communicator was destroyed");
  if (!engine_)
    return invalid_argument(
        "the communicator is made when the group ends that it was asked for in; calls on it come "
        "after that ncclGroupEnd");
  return engine_;
}

Result<ncclComm::Engine> ncclComm::callable() const { return usable(false); }
Result<ncclComm::Engine> ncclComm::management() const { return usable(true); }

ncclComm::Engine ncclComm::engine() const {
  const std::lock_guard lock(mutex_);
  return engine_;
}

ncclResult_t ncclComm::state() {
  Finding found;
  {
    const std::lock_guard lock(mutex_);
    found = look();
  }
  if (found.busy) return ncclInProgress;
  if (found.engine) found.failure = found.engine->health();
  if (found.failure.ok() || config.blocking || first_failure_told())
    return weft::nccl::code_of(found.failure);
  return weft::nccl::report(found.failed, found.failure);
}

ncclComm::Finding ncclComm::look() {
  // Whoever blocks in a task knows it.
  if (tasks_ > 0 && !(config.blocking && engine_)) return {.busy = true};
  std::erase_if(outstanding_, [this](const Outstanding& call) {
    if (!call.work.test()) return false;  // asked once: it may end at any moment
    if (failed_call_.ok()) failed_call_ = call.work.error();
    return true;
  });
  if (!unmade_.ok()) return {.failed = "making the communicator", .failure = unmade_};
  if (!failed_call_.ok() && phase_ != Phase::revoked)  // which ends calls
    return {.failed = "a call that was in progress", .failure = failed_call_};
  if (!outstanding_.empty()) return {.busy = true};
  if (phase_ == Phase::finalized && engine_ && engine_->on_streams() > 0) return {.busy = true};
  if (!engine_ || phase_ == Phase::revoked) return {};
  return {.failed = "the communicator", .engine = engine_};
}

bool ncclComm::first_failure_told() {
  const std::lock_guard lock(mutex_);
  return std::exchange(told_, true);
}

Status ncclComm::failure() const {
  Engine engine;
  {
    const std::lock_guard lock(mutex_);
    if (!unmade_.ok()) return unmade_;
    if (!failed_call_.ok() || !engine_) return failed_call_;
    engine = engine_;
  }
  return engine->health();
}

void ncclComm::keep(Outstanding call) {
  const std::lock_guard lock(mutex_);
  if (outstanding_.size() >= forget_at_) {
    forget_ended();
    forget_at_ = kFewCalls + 2 * outstanding_.size();
  }
  outstanding_.push_back(std::move(call));
}

void ncclComm::forget_ended() {
  bool failed = false;
  std::erase_if(outstanding_, [&failed](const Outstanding& call) {
    if (!call.work.test()) return false;
    return call.work.error().ok() || std::exchange(failed, true);
  });
}

Status ncclComm::flush() {
  std::vector<Outstanding> calls;
  Engine engine;
  bool revoked = false;
  {
    const std::lock_guard lock(mutex_);
    calls = outstanding_;
    engine = engine_;
    revoked = phase_ == Phase::revoked;
  }
  Status first = weft::nccl::wait_for(calls);
  if (engine) {
    Status streamed = engine->synchronize();
    if (first.ok()) first = std::move(streamed);
  }
  return revoked ? Status() : first;  // that is what the caller wanted
}

Status ncclComm::finalize() {
  const std::lock_guard lock(mutex_);
  if (tasks_ > 0)
    return invalid_argument("the communicator's last call is still in progress; wait for it first");
  if (phase_ != Phase::open)
    return invalid_argument(
        "the communicator was finalized or revoked already; ncclCommDestroy is next");
  phase_ = Phase::finalized;
  return {};
}

Status ncclComm::revoke() {
  Engine engine;
  {
    const std::lock_guard lock(mutex_);
    if (phase_ != Phase::open)
      return invalid_argument(
          "the communicator was finalized or revoked already; ncclCommDestroy is left");
    if (!engine_) return invalid_argument("the communicator is not made yet");
    phase_ = Phase::revoked;
    engine = engine_;
  }
  engine->abort("the communicator was revoked");
  return {};
}

Status ncclComm::set_suspended(bool suspended) {
  const std::lock_guard lock(mutex_);
  if (suspended_ == suspended)
    return invalid_usage(suspended ? "the communicator is suspended already"
                                   : "the communicator is not suspended");
  suspended_ = suspended;
  return {};
}

bool ncclComm::suspended() const {
  const std::lock_guard lock(mutex_);
  return suspended_;
}

void ncclComm::give_up(bool abort) {
  Engine engine;
  {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::given_up;
    given_up_ = true;
    engine.swap(engine_);
  }
  if (engine && abort) engine->abort(kAborted);
}

// Handles are never used twice in a process, so one that was destroyed, or belongs to another
// communicator, is noticed.
ncclRedOp_t ncclComm::add(PreMulSum op) {
  static std::atomic<int> next{ncclNumOps};
  const int handle = next.fetch_add(1);
  const std::lock_guard lock(mutex_);
  ops_.emplace(handle, std::move(op));
  return static_cast<ncclRedOp_t>(handle);
}

Status ncclComm::remove(ncclRedOp_t op) {
  const std::lock_guard lock(mutex_);
  if (ops_.erase(static_cast<int>(op)) > 0) return {};
  return invalid_argument(
      concat("op ", static_cast<int>(op),
             static_cast<unsigned>(op) < ncclNumOps
                 ? " is built in and cannot be destroyed"
                 : " was not made by ncclRedOpCreatePreMulSum of this communicator"));
}

Result<PreMulSum> ncclComm::find(ncclRedOp_t op) const {
  const std::lock_guard lock(mutex_);
  const auto found = ops_.find(static_cast<int>(op));
  if (found != ops_.end()) return found->second;
  return invalid_argument(
      concat("op is ", static_cast<int>(op), ", which is neither one of 0 to ", ncclNumOps - 1,
             " nor one that ncclRedOpCreatePreMulSum has made of this communicator"));
}

void* ncclComm::add_registration() {
  static std::atomic<uintptr_t> made{0};  // of the whole process: another communicator's is noticed
  // A number that is no address: it only has to be told from others.
  void* const handle = reinterpret_cast<void*>(++made);
  const std::lock_guard lock(mutex_);
  registrations_.insert(handle);
  return handle;
}

Status ncclComm::remove_registration(void* handle) {
  const std::lock_guard lock(mutex_);
  if (registrations_.erase(handle) > 0) return {};
  return invalid_argument(concat("handle is ", address_text(handle),
                                 ", which ncclCommRegister has not given for this communicator, or "
                                 "which is deregistered already"));
}

std::string ncclComm::label(const weft::Communicator* engine) const {
  const std::string& name = config.comm_name;
  return concat("comm ", address_text(handle_), name.empty() ? "" : concat(" (", name, ")"),
                engine ? concat(" rank ", engine->rank(), " nranks ", engine->size()) : "");
}

bool ncclComm::first_of(const std::string& shape) {
  const std::lock_guard lock(mutex_);
  return shapes_.size() < kShapes && shapes_.insert(shape).second;
}

namespace weft::nccl {

Status wait_for(const std::vector<Outstanding>& calls) {
  Status first;
  for (const Outstanding& call : calls)
    if (Status status = call.work.wait(); first.ok()) first = std::move(status);
  return first;
}

ncclComm_t Registry::add(std::shared_ptr<ncclComm> comm) {
  const ncclComm_t handle = comm->handle();
  comms_.emplace(handle, std::move(comm));
  return handle;
}

std::shared_ptr<ncclComm> Registry::find(ncclComm_t handle) const {
  const auto found = comms_.find(handle);
  return found == comms_.end() ? nullptr : found->second;
}

std::shared_ptr<ncclComm> Registry::remove(ncclComm_t handle) {
  const auto found = comms_.find(handle);
  if (found == comms_.end()) return nullptr;
  std::shared_ptr<ncclComm> comm = std::move(found->second);
  comms_.erase(found);
  return comm;
}

Result<std::shared_ptr<ncclComm>> comm_of(ncclComm_t handle) {
  if (!handle) return invalid_argument("comm is null; pass a communicator");
  std::shared_ptr<ncclComm> comm = Registry::of_process()->find(handle);
  if (comm) return comm;
  return invalid_argument(
      concat("comm is ", address_text(handle),
             ", which is no communicator of this process, or was destroyed or aborted already; "
             "pass one that ncclCommInitRank has given"));
}

}  // namespace weft::nccl
