// Memory for the messages of a transport's links that go through slots.
#pragma once

#include <cstddef>
#include <memory>

namespace weft::tcp {

// A link has room for several messages of up to half a megabyte, and a rank links to many others;
// but what arrives is mostly folded before the next message comes. So slots are no places of their
// own: the memory that was given back last, and is still in a cache, is taken next.
class SlotPool {
 public:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte[], Free>;  // 64-byte aligned

  SlotPool() = default;
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;
  ~SlotPool();

  // nullptr where the process has no memory left.
  Memory take(size_t bytes);
  // REQUIRES: it was taken for as many bytes.
  void give(Memory memory, size_t bytes);

 private:
  // At the begin of what is free: giving back needs no memory.
  struct Kept {
    Kept* next = nullptr;   // of the same length
    Kept* other = nullptr;  // the last one of another length; said by the last one of each
    size_t bytes = 0;
  };
  Kept** last_of(size_t bytes);

  Kept* last_ = nullptr;  // given back, of some length
};

}  // namespace weft::tcp
