// clang-format off
// What lies where in a rank's window. Every cell has one writer.
//
//   0                    finished: windowed calls that this rank has finished (the owner writes it)
//   64                   found: what the owner's last trial of stores has found (the owner writes it)
//   128                  cells[poster][kCells]: signals posted to the owner (the poster writes them)
//   ll_offset()          the ring for ll lines
//   data_offset()..bytes the ring for plain payload
//
// Payload and ll lines have rings of their own, because stale payload could look like a line's flag.
// clang-format on
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace weft {

struct WindowLayout {
  static constexpr int kCells = 16;
  static constexpr size_t kLlBytes = 64 << 10;

  int ranks = 1;
  size_t bytes = 0;

  size_t ll_offset() const {
    const size_t end = 128 + sizeof(uint64_t) * kCells * static_cast<size_t>(ranks);
    return (end + 4095) / 4096 * 4096;
  }
  size_t data_offset() const { return ll_offset() + kLlBytes; }
  size_t data_bytes() const { return bytes - data_offset(); }
  bool fits() const { return bytes >= data_offset() + (64 << 10); }

  static std::atomic<uint64_t>& finished(std::byte* window) {
    return *reinterpret_cast<std::atomic<uint64_t>*>(window);
  }
  static std::atomic<uint64_t>& found(std::byte* window) {
    return *reinterpret_cast<std::atomic<uint64_t>*>(window + 64);
  }
  static std::atomic<uint64_t>& cell(std::byte* window, Rank poster, int cell) {
    return reinterpret_cast<std::atomic<uint64_t>*>(window + 128)[poster * kCells + cell];
  }
};

// Cells and the flags of ll lines hold a count and, above it, half of the tag of the call that
// posted it, so that a peer in a call with other arguments is told from one in this call: two tags
// have the same half once in four thousand million times. Counts wrap; what is waited for is never
// as much as half their range away.
inline uint64_t signal_value(uint64_t count, uint64_t tag) {
  return (tag << 32) | (count & 0xffff'ffff);
}
inline constexpr uint64_t kNeverWritten = 0;
inline uint32_t signal_count(uint64_t value) { return static_cast<uint32_t>(value); }
inline bool same_call(uint64_t value, uint64_t tag) { return (value >> 32) == (tag & 0xffff'ffff); }
// How many more posts it takes until there are `count`: above 0 where some are missing.
inline int32_t posts_missing(uint64_t value, uint64_t count) {
  return static_cast<int32_t>(static_cast<uint32_t>(count) - signal_count(value));
}

// The unit of the ll protocol: payload and, at a fixed place behind it, the flag that says it is
// there. Payload ends where the flag begins, so that up to 56 bytes share its cache line. Flags lie
// where no payload ever does: nothing stale can look like one.
struct alignas(256) LlLine {
  static constexpr size_t kPayload = 248;
  std::byte payload[kPayload];
  std::atomic<uint64_t> flag;

  std::byte* begin(size_t bytes) { return payload + (kPayload - bytes); }
  // The flag of the line whose payload ends at `end`.
  static std::atomic<uint64_t>& flag_at(std::byte* end) {
    return *reinterpret_cast<std::atomic<uint64_t>*>(end);
  }

  static size_t elements(size_t element_bytes) { return kPayload / element_bytes; }
  static size_t lines(size_t count, size_t element_bytes) {
    return (count + elements(element_bytes) - 1) / elements(element_bytes);
  }
};
static_assert(sizeof(LlLine) == 256);

}  // namespace weft
