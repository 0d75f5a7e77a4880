#include "engine/device/cuda.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/parse.h"
#include "base/text.h"
#include "engine/device/cuda_current.h"
#include "engine/device/cuda_driver.h"
#include "kernels/cuda/kernels.h"

namespace weft {
namespace {

constexpr int kThreads = device::kMostThreads;  // of a block

cudaStream_t stream_of(Gpu::Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(Gpu::Event event) { return static_cast<cudaEvent_t>(event); }

class CudaDevice final : public Gpu {
 public:
  // REQUIRES: driver.loaded()
  CudaDevice(const Driver& driver, int ordinal, const cudaDeviceProp& properties)
      : driver_(driver),
        ordinal_(ordinal),
        multiprocessors_(properties.multiProcessorCount),
        capability_(10 * properties.major + properties.minor),
        needs_flush_(driver.attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
                                      ordinal) < CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER),
        identity_{properties.name, hex(std::as_bytes(std::span(properties.uuid.bytes))), ordinal} {}

  const DeviceIdentity& identity() const override { return identity_; }

  Result<MemoryKind> kind_of(const void* memory) const override {
    const Current current(driver_, ordinal_);  // else CUDA might make a context to look in
    cudaPointerAttributes attributes{};
    WEFT_TRY(current.run("tell whose memory it is", [&] {
      const cudaError_t error = cudaPointerGetAttributes(&attributes, memory);
      if (error != cudaErrorInvalidValue) return error;
      cudaGetLastError();  // it is none: the memory is the host's
      attributes.type = cudaMemoryTypeUnregistered;
      return cudaSuccess;
    }));
    if (attributes.type == cudaMemoryTypeDevice) {
      if (attributes.device != ordinal_) return memory_of_another(attributes.device, ordinal_);
      return MemoryKind::device;
    }
    const bool known = attributes.type != cudaMemoryTypeUnregistered;
    return known && attributes.devicePointer == memory ? MemoryKind::pinned : MemoryKind::host;
  }

  // -- memory -------------------------------------------------------------------------------------

  Result<Bytes> allocate(size_t bytes, Content content) override {
    const Current current(driver_, ordinal_);
    void* memory = nullptr;
    WEFT_TRY(current.run(concat("allocate ", bytes, " bytes on the GPU"),
                         [&] { return cudaMalloc(&memory, bytes); }));
    if (content == Content::any) return Bytes{static_cast<std::byte*>(memory), bytes};
    const Status zeroed = current.run("zero memory", [&] { return zero(memory, bytes); });
    if (zeroed.ok()) return Bytes{static_cast<std::byte*>(memory), bytes};
    cudaFree(memory);
    return zeroed;
  }
  void release(Bytes memory) override {
    const Current current(driver_, ordinal_);
    cudaFree(memory.data());
  }

  Result<Bytes> allocate_host(size_t bytes) override {
    const Current current(driver_, ordinal_);
    void* memory = nullptr;
    WEFT_TRY(current.run(concat("allocate ", bytes, " bytes of pinned host memory"), [&] {
      return cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
    }));
    std::memset(memory, 0, bytes);
    return Bytes{static_cast<std::byte*>(memory), bytes};
  }
  void release_host(Bytes memory) override {
    const Current current(driver_, ordinal_);
    cudaFreeHost(memory.data());
  }

  Result<std::string> share(Bytes memory) override {
    const Current current(driver_, ordinal_);
    cudaIpcMemHandle_t handle{};
    WEFT_TRY(current.run("share memory between processes",
                         [&] { return cudaIpcGetMemHandle(&handle, memory.data()); }));
    return std::string(reinterpret_cast<const char*>(&handle), sizeof handle);
  }
  Result<std::byte*> map(std::string_view shared) override {
    cudaIpcMemHandle_t handle{};
    if (shared.size() != sizeof handle)
      return Status(Code::mismatch, "what another process shares is no handle of CUDA's memory");
    std::memcpy(&handle, shared.data(), sizeof handle);
    const Current current(driver_, ordinal_);
    void* memory = nullptr;
    WEFT_TRY(current.run("map another process's memory", [&] {
      return cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess);
    }));
    return static_cast<std::byte*>(memory);
  }
  void unmap(std::byte* memory) override {
    const Current current(driver_, ordinal_);
    cudaIpcCloseMemHandle(memory);
  }

  Status reach(std::byte* memory) override {
    const Current current(driver_, ordinal_);
    cudaPointerAttributes attributes{};
    WEFT_TRY(current.run("find the GPU of memory",
                         [&] { return cudaPointerGetAttributes(&attributes, memory); }));
    if (attributes.device == ordinal_) return {};
    return current.run("let a GPU reach another one's memory", [&] {
      const cudaError_t error = cudaDeviceEnablePeerAccess(attributes.device, 0);
      if (error != cudaErrorPeerAccessAlreadyEnabled) return error;
      cudaGetLastError();  // it is none
      return cudaSuccess;
    });
  }

  Result<Fd> dma_buf(Bytes memory) override {
    if (!driver_.get_handle ||
        driver_.attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, ordinal_) == 0)
      return unsupported(
          "the GPU gives no dma-bufs of its memory (they need a driver of CUDA 11.7, NVIDIA's open "
          "kernel modules and Linux 5.12)");
    const bool flushes =
        driver_.attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, ordinal_) &
        CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
    if (needs_flush_ && !flushes)
      return unsupported("the GPU cannot be made to see what other devices have written");
    const Current current(driver_, ordinal_);
    int descriptor = -1;
    WEFT_TRY(current.run("give a dma-buf of memory", [&] {
      const int error =
          driver_.get_handle(&descriptor, reinterpret_cast<CUdeviceptr>(memory.data()),
                             memory.size(), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
      return static_cast<cudaError_t>(error);  // of the same numbers
    }));
    return Fd(descriptor);
  }
  Status flush_remote_writes() override {
    if (!needs_flush_) return {};
    const Current current(driver_, ordinal_);
    return current.run("see what other devices have written", [] {
      return cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                                cudaFlushGPUDirectRDMAWritesToOwner);
    });
  }

  // -- streams ------------------------------------------------------------------------------------

  Result<Stream> make_stream() override {
    const Current current(driver_, ordinal_);
    cudaStream_t stream = nullptr;
    WEFT_TRY(current.run("make a stream", [&] {
      return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    }));
    return Stream{stream};
  }
  void destroy_stream(Stream stream) override {
    const Current current(driver_, ordinal_);
    cudaStreamDestroy(stream_of(stream));
  }
  uint64_t number_of(Stream stream) const override {
    const Current current(driver_, ordinal_);
    unsigned long long number = 0;
    const bool told =
        driver_.get_stream_id && driver_.get_stream_id(stream_of(stream), &number) == 0;
    return told ? number + 1 : 0;
  }
  Status copy(void* to, const void* from, size_t bytes, Stream stream) override {
    const Current current(driver_, ordinal_);
    return current.run("copy memory", [&] {
      return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream));
    });
  }

  Result<uint32_t> prepare(ReduceOp op, DataType type) override {
    const Current current(driver_, ordinal_);
    const auto kernel = reinterpret_cast<const void*>(device::interpret_kernel(op, type));
    WEFT_TRY(load(current, kernel));
    WEFT_TRY(load(current, reinterpret_cast<const void*>(device::step_kernel(op, type))));
    int each = 0;
    WEFT_TRY(current.run("tell how many blocks fit", [&] {
      return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, kThreads, 0);
    }));
    return static_cast<uint32_t>(each * multiprocessors_);
  }

  Status launch(const device::Program& program, const device::Call& call,
                const device::Limits& limits, uint32_t blocks, Stream stream) override {
    const Current current(driver_, ordinal_);
    const auto kernel =
        reinterpret_cast<const void*>(device::interpret_kernel(program.op, program.type));
    // CUDA copies what they point to.
    void* arguments[] = {const_cast<device::Program*>(&program), const_cast<device::Call*>(&call),
                         const_cast<device::Limits*>(&limits)};
    return current.run("launch a kernel", [&] {
      return cudaLaunchKernel(kernel, dim3(blocks), dim3(program.threads), arguments, 0,
                              stream_of(stream));
    });
  }

  Status launch(ReduceOp op, DataType type, const device::Operands& operands,
                const device::Tail& tail, const device::Limits& limits, uint32_t blocks,
                Stream stream) override {
    const Current current(driver_, ordinal_);
    const auto kernel = reinterpret_cast<const void*>(device::step_kernel(op, type));
    void* arguments[] = {const_cast<device::Operands*>(&operands), const_cast<device::Tail*>(&tail),
                         const_cast<device::Limits*>(&limits)};
    return current.run("launch a kernel", [&] {
      return cudaLaunchKernel(kernel, dim3(blocks), dim3(kThreads), arguments, 0,
                              stream_of(stream));
    });
  }

  // Counts are far from wrapping, so that "not less" is what CUDA compares.
  Status wait(Stream stream, std::span<const device::CellWait> cells) override {
    constexpr size_t kAtOnce = 64;
    const Current current(driver_, ordinal_);
    for (; !cells.empty(); cells = cells.subspan(std::min(cells.size(), kAtOnce))) {
      std::array<CUstreamBatchMemOpParams, kAtOnce> waits{};
      const size_t count = std::min(cells.size(), kAtOnce);
      for (size_t i = 0; i < count; ++i) {
        waits[i].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
        waits[i].waitValue.address = reinterpret_cast<CUdeviceptr>(cells[i].cell);
        waits[i].waitValue.value64 = cells[i].value;
        waits[i].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
      }
      WEFT_TRY(current.run("let a stream wait for memory", [&] {
        const int error =
            driver_.batch(stream_of(stream), static_cast<unsigned>(count), waits.data(), 0);
        return static_cast<cudaError_t>(error);  // of the same numbers
      }));
    }
    return {};
  }
  bool waits_for_cells() const override {
    return driver_.batch &&
           driver_.attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, ordinal_) != 0;
  }

  // -- events -------------------------------------------------------------------------------------

  Result<Event> make_event() override {
    const Current current(driver_, ordinal_);
    cudaEvent_t event = nullptr;
    WEFT_TRY(current.run("make an event",
                         [&] { return cudaEventCreateWithFlags(&event, cudaEventDisableTiming); }));
    return Event{event};
  }
  void destroy_event(Event event) override {
    const Current current(driver_, ordinal_);
    cudaEventDestroy(event_of(event));
  }
  Status record(Event event, Stream stream) override {
    const Current current(driver_, ordinal_);
    return current.run("record an event",
                       [&] { return cudaEventRecord(event_of(event), stream_of(stream)); });
  }
  Status wait(Stream stream, Event event) override {
    const Current current(driver_, ordinal_);
    return current.run("let a stream wait",
                       [&] { return cudaStreamWaitEvent(stream_of(stream), event_of(event), 0); });
  }
  Result<bool> is_done(Event event) override {
    const Current current(driver_, ordinal_);
    const cudaError_t state = cudaEventQuery(event_of(event));
    if (state == cudaErrorNotReady) {
      cudaGetLastError();  // it is none
      return false;
    }
    WEFT_TRY(status_of(state, "ask for an event"));
    return true;
  }
  Result<Event> make_timer() override {
    const Current current(driver_, ordinal_);
    cudaEvent_t event = nullptr;
    WEFT_TRY(current.run("make an event", [&] { return cudaEventCreate(&event); }));
    return Event{event};
  }
  Result<double> elapsed_us(Event begin, Event end) override {
    const Current current(driver_, ordinal_);
    float milliseconds = 0;
    WEFT_TRY(current.run("tell the time between events", [&] {
      return cudaEventElapsedTime(&milliseconds, event_of(begin), event_of(end));
    }));
    return 1e3 * static_cast<double>(milliseconds);
  }
  Status synchronize(Stream stream) override {
    const Current current(driver_, ordinal_);
    return current.run("wait for a stream",
                       [&] { return cudaStreamSynchronize(stream_of(stream)); });
  }

  // -- graphs -------------------------------------------------------------------------------------

  Result<uint64_t> capture_of(Stream stream) override {
    const Result<Capture> capture = captured(Current(driver_, ordinal_), stream);
    if (!capture.ok()) return capture.status();
    return capture->number;
  }
  Status begin_capture(Stream stream) override {
    const Current current(driver_, ordinal_);
    return current.run("begin to capture a stream", [&] {
      return cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal);
    });
  }
  Result<Graph> end_capture(Stream stream) override {
    const Current current(driver_, ordinal_);
    cudaGraph_t captured = nullptr;
    WEFT_TRY(current.run("capture a stream into a graph",
                         [&] { return cudaStreamEndCapture(stream_of(stream), &captured); }));
    cudaGraphExec_t graph = nullptr;
    const Status made =
        current.run("make a graph", [&] { return cudaGraphInstantiate(&graph, captured, 0); });
    cudaGraphDestroy(captured);
    if (!made.ok()) return made;
    // Its first launch would, while a peer's kernels may be waiting for it.
    const Status uploaded = current.run("bring a graph to the GPU", [&] {
      const cudaError_t error = cudaGraphUpload(graph, stream_of(stream));
      return error == cudaSuccess ? cudaStreamSynchronize(stream_of(stream)) : error;
    });
    if (uploaded.ok()) return Graph{graph};
    cudaGraphExecDestroy(graph);
    return uploaded;
  }
  Status keep(Stream stream, std::shared_ptr<const void> what) override {
    const Current current(driver_, ordinal_);
    const Result<Capture> capture = captured(current, stream);
    if (!capture.ok()) return capture.status();
    using Kept = std::shared_ptr<const void>;
    auto kept = std::make_unique<Kept>(std::move(what));
    cudaUserObject_t object = nullptr;
    WEFT_TRY(current.run("make an object of a graph", [&] {
      return cudaUserObjectCreate(
          &object, kept.get(), [](void* it) { delete static_cast<Kept*>(it); }, 1,
          cudaUserObjectNoDestructorSync);
    }));
    static_cast<void>(kept.release());  // the object has it
    const Status given = current.run("give an object to a graph", [&] {
      return cudaGraphRetainUserObject(capture->graph, object, 1, cudaGraphUserObjectMove);
    });
    if (!given.ok()) cudaUserObjectRelease(object, 1);
    return given;
  }
  Status launch_graph(Graph graph, Stream stream) override {
    const Current current(driver_, ordinal_);
    return current.run("launch a graph", [&] {
      return cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(stream));
    });
  }
  void destroy_graph(Graph graph) override {
    const Current current(driver_, ordinal_);
    cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
  }

 private:
  Before enter() const override {
    cudaError_t error = cudaSuccess;
    return enter_gpu(driver_, ordinal_, &error);
  }
  void leave(const Before& before) const override { leave_gpu(driver_, ordinal_, before); }

  // Says what to build for, too, where none of the kernels in this build is for this GPU.
  Status load(const Current& current, const void* kernel) const {
    cudaError_t error = cudaSuccess;
    cudaFuncAttributes attributes{};
    const Status loaded = current.run(
        "load a kernel", [&] { return error = cudaFuncGetAttributes(&attributes, kernel); });
    if (error != cudaErrorNoKernelImageForDevice) return loaded;
    return loaded.within(
        concat("weft was not built for this GPU (configure it with "
               "-DWEFT_CUDA_ARCHITECTURES=",
               capability_, " and build it again)"));
  }

  // On a stream of its own: the device's others may be captured, or wait for what the caller does
  // next.
  static cudaError_t zero(void* memory, size_t bytes) {
    cudaStream_t own = nullptr;
    cudaError_t error = cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
    if (error != cudaSuccess) return error;
    error = cudaMemsetAsync(memory, 0, bytes, own);
    const cudaError_t ended = cudaStreamSynchronize(own);
    cudaStreamDestroy(own);
    return error == cudaSuccess ? ended : error;
  }

  struct Capture {
    uint64_t number = 0;  // 0: the stream is not captured
    cudaGraph_t graph = nullptr;
  };
  static Result<Capture> captured(const Current& current, Stream stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long number = 0;
    cudaGraph_t graph = nullptr;
    WEFT_TRY(current.run("ask whether a stream is captured", [&] {
#if CUDART_VERSION >= 13000
      return cudaStreamGetCaptureInfo(stream_of(stream), &status, &number, &graph);
#else
      return cudaStreamGetCaptureInfo_v2(stream_of(stream), &status, &number, &graph);
#endif
    }));
    if (status == cudaStreamCaptureStatusInvalidated)
      return invalid_argument("the capture of the stream into a graph has failed before");
    if (status == cudaStreamCaptureStatusNone) return Capture{};
    return Capture{number, graph};
  }

  const Driver driver_;
  const int ordinal_;
  const int multiprocessors_;
  const int capability_;
  const bool needs_flush_;  // else kernels see in order what other devices write, then the host
  DeviceIdentity identity_;
};

// What `context` has to be for the calling thread's current GPU to count.
enum class Context : uint8_t {
  made,      // on that GPU
  possible,  // CUDA has been initialized
};

// The calling thread's current GPU. The runtime would make a context to find out, so this asks the
// driver.
Result<int> current_gpu(Context context) {
  const Driver driver = find_driver();
  void* now = nullptr;
  int ordinal = 0;  // where the thread has no context, as for the runtime
  unsigned flags = 0;
  int active = 0;
  const bool started = driver.loaded() && driver.get_context(&now) == 0 &&
                       (now == nullptr || driver.get_device(&ordinal) == 0);
  if (started && (context == Context::possible ||
                  (driver.get_state(ordinal, &flags, &active) == 0 && active != 0)))
    return ordinal;
  return unsupported(
      "this process has made no CUDA context on its current GPU; use CUDA there first, for example "
      "cudaSetDevice(i) and cudaFree(nullptr), or name the GPU with WEFT_DEVICE");
}

Result<std::shared_ptr<Gpu>> open_current(Context context) {
  const Result<int> current = current_gpu(context);
  if (!current.ok()) return current.status();
  return open_cuda_device(*current);
}

}  // namespace

Result<std::shared_ptr<Gpu>> find_cuda_device(std::string_view wish) {
  if (wish == "none") return unsupported("option device (WEFT_DEVICE) is none");
  if (wish == "auto") return open_current(Context::made);
  const Result<int64_t> ordinal = parse_int(wish, 0, std::numeric_limits<int>::max());
  if (!ordinal.ok()) return ordinal.status().within("option device (WEFT_DEVICE)");
  return open_cuda_device(static_cast<int>(*ordinal));
}

Result<std::shared_ptr<Gpu>> find_current_cuda_device() {
  const Result<int> count = cuda_device_count();  // initializes CUDA, and makes no context
  if (!count.ok()) return count.status();
  return open_current(Context::possible);
}

Result<int> cuda_device_count() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver)
    return unsupported(
        "there is no GPU: no NVIDIA driver, or one that is older than this program's CUDA; install "
        "a newer driver (nvidia-smi shows its version)");
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
    return unsupported(
        "there is no GPU: the NVIDIA driver is there and sees none; check CUDA_VISIBLE_DEVICES and "
        "nvidia-smi");
  WEFT_TRY(status_of(error, "count GPUs"));
  return count;
}

Result<std::shared_ptr<Gpu>> open_cuda_device(int ordinal) {
  const Result<int> count = cuda_device_count();
  if (!count.ok()) return count.status();
  if (ordinal < 0 || ordinal >= *count)
    return invalid_argument(concat("there is no GPU ", ordinal, "; there are ", *count));
  cudaDeviceProp properties{};
  WEFT_TRY(status_of(cudaGetDeviceProperties(&properties, ordinal), "look at a GPU"));
  const Driver driver = find_driver();
  if (!driver.loaded()) return unsupported("there is no GPU: the driver lacks functions");
  return std::shared_ptr<Gpu>(std::make_shared<CudaDevice>(driver, ordinal, properties));
}

}  // namespace weft
