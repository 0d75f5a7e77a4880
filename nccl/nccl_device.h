/* The device side of NCCL's interface, as far as programs that only link to it need it.
 *
 * Kernels that are written against NCCL's device interface (windows, LSA, multimem, GIN) compile
 * with this header; weft does not run them yet. Host functions below that only tell about a
 * communicator or a team answer, the others report ncclInvalidUsage, so no program gets as far as
 * launching one, and every device function ends its kernel (trap).
 * What structures hold is of this header alone: kernels compiled with NCCL's own do not fit.
 */
/* NOLINTBEGIN(readability-identifier-naming,modernize-*): the names and the language are given */
#pragma once
#ifndef NCCL_DEVICE_H_
#define NCCL_DEVICE_H_

#include <stdbool.h>
#include <stdint.h>

#if defined(__CUDACC__)
#include <cuda/atomic>
#endif

#include "nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t ncclDevResourceHandle;
typedef ncclDevResourceHandle ncclDevResourceHandle_t;
typedef uint32_t ncclGinSignal_t;
typedef uint32_t ncclGinCounter_t;

/* Ranks first, first + stride, ...; this one is `rank` among them. */
typedef struct ncclTeam {
  int nRanks, rank, stride;
} ncclTeam_t;

typedef struct ncclMultimemHandle {
  void* mcBasePtr;
} ncclMultimemHandle_t;
typedef struct ncclLsaBarrierHandle {
  ncclDevResourceHandle_t bufHandle;
  int nBarriers;
} ncclLsaBarrierHandle_t;
typedef struct ncclGinBarrierHandle {
  ncclGinSignal_t signal0;
} ncclGinBarrierHandle_t;
typedef struct ncclLLA2AHandle {
  ncclDevResourceHandle_t bufHandle;
  uint32_t nSlots;
} ncclLLA2AHandle_t;
typedef struct ncclGinOutboxHandle ncclGinOutboxHandle;
typedef struct ncclGinInboxA2AHandle ncclGinInboxA2AHandle;

/* What a kernel asks of a communicator; as in 2.28. */
typedef struct ncclDevResourceRequirements {
  struct ncclDevResourceRequirements* next;
  size_t bufferSize, bufferAlign;
  ncclDevResourceHandle_t* outBufferHandle;
  int ginSignalCount;
  int ginCounterCount;
  ncclGinSignal_t* outGinSignalStart;
  ncclGinCounter_t* outGinCounterStart;
} ncclDevResourceRequirements_t;

typedef struct ncclTeamRequirements {
  struct ncclTeamRequirements* next;
  ncclTeam_t team;
  bool multimem;
  ncclMultimemHandle_t* outMultimemHandle;
} ncclTeamRequirements_t;

typedef struct ncclDevCommRequirements {
  ncclDevResourceRequirements_t* resourceRequirementsList;
  ncclTeamRequirements_t* teamRequirementsList;
  bool lsaMultimem;
  int barrierCount;
  int lsaBarrierCount;
  int railGinBarrierCount;
  int lsaLLA2ABlockCount, lsaLLA2ASlotCount;
  bool ginForceEnable;
  int ginContextCount;
  int ginSignalCount;
  int ginCounterCount;
} ncclDevCommRequirements_t;

/* A communicator as kernels would see it; never made. */
typedef struct ncclDevComm {
  int rank, nRanks;
  int lsaRank, lsaSize;
  ncclLsaBarrierHandle_t lsaBarrier;
  ncclGinBarrierHandle_t railGinBarrier;
  ncclMultimemHandle_t lsaMultimem;
} ncclDevComm_t;

/* How data may leave a kernel for another host: not at all. */
typedef enum {
  NCCL_GIN_TYPE_NONE = 0,
  NCCL_GIN_TYPE_PROXY = 2,
  NCCL_GIN_TYPE_GDAKI = 3,
  NCCL_GIN_TYPE_GPI = 4
} ncclGinType_t;

/* A communicator's abilities, since 2.29. Begins with NCCL_COMM_PROPERTIES_INITIALIZER. */
typedef struct ncclCommProperties {
  size_t size; /* these three are the initializer's */
  unsigned int magic;
  unsigned int version;
  int rank;
  int nRanks;
  int cudaDev;
  int nvmlDev;
  bool deviceApiSupport;
  bool multimemSupport;
  ncclGinType_t ginType;
  int nLsaTeams;
  bool hostRmaSupport;
  ncclGinType_t railedGinType;
} ncclCommProperties_t;
#define NCCL_COMM_PROPERTIES_INITIALIZER                                                       \
  {                                                                                            \
    sizeof(ncclCommProperties_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, 0, 0, 0, 0, false, false, \
        NCCL_GIN_TYPE_NONE, 0, false, NCCL_GIN_TYPE_NONE                                       \
  }

WEFT_NCCL_CALL(ncclCommQueryProperties, ncclComm_t comm, ncclCommProperties_t* props);

WEFT_NCCL_CALL(ncclDevCommCreate, ncclComm_t comm, ncclDevCommRequirements_t const* reqs,
               ncclDevComm_t* outDevComm);
WEFT_NCCL_CALL(ncclDevCommDestroy, ncclComm_t comm, ncclDevComm_t const* devComm);

WEFT_NCCL_CALL(ncclGetLsaDevicePointer, ncclWindow_t window, size_t offset, int lsaRank,
               void** outPtr);
WEFT_NCCL_CALL(ncclGetPeerDevicePointer, ncclWindow_t window, size_t offset, int peer,
               void** outPtr);
WEFT_NCCL_CALL(ncclGetLsaMultimemDevicePointer, ncclWindow_t window, size_t offset, void** outPtr);
WEFT_NCCL_CALL(ncclGetMultimemDevicePointer, ncclWindow_t window, size_t offset,
               ncclMultimemHandle_t multimem, void** outPtr);

/* Teams are plain facts: all ranks, this rank alone (no rank can load from another's memory in a
 * kernel), and all ranks again. A null or wrong communicator gives a team of none. */
WEFT_NCCL_DECLARE(ncclTeam_t, ncclTeamWorld, ncclComm_t comm);
WEFT_NCCL_DECLARE(ncclTeam_t, ncclTeamLsa, ncclComm_t comm);
WEFT_NCCL_DECLARE(ncclTeam_t, ncclTeamRail, ncclComm_t comm);
WEFT_NCCL_DECLARE(int, ncclTeamRankToWorld, ncclComm_t comm, ncclTeam_t team, int rank);
WEFT_NCCL_DECLARE(int, ncclTeamRankToLsa, ncclComm_t comm, ncclTeam_t team, int rank);

WEFT_NCCL_CALL(ncclLsaBarrierCreateRequirement, ncclTeam_t team, int nBarriers,
               ncclLsaBarrierHandle_t* outHandle, ncclDevResourceRequirements_t* outReq);
WEFT_NCCL_CALL(ncclGinBarrierCreateRequirement, ncclComm_t comm, ncclTeam_t team, int nBarriers,
               ncclGinBarrierHandle_t* outHandle, ncclDevResourceRequirements_t* outReq);
WEFT_NCCL_DECLARE(int, ncclLLA2ACalcSlots, int maxElts, int maxEltSize);
WEFT_NCCL_CALL(ncclLLA2ACreateRequirement, int nBlocks, int nSlots, ncclLLA2AHandle_t* outHandle,
               ncclDevResourceRequirements_t* outReq);
WEFT_NCCL_CALL(ncclGinOutboxCreateRequirement, int nBlocks, int size_log2,
               ncclGinOutboxHandle* outHandle, ncclDevResourceRequirements_t* outReq);
WEFT_NCCL_CALL(ncclGinInboxA2ACreateRequirement, ncclTeam_t peers, int nBlocks, int size_log2,
               ncclGinInboxA2AHandle* outHandle, ncclDevResourceRequirements_t* outReq);

#ifdef __cplusplus
}
#endif

#if defined(__CUDACC__)

#define WEFT_NCCL_DEVICE __device__ __forceinline__

/* None of this is there yet. */
WEFT_NCCL_DEVICE void weft_nccl_absent() { __trap(); }

struct ncclTeamTagWorld {};
struct ncclTeamTagLsa {};
struct ncclTeamTagRail {};

template <int threads>
struct ncclCoopTile {
  WEFT_NCCL_DEVICE int thread_rank() const { return static_cast<int>(threadIdx.x) % threads; }
  WEFT_NCCL_DEVICE int size() const { return threads; }
  WEFT_NCCL_DEVICE int num_threads() const { return threads; }
  WEFT_NCCL_DEVICE void sync() { __syncwarp(); }
};
using ncclCoopThread = ncclCoopTile<1>;
using ncclCoopWarp = ncclCoopTile<32>;

struct ncclCoopCta {
  WEFT_NCCL_DEVICE int thread_rank() const { return static_cast<int>(threadIdx.x); }
  WEFT_NCCL_DEVICE int size() const { return static_cast<int>(blockDim.x); }
  WEFT_NCCL_DEVICE int num_threads() const { return size(); }
  WEFT_NCCL_DEVICE void sync() { __syncthreads(); }
};

WEFT_NCCL_DEVICE ncclTeam ncclTeamWorld(ncclDevComm const& comm) {
  return ncclTeam{comm.nRanks, comm.rank, 1};
}
WEFT_NCCL_DEVICE ncclTeam ncclTeamLsa(ncclDevComm const& comm) {
  return ncclTeam{comm.lsaSize, comm.lsaRank, 1};
}

WEFT_NCCL_DEVICE void* ncclGetLocalPointer(ncclWindow_t, size_t) {
  weft_nccl_absent();
  return nullptr;
}
WEFT_NCCL_DEVICE void* ncclGetLsaPointer(ncclWindow_t, size_t, int) {
  weft_nccl_absent();
  return nullptr;
}
WEFT_NCCL_DEVICE void* ncclGetPeerPointer(ncclWindow_t, size_t, int) {
  weft_nccl_absent();
  return nullptr;
}
WEFT_NCCL_DEVICE void* ncclGetLsaMultimemPointer(ncclWindow_t, size_t, ncclDevComm const&) {
  weft_nccl_absent();
  return nullptr;
}

template <class Coop>
struct ncclLsaBarrierSession {
  WEFT_NCCL_DEVICE ncclLsaBarrierSession(Coop, ncclDevComm const&, ncclTeam, ncclLsaBarrierHandle,
                                         uint32_t, bool = false, ncclMultimemHandle = {}) {}
  WEFT_NCCL_DEVICE ncclLsaBarrierSession(Coop, ncclDevComm const&, ncclTeamTagLsa, uint32_t,
                                         bool = false) {}
  ncclLsaBarrierSession(ncclLsaBarrierSession const&) = delete;
  WEFT_NCCL_DEVICE void arrive(Coop, cuda::memory_order) { weft_nccl_absent(); }
  WEFT_NCCL_DEVICE void wait(Coop, cuda::memory_order) { weft_nccl_absent(); }
  WEFT_NCCL_DEVICE void sync(Coop, cuda::memory_order) { weft_nccl_absent(); }
};

struct ncclGin_None {};
struct ncclGin_SignalAdd {
  ncclGinSignal_t signal;
  uint64_t value;
};
struct ncclGin_SignalInc {
  ncclGinSignal_t signal;
};
struct ncclGin_CounterInc {
  ncclGinCounter_t counter;
};

struct ncclGin {
  WEFT_NCCL_DEVICE ncclGin(ncclDevComm const&, int) {}
  template <class RemoteAction = ncclGin_None, class LocalAction = ncclGin_None>
  WEFT_NCCL_DEVICE void put(ncclTeam, int, ncclWindow_t, size_t, ncclWindow_t, size_t, size_t,
                            RemoteAction = {}, LocalAction = {}) const {
    weft_nccl_absent();
  }
  template <class RemoteAction>
  WEFT_NCCL_DEVICE void signal(ncclTeam, int, RemoteAction) const {
    weft_nccl_absent();
  }
  template <class Coop>
  WEFT_NCCL_DEVICE void flush(Coop) const {
    weft_nccl_absent();
  }
  WEFT_NCCL_DEVICE uint64_t readSignal(ncclGinSignal_t, int = 64) const {
    weft_nccl_absent();
    return 0;
  }
  template <class Coop>
  WEFT_NCCL_DEVICE void waitSignal(Coop, ncclGinSignal_t, uint64_t, int = 64) const {
    weft_nccl_absent();
  }
};

enum class ncclGinFenceLevel { Relaxed };

template <class Coop>
struct ncclBarrierSession {
  WEFT_NCCL_DEVICE ncclBarrierSession(Coop, ncclTeamTagWorld, ncclGin, uint32_t, bool = false) {}
  WEFT_NCCL_DEVICE ncclBarrierSession(Coop, ncclTeamTagLsa, ncclDevComm const&, uint32_t,
                                      bool = false) {}
  WEFT_NCCL_DEVICE ncclBarrierSession(Coop, ncclTeamTagRail, ncclGin, uint32_t) {}
  ncclBarrierSession(ncclBarrierSession const&) = delete;
  WEFT_NCCL_DEVICE void sync(Coop, cuda::memory_order, ncclGinFenceLevel) { weft_nccl_absent(); }
};

#endif

#endif
/* NOLINTEND(readability-identifier-naming,modernize-*) */
