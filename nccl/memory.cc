#include "nccl/memory.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>

#include "base/env.h"
#include "base/process_wide.h"
#include "base/text.h"
#include "nccl/api.h"
#include "nccl/comm.h"
#include "nccl/make.h"

namespace weft::nccl {
namespace {

constexpr size_t kAlignment = NCCL_WIN_REQUIRED_ALIGNMENT;

// cuPointerGetAttribute of the CUDA driver, once look_for_driver() has found that.
using GetAttribute = int (*)(void*, int, unsigned long long);
std::atomic<GetAttribute>& attribute_getter() {
  static constinit std::atomic<GetAttribute> found{nullptr};
  return found;
}

// Of memory; 0 where the driver does not know it.
unsigned attribute(GetAttribute get, int which, const void* memory) {
  unsigned value = 0;
  return get(&value, which, reinterpret_cast<uintptr_t>(memory)) == 0 ? value : 0;
}

// Held by who asks the loader, which does not bear that a process is forked meanwhile.
struct Loader {};

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

// Of the GPU that a communicator would get which is made here and now; else the host's.
Status allocate(void** at, size_t bytes) {
  *at = nullptr;
  if (bytes == 0) return {};
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded < bytes) return no_memory(bytes);
  auto gpu = find_gpu(Environment::of_process().get("WEFT_DEVICE").value_or("auto"));
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

void look_for_driver() {
  if (attribute_getter().load() != nullptr) return;
  const ProcessWide<Loader> loader;
  void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return;
  attribute_getter() = reinterpret_cast<GetAttribute>(::dlsym(library, "cuPointerGetAttribute"));
}

bool is_of_gpu(const void* memory) {
  constexpr int kMemoryType = 2, kIsManaged = 8;  // CU_POINTER_ATTRIBUTE_*
  constexpr unsigned kDevice = 2;                 // CU_MEMORYTYPE_DEVICE
  const GetAttribute get = attribute_getter().load(std::memory_order_relaxed);
  return get && memory && attribute(get, kMemoryType, memory) == kDevice &&
         attribute(get, kIsManaged, memory) == 0;
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
