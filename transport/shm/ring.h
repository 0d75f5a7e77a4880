// The memory of one link: a ring of slots between one writer and one reader.
//
//   [credits] [line 0] .. [line K-1] [data 0] .. [data K-1]
//
// A line is one cache line: stamp, tag, and the payload itself where it is small, so that a small
// message is received by reading one cache line. Other payloads lie in the slot's data.
//
// Invariants
//   1. Message n (from 0) uses slot n mod K. Its stamp is {n + 1 as 32 bits, length as 32 bits};
//      a slot holds message n exactly while the stamp's upper half is n + 1: a slot's earlier
//      stamps differ from it by multiples of K below 2^32, and a fresh slot says 0 while
//      n + 1 <= K.
//   2. The writer writes data, tag and small payload, and then releases the stamp; the reader
//      acquires the stamp before it reads any of them.
//   3. The reader releases `released` = messages it is done with, after its last read of them; the
//      writer acquires it before it writes a slot again. sent - released <= K.
//   4. Line and data are written by the writer alone, `released` by the reader alone.
//   5. Each end trusts the other not to have bugs, but not its values: a length that is too large
//      or a count that is impossible is an error or no credit, never an access outside the ring.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/hand_over.h"
#include "transport/transport.h"

namespace weft::shm {

struct alignas(64) RingCredits {
  std::atomic<uint64_t> released{0};
};

struct alignas(64) RingLine {
  static constexpr size_t kSmall = 48;
  std::atomic<uint64_t> stamp;
  uint64_t tag;
  std::array<std::byte, kSmall> small;
};
static_assert(sizeof(RingLine) == 64 && std::atomic<uint64_t>::is_always_lock_free);

inline size_t ring_bytes(LinkShape shape) {
  return sizeof(RingCredits) + size_t{shape.slots} * (sizeof(RingLine) + shape.slot_bytes);
}

// Where things lie in a ring's memory, and the slot that is next on this end.
class RingCursor {
 public:
  RingCursor() = default;
  RingCursor(std::byte* memory, LinkShape shape)
      : credits_(reinterpret_cast<RingCredits*>(memory)),
        lines_(reinterpret_cast<RingLine*>(memory + sizeof(RingCredits))),
        data_(memory + sizeof(RingCredits) + size_t{shape.slots} * sizeof(RingLine)),
        shape_(shape) {}

  RingCredits& credits() const { return *credits_; }
  RingLine& line() const { return lines_[slot_]; }
  std::byte* data() const { return data_ + size_t{slot_} * shape_.slot_bytes; }
  uint32_t slot_bytes() const { return shape_.slot_bytes; }
  uint64_t count() const { return count_; }
  uint32_t next_stamp() const { return static_cast<uint32_t>(count_ + 1); }
  void advance() {
    ++count_;
    if (++slot_ == shape_.slots) slot_ = 0;
  }

 private:
  RingCredits* credits_ = nullptr;
  RingLine* lines_ = nullptr;
  std::byte* data_ = nullptr;
  LinkShape shape_;
  uint32_t slot_ = 0;
  uint64_t count_ = 0;  // messages this end is done with
};

class RingWriter {
 public:
  void attach(std::byte* memory, LinkShape shape) {
    at_ = RingCursor(memory, shape);
    slots_ = shape.slots;
  }
  void detach() {
    slots_ = 0;
  }  // no credit from now on; memory reserved before may still be committed

  Bytes reserve() {
    if (at_.count() - released_ >= slots_) [[unlikely]] {
      if (slots_ == 0) return {};
      released_ = at_.credits().released.load(std::memory_order_acquire);
      if (at_.count() - released_ >= slots_) return {};
    }
    return {at_.data(), at_.slot_bytes()};
  }

  void commit(size_t bytes, uint64_t tag) {
    RingLine& line = at_.line();
    line.tag = tag;
    if (bytes <= RingLine::kSmall)
      copy_words(line.small.data(), at_.data(), bytes);
    else if (bytes <= kHandedOverMost)
      hand_over(at_.data(), bytes);
    line.stamp.store(uint64_t{at_.next_stamp()} << 32 | bytes, std::memory_order_release);
    at_.advance();
  }

 private:
  // Whole words, because a wider load would stall on the narrower stores that filled the slot.
  static void copy_words(std::byte* to, const std::byte* from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t))
      std::memcpy(to + i, from + i, sizeof(uint64_t));
  }

  RingCursor at_;
  uint64_t slots_ = 0;
  uint64_t released_ = 0;
};

class RingReader {
 public:
  RingReader() = default;
  RingReader(std::byte* memory, LinkShape shape) : at_(memory, shape) {}

  // Whether the next message is there; then its length, which the caller must check: the writer
  // may be anybody.
  bool arrived(uint32_t& bytes) const {
    const uint64_t stamp = at_.line().stamp.load(std::memory_order_acquire);
    bytes = static_cast<uint32_t>(stamp);
    return static_cast<uint32_t>(stamp >> 32) == at_.next_stamp();
  }
  // REQUIRES: it has arrived, and is no longer than a slot.
  Message message(uint32_t bytes) const {
    const RingLine& line = at_.line();
    return {{bytes <= RingLine::kSmall ? line.small.data() : at_.data(), bytes}, line.tag};
  }

  void release() {
    at_.advance();
    at_.credits().released.store(at_.count(), std::memory_order_release);
  }

 private:
  RingCursor at_;
};

}  // namespace weft::shm
