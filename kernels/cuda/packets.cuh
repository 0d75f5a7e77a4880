// LL: small messages whose data carries its own flags, so that one hop needs no signal and no
// fence.
//
// A packet is two atoms of 8 bytes, each 4 bytes of payload and the flag. The memory model promises
// nothing about the order of the two, so a packet has come when both flags are there. A box holds
// the packets of one message from one writer: payload bytes [16 i, 16 i + 16) are packets 2 i and
// 2 i + 1. Whoever writes a box again must know that it has been read, and use another flag; no box
// may hold a flag to come.
#pragma once

#include <cstring>

#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/signal.cuh"

namespace weft::device {

// As Operands, but of sources that have their bit in `packets` the address is a box, and the result
// goes to boxes as well. In shared memory.
struct PacketOperands {
  Operands plain;
  uint64_t packets[2];
  void* boxes[kMostBoxes];
  int box_count;
  uint32_t flag;
};

__device__ __forceinline__ void store_packets(Vec16* packet, Vec16 payload, uint32_t flag) {
  const uint64_t marked = uint64_t{flag} << 32;
  const auto atom = [=](uint64_t word) { return marked | (word & 0xffffffffu); };
  ptx::store_pair_relaxed_sys(packet, {atom(payload.low), atom(payload.low >> 32)});
  ptx::store_pair_relaxed_sys(packet + 1, {atom(payload.high), atom(payload.high >> 32)});
}

__device__ __forceinline__ bool has_come(Vec16 packet, uint32_t flag) {
  return packet.low >> 32 == flag && packet.high >> 32 == flag;
}
__device__ __forceinline__ uint64_t payload_of(Vec16 packet) {
  return (packet.low & 0xffffffffu) | packet.high << 32;
}

// Up to 16 bytes of any alignment.
__device__ __forceinline__ Vec16 load_some(const void* from, uint64_t bytes) {
  if (bytes >= sizeof(Vec16) && address_of(from) % sizeof(Vec16) == 0) return ptx::load16(from);
  Vec16 value{0, 0};
  for (uint64_t i = 0; i < sizeof(Vec16) && i < bytes; ++i) {
    const uint64_t byte = static_cast<const unsigned char*>(from)[i];
    if (i < 8)
      value.low |= byte << (i * 8);
    else
      value.high |= byte << (i * 8 - 64);
  }
  return value;
}
__device__ __forceinline__ void store_some(void* to, Vec16 value, uint64_t bytes) {
  if (bytes >= sizeof(Vec16) && address_of(to) % sizeof(Vec16) == 0) return ptx::store16(to, value);
  for (uint64_t i = 0; i < sizeof(Vec16) && i < bytes; ++i)
    static_cast<unsigned char*>(to)[i] =
        static_cast<unsigned char>((i < 8 ? value.low : value.high) >> (i % 8 * 8));
}

template <class T, class Op>
class PacketFold {
 public:
  // What BlockFold gives, to the plain targets and the boxes; a single source that is not modified
  // is copied bit by bit. All threads of the block call it; `watch` of each says when to give up.
  // False, with the cause and the first source that did not come, if it did; other threads may have
  // gone through.
  static __device__ bool run(const PacketOperands& o, Watch& watch, Cause* cause, int* missing) {
    const uint64_t bytes = o.plain.count * sizeof(T);
    for (uint64_t at = threadIdx.x * sizeof(Vec16); at < bytes; at += blockDim.x * sizeof(Vec16)) {
      Vec16 result;
      if (!fold_at(o, at, bytes, watch, cause, missing, &result)) return false;
      for (int t = 0; t < o.plain.target_count; ++t)
        store_some(static_cast<unsigned char*>(o.plain.targets[t]) + at, result, bytes - at);
      for (int b = 0; b < o.box_count; ++b)
        store_packets(static_cast<Vec16*>(o.boxes[b]) + packet_at(at), result, o.flag);
    }
    return true;
  }

 private:
  using V = Vector<T, Op>;
  using Block = BlockFold<T, Op>;
  static constexpr int kPollsPerLook = 256;

  // Of payload byte `at`.
  static __device__ uint64_t packet_at(uint64_t at) { return at / kPayloadOfPacket; }

  static __device__ bool fold_at(const PacketOperands& o, uint64_t at, uint64_t bytes, Watch& watch,
                                 Cause* cause, int* missing, Vec16* result) {
    typename V::Acc acc{};
    const bool modified = is_modified(o.plain);
    typename V::Rules::Acc scalar{};
    if (modified && o.plain.scalar != nullptr)
      scalar = V::Rules::unpack(Block::load_element(o.plain.scalar, 0));
    for (int k = 0; k < o.plain.source_count; ++k) {
      Vec16 stored;
      if ((o.packets[k / 64] >> (k % 64) & 1) == 0) {
        stored = load_some(static_cast<const unsigned char*>(o.plain.sources[k]) + at, bytes - at);
      } else if (!await(static_cast<const Vec16*>(o.plain.sources[k]) + packet_at(at), o.flag,
                        watch, cause, &stored)) {
        *missing = k;
        return false;
      }
      if (o.plain.source_count == 1 && !modified) {
        *result = stored;
        return true;
      }
      const typename V::Acc value =
          Block::template operand<std::is_same_v<Op, Sum>>(o.plain, k, stored, scalar);
      acc = k == 0 ? value : V::fold(acc, value);
    }
    if constexpr (std::is_same_v<Op, Sum>) {
      if (o.plain.divisor > 1) acc = V::divide(acc, o.plain.divisor);
    }
    *result = V::pack(acc);
    return true;
  }

  static __device__ bool await(const Vec16* packet, uint32_t flag, Watch& watch, Cause* cause,
                               Vec16* payload) {
    for (int polls = 1;; ++polls) {
      const Vec16 first = ptx::load_pair_relaxed_sys(packet);
      const Vec16 second = ptx::load_pair_relaxed_sys(packet + 1);
      if (has_come(first, flag) && has_come(second, flag)) {
        *payload = {payload_of(first), payload_of(second)};
        return true;
      }
      ptx::nanosleep(8);
      if (polls % kPollsPerLook == 0 && (*cause = watch.look()) != Cause::none) return false;
    }
  }
};

}  // namespace weft::device
