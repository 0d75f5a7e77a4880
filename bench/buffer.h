// Memory for the data of a case: guards on both sides, any alignment, grown when a case needs more.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>

#include "base/types.h"

namespace weft::bench {

// Gives memory of that size, or null where there is none.
using Source = std::function<std::shared_ptr<std::byte>(size_t bytes)>;

inline std::shared_ptr<std::byte> from_malloc(size_t bytes) {
  constexpr size_t kPage = 4096;
  const size_t whole = (bytes + kPage - 1) / kPage * kPage;
  return {static_cast<std::byte*>(std::aligned_alloc(kPage, whole)),
          [](std::byte* memory) { std::free(memory); }};
}

class Buffer {
 public:
  static constexpr size_t kGuardBytes = 128;

  explicit Buffer(size_t misalign_bytes, Source source = from_malloc)
      : misalign_(misalign_bytes), source_(std::move(source)) {}

  // Contents are lost. On failure (no memory) gives false.
  bool reserve(size_t data_bytes);

  // The first `bytes` bytes of data, and these with the guards around them.
  Bytes data(size_t bytes) const { return {begin() + kGuardBytes, bytes}; }
  Bytes whole(size_t bytes) const { return {begin(), bytes + 2 * kGuardBytes}; }

 private:
  std::byte* begin() const { return memory_.get() + misalign_; }

  size_t misalign_;
  Source source_;
  size_t capacity_ = 0;
  std::shared_ptr<std::byte> memory_;
};

inline bool Buffer::reserve(size_t data_bytes) {
  if (memory_ && data_bytes <= capacity_) return true;
  memory_.reset();
  memory_ = source_(data_bytes + 2 * kGuardBytes + misalign_);
  capacity_ = memory_ ? data_bytes : 0;
  return memory_ != nullptr;
}

}  // namespace weft::bench
