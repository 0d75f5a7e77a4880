// A call as the user makes it: one collective with its memory and arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "base/types.h"

namespace weft {

// clang-format off
// Counts are in elements. `count` means, as in NCCL:
//   all_reduce, reduce, broadcast   elements of the message
//   all_gather, gather              elements that each rank contributes
//   reduce_scatter, scatter         elements that each rank receives
//   all_to_all                      elements for each pair of ranks
// The v-forms (`varying`) take counts by rank instead, and ignore `count`:
//   all_gather, reduce_scatter      `counts` by rank, on every rank
//   gather, scatter                 `counts` by rank at the root; elsewhere `count` is the rank's own
//   all_to_all                      `counts` by receiver, `recv_counts` by sender
// Between ranks that exchange messages a block of no elements is one, too, so that a count of 0 on one
// end and more on the other is a mismatch: all_to_all of many zeros costs a message for each pair.
// Offsets (elements, by rank, into the buffer that holds all blocks) default to packing blocks in
// rank order. For all_to_all `offsets` are into the input, `recv_offsets` into the output.
//
// In place: input == output, or, where one buffer holds a block per rank, input == the rank's own
// block in output (all_gather, gather at the root) or output == the rank's own block in input
// (reduce_scatter, scatter at the root); all_to_all_v then needs equal counts and offsets both ways.
// Any other overlap is the caller's error and not detected.
// A pointer may be null where the rank has no such buffer, or the count is zero.
// clang-format on
struct Call {
  Kind kind = Kind::all_reduce;            // which collective
  const void* input = nullptr;             // never written, unless it is the output, too
  void* output = nullptr;                  // where this rank's result goes
  size_t count = 0;                        // elements
  DataType type = DataType::uint8;         // of each
  ReduceOp op = ReduceOp::sum;             // where the kind reduces
  Rank root = 0;                           // where the kind has one
  const void* scalar = nullptr;            // premulsum: one element of `type`, this rank's factor
  bool varying = false;                    // a v-form
  std::span<const size_t> counts{};        // of the v-forms
  std::span<const size_t> offsets{};       // of the v-forms
  std::span<const size_t> recv_counts{};   // of all_to_all's
  std::span<const size_t> recv_offsets{};  // of all_to_all's
  double timeout_s = 0;                    // of waiting, as Options say; 0: the communicator's
};

// One send or receive of a group. What the two ends must agree on is how many bytes, not of which
// type, as in NCCL: programs send bytes and receive elements. One of no elements is sent, too, and
// waits for its other end as any.
struct Transfer {
  // Seen from this rank.
  enum class Direction : uint8_t {
    send,    // to the peer
    receive  // from it
  };
  Direction direction = Direction::send;  // to or from
  Rank peer = 0;                          // the other rank
  void* memory = nullptr;                 // only read when sending
  size_t count = 0;                       // elements
  DataType type = DataType::uint8;        // of each
};

// Transfers of these.
Transfer send_to(Rank peer, const void* memory, size_t count, DataType type);
Transfer receive_from(Rank peer, void* memory, size_t count, DataType type);

// ok, or what is wrong with the arguments, by name and value.
Status validate(const Call& call, int ranks, Rank me);
Status validate(std::span<const Transfer> group, int ranks);
// Likewise: a rank's sends to itself need receives of the same size in the same group, in the same
// order.
Status check_self_transfers(std::span<const Transfer> group, Rank me);

// Elements that a rank reads from input and writes to output.
struct Needs {
  size_t input = 0;   // read
  size_t output = 0;  // written
};
// Rank `me`'s, in a valid call.
Needs needs(const Call& call, int ranks, Rank me);

// Whether a collective call is known by all ranks to move nothing.
inline bool is_empty(const Call& call) {
  return !call.varying && call.count == 0 && call.kind != Kind::barrier &&
         call.kind != Kind::exchange;
}

// Whether sizes are known to the two ends of a pair only: no choice may go by them.
inline bool pair_sizes(const Call& call) {
  return call.varying && call.kind != Kind::all_gather && call.kind != Kind::reduce_scatter;
}
// Whether such calls are chosen by price where prices are known.
inline bool has_prices(const Call& call) {
  return call.kind != Kind::exchange && call.kind != Kind::barrier && !pair_sizes(call);
}

// A barrier as what it is run as, an all_reduce of a byte: from one to another that the caller of
// this has. Other calls as they are.
Call with_barrier_bytes(const Call& call, const std::byte* from, std::byte* to);

// The v-forms' counts as rank `me` knows them: of gather and scatter only the root has all, and
// what stands there elsewhere says nothing.
inline std::span<const size_t> known_counts(const Call& call, Rank me) {
  const bool rooted = call.kind == Kind::gather || call.kind == Kind::scatter;
  return rooted && me != call.root ? std::span<const size_t>() : call.counts;
}

// Whose call it is: the user's, or one that another function of the communicator makes. The latter
// is run by whatever algorithm suits, and is never taken for a user's.
enum class Purpose : uint8_t { user, allocate, split, check, device, tell };

// What the ranks that make a call must agree on.
struct Signature {
  // As in Call.
  Kind kind = Kind::all_reduce;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  bool varying = false;
  Rank root = 0;
  size_t count = 0;
  uint64_t counts = 0;  // a digest of the v-forms' counts, where all ranks know all of them
  Purpose purpose = Purpose::user;
};

// A call's. A group's, for the record: how many transfers, and the first one's peer.
Signature signature(const Call& call, Purpose purpose = Purpose::user);
inline Signature signature(std::span<const Transfer> group) {
  return {.kind = Kind::exchange, .root = group.front().peer, .count = group.size()};
}

// "all_reduce(count=1024, float32, sum)": for messages and for comparing ranks' arguments.
std::string describe(const Signature& call);
inline std::string describe(const Call& call) { return describe(signature(call)); }
std::string describe(std::span<const Transfer> group);

// 0 for a kind without a root, whatever the caller left there.
inline Rank root_of(const Call& call) { return has_root(call.kind) ? call.root : 0; }

// Whether input and output are the same memory, in one of the forms above.
bool in_place(const Call& call, int ranks, Rank me);

// Whether a call that is no v-form differs from a valid one in its memory and its patience only, so
// that it is valid too, and the same plan runs it. REQUIRES: `valid` is no v-form either.
inline bool repeats(const Call& call, const Call& valid) {
  const auto alike = [](const void* a, const void* b) {
    return a == b || (a != nullptr && b != nullptr);
  };
  return call.kind == valid.kind && call.count == valid.count && call.type == valid.type &&
         call.op == valid.op && call.root == valid.root && !call.varying &&
         alike(call.input, valid.input) && alike(call.output, valid.output) &&
         alike(call.scalar, valid.scalar) && call.timeout_s >= 0;
}

// Equal on all ranks that make the same call.
uint64_t fingerprint(const Signature& call);

}  // namespace weft
