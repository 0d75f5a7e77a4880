/* The C interface of NCCL, as libnccl.so.2 of weft serves it.
 *
 * Binary compatible with NCCL 2.28.9: sizes, fields, values and signatures are the same, so that
 * programs which were compiled with either header run with either library. Host functions that came
 * later, up to 2.30, are declared, too; NCCL_VERSION_CODE stays that of the structures below.
 * docs/nccl.md says what each call does here, and what is different.
 *
 * For C99 and C++. Where CUDA's headers are found, streams are CUDA's; else they are opaque
 * pointers of the same size. Calls on a GPU's memory run on their stream. On the host's memory a
 * call has ended when it returns, or, on a communicator that does not block, when
 * ncclCommGetAsyncError no longer says ncclInProgress.
 */
/* NOLINTBEGIN(readability-identifier-naming,modernize-*): the names and the language are given */
#pragma once
#ifndef NCCL_H_
#define NCCL_H_

#if defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#define NCCL_HAS_CUDA_HEADERS 1
#endif
#endif

#if defined(NCCL_HAS_CUDA_HEADERS)
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#if CUDART_VERSION >= 11000
#include <cuda_bf16.h>
#endif
#if defined(__cplusplus) && CUDART_VERSION >= 11080
#include <cuda_fp8.h>
#endif
#else
typedef struct CUstream_st* cudaStream_t;
#endif

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""

/* One number for a version; releases up to 2.8 counted the minor number in hundreds. */
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE 22809

#ifdef __cplusplus
extern "C" {
#endif

/* A rank's end of a communicator. */
typedef struct ncclComm* ncclComm_t;
#define NCCL_COMM_NULL NULL
/* Memory that all ranks have registered. */
typedef struct ncclWindow_vidmem* ncclWindow_t;

/* Where the ranks of a communicator meet: made by one process, handed to all. */
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

/* What a call gives back. */
typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1, /* of the CUDA runtime */
  ncclSystemError = 2,        /* of the operating system */
  ncclInternalError = 3,      /* a bug in the library */
  ncclInvalidArgument = 4,    /* a value that cannot be */
  ncclInvalidUsage = 5, /* a call that cannot be made here or now, or not like the other ranks' */
  ncclRemoteError = 6,  /* another rank died, gave up or did not come */
  ncclInProgress = 7,   /* not an error: ask ncclCommGetAsyncError */
  ncclTimeout = 8,      /* known since 2.30; never given by this library */
  ncclNumResults = 8    /* as in 2.28 */
} ncclResult_t;

/* Fields of structures that are left to the library. */
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT (-1.0f)

/* A color of ncclCommSplit: this rank joins no group. */
#define NCCL_SPLIT_NOCOLOR (-1)

/* Flags of ncclCommWindowRegister, and how its memory is aligned. */
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

/* Values of ncclConfig_t::CTAPolicy. */
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

/* Flags of ncclCommShrink: of a communicator at rest, or end what is under way first. */
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01

/* The only flag of ncclCommRevoke. */
#define NCCL_REVOKE_DEFAULT 0x00

/* The only flag of ncclCommSuspend. */
#define NCCL_SUSPEND_MEM 0x01

/* What a communicator is to be like. Begins with NCCL_CONFIG_INITIALIZER; then fields are set. */
typedef struct ncclConfig_v22800 {
  size_t size; /* these three are the initializer's */
  unsigned int magic;
  unsigned int version;
  int blocking; /* 0: calls return ncclInProgress */
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName; /* for messages */
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_API_MAGIC 0xcafebeef
#define NCCL_CONFIG_INITIALIZER                                                                    \
  {                                                                                                \
    sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT,                \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                       \
        NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                       \
        NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                       \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT \
  }

/* What ncclGroupSimulateEnd tells. Begins with NCCL_SIM_INFO_INITIALIZER. */
typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime; /* microseconds */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT }

/* Reductions. Those that ncclRedOpCreatePreMulSum makes are numbered from ncclNumOps. */
typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4, /* the sum, divided by the number of ranks */
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff >> (32 - 8 * sizeof(ncclRedOp_dummy_t))
} ncclRedOp_t;

/* Types of elements. */
typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

/* When a scalar is read: while a collective runs, or before ncclRedOpCreatePreMulSum returns. */
typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

/* Figures of ncclCommMemStats; all of GPU memory. */
typedef enum {
  ncclStatGpuMemSuspend = 0,   /* bytes that ncclCommSuspend can give back */
  ncclStatGpuMemSuspended = 1, /* whether it has */
  ncclStatGpuMemPersist = 2,   /* bytes that it cannot */
  ncclStatGpuMemTotal = 3      /* bytes in all */
} ncclCommMemStat_t;

/* What ncclWaitSignal waits for. */
typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;

/* A setting, by ncclParamBind. */
typedef struct ncclParamHandle* ncclParamHandle_t;

/* Every function is there twice: as ncclX, which another library may replace, and as pncclX. */
#define WEFT_NCCL_DECLARE(result, name, ...) \
  result name(__VA_ARGS__);                  \
  result p##name(__VA_ARGS__)
#define WEFT_NCCL_CALL(name, ...) WEFT_NCCL_DECLARE(ncclResult_t, name, __VA_ARGS__)

/* The library, and what went wrong. The text of the last error belongs to the library. The pointer
 * is good while the thread lives that asked; the thread's next call of ncclGetLastError puts
 * another text there, of 4095 bytes at most. */
WEFT_NCCL_CALL(ncclGetVersion, int* version);
WEFT_NCCL_DECLARE(const char*, ncclGetErrorString, ncclResult_t result);
WEFT_NCCL_DECLARE(const char*, ncclGetLastError, ncclComm_t comm);
WEFT_NCCL_DECLARE(void, ncclResetDebugInit, void);

/* Memory that any rank's calls may use. */
WEFT_NCCL_CALL(ncclMemAlloc, void** ptr, size_t size);
WEFT_NCCL_CALL(ncclMemFree, void* ptr);

/* Making communicators. All ranks call, from processes or threads of their own or in one group. */
WEFT_NCCL_CALL(ncclGetUniqueId, ncclUniqueId* uniqueId);
WEFT_NCCL_CALL(ncclCommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);
WEFT_NCCL_CALL(ncclCommInitRankConfig, ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
               ncclConfig_t* config);
WEFT_NCCL_CALL(ncclCommInitRankScalable, ncclComm_t* newcomm, int nranks, int myrank, int nId,
               ncclUniqueId* commIds, ncclConfig_t* config);
WEFT_NCCL_CALL(ncclCommInitAll, ncclComm_t* comm, int ndev, const int* devlist);

/* Making communicators of others. A null config is the parent's. */
WEFT_NCCL_CALL(ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
               ncclConfig_t* config);
WEFT_NCCL_CALL(ncclCommShrink, ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
               ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags);
WEFT_NCCL_CALL(ncclCommGetUniqueId, ncclComm_t comm, ncclUniqueId* uniqueId);
WEFT_NCCL_CALL(ncclCommGrow, ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
               ncclComm_t* newcomm, ncclConfig_t* config);

/* Their end, in order; at once, here and on the other ranks; or so that only shrinking is left. */
WEFT_NCCL_CALL(ncclCommFinalize, ncclComm_t comm);
WEFT_NCCL_CALL(ncclCommDestroy, ncclComm_t comm);
WEFT_NCCL_CALL(ncclCommAbort, ncclComm_t comm);
WEFT_NCCL_CALL(ncclCommRevoke, ncclComm_t comm, int revokeFlags);

/* Giving memory back for a while. */
WEFT_NCCL_CALL(ncclCommSuspend, ncclComm_t comm, int flags);
WEFT_NCCL_CALL(ncclCommResume, ncclComm_t comm);
WEFT_NCCL_CALL(ncclCommMemStats, ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value);

/* Asking a communicator. */
WEFT_NCCL_CALL(ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* asyncError);
WEFT_NCCL_CALL(ncclCommCount, const ncclComm_t comm, int* count);
WEFT_NCCL_CALL(ncclCommCuDevice, const ncclComm_t comm, int* device);
WEFT_NCCL_CALL(ncclCommUserRank, const ncclComm_t comm, int* rank);

/* Memory that a communicator is told of before it is used. */
WEFT_NCCL_CALL(ncclCommRegister, const ncclComm_t comm, void* buff, size_t size, void** handle);
WEFT_NCCL_CALL(ncclCommDeregister, const ncclComm_t comm, void* handle);
WEFT_NCCL_CALL(ncclCommWindowRegister, ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
               int winFlags);
WEFT_NCCL_CALL(ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t win);
WEFT_NCCL_CALL(ncclWinGetUserPtr, ncclComm_t comm, ncclWindow_t win, void** outUserPtr);

/* A sum of each rank's elements, multiplied by its scalar first; for this communicator and type. */
WEFT_NCCL_CALL(ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
               ncclScalarResidence_t residence, ncclComm_t comm);
WEFT_NCCL_CALL(ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm);

/* Collectives. In place: sendbuff == recvbuff, or, where one of them has a block for each rank, the
 * other is this rank's block in it. Buffers that a rank has no use for may be null. */
WEFT_NCCL_CALL(ncclReduce, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
               cudaStream_t stream);
WEFT_NCCL_CALL(ncclBcast, void* buff, size_t count, ncclDataType_t datatype, int root,
               ncclComm_t comm, cudaStream_t stream);
WEFT_NCCL_CALL(ncclBroadcast, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
WEFT_NCCL_CALL(ncclAllReduce, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
/* recvcount: of one block. */
WEFT_NCCL_CALL(ncclReduceScatter, const void* sendbuff, void* recvbuff, size_t recvcount,
               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
/* sendcount: of one block. */
WEFT_NCCL_CALL(ncclAllGather, const void* sendbuff, void* recvbuff, size_t sendcount,
               ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
/* count: from each rank to each. */
WEFT_NCCL_CALL(ncclAlltoAll, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
/* count: of each rank. */
WEFT_NCCL_CALL(ncclGather, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
WEFT_NCCL_CALL(ncclScatter, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);

/* Between two ranks. Sends and receives that need each other belong in one group. */
WEFT_NCCL_CALL(ncclSend, const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
               ncclComm_t comm, cudaStream_t stream);
WEFT_NCCL_CALL(ncclRecv, void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
               ncclComm_t comm, cudaStream_t stream);

/* One-sided: into a window of the peer's. */
WEFT_NCCL_CALL(ncclPutSignal, const void* localbuff, size_t count, ncclDataType_t datatype,
               int peer, ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
               unsigned int flags, ncclComm_t comm, cudaStream_t stream);
WEFT_NCCL_CALL(ncclSignal, int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
               cudaStream_t stream);
WEFT_NCCL_CALL(ncclWaitSignal, int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
               cudaStream_t stream);

/* Calls between a start and its end begin together at the end of the outermost pair, so that one
 * thread can make them for several ranks. */
WEFT_NCCL_CALL(ncclGroupStart, void);
WEFT_NCCL_CALL(ncclGroupEnd, void);
/* Ends a group, but only tells how long its calls would take. */
WEFT_NCCL_CALL(ncclGroupSimulateEnd, ncclSimInfo_t* simInfo);

/* Settings, by the names of their environment variables. Texts and tables belong to the library,
 * and last until the thread's next call of the same function. */
WEFT_NCCL_CALL(ncclParamBind, ncclParamHandle_t* out, const char* key);
WEFT_NCCL_CALL(ncclParamGetI8, ncclParamHandle_t h, int8_t* out);
WEFT_NCCL_CALL(ncclParamGetI16, ncclParamHandle_t h, int16_t* out);
WEFT_NCCL_CALL(ncclParamGetI32, ncclParamHandle_t h, int32_t* out);
WEFT_NCCL_CALL(ncclParamGetI64, ncclParamHandle_t h, int64_t* out);
WEFT_NCCL_CALL(ncclParamGetU8, ncclParamHandle_t h, uint8_t* out);
WEFT_NCCL_CALL(ncclParamGetU16, ncclParamHandle_t h, uint16_t* out);
WEFT_NCCL_CALL(ncclParamGetU32, ncclParamHandle_t h, uint32_t* out);
WEFT_NCCL_CALL(ncclParamGetU64, ncclParamHandle_t h, uint64_t* out);
WEFT_NCCL_CALL(ncclParamGetStr, ncclParamHandle_t h, const char** out);
WEFT_NCCL_CALL(ncclParamGet, ncclParamHandle_t h, void* out, int maxLen, int* len);
WEFT_NCCL_CALL(ncclParamGetParameter, const char* key, const char** value, int* valueLen);
WEFT_NCCL_CALL(ncclParamGetAllParameterKeys, const char*** table, int* tableLen);
WEFT_NCCL_DECLARE(void, ncclParamDumpAll, void);

#ifdef __cplusplus
}
#endif

#endif
/* NOLINTEND(readability-identifier-naming,modernize-*) */
