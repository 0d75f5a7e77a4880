/* A header's user: compiled as C and as C++, with CUDA's headers and without. */
#include "nccl/nccl.h"
#include "nccl/nccl.h" /* again */
#include "nccl/nccl_device.h"

int header(ncclComm_t comm, cudaStream_t stream);

int header(ncclComm_t comm, cudaStream_t stream) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  float x = info.estimatedTime;
  config.blocking = 1;
  return ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, stream) == ncclSuccess &&
         pncclGroupStart() == ncclSuccess && ncclTeamWorld(comm).nRanks == config.blocking;
}
