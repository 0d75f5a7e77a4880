#include "engine/device/cuda_driver.h"

#include <dlfcn.h>

#include <type_traits>

namespace weft {

Driver find_driver() {
  Driver driver;
  void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return driver;
  const auto find = [library](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
  };
  find(driver.get_context, "cuCtxGetCurrent");
  find(driver.set_context, "cuCtxSetCurrent");
  find(driver.get_device, "cuCtxGetDevice");
  find(driver.get_state, "cuDevicePrimaryCtxGetState");
  find(driver.get_attribute, "cuDeviceGetAttribute");
  find(driver.batch, "cuStreamBatchMemOp_v2");
  find(driver.get_stream_id, "cuStreamGetId");
  find(driver.get_handle, "cuMemGetHandleForAddressRange");
  ::dlclose(library);
  return driver;
}

}  // namespace weft
