// ncclComm: a communicator as its handle's owner sees it, from before there is an engine until it
// is destroyed.
//
// Thread safety: any call from any thread. Programs may pass a handle on after it was destroyed, so
// handles are numbers that are never given twice; calls find the object by them in the Registry,
// and share it while they run.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/process_wide.h"
#include "engine/communicator.h"
#include "nccl/config.h"
#include "nccl/nccl.h"

namespace weft::nccl {

// A reduction that ncclRedOpCreatePreMulSum has made.
struct PreMulSum {
  ncclDataType_t type = ncclInt8;
  std::shared_ptr<const std::array<std::byte, 8>> value;  // null: `at` is read when a call runs
  const void* at = nullptr;
};

// An asynchronous call, and what it reads until it is done.
struct Outstanding {
  Work work;
  std::shared_ptr<const void> memory;
};

// Until all have ended; the first failure.
Status wait_for(const std::vector<Outstanding>& calls);

}  // namespace weft::nccl

struct ncclComm final {  // NOLINT(readability-identifier-naming): the C interface names it
 public:
  using Engine = std::shared_ptr<weft::Communicator>;

  ncclComm(weft::nccl::CommConfig how, int on_device) : config(std::move(how)), device(on_device) {}

  ncclComm_t handle() const { return handle_; }
  // Those that were asked for later have a larger one.
  uintptr_t number() const { return reinterpret_cast<uintptr_t>(handle_); }
  const weft::nccl::CommConfig config;
  const int device;  // that it was made for; only a number where it has no GPU

  // Something that is going on by itself, such as its making: calls are refused until it has ended.
  void begin_task();
  void end_task(const weft::Status& status);
  // The engine, made by such a task. Where the handle was given up meanwhile, it is aborted.
  void become(std::unique_ptr<weft::Communicator> engine);

  // What calls need: the engine, of a communicator that is neither busy, failed, finalized, revoked
  // nor suspended. management(): also of one that was revoked or suspended, or where a call failed.
  weft::Result<Engine> callable() const;
  weft::Result<Engine> management() const;
  // The engine as it is; null before and after.
  Engine engine() const;

  // ncclInProgress, but not where the task's caller waits for it, or how it is. A failure that no
  // call has given, as of one that does not block, is reported by who first asks.
  ncclResult_t state();
  weft::Status failure() const;

  // Until state() sees its end; successes go earlier where nobody asks for long.
  void keep(weft::nccl::Outstanding call);
  // Waits for all that is outstanding, on streams too; the first failure, unless it was revoked.
  weft::Status flush();

  weft::Status finalize();
  weft::Status revoke();
  weft::Status set_suspended(bool suspended);
  bool suspended() const;
  // No call finds it any more; the last one that runs destroys the engine. Its making ends soon.
  void give_up(bool abort);
  const std::atomic<bool>& given_up() const { return given_up_; }

  ncclRedOp_t add(weft::nccl::PreMulSum op);
  weft::Status remove(ncclRedOp_t op);
  weft::Result<weft::nccl::PreMulSum> find(ncclRedOp_t op) const;

  void* add_registration();
  weft::Status remove_registration(void* handle);

  // "comm 0x11 (its name) rank 0 nranks 2", for lines that tell communicators apart. The
  // engine is given where this object does not have it yet.
  std::string label(const weft::Communicator* engine) const;
  std::string label() const { return label(this->engine().get()); }

  // Whether calls of this shape were not seen before; false once there are kShapes.
  bool first_of(const std::string& shape);
  static constexpr size_t kShapes = 1024;

 private:
  enum class Phase : uint8_t { open, finalized, revoked, given_up };

  // What there is to say of it.
  struct Finding {
    bool busy = false;
    std::string_view failed{};  // what has; where there is a failure
    weft::Status failure{};
    Engine engine{};  // which knows whether there is one; null: `failure` says
  };

  static ncclComm_t next_handle();
  weft::Result<Engine> usable(bool also_resting) const;
  // REQUIRES: the mutex is held, which the engine's answer does not need.
  Finding look();
  bool first_failure_told();  // before now; from now on it is
  // All that has ended, but for the first failure. REQUIRES: the mutex is held.
  void forget_ended();

  const ncclComm_t handle_ = next_handle();
  mutable std::mutex mutex_;
  Engine engine_;
  Phase phase_ = Phase::open;
  std::atomic<bool> given_up_{false};  // phase_ says the same; for who makes the engine
  bool suspended_ = false;
  int tasks_ = 0;
  weft::Status unmade_;       // why a task failed
  weft::Status failed_call_;  // the first of those that state() has seen the end of
  bool told_ = false;         // that it has failed
  std::vector<weft::nccl::Outstanding> outstanding_;
  size_t forget_at_ = 0;  // so many outstanding, so that each is looked at a few times at most
  std::map<int, weft::nccl::PreMulSum> ops_;
  std::set<void*> registrations_;  // handles
  std::set<std::string> shapes_;
};

namespace weft::nccl {

// The process's communicators by handle.
class Registry {
 public:
  static ProcessWide<Registry> of_process() { return {}; }

  ncclComm_t add(std::shared_ptr<ncclComm> comm);
  // Null where there is none, any more or at all.
  std::shared_ptr<ncclComm> find(ncclComm_t handle) const;
  std::shared_ptr<ncclComm> remove(ncclComm_t handle);

 private:
  std::map<ncclComm_t, std::shared_ptr<ncclComm>> comms_;
};

// The communicator behind a handle that a caller gave, or what is wrong with the handle.
Result<std::shared_ptr<ncclComm>> comm_of(ncclComm_t handle);

}  // namespace weft::nccl
