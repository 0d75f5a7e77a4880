// What a GPU gives and takes back by itself: memory, streams, events and graphs.
#pragma once

#include <memory>

#include "engine/device/gpu.h"

namespace weft::bench {

// Null where there is no memory. Neither zeroed nor, where kernels that wait for other ranks are
// under way on the GPU, to be made or dropped: CUDA waits for them.
inline std::shared_ptr<std::byte> memory_of(const std::shared_ptr<Gpu>& gpu, size_t bytes) {
  const Result<Bytes> memory = gpu->allocate(bytes, Gpu::Content::any);
  if (!memory.ok()) return nullptr;
  return {memory->data(), [gpu, memory = *memory](std::byte*) { gpu->release(memory); }};
}

using OwnedStream = std::shared_ptr<void>;  // get() is a Gpu::Stream

inline Result<OwnedStream> stream_of(const std::shared_ptr<Gpu>& gpu) {
  const Result<Gpu::Stream> stream = gpu->make_stream();
  if (!stream.ok()) return stream.status();
  return OwnedStream(*stream, [gpu](Gpu::Stream made) {
    (void)gpu->synchronize(made);
    gpu->destroy_stream(made);
  });
}

using OwnedTimer = std::shared_ptr<void>;  // get() is a Gpu::Event with a time

inline Result<OwnedTimer> timer_of(const std::shared_ptr<Gpu>& gpu) {
  const Result<Gpu::Event> timer = gpu->make_timer();
  if (!timer.ok()) return timer.status();
  return OwnedTimer(*timer, [gpu](Gpu::Event made) { gpu->destroy_event(made); });
}

using OwnedGraph = std::shared_ptr<void>;  // get() is a Gpu::Graph

inline OwnedGraph own_graph(const std::shared_ptr<Gpu>& gpu, Gpu::Graph graph) {
  return OwnedGraph(graph, [gpu](Gpu::Graph made) { gpu->destroy_graph(made); });
}

}  // namespace weft::bench
