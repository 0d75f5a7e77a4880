// What the 32 bits of an immediate say: a kind, and the low bits of a message's number.
#pragma once

#include <cstdint>

namespace weft::verbs {

// To the receiver: where message n is.
inline constexpr uint32_t kInSlot = 0;
inline constexpr uint32_t kInMemory = 1;            // with the tag of the message before
inline constexpr uint32_t kInMemoryWithHeader = 2;  // in its slot
// To the sender. A credit may also ride in the header of a message, and then overtake others.
inline constexpr uint32_t kCredit = 0;     // n messages have been released, all in all
inline constexpr uint32_t kPlacement = 1;  // of message n, in the table

inline constexpr int kNumberBits = 30;
inline constexpr uint64_t kNumbers = uint64_t{1} << kNumberBits;

inline uint32_t immediate(uint32_t kind, uint64_t number) {
  return kind << kNumberBits | static_cast<uint32_t>(number & (kNumbers - 1));
}
inline uint32_t kind_of(uint32_t immediate) { return immediate >> kNumberBits; }
// The first number from `least` on that has these low bits.
inline uint64_t next_after(uint64_t least, uint32_t immediate) {
  return least + ((immediate - least) & (kNumbers - 1));
}
// The nearest number on either side of `about` that has these low bits.
inline uint64_t nearest(uint64_t about, uint32_t immediate) {
  const uint64_t ahead = (immediate - about) & (kNumbers - 1);
  return ahead < kNumbers / 2 ? about + ahead : about + ahead - kNumbers;
}

}  // namespace weft::verbs
