// LL: small messages whose data carries its own flags, so that one hop needs no signal and no
// fence.
//
// A packet is two atoms of 8 bytes, each 4 bytes of payload and the flag. The memory model promises
// nothing about the order of the two, so a packet has come when both flags are there. A box holds
// the packets of one message from one writer: payload bytes [16 i, 16 i + 16) are packets 2 i and
// 2 i + 1. The packet right before them is the box's head, which says of which call it is. Whoever
// writes a box again must know that it has been read, and use another flag; no box may hold a flag
// to come.
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
  uint32_t call;  // a digest, by which those of one flag are told apart
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

// Up to 16 bytes of any alignment, of which words of 4 are taken at once where they can be.
__device__ __forceinline__ Vec16 load_some(const void* from, uint64_t bytes) {
  if (bytes >= sizeof(Vec16) && address_of(from) % sizeof(Vec16) == 0) return ptx::load16(from);
  const auto* const source = static_cast<const unsigned char*>(from);
  uint32_t words[4] = {};
  const bool aligned = address_of(from) % 4 == 0;
  for (uint32_t w = 0; w < 4; ++w) {
    const uint64_t left = bytes <= 4 * w ? 0 : bytes - 4 * w;
    if (aligned && left >= 4) {
      words[w] = *reinterpret_cast<const uint32_t*>(source + 4 * w);
    } else {
      for (uint32_t i = 0; i < 4 && i < left; ++i)
        words[w] |= uint32_t{source[4 * w + i]} << (8 * i);
    }
  }
  return {words[0] | uint64_t{words[1]} << 32, words[2] | uint64_t{words[3]} << 32};
}
__device__ __forceinline__ void store_some(void* to, Vec16 value, uint64_t bytes) {
  if (bytes >= sizeof(Vec16) && address_of(to) % sizeof(Vec16) == 0) return ptx::store16(to, value);
  auto* const target = static_cast<unsigned char*>(to);
  const bool aligned = address_of(to) % 4 == 0;
  for (uint32_t w = 0; w < 4; ++w) {
    const auto word = static_cast<uint32_t>((w < 2 ? value.low : value.high) >> (32 * (w % 2)));
    const uint64_t left = bytes <= 4 * w ? 0 : bytes - 4 * w;
    if (aligned && left >= 4) {
      *reinterpret_cast<uint32_t*>(target + 4 * w) = word;
    } else {
      for (uint32_t i = 0; i < 4 && i < left; ++i)
        target[4 * w + i] = static_cast<unsigned char>(word >> (8 * i));
    }
  }
}

template <class T, class Op>
class PacketFold {
 public:
  // What BlockFold gives, to the plain targets and the boxes; a single source that is not modified
  // is copied bit by bit. All threads of the block call it; `watch` of each says when to give up.
  // False, with the cause and the first source that did not come, if it did, or is of another call;
  // other threads may have gone through.
  static __device__ bool run(const PacketOperands& o, Watch& watch, Cause* cause, int* missing) {
    const Packets packets = of(o);
    if (head_number() < packets.boxes) store_head(o, head_number());
    for (uint64_t at = threadIdx.x * sizeof(Vec16); at < packets.bytes;
         at += blockDim.x * sizeof(Vec16)) {
      Vec16 result;
      if (!fold_at(o, packets, at, watch, cause, missing, &result)) return false;
      for (int t = 0; t < packets.targets; ++t)
        store_some(static_cast<unsigned char*>(o.plain.targets[t]) + at, result,
                   packets.bytes - at);
      for (int b = 0; b < packets.boxes; ++b)
        store_packets(static_cast<Vec16*>(o.boxes[b]) + packet_at(at), result, packets.flag);
    }
    // Asked again, not kept meanwhile: registers are few.
    *missing = head_number();
    return *missing >= o.plain.source_count ||
           (o.packets[*missing / 64] >> (*missing % 64) & 1) == 0 ||
           is_of_call(o, *missing, watch, cause);
  }

 private:
  using V = Vector<T, Op>;
  using Block = BlockFold<T, Op>;
  static constexpr int kPollsPerLook = 256;

  // Of the operands, what every vector needs, loaded once: the compiler cannot know that what is
  // stored meanwhile lies elsewhere.
  struct Packets {
    uint64_t bytes, boxed[2];
    int sources, targets, boxes;
    uint32_t flag;
    bool modified;
    typename V::Rules::Acc scalar;
  };
  static __device__ Packets of(const PacketOperands& o) {
    Packets packets{o.plain.count * sizeof(T),
                    {o.packets[0], o.packets[1]},
                    o.plain.source_count,
                    o.plain.target_count,
                    o.box_count,
                    o.flag,
                    is_modified(o.plain),
                    {}};
    if (packets.modified && o.plain.scalar != nullptr)
      packets.scalar = V::Rules::unpack(Block::load_element(o.plain.scalar, 0));
    return packets;
  }

  // Whose head the thread has. The last threads are those that have no payload, if any has none.
  static __device__ int head_number() { return static_cast<int>(blockDim.x - 1 - threadIdx.x); }
  static __device__ bool is_boxed(const Packets& packets, int source) {
    return ((source < 64 ? packets.boxed[0] : packets.boxed[1]) >> (source % 64) & 1) != 0;
  }
  static __device__ const Vec16* head_of(const PacketOperands& o, int source) {
    return static_cast<const Vec16*>(o.plain.sources[source]) - 1;
  }
  static __device__ void store_head(const PacketOperands& o, int box) {
    const uint64_t marked = uint64_t{o.flag} << 32;
    ptx::store_pair_relaxed_sys(static_cast<Vec16*>(o.boxes[box]) - 1, {marked | o.call, marked});
  }
  // Whether the box has been written in another call.
  static __device__ bool is_elsewhere(const PacketOperands& o, Vec16 head) {
    return has_come(head, o.flag) && payload_of(head) != o.call;
  }
  static __device__ bool is_of_call(const PacketOperands& o, int source, Watch& watch,
                                    Cause* cause) {
    Vec16 head = ptx::load_pair_relaxed_sys(head_of(o, source));
    for (int polls = 1; !has_come(head, o.flag); ++polls) {
      ptx::nanosleep(8);
      if (polls % kPollsPerLook == 0 && (*cause = watch.look()) != Cause::none) return false;
      head = ptx::load_pair_relaxed_sys(head_of(o, source));
    }
    if (payload_of(head) == o.call) return true;
    *cause = Cause::mismatched;
    return false;
  }

  // Of payload byte `at`.
  static __device__ uint64_t packet_at(uint64_t at) { return at / kPayloadOfPacket; }

  static __device__ bool fold_at(const PacketOperands& o, const Packets& packets, uint64_t at,
                                 Watch& watch, Cause* cause, int* missing, Vec16* result) {
    typename V::Acc acc{};
    for (int k = 0; k < packets.sources; ++k) {
      Vec16 stored;
      if (!is_boxed(packets, k)) {
        stored = load_some(static_cast<const unsigned char*>(o.plain.sources[k]) + at,
                           packets.bytes - at);
      } else if (!await(o, k, packet_at(at), packets.flag, watch, cause, &stored)) {
        *missing = k;
        return false;
      }
      if (packets.sources == 1 && !packets.modified) {
        *result = stored;
        return true;
      }
      const typename V::Acc value =
          Block::template operand<std::is_same_v<Op, Sum>>(o.plain, k, stored, packets.scalar);
      acc = k == 0 ? value : V::fold(acc, value);
    }
    if constexpr (std::is_same_v<Op, Sum>) {
      if (o.plain.divisor > 1) acc = V::divide(acc, o.plain.divisor);
    }
    *result = V::pack(acc);
    return true;
  }

  static __device__ bool await(const PacketOperands& o, int source, uint64_t at, uint32_t flag,
                               Watch& watch, Cause* cause, Vec16* payload) {
    const Vec16* const packet = static_cast<const Vec16*>(o.plain.sources[source]) + at;
    for (int polls = 1;; ++polls) {
      const Vec16 first = ptx::load_pair_relaxed_sys(packet);
      const Vec16 second = ptx::load_pair_relaxed_sys(packet + 1);
      if (has_come(first, flag) && has_come(second, flag)) {
        *payload = {payload_of(first), payload_of(second)};
        return true;
      }
      ptx::nanosleep(8);
      if (polls % kPollsPerLook != 0) continue;
      *cause = is_elsewhere(o, ptx::load_pair_relaxed_sys(head_of(o, source))) ? Cause::mismatched
                                                                               : watch.look();
      if (*cause != Cause::none) return false;
    }
  }
};

}  // namespace weft::device
