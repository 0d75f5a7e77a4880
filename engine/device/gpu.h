// A GPU, as far as the engine needs one. Back ends: CUDA (cuda.h), and threads for tests.
//
// Thread safety: any call from any thread, unless two name the same stream or event. Nothing here
// waits for the GPU but synchronize(), and what says so. After an error of the device itself, every
// call gives it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/status.h"
#include "base/text.h"
#include "base/types.h"
#include "kernels/cuda/operands.h"
#include "kernels/device_program.h"
#include "kernels/device_step.h"

namespace weft {

struct DeviceIdentity {
  std::string name;  // "NVIDIA H200"
  std::string uuid;  // different for every GPU of a host
  int ordinal = 0;   // as this process numbers its GPUs
};

enum class MemoryKind : uint8_t {
  host,    // of this process
  pinned,  // of this process, and kernels reach it at the same address; managed memory, too
  device,  // of a GPU
};

// Of memory that a call on one GPU is given.
inline Status memory_of_another(int gpu, int wanted) {
  return invalid_argument(concat("it is memory of GPU ", gpu, ", and the communicator's is GPU ",
                                 wanted, "; pass memory of that one"));
}

class Gpu {
 public:
  using Stream = void*;  // CUDA: cudaStream_t, also those of others
  using Event = void*;   // CUDA: cudaEvent_t
  using Graph = void*;   // CUDA: cudaGraphExec_t
  // What a thread had before it entered.
  struct Before {
    void* context = nullptr;
    int entered = -1, mode = 0;
    bool changed = false;
  };

  virtual ~Gpu() = default;
  virtual const DeviceIdentity& identity() const = 0;

  // While one is there, its thread's calls here take less time: what each does before and after for
  // the back end is done once.
  class Turn {
   public:
    explicit Turn(const Gpu& gpu) : gpu_(gpu), before_(gpu.enter()) {}
    ~Turn() { gpu_.leave(before_); }
    Turn(const Turn&) = delete;

   private:
    const Gpu& gpu_;
    const Before before_;
  };
  // invalid_argument where it is another GPU's.
  virtual Result<MemoryKind> kind_of(const void* memory) const = 0;

  // Device memory, aligned to 256 bytes. Zeroed not while a kernel may be spinning: that waits for
  // the device.
  enum class Content : uint8_t { zero, any };
  virtual Result<Bytes> allocate(size_t bytes, Content content) = 0;
  Result<Bytes> allocate(size_t bytes) { return allocate(bytes, Content::zero); }
  // May wait for all kernels that are under way.
  virtual void release(Bytes memory) = 0;
  // Zeroed host memory that kernels read and write while they run, at the same address.
  virtual Result<Bytes> allocate_host(size_t bytes) = 0;
  virtual void release_host(Bytes memory) = 0;  // likewise

  // Text by which another process on this host can map what allocate() gave. (Ranks of one process
  // pass the address; a process cannot map its own memory.)
  virtual Result<std::string> share(Bytes memory) = 0;
  virtual Result<std::byte*> map(std::string_view shared) = 0;
  virtual void unmap(std::byte* memory) = 0;
  // Lets kernels here use memory that another Gpu of this process, or this one, allocated.
  virtual Status reach(std::byte* memory) = 0;

  // Device memory as a dma-buf, through which other devices of the host read and write it: whole
  // pages of the host's, of what allocate() gave. An error where that cannot be, or where kernels
  // could not be made to see what has been written.
  virtual Result<Fd> dma_buf(Bytes memory) = 0;
  // What another device has written there, and has told the host of, is found by kernels that are
  // told of it after this returns.
  virtual Status flush_remote_writes() = 0;

  virtual Result<Stream> make_stream() = 0;
  virtual void destroy_stream(Stream stream) = 0;
  // Which stream the calling thread has by that name: a number that no other one of the process
  // ever has. 0: it cannot be told.
  virtual uint64_t number_of(Stream stream) const = 0;
  // Between host and device memory in either direction, or within one of them. From or to host
  // memory that is not pinned it may wait for all that the stream was given before.
  virtual Status copy(void* to, const void* from, size_t bytes, Stream stream) = 0;

  // Loads the kernel that runs such programs, so that no launch has to while others spin, and says
  // how many of its blocks can be resident at once.
  virtual Result<uint32_t> prepare(ReduceOp op, DataType type) = 0;
  // One call of a rank, by `blocks` workers. All arguments are copied; Program's tables are not.
  virtual Status launch(const device::Program& program, const device::Call& call,
                        const device::Limits& limits, uint32_t blocks, Stream stream) = 0;
  // One step by itself, by the kernel of `op` and `type`. All arguments are copied; Tail's tables
  // are not.
  virtual Status launch(ReduceOp op, DataType type, const device::Operands& operands,
                        const device::Tail& tail, const device::Limits& limits, uint32_t blocks,
                        Stream stream) = 0;
  // The stream goes on once each cell, of memory that this allocated, has reached its value. No
  // kernel waits. An error where it cannot.
  virtual Status wait(Stream stream, std::span<const device::CellWait> cells) = 0;
  virtual bool waits_for_cells() const = 0;  // whether it can

  virtual Result<Event> make_event() = 0;
  virtual void destroy_event(Event event) = 0;
  virtual Status record(Event event, Stream stream) = 0;  // what the stream has been given so far
  virtual Status wait(Stream stream, Event event) = 0;    // the stream goes on after that
  virtual Result<bool> is_done(Event event) = 0;          // true where it was never recorded
  // An event that notes the GPU's time, too. To record one takes longer.
  virtual Result<Event> make_timer() = 0;
  // Microseconds between two of these. REQUIRES: both were recorded, and are done.
  virtual Result<double> elapsed_us(Event begin, Event end) = 0;
  virtual Status synchronize(Stream stream) = 0;

  // The graph that what is put on the stream goes into instead of being run: a number that no other
  // capture has, 0 where it is run. A stream that is made to wait for an event of a captured one is
  // captured, too, and has to be waited for by the first one before the capture ends.
  virtual Result<uint64_t> capture_of(Stream stream) = 0;
  virtual Status begin_capture(Stream stream) = 0;
  // All that a launch of the graph needs is on the GPU then, for which this waits for the stream.
  virtual Result<Graph> end_capture(Stream stream) = 0;
  // Lets go of it when neither the graph that the stream is captured into, nor what is made of
  // that, can run any more; maybe in another thread. REQUIRES: capture_of(stream) is not 0.
  virtual Status keep(Stream stream, std::shared_ptr<const void> what) = 0;
  // Once more, with the arguments that were captured. REQUIRES: the last time has ended, or is
  // before it on the stream.
  virtual Status launch_graph(Graph graph, Stream stream) = 0;
  virtual void destroy_graph(Graph graph) = 0;

 protected:
  // See Turn; they nest.
  virtual Before enter() const { return {}; }
  virtual void leave(const Before&) const {}
};

}  // namespace weft
