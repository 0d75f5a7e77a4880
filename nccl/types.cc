#include "nccl/types.h"

#include <array>

#include "base/text.h"

namespace weft::nccl {

Result<DataType> type_of(ncclDataType_t type) {
  static constexpr std::array kTypes{DataType::int8,     DataType::uint8,    DataType::int32,
                                     DataType::uint32,   DataType::int64,    DataType::uint64,
                                     DataType::float16,  DataType::float32,  DataType::float64,
                                     DataType::bfloat16, DataType::fp8_e4m3, DataType::fp8_e5m2};
  static_assert(kTypes.size() == ncclNumTypes);
  const auto number = static_cast<unsigned>(type);
  if (number < kTypes.size()) return kTypes[number];
  return invalid_argument(concat("datatype is ", static_cast<int>(type), "; types go from 0 to ",
                                 static_cast<int>(ncclNumTypes) - 1));
}

ReduceOp op_of(ncclRedOp_t op) {
  static constexpr std::array kOps{ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min,
                                   ReduceOp::avg};
  static_assert(kOps.size() == ncclNumOps);
  return kOps[static_cast<unsigned>(op)];
}

}  // namespace weft::nccl
