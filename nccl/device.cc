// What needs NCCL's own layouts in device memory, or one rank's memory in another's kernel: said to
// be absent, with a reason. What can be told about a communicator without them is told.
#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "nccl/api.h"
#include "nccl/comm.h"
#include "nccl/memory.h"
#include "nccl/nccl_device.h"

namespace weft::nccl {
namespace {

constexpr const char* kNoDeviceApi =
    "kernels cannot use communicators of this library (there is no device interface); use "
    "collectives, or sends and receives";
constexpr const char* kNoWindows =
    "there are no windows, as they need NCCL's layouts in device memory; use memory that is not "
    "registered, or ncclCommRegister";

// After the arguments that are always checked.
ncclResult_t refuse(const char* call, ncclComm_t handle, const char* why) noexcept {
  return answer(call, [&]() -> Answer {
    if (auto comm = comm_of(handle); !comm.ok()) return comm.status();
    return invalid_usage(why);
  });
}

ncclResult_t refuse(const char* call, const char* why) noexcept {
  return answer(call, [&]() -> Answer { return invalid_usage(why); });
}

Answer properties(ncclComm_t handle, ncclCommProperties_t* out) {
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  if (!out) return invalid_argument("props is null; say where the properties shall go");
  auto engine = (*comm)->management();
  if (!engine.ok()) return engine.status();
  size_t size = 0;
  std::memcpy(&size, &out->size, sizeof size);
  const size_t known = std::min(size, sizeof(ncclCommProperties_t));
  ncclCommProperties_t read{};
  std::memcpy(&read, out, known);
  if (read.magic != NCCL_API_MAGIC)
    return invalid_usage("props was not begun with NCCL_COMM_PROPERTIES_INITIALIZER");
  read.rank = (*engine)->rank();
  read.nRanks = (*engine)->size();
  read.cudaDev = read.nvmlDev = (*comm)->device;
  read.deviceApiSupport = read.multimemSupport = read.hostRmaSupport = false;
  read.ginType = read.railedGinType = NCCL_GIN_TYPE_NONE;
  read.nLsaTeams = read.nRanks;
  std::memcpy(out, &read, known);
  return ncclSuccess;
}

// As NCCL does where memory cannot be a window: the call succeeds, there is none, and collectives
// on that memory go their usual way.
Answer register_window(ncclComm_t handle, const void* memory, size_t bytes, ncclWindow_t* out) {
  if (!out) return invalid_argument("win is null; say where the window shall go");
  *out = nullptr;
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  WEFT_TRY(check_registered(memory, bytes));
  return ncclSuccess;
}

Answer deregister_window(ncclComm_t handle, ncclWindow_t window) {
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  if (!window) return ncclSuccess;
  return invalid_argument(
      concat("win is ", address_text(window),
             ", which ncclCommWindowRegister has not given: here it gives null"));
}

ncclTeam_t team_of(const char* call, ncclComm_t handle, bool alone) noexcept {
  ncclTeam_t team{0, 0, 1};
  answer(call, [&]() -> Answer {
    auto comm = comm_of(handle);
    if (!comm.ok()) return comm.status();
    auto engine = (*comm)->management();
    if (!engine.ok()) return engine.status();
    team = alone ? ncclTeam_t{1, 0, 1} : ncclTeam_t{(*engine)->size(), (*engine)->rank(), 1};
    return ncclSuccess;
  });
  return team;
}

// The k-th rank of a team, counted in all ranks.
int world_rank(ncclComm_t comm, const ncclTeam_t& team, int rank) {
  return team_of("ncclTeamRankToWorld", comm, false).rank + (rank - team.rank) * team.stride;
}

}  // namespace
}  // namespace weft::nccl

using weft::nccl::kNoDeviceApi;
using weft::nccl::kNoWindows;
using weft::nccl::refuse;

ncclResult_t pncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t* props) {
  return weft::nccl::answer("ncclCommQueryProperties",
                            [&] { return weft::nccl::properties(comm, props); });
}
WEFT_NCCL_TWIN(ncclCommQueryProperties);

ncclResult_t pncclDevCommCreate(ncclComm_t comm, ncclDevCommRequirements_t const*, ncclDevComm_t*) {
  return refuse("ncclDevCommCreate", comm, kNoDeviceApi);
}
WEFT_NCCL_TWIN(ncclDevCommCreate);

ncclResult_t pncclDevCommDestroy(ncclComm_t comm, ncclDevComm_t const*) {
  return refuse("ncclDevCommDestroy", comm, kNoDeviceApi);
}
WEFT_NCCL_TWIN(ncclDevCommDestroy);

ncclResult_t pncclGetLsaDevicePointer(ncclWindow_t, size_t, int, void**) {
  return refuse("ncclGetLsaDevicePointer", kNoWindows);
}
WEFT_NCCL_TWIN(ncclGetLsaDevicePointer);

ncclResult_t pncclGetPeerDevicePointer(ncclWindow_t, size_t, int, void**) {
  return refuse("ncclGetPeerDevicePointer", kNoWindows);
}
WEFT_NCCL_TWIN(ncclGetPeerDevicePointer);

ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t, size_t, void**) {
  return refuse("ncclGetLsaMultimemDevicePointer", kNoWindows);
}
WEFT_NCCL_TWIN(ncclGetLsaMultimemDevicePointer);

ncclResult_t pncclGetMultimemDevicePointer(ncclWindow_t, size_t, ncclMultimemHandle_t, void**) {
  return refuse("ncclGetMultimemDevicePointer", kNoWindows);
}
WEFT_NCCL_TWIN(ncclGetMultimemDevicePointer);

ncclTeam_t pncclTeamWorld(ncclComm_t comm) {
  return weft::nccl::team_of("ncclTeamWorld", comm, false);
}
WEFT_NCCL_TWIN(ncclTeamWorld);

ncclTeam_t pncclTeamLsa(ncclComm_t comm) { return weft::nccl::team_of("ncclTeamLsa", comm, true); }
WEFT_NCCL_TWIN(ncclTeamLsa);

ncclTeam_t pncclTeamRail(ncclComm_t comm) {
  return weft::nccl::team_of("ncclTeamRail", comm, false);
}
WEFT_NCCL_TWIN(ncclTeamRail);

int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
  return weft::nccl::world_rank(comm, team, rank);
}
WEFT_NCCL_TWIN(ncclTeamRankToWorld);

// Counted in the team of this rank alone.
int pncclTeamRankToLsa(ncclComm_t, ncclTeam_t team, int rank) {
  return (rank - team.rank) * team.stride;
}
WEFT_NCCL_TWIN(ncclTeamRankToLsa);

ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam_t, int, ncclLsaBarrierHandle_t*,
                                              ncclDevResourceRequirements_t*) {
  return refuse("ncclLsaBarrierCreateRequirement", kNoDeviceApi);
}
WEFT_NCCL_TWIN(ncclLsaBarrierCreateRequirement);

ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t, int,
                                              ncclGinBarrierHandle_t*,
                                              ncclDevResourceRequirements_t*) {
  return refuse("ncclGinBarrierCreateRequirement", comm, kNoDeviceApi);
}
WEFT_NCCL_TWIN(ncclGinBarrierCreateRequirement);

// None: no session can be made.
int pncclLLA2ACalcSlots(int, int) { return 0; }
WEFT_NCCL_TWIN(ncclLLA2ACalcSlots);

ncclResult_t pncclLLA2ACreateRequirement(int, int, ncclLLA2AHandle_t*,
                                         ncclDevResourceRequirements_t*) {
  return refuse("ncclLLA2ACreateRequirement", kNoDeviceApi);
}
WEFT_NCCL_TWIN(ncclLLA2ACreateRequirement);

ncclResult_t pncclGinOutboxCreateRequirement(int, int, ncclGinOutboxHandle*,
                                             ncclDevResourceRequirements_t*) {
  return refuse("ncclGinOutboxCreateRequirement", kNoDeviceApi);
}
WEFT_NCCL_TWIN(ncclGinOutboxCreateRequirement);

ncclResult_t pncclGinInboxA2ACreateRequirement(ncclTeam_t, int, int, ncclGinInboxA2AHandle*,
                                               ncclDevResourceRequirements_t*) {
  return refuse("ncclGinInboxA2ACreateRequirement", kNoDeviceApi);
}
WEFT_NCCL_TWIN(ncclGinInboxA2ACreateRequirement);

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                     int) {
  return weft::nccl::answer("ncclCommWindowRegister",
                            [&] { return weft::nccl::register_window(comm, buff, size, win); });
}
WEFT_NCCL_TWIN(ncclCommWindowRegister);

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return weft::nccl::answer("ncclCommWindowDeregister",
                            [&] { return weft::nccl::deregister_window(comm, win); });
}
WEFT_NCCL_TWIN(ncclCommWindowDeregister);

ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t, void**) {
  return refuse("ncclWinGetUserPtr", comm, kNoWindows);
}
WEFT_NCCL_TWIN(ncclWinGetUserPtr);

ncclResult_t pncclPutSignal(const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int,
                            int, unsigned int, ncclComm_t comm, cudaStream_t) {
  return refuse("ncclPutSignal", comm, kNoWindows);
}
WEFT_NCCL_TWIN(ncclPutSignal);

ncclResult_t pncclSignal(int, int, int, unsigned int, ncclComm_t comm, cudaStream_t) {
  return refuse("ncclSignal", comm, kNoWindows);
}
WEFT_NCCL_TWIN(ncclSignal);

ncclResult_t pncclWaitSignal(int, ncclWaitSignalDesc_t*, ncclComm_t comm, cudaStream_t) {
  return refuse("ncclWaitSignal", comm, kNoWindows);
}
WEFT_NCCL_TWIN(ncclWaitSignal);
