// Boxes of packets (kernels/cuda/packets.cuh), as they lie in memory, for who plays a kernel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace weft::test {

// The payload of bytes [offset, offset + bytes) of the box, if all has come.
inline bool open_box(const std::byte* box, uint64_t offset, uint64_t bytes, uint32_t flag,
                     std::vector<std::byte>& payload) {
  payload.resize(bytes);
  for (uint64_t at = 0; at < bytes; ++at) {
    const std::byte* const word = box + (offset + at) / 4 * 8;
    if (std::memcmp(word + 4, &flag, sizeof flag) != 0) return false;
    payload[at] = word[(offset + at) % 4];
  }
  return true;
}
inline void fill_box(std::byte* box, uint64_t offset, uint32_t flag,
                     const std::vector<std::byte>& payload) {
  for (uint64_t at = 0; at < payload.size(); at += 4) {
    std::byte* const word = box + (offset + at) / 4 * 8;
    std::memcpy(word, payload.data() + at, std::min<uint64_t>(4, payload.size() - at));
    std::memcpy(word + 4, &flag, sizeof flag);
  }
}

}  // namespace weft::test
