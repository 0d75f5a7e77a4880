// Memory for the data of a case: guards on both sides, any alignment, grown when a case needs more.
// Where calls are given other memory than what the host prepares and checks, there is as much of
// that, laid out alike.
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

  // `for_calls` empty: calls are given the same memory.
  explicit Buffer(size_t misalign_bytes, Source source = from_malloc, Source for_calls = {})
      : misalign_(misalign_bytes), source_(std::move(source)), for_calls_(std::move(for_calls)) {}

  // Contents are lost. On failure (no memory) gives false.
  bool reserve(size_t data_bytes);

  // The first `bytes` bytes of data, and these with the guards around them.
  Bytes data(size_t bytes) const { return {begin() + kGuardBytes, bytes}; }
  Bytes whole(size_t bytes) const { return {begin(), bytes + 2 * kGuardBytes}; }
  // What calls are given for such a part. Of their own memory that is a place in it also where the
  // part is empty, so that a call can be seen to be on it; else nothing.
  Bytes of_calls(Bytes part) const;

 private:
  std::byte* begin() const { return memory_.get() + misalign_; }

  size_t misalign_;
  Source source_, for_calls_;
  size_t capacity_ = 0;
  std::shared_ptr<std::byte> memory_, memory_of_calls_;
};

inline bool Buffer::reserve(size_t data_bytes) {
  if (memory_ && data_bytes <= capacity_) return true;
  memory_.reset();
  memory_of_calls_.reset();
  const size_t bytes = data_bytes + 2 * kGuardBytes + misalign_;
  memory_ = source_(bytes);
  if (memory_ && for_calls_) memory_of_calls_ = for_calls_(bytes);
  if (for_calls_ && !memory_of_calls_) memory_.reset();
  capacity_ = memory_ ? data_bytes : 0;
  return memory_ != nullptr;
}

inline Bytes Buffer::of_calls(Bytes part) const {
  if (!for_calls_) return part.empty() ? Bytes() : part;
  return {memory_of_calls_.get() + (part.data() - memory_.get()), part.size()};
}

}  // namespace weft::bench
