// Memory for the data of a case: guards on both sides, any alignment, grown when a case needs more.
#pragma once

#include <cstdlib>
#include <memory>

#include "base/types.h"

namespace weft::bench {

class Buffer {
 public:
  static constexpr size_t kGuardBytes = 128;

  explicit Buffer(size_t misalign_bytes) : misalign_(misalign_bytes) {}

  // Contents are lost. On failure (no memory) gives false.
  bool reserve(size_t data_bytes);

  // The first `bytes` bytes of data, and these with the guards around them.
  Bytes data(size_t bytes) const { return {begin() + kGuardBytes, bytes}; }
  Bytes whole(size_t bytes) const { return {begin(), bytes + 2 * kGuardBytes}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::byte* begin() const { return memory_.get() + misalign_; }

  size_t misalign_;
  size_t capacity_ = 0;
  std::unique_ptr<std::byte[], Free> memory_;
};

inline bool Buffer::reserve(size_t data_bytes) {
  if (memory_ && data_bytes <= capacity_) return true;
  constexpr size_t kPage = 4096;
  const size_t bytes = (data_bytes + 2 * kGuardBytes + misalign_ + kPage - 1) / kPage * kPage;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
  capacity_ = memory_ ? data_bytes : 0;
  return memory_ != nullptr;
}

}  // namespace weft::bench
