// NCCL's element types and reductions as the engine's.
#pragma once

#include "base/status.h"
#include "base/types.h"
#include "nccl/nccl.h"

namespace weft::nccl {

// An error names what is accepted.
Result<DataType> type_of(ncclDataType_t type);
// REQUIRES: one of those that are built in.
ReduceOp op_of(ncclRedOp_t op);

}  // namespace weft::nccl
