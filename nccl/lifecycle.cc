// The end of communicators, and their rests.
#include "base/text.h"
#include "nccl/api.h"
#include "nccl/comm.h"
#include "nccl/debug.h"

namespace weft::nccl {
namespace {

Answer finalize(ncclComm_t handle) {
  if (!handle) return ncclSuccess;
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  WEFT_TRY((*comm)->finalize());
  if ((*comm)->config.blocking)
    WEFT_TRY((*comm)->flush());
  else if ((*comm)->state() == ncclInProgress)
    return ncclInProgress;
  WEFT_TRY((*comm)->failure());
  return ncclSuccess;
}

// What was called still ends, unless `abort`.
Answer destroy(ncclComm_t handle, bool abort) {
  if (!handle) return ncclSuccess;
  auto found = comm_of(handle);
  if (!found.ok()) return found.status();
  const std::shared_ptr<ncclComm> comm = Registry::of_process()->remove(handle);
  if (!comm) return invalid_argument("comm was destroyed by another thread meanwhile");
  const Status flushed = abort ? Status() : comm->flush();
  const std::string label = comm->label();
  comm->give_up(abort);
  info(Subsystem::init, comm->device,
       concat(label, abort ? " - Abort COMPLETE" : " - Destroy COMPLETE"));
  if (!flushed.ok()) return flushed;
  return ncclSuccess;
}

Answer revoke(ncclComm_t handle, int flags) {
  if (!handle) return ncclSuccess;
  if (flags != NCCL_REVOKE_DEFAULT)
    return invalid_argument(concat("revokeFlags is ", flags, "; it must be 0"));
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  WEFT_TRY((*comm)->revoke());
  return ncclSuccess;
}

// All memory of a GPU's is kept; what the call means for later ones holds all the same.
Answer suspend(ncclComm_t handle, int flags) {
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  if (flags != NCCL_SUSPEND_MEM)
    return invalid_argument(concat("flags is ", flags, "; it must be NCCL_SUSPEND_MEM"));
  if (auto engine = (*comm)->management(); !engine.ok()) return engine.status();
  WEFT_TRY((*comm)->flush());
  WEFT_TRY((*comm)->set_suspended(true));
  return ncclSuccess;
}

Answer resume(ncclComm_t handle) {
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  if (auto engine = (*comm)->management(); !engine.ok()) return engine.status();
  WEFT_TRY((*comm)->set_suspended(false));
  return ncclSuccess;
}

Answer memory_stats(ncclComm_t handle, ncclCommMemStat_t stat, uint64_t* value) {
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  if (!value) return invalid_argument("value is null; say where the figure shall go");
  switch (stat) {
    case ncclStatGpuMemSuspended: *value = (*comm)->suspended() ? 1 : 0; return ncclSuccess;
    case ncclStatGpuMemSuspend: *value = 0; return ncclSuccess;
    case ncclStatGpuMemPersist:
    case ncclStatGpuMemTotal: {
      const ncclComm::Engine engine = (*comm)->engine();
      *value = engine ? engine->device_bytes() : 0;
      return ncclSuccess;
    }
  }
  return invalid_argument(concat("stat is ", static_cast<int>(stat), "; figures go from 0 to 3"));
}

}  // namespace
}  // namespace weft::nccl

using weft::nccl::answer;

ncclResult_t pncclCommFinalize(ncclComm_t comm) {
  return answer("ncclCommFinalize", [&] { return weft::nccl::finalize(comm); });
}
WEFT_NCCL_TWIN(ncclCommFinalize);

ncclResult_t pncclCommDestroy(ncclComm_t comm) {
  return answer("ncclCommDestroy", [&] { return weft::nccl::destroy(comm, false); });
}
WEFT_NCCL_TWIN(ncclCommDestroy);

ncclResult_t pncclCommAbort(ncclComm_t comm) {
  return answer("ncclCommAbort", [&] { return weft::nccl::destroy(comm, true); });
}
WEFT_NCCL_TWIN(ncclCommAbort);

ncclResult_t pncclCommRevoke(ncclComm_t comm, int flags) {
  return answer("ncclCommRevoke", [&] { return weft::nccl::revoke(comm, flags); });
}
WEFT_NCCL_TWIN(ncclCommRevoke);

ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags) {
  return answer("ncclCommSuspend", [&] { return weft::nccl::suspend(comm, flags); });
}
WEFT_NCCL_TWIN(ncclCommSuspend);

ncclResult_t pncclCommResume(ncclComm_t comm) {
  return answer("ncclCommResume", [&] { return weft::nccl::resume(comm); });
}
WEFT_NCCL_TWIN(ncclCommResume);

ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value) {
  return answer("ncclCommMemStats", [&] { return weft::nccl::memory_stats(comm, stat, value); });
}
WEFT_NCCL_TWIN(ncclCommMemStats);
