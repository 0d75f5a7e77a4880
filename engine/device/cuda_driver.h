// The driver's own functions, for what the runtime cannot be asked, or not without changing what it
// is asked about.
#pragma once

#include <cuda.h>

namespace weft {

// All null where the program has loaded no driver.
struct Driver {
  int (*get_context)(void**) = nullptr;
  int (*set_context)(void*) = nullptr;
  int (*get_device)(int*) = nullptr;
  int (*get_state)(int, unsigned*, int*) = nullptr;
  // Null where the driver is too old.
  int (*get_attribute)(int*, int, int) = nullptr;
  int (*batch)(CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned) = nullptr;
  int (*get_stream_id)(CUstream, unsigned long long*) = nullptr;
  int (*get_handle)(void*, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long) = nullptr;

  bool loaded() const { return get_context && set_context && get_device && get_state; }
  // Of a GPU; 0 where the driver does not know it.
  int attribute(CUdevice_attribute which, int ordinal) const {
    int value = 0;
    return get_attribute && get_attribute(&value, which, ordinal) == 0 ? value : 0;
  }
};

// Those of the library that the program has loaded.
Driver find_driver();

}  // namespace weft
