#include "nccl/memory.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "base/process_wide.h"
#include "base/text.h"
#include "engine/device/cuda.h"
#include "nccl/api.h"
#include "nccl/comm.h"

namespace weft::nccl {
namespace {

constexpr size_t kAlignment = NCCL_WIN_REQUIRED_ALIGNMENT;

// cuPointerGetAttribute of the CUDA driver, where a program has loaded that: only then can there be
// memory of a GPU. Looked for until found, but not in every call.
class Driver {
 public:
  // CU_MEMORYTYPE_*; 0 where the driver does not know the memory, or is not there.
  unsigned memory_type(const void* memory) {
    if (!loaded()) return 0;
    constexpr int kMemoryType = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    unsigned type = 0;
    return get_attribute_(&type, kMemoryType, reinterpret_cast<uintptr_t>(memory)) == 0 ? type : 0;
  }
  bool is_managed(const void* memory) {
    constexpr int kIsManaged = 8;  // CU_POINTER_ATTRIBUTE_IS_MANAGED
    unsigned managed = 0;
    return get_attribute_(&managed, kIsManaged, reinterpret_cast<uintptr_t>(memory)) == 0 &&
           managed != 0;
  }

 private:
  using GetAttribute = int (*)(void*, int, unsigned long long);

  bool loaded() {
    if (get_attribute_) return true;
    constexpr unsigned kLookEvery = 64;
    if (calls_++ % kLookEvery != 0) return false;
    void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return false;
    get_attribute_ = reinterpret_cast<GetAttribute>(::dlsym(library, "cuPointerGetAttribute"));
    return get_attribute_ != nullptr;
  }

  GetAttribute get_attribute_ = nullptr;
  unsigned calls_ = 0;
};

// Of each thread, so that looking takes no lock.
Driver& driver() {
  static thread_local Driver own;
  return own;
}

// What ncclMemAlloc has given and ncclMemFree not taken back.
struct Allocations {
  struct Given {
    std::shared_ptr<Gpu> gpu;  // null: the host's
    size_t bytes = 0;
  };
  std::map<void*, Given> given;
};

Status no_memory(size_t bytes) {
  return Status(Code::system, concat("there is no memory for ", bytes, " bytes; ask for less"));
}

Result<void*> memory_of(Gpu& gpu, size_t bytes) {
  const Result<Bytes> memory = gpu.allocate(bytes, Gpu::Content::any);
  if (!memory.ok()) return memory.status();
  return static_cast<void*>(memory->data());
}

Result<void*> memory_of_host(size_t bytes) {
  void* const memory = std::aligned_alloc(kAlignment, bytes);
  if (!memory) return no_memory(bytes);
  return memory;
}

// The thread's current GPU's, in programs that use GPUs.
Status allocate(void** at, size_t bytes) {
  *at = nullptr;
  if (bytes == 0) return {};
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded < bytes) return no_memory(bytes);
  auto gpu = find_current_cuda_device();
  Allocations::Given given{gpu.ok() ? gpu.take() : nullptr, rounded};
  const Result<void*> memory = given.gpu ? memory_of(*given.gpu, rounded) : memory_of_host(rounded);
  if (!memory.ok()) return memory.status();
  ProcessWide<Allocations>()->given.emplace(*memory, std::move(given));
  *at = *memory;
  return {};
}

Status release(void* memory) {
  if (!memory) return {};
  Allocations::Given given;
  {
    ProcessWide<Allocations> allocations;
    const auto found = allocations->given.find(memory);
    if (found == allocations->given.end())
      return invalid_argument(concat("ptr is ", address_text(memory),
                                     ", which ncclMemAlloc has not given, or which was freed "
                                     "already"));
    given = std::move(found->second);
    allocations->given.erase(found);
  }
  if (given.gpu)
    given.gpu->release({static_cast<std::byte*>(memory), given.bytes});
  else
    std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc)
  return {};
}

// Registered memory needs nothing done to it where it is the host's: shared windows carry the data.
Status enlist(ncclComm_t handle, void* memory, size_t bytes, void** registration) {
  if (!registration) return invalid_argument("handle is null; say where the handle shall go");
  *registration = nullptr;
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  WEFT_TRY(check_registered(memory, bytes));
  *registration = (*comm)->add_registration();
  return {};
}

Status delist(ncclComm_t handle, void* registration) {
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  return registration ? (*comm)->remove_registration(registration) : Status();
}

Answer done(Status status) {
  if (!status.ok()) return status;
  return ncclSuccess;
}

}  // namespace

bool is_of_gpu(const void* memory) {
  constexpr unsigned kDevice = 2;  // CU_MEMORYTYPE_DEVICE
  return memory && driver().memory_type(memory) == kDevice && !driver().is_managed(memory);
}

Status check_registered(const void* buff, size_t size) {
  if (!buff) return invalid_argument("buff is null; register memory that is there");
  if (size == 0) return invalid_argument("size is 0; register a byte or more");
  return {};
}

}  // namespace weft::nccl

using weft::nccl::answer;
using weft::nccl::done;

ncclResult_t pncclMemAlloc(void** ptr, size_t size) {
  return answer("ncclMemAlloc", [&] {
    return done(ptr ? weft::nccl::allocate(ptr, size)
                    : weft::invalid_argument("ptr is null; say where the address shall go"));
  });
}
WEFT_NCCL_TWIN(ncclMemAlloc);

ncclResult_t pncclMemFree(void* ptr) {
  return answer("ncclMemFree", [&] { return done(weft::nccl::release(ptr)); });
}
WEFT_NCCL_TWIN(ncclMemFree);

ncclResult_t pncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return answer("ncclCommRegister",
                [&] { return done(weft::nccl::enlist(comm, buff, size, handle)); });
}
WEFT_NCCL_TWIN(ncclCommRegister);

ncclResult_t pncclCommDeregister(const ncclComm_t comm, void* handle) {
  return answer("ncclCommDeregister", [&] { return done(weft::nccl::delist(comm, handle)); });
}
WEFT_NCCL_TWIN(ncclCommDeregister);
