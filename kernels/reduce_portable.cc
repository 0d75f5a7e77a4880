// The kernels in plain C++, with whatever the compiler's target has by default.
#include "kernels/isa.h"
#include "kernels/reduce_loop.h"

namespace weft {
namespace {

struct PortableKit : GenericKit<PortableKit, 16> {};

}  // namespace

ReduceKernel portable_kernel(ReduceOp op, DataType type) {
  return find_kernel<PortableKit>(op, type);
}

}  // namespace weft
