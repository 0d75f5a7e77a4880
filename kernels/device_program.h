// The device program: what one rank does in one call, as plain memory that a kernel reads.
//
// engine/executor/device_lower.h makes it of a schedule's program; the interpreter kernel, and a
// reference interpreter on the host (tests/support/device_interpret.h), run it. Plain structs:
// nvcc, g++ and clang take this header alike. A Program is passed by value, its tables lie in
// device memory. Nothing in either depends on how often it has run, so that the same launch can be
// replayed by a CUDA graph any number of times, mixed with others.
//
// Workers. A lane is an order of steps and has one worker (a thread block) at a time. A worker that
// has several lanes must go on with another one while one is blocked. The parallelism of a large
// message comes from copies of lanes (engine/schedule/schedule.h), which share the rounds.
//
// One step, for the place and round at hand (step(), advance() below):
//   1. wait until every signal of `waits` has come;
//      if the message begins here and is there in this round:
//        wait for it (from), and for a free slot (to)
//   2. value = fold(op, [message], source, source, ...), left to right, for `size` elements; write
//      it to every target, and into the slot (to); nothing where size is 0. Sources that are
//      packets are waited for here, piece by piece
//   3. if the message ends here and was there: give the slot back (from), publish the message (to)
//   4. post every signal of `posts`
// 1 may be asked for all at once, without blocking: nothing has been done until all of it holds.
// What a worker has read and written in 2 is ordered before 3 and 4 for all ranks (release, system
// scope), and what it waited for in 1 before 2 (acquire).
//
// Cells. A cell is a count of 8 bytes in the memory of the rank that waits for it, and has one
// writer for ever. Nobody reads, modifies and writes another rank's memory. All cells, positions
// and State begin as zeros, and live as long as the communicator.
//
//   signal cells   signal_value(call, turn): calls as State counts them, and the poster's turn (its
//                  lane's own count of rounds in this call). Values only grow, so a poster that is
//                  calls ahead satisfies an earlier wait, rightly.
//   heads          messages published by the sender, marked; in the receiver's memory
//   credits        messages given back by the receiver, marked; in the sender's memory
//   begun          by call modulo kBegun: the windowed call that a peer has begun, marked; so it
//                  has finished all before
//
// Marks. Ranks that make different calls find that out where they meet. Program::digest says which
// call it is, State::history which ones there have been; a mark is such a digest below a count, or
// some bits of it where counts are long (numbered(), marked()). A link's two ends keep a digest of
// all its messages, by call and size, and the receiver compares when what it has seen is the very
// next message. Who has waited for a signal in a windowed call compares what its poster has begun:
// every worker publishes it before it posts anything, and it is written over only once this rank
// has begun the call after next, at the earliest. Packets have a head that is marked, and what
// ranks tell of their buffers is. A signal of a call without windows, in which nobody touches
// peers' buffers, says nothing of the kind.
//
// Calls. All ranks make the same collective calls, in the same order, each as one launch, even if
// it moves nothing. Launches that share a State follow each other in time. Groups of sends and
// receives (`collective` false) use links only; they have a State of their own, and may run beside.
//
// Windows. Windowed calls use kLeases parts of every window in turn, by their own count. Before its
// first step each worker waits until every peer has finished the windowed call that used the part
// before: has begun the one behind that. So peers are never more than two calls ahead.
//
// Callers' buffers. Where a program reads or writes peers' Inputs and Outputs, ranks tell each
// other where theirs are: before a rank posts anything in such a call it has written its addresses,
// as they are reached there, into an entry of its own in the memory of every peer (Told). A peer
// reads the entry only after a signal that was posted in this call, and touches the buffers only
// while the rank is in it, as schedules prove; so the next call may write the entry again. A rank
// that gives up writes zeros there before it says so: who comes late finds nothing to touch, and
// gives up as well.
//
// Packets (LL). Short payload can carry its own flags, so that what was written needs no signal to
// be read: the signals that would say no more are left out by lowering, as on the CPU
// (engine/schedule/lines.h). A box has the packets of one writer for one reader, in the reader's
// memory, where nothing but packets ever lies: 8 bytes of payload are two words of 4, each followed
// by the flag (kernels/cuda/packets.cuh). What a rank puts into its own window for others goes into
// a box of each, and is read there. Boxes have two parts, which windowed calls use in turn, as
// windows have; the flag is the call's (packet_flag()). Such a call has one round, and a worker for
// each lane, as a worker that waits for packets does nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "kernels/number.h"

namespace weft::device {

// -- counts -------------------------------------------------------------------------------------

inline constexpr int kTurnBits = 24;
inline constexpr uint64_t kMostTurns = (uint64_t{1} << kTurnBits) - 1;
inline constexpr uint32_t kLeases = 2;

// What is posted in a turn (from 0) of a call (from 1).
WEFT_HD constexpr uint64_t signal_value(uint64_t call, uint64_t turn) {
  return (call << kTurnBits) + turn + 1;
}
// Of a windowed call (from 1). Never that of memory that nobody has written; nor, as a part's calls
// are all even or all odd, another one's of the same part, until counts wrap.
WEFT_HD constexpr uint32_t packet_flag(uint64_t window_call) {
  const auto flag = static_cast<uint32_t>(window_call);
  return flag == 0 ? 1 : flag;
}
inline constexpr uint32_t kPayloadOfPacket = 8, kPacketBytes = 16;
inline constexpr uint32_t kBoxHead = 64;  // before a box; its last packet is the box's head

inline constexpr int kMarkBits = 16;
// Counts are compared as if nothing was below them, by reached().
WEFT_HD constexpr uint64_t marked(uint64_t count, uint32_t digest) {
  return count << kMarkBits | (digest & ((1u << kMarkBits) - 1));
}
WEFT_HD constexpr uint64_t count_of(uint64_t marked) { return marked >> kMarkBits; }
WEFT_HD constexpr uint32_t mark_of(uint64_t marked) {
  return static_cast<uint32_t>(marked) & ((1u << kMarkBits) - 1);
}
WEFT_HD constexpr uint32_t mix_digests(uint32_t before, uint32_t next) {
  uint32_t mixed = (before ^ next) * 0x9e3779b1u;
  mixed = (mixed ^ mixed >> 15) * 0x85ebca77u;
  return mixed ^ mixed >> 13;
}
// For counts that may wrap, as who compares them is at most some calls apart.
WEFT_HD constexpr uint64_t numbered(uint64_t call, uint32_t digest) { return call << 32 | digest; }
WEFT_HD constexpr uint64_t number_of(uint64_t numbered) { return numbered >> 32; }
// Words of a `begun` entry. A peer may be two calls ahead.
inline constexpr uint32_t kBegun = 4;
// Counts may wrap.
WEFT_HD constexpr bool reached(uint64_t seen, uint64_t needed) {
  return static_cast<int64_t>(seen - needed) >= 0;
}

// What a rank remembers from call to call, in its own device memory. All workers read it before any
// ends; the last one to end moves it on.
struct State {
  uint64_t calls;         // collective calls finished
  uint64_t window_calls;  // those of them that are windowed
  uint32_t departed;      // workers that have ended this call; back to 0 with the last
  uint32_t history;       // a digest of those calls
};

// -- tables -------------------------------------------------------------------------------------

// Where a chunk lies, in elements.
struct Place {
  uint64_t size;
  uint64_t input, output;  // its first element in this rank's Input and Output
  uint64_t message;  // size of the largest chunk of its message: there is a message in those rounds
                     // in which that one is not empty
};

enum class Space : uint8_t {
  input,        // this rank's; at Place::input
  output,       // at Place::output
  peer_input,   // rank `index`'s, where that told it is; at `offset`
  peer_output,  //
  transfer,     // memory of transfer `index` of a group of sends and receives
  scratch,      // `memory`, this rank's own: a slot that holds one chunk of one round
  window,       // `memory`: such a slot in a rank's window, in its first part and first half
  box,          // `memory`: a box of this rank's, from rank `index`, or of rank `index`'s; likewise
};

struct Operand {
  std::byte* memory;
  uint64_t offset;  // elements
  int32_t index;
  Space space;
};

struct Wait {
  const uint64_t* cell;  // in this rank's memory
  uint32_t lag;          // how many turns back it must have been posted; met while turn < lag
  int32_t peer;          // the poster
};

struct Post {
  uint64_t* cell;  // in the waiter's memory
  int32_t peer;    // the waiter
};

// Where the receiver's memory is not mapped here, a relay of the host's carries messages and
// credits (engine/device/relay.h). To kernels it is the other end: slots and cells of theirs lie in
// memory of this rank's own (cells in the host's), and the relay writes there. What it has to carry
// it finds where it is not zero, and takes it by setting it to zero: the credit, and, for each
// slot, which message lies there.
struct Mark {
  uint64_t bytes;   // and, above kMarkShift, the message's mark
  uint64_t number;  // of the message, from 1; published last
};
inline constexpr int kMarkShift = 48;

// The two ends of a link: a FIFO of slots in the receiver's memory. Message k lies in slot
// k % slots. `position` is the end's own count of messages, marked, in its own memory, for the lane
// that has this end and nobody else.
struct Receive {
  const std::byte* slots;
  const uint64_t* head;  // own memory
  uint64_t* credit;      // the sender's memory
  uint64_t* position;    // own memory
  int32_t peer;
};

struct Send {
  std::byte* slots;        // the receiver's memory
  uint64_t* head;          // the receiver's memory
  const uint64_t* credit;  // own memory
  uint64_t* position;      // own memory
  int32_t peer;
  Mark* marks;  // null, or by slot; then there is no head
};

// Addresses of a rank's Input and Output in a peer's terms, in that one's memory.
struct alignas(32) Told {
  uint64_t input, output;
  uint64_t call;  // numbered(), by State::history
};

struct Step {
  uint64_t scaled;       // bit k: source k (the message not counted) is multiplied by the scalar
  uint64_t boxed;        // bit k: source k is a box
  uint32_t first_place;  // place i is of the i-th time
  uint32_t times;        // >= 1
  uint32_t first_source, first_target;  // in operands
  uint32_t first_wait, first_post;
  uint16_t sources, targets, waits, posts;  // how many
  uint16_t boxes;                           // so many of the targets, the last ones, are boxes
  int32_t from, to;                         // in receives, sends; -1: none
  uint32_t slot_offset;  // bytes from a slot's begin to this chunk, received or sent
  bool begins, ends;     // its messages: steps that follow each other may share theirs
  bool finish;           // the value is divided by Program::divisor
  bool streaming;        // what it writes is not read again soon
};

struct Lane {
  uint64_t rounds;  // of the message; the lane has copy, copy + copies, ... < rounds. > copy
  uint32_t first_step, steps;
  uint32_t copy;
};

struct Program {
  // Tables in device memory. They may lie within `table_bytes`, whole vectors of 16 bytes, from
  // `tables` on (those of 0 entries anywhere there, too); else that is 0.
  const std::byte* tables;
  uint32_t table_bytes;
  const Lane* lanes;
  const Step* steps;
  const Place* places;
  const Operand* operands;
  const Wait* waits;
  const Post* posts;
  const Receive* receives;
  const Send* sends;
  State* state;
  uint32_t* failed;  // 0, or 1 once a worker of any of the rank's launches has claimed the Report:
                     // then they end, and none runs on what another one has left
  // By rank: kBegun words for the calls that the peer has begun, in this rank's memory; and this
  // rank's in the peer's. Null for the rank itself. Null as a whole unless windowed.
  const uint64_t* const* begun;
  uint64_t* const* publish_begun;
  // By rank: what the peer has told, in this rank's memory; and where this rank tells it, null for
  // itself. Null as a whole unless ranks touch each other's buffers.
  const Told* told;
  Told* const* tell;

  uint64_t segment;      // elements of a chunk in one round
  uint64_t lease_bytes;  // from one part of a window, or of the boxes, to the next
  uint64_t half_bytes;   // from one half to the next; turns take `halves` of them in rotation
  int64_t divisor;       // avg: the number of ranks; else 1
  uint32_t lane_count;
  uint32_t threads;  // of a worker, at least: as many as its waits and ranks need, and have work
  uint32_t copies;
  uint32_t halves;
  uint32_t slots, slot_bytes;  // of every link
  uint32_t element_bytes;
  int32_t rank, ranks;
  uint32_t digest;  // of what all ranks have to agree on; 0 of groups
  DataType type;    // where `reduces`; else uint8 and sum, for which there is a kernel
  ReduceOp op;
  bool reduces;          // else every value has one operand and is copied
  bool collective;       // counts in State::calls
  bool windowed;         // counts in State::window_calls too
  bool each_step_whole;  // a lane does all rounds of a step before the next step (groups); copies
                         // is 1, and so is times
};

// -- one call -----------------------------------------------------------------------------------

// What differs between calls of one shape.
struct Call {
  const void* input;
  void* output;
  void* const* transfers;     // in device memory; null but for groups
  const void* scalar_memory;  // premulsum: one element in device memory, or null: `scalar`
  alignas(16) unsigned char scalar[16];
};

enum class Cause : uint32_t { none, aborted, timed_out, mismatched };
// The call's begin and its end are of steps that are launched by themselves (device_step.h).
enum class Awaited : uint32_t { lease, signal, message, credit, packet, begin, end, buffers };

struct Report {
  uint32_t complete;  // not 0: the rest has been written
  Cause cause;
  Awaited awaited;
  int32_t peer;
  uint32_t lane, step;
  uint64_t round, rounds;
  uint64_t needed, seen;  // the cell
  uint64_t number;        // Limits::number
};

// What ends a call early. Null abort, or a timeout of 0: never.
struct Limits {
  const uint32_t* abort;  // not 0: give up; memory that the host can write at any time
  uint64_t timeout_ns;    // of one wait
  Report* report;         // filled by the first worker that gives up (Program::failed)
  uint64_t number = 0;    // of the launch, for the report
};

// -- walking through it -------------------------------------------------------------------------

// Where a lane is. Begins as zeros.
struct Cursor {
  uint64_t turn;
  uint32_t step;  // of the lane
  uint32_t time;
};

WEFT_HD const Step& step_at(const Program& p, const Lane& lane, const Cursor& at) {
  return p.steps[lane.first_step + at.step];
}
WEFT_HD const Place& place_at(const Program& p, const Step& step, const Cursor& at) {
  return p.places[step.first_place + at.time];
}
WEFT_HD uint64_t round_at(const Program& p, const Lane& lane, const Cursor& at) {
  return lane.copy + at.turn * p.copies;
}
// The first element of the round, counted from a chunk's begin.
WEFT_HD uint64_t begin_of(const Program& p, uint64_t round) { return round * p.segment; }
// Elements of the chunk in the round that begins there.
WEFT_HD uint64_t size_of(const Program& p, const Place& place, uint64_t begin) {
  return place.size <= begin ? 0 : min_of(p.segment, place.size - begin);
}
// Whether the step's messages, if it has any, are there in the round that begins there.
WEFT_HD bool has_message(const Place& place, uint64_t begin) { return begin < place.message; }

// To what comes next; false where the lane has ended.
WEFT_HD bool advance(const Program& p, const Lane& lane, Cursor& at) {
  if (p.each_step_whole) {
    const uint64_t next = begin_of(p, ++at.turn);
    if (next < place_at(p, step_at(p, lane, at), at).size) return true;
    at.turn = 0;
    return ++at.step < lane.steps;
  }
  if (++at.time < step_at(p, lane, at).times) return true;
  at.time = 0;
  if (++at.step < lane.steps) return true;
  at.step = 0;
  ++at.turn;
  return round_at(p, lane, at) < lane.rounds;
}

// What the wait needs in this call (State::calls + 1); 0: nothing.
WEFT_HD uint64_t needed_by(const Wait& wait, const Cursor& at, uint64_t call) {
  return at.turn < wait.lag ? 0 : signal_value(call, at.turn - wait.lag);
}

// What the operand's address is counted from where that is what a peer has told; else null.
WEFT_HD const uint64_t* base_of(const Program& p, const Operand& o) {
  switch (o.space) {
    case Space::peer_input: return &p.told[o.index].input;
    case Space::peer_output: return &p.told[o.index].output;
    default: return nullptr;
  }
}

// The address of an operand's first element, counted from its base if it has one. `window_call`:
// State::window_calls + 1.
WEFT_HD std::byte* address(const Program& p, const Call& call, const Operand& o, const Place& place,
                           uint64_t begin, uint64_t turn, uint64_t window_call) {
  const auto element = [&](const void* base, uint64_t i) {
    return static_cast<std::byte*>(const_cast<void*>(base)) + i * p.element_bytes;
  };
  switch (o.space) {
    case Space::input: return element(call.input, place.input + begin);
    case Space::output: return element(call.output, place.output + begin);
    case Space::peer_input:
    case Space::peer_output:
      return reinterpret_cast<std::byte*>((o.offset + begin) * p.element_bytes);
    case Space::transfer: return element(call.transfers[o.index], begin);
    case Space::scratch: return o.memory;
    default:
      return o.memory + window_call % kLeases * p.lease_bytes +
             static_cast<uint32_t>(turn) % p.halves * p.half_bytes;
  }
}

// Of message number `number` of a link, from 0.
WEFT_HD uint64_t slot_at(const Program& p, const Step& step, uint64_t number) {
  return number % p.slots * p.slot_bytes + step.slot_offset;
}
// A sender at `position` has a free slot once `credit` has reached this; may be below 0.
WEFT_HD constexpr uint64_t credit_needed(const Program& p, uint64_t position) {
  return marked(count_of(position) + 1 - p.slots, 0);
}
// What the two ends of a message have to agree on: the call, and, unless chunks share it, its size.
WEFT_HD constexpr uint32_t message_digest(const Program& p, const Step& step, const Place& place) {
  if (!step.begins || !step.ends) return p.digest;
  const uint64_t bytes = place.size * p.element_bytes;
  return mix_digests(p.digest, static_cast<uint32_t>(bytes ^ bytes >> 32));
}
// Of a link's end, behind one more message.
WEFT_HD constexpr uint64_t position_behind(uint64_t position, uint32_t digest) {
  return marked(count_of(position) + 1, mix_digests(mark_of(position), digest));
}

}  // namespace weft::device
