// ncclRedOpCreatePreMulSum and its end.
#include <cstring>

#include "base/text.h"
#include "nccl/api.h"
#include "nccl/comm.h"
#include "nccl/types.h"

namespace weft::nccl {
namespace {

Answer create(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
              ncclScalarResidence_t residence, ncclComm_t handle) {
  if (!op) return invalid_argument("op is null; say where its number shall go");
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  if (auto engine = (*comm)->management(); !engine.ok()) return engine.status();
  if (!scalar) return invalid_argument("scalar is null; point it to one element of datatype");
  const auto type = type_of(datatype);
  if (!type.ok()) return type.status();
  PreMulSum made{.type = datatype, .value = nullptr, .at = scalar};
  if (residence == ncclScalarHostImmediate) {
    std::array<std::byte, 8> value{};
    std::memcpy(value.data(), scalar, size_of(*type));
    made.value = std::make_shared<const std::array<std::byte, 8>>(value);
  } else if (residence != ncclScalarDevice) {
    return invalid_argument(concat("residence is ", static_cast<int>(residence), "; it must be ",
                                   static_cast<int>(ncclScalarDevice), " (ncclScalarDevice) or ",
                                   static_cast<int>(ncclScalarHostImmediate),
                                   " (ncclScalarHostImmediate)"));
  }
  *op = (*comm)->add(std::move(made));
  return ncclSuccess;
}

Answer destroy(ncclRedOp_t op, ncclComm_t handle) {
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  WEFT_TRY((*comm)->remove(op));
  return ncclSuccess;
}

}  // namespace
}  // namespace weft::nccl

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
  return weft::nccl::answer("ncclRedOpCreatePreMulSum", [&] {
    return weft::nccl::create(op, scalar, datatype, residence, comm);
  });
}
WEFT_NCCL_TWIN(ncclRedOpCreatePreMulSum);

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return weft::nccl::answer("ncclRedOpDestroy", [&] { return weft::nccl::destroy(op, comm); });
}
WEFT_NCCL_TWIN(ncclRedOpDestroy);
