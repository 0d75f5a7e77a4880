#include "kernels/cuda/kernels.h"

namespace weft::device {
namespace {

// The type whose kernels of `op` do for this one: bits are bits, and the low half of a product is
// that of the numbers without signs.
DataType with_kernels_of(ReduceOp op, DataType type) {
  if (counts_bytes(op)) return DataType::boolean;
  if (op != ReduceOp::prod) return type;
  switch (type) {
    case DataType::int8: return DataType::uint8;
    case DataType::int16: return DataType::uint16;
    case DataType::int32: return DataType::uint32;
    case DataType::int64: return DataType::uint64;
    default: return type;
  }
}

// select(Entries<type>) for the type that has the kernels of `op`; nullptr where it has no meaning.
template <class Select>
auto with_entries(ReduceOp op, DataType type, Select select)
    -> decltype(select(Entries<DataType::int8>{})) {
  if (!defined(op, type)) return nullptr;
  switch (with_kernels_of(op, type)) {
    case DataType::int8: return select(Entries<DataType::int8>{});
    case DataType::uint8: return select(Entries<DataType::uint8>{});
    case DataType::int16: return select(Entries<DataType::int16>{});
    case DataType::uint16: return select(Entries<DataType::uint16>{});
    case DataType::int32: return select(Entries<DataType::int32>{});
    case DataType::uint32: return select(Entries<DataType::uint32>{});
    case DataType::int64: return select(Entries<DataType::int64>{});
    case DataType::uint64: return select(Entries<DataType::uint64>{});
    case DataType::float16: return select(Entries<DataType::float16>{});
    case DataType::bfloat16: return select(Entries<DataType::bfloat16>{});
    case DataType::float32: return select(Entries<DataType::float32>{});
    case DataType::float64: return select(Entries<DataType::float64>{});
    case DataType::fp8_e4m3: return select(Entries<DataType::fp8_e4m3>{});
    case DataType::fp8_e5m2: return select(Entries<DataType::fp8_e5m2>{});
    case DataType::complex64: return select(Entries<DataType::complex64>{});
    case DataType::complex128: return select(Entries<DataType::complex128>{});
    case DataType::boolean: return select(Entries<DataType::boolean>{});
  }
  return nullptr;
}

}  // namespace

StepKernel step_kernel(ReduceOp op, DataType type) {
  return with_entries(op, type, [=](auto entries) { return entries.step(op); });
}

InterpretKernel interpret_kernel(ReduceOp op, DataType type) {
  return with_entries(op, type, [=](auto entries) { return entries.interpret(op); });
}

}  // namespace weft::device
