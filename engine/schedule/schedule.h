// The schedule: what every rank does in one collective, as a value.
//
// A Schedule is one Program per rank; an algorithm yields the program of one rank. A program is a
// few lanes; a lane is an order of steps; lanes of a rank run concurrently. One step does, for one
// chunk,
//
//     value = fold(op, [the message received], source, source, ...)      left to right
//     write the value to every target, and send it
//
// with every part optional; which parts are there gives the step its name in the field's words
// (recv_reduce_copy_send, ...). There is no other kind of step.
//
// Rounds. A program is run once for every *round* of a message: in round t a chunk stands for its
// elements [t*E, (t+1)*E), where E (elements per chunk and round) is the same on all ranks. A step
// whose chunk is empty in a round does nothing with data or links (both ends of a link know the
// sizes of what it carries); its signals are exchanged all the same. Lanes count rounds
// independently.
//
// Order and synchronisation.
//  * A link (from, to, id) has one sending and one receiving lane; the k-th send meets the k-th
//    receive.
//  * A wait on (peer, cell) with lag L in round t lets the step start once that peer has posted the
//    cell t - L + 1 times in this call (at once while t < L). A cell is posted once per round, by
//    one step, after the step's reads and writes are done. peer may be the rank itself (between
//    lanes).
//  * Nothing else orders lanes. The call ends for a rank when its lanes have ended.
//
// Messages of several chunks. Where a step says `more`, the messages that it receives and sends go
// on in the lane's next step, which has the same link ends: so one message carries many chunks,
// each with operands of its own, which the receiver may take while later ones are still to come.
// Such a run of steps has no signals and no loops.
//
// Copies. replicate() makes L copies of every lane, which share the rounds: copy l runs rounds l,
// l + L, l + 2L, ... on links, cells and slots of its own. "Round" in the rules above then means
// the copy's own count of rounds (t / L).
//
// Windows. Slot s of a rank's window has `window_halves` copies, used by round modulo. Between
// calls window space is leased (executor/lease.h): a call never meets another call's data there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/schedule/collective.h"

namespace weft {

enum class Buffer : uint8_t { none, input, output, scratch, window };
std::string_view name(Buffer buffer);

// Input and Output operands mean the step's own chunk there; scratch and window operands a slot,
// which holds one chunk of one round.
struct Operand {
  Buffer buffer = Buffer::none;
  Rank rank = -1;  // whose memory; -1: this rank's own
  int slot = 0;    // scratch and window only
  friend bool operator==(const Operand&, const Operand&) = default;
};
inline Operand input() { return {Buffer::input, -1, 0}; }
inline Operand output() { return {Buffer::output, -1, 0}; }
inline Operand scratch(int slot) { return {Buffer::scratch, -1, slot}; }
inline Operand window(Rank rank, int slot) { return {Buffer::window, rank, slot}; }

// One end of a link, seen from a step: the peer and the link's number between the two.
struct LinkEnd {
  Rank peer = -1;  // -1: no link
  int id = 0;
  bool used() const { return peer >= 0; }
  friend bool operator==(const LinkEnd&, const LinkEnd&) = default;
};

// In Step::waits the peer is the poster; in Step::posts the waiter.
struct Signal {
  Rank peer = -1;
  int cell = 0;
  int lag = 0;  // waits only
  friend bool operator==(const Signal&, const Signal&) = default;
};

// Two places of its own, or the Outputs of so many ranks as one fold has operands.
inline constexpr int kMostTargets = 64;

struct Step {
  int chunk = 0;
  LinkEnd from;
  std::vector<Operand> sources;
  std::vector<Operand> targets;  // at most kMostTargets
  LinkEnd to;
  std::vector<Signal> waits;
  std::vector<Signal> posts;
  // The value is a finished result: Avg divides here, before writing and sending.
  bool finish = false;
  // A loop: done `times` times, the chunk moving on by `stride` modulo all chunks each time. Such a
  // step has no signals and no scratch or window operands.
  int times = 1;
  int stride = 0;
  bool more = false;  // the messages go on in the next step

  // Values that it folds: the message received, and the sources.
  size_t operands() const { return sources.size() + (from.used() ? 1 : 0); }

  // Words in which an algorithm writes a step; each returns the step.
  Step& recv(LinkEnd end) { return from = end, *this; }
  Step& read(Operand source) { return sources.push_back(source), *this; }
  Step& write(Operand target) { return targets.push_back(target), *this; }
  Step& send(LinkEnd end) { return to = end, *this; }
  Step& wait(Rank peer, int cell, int lag = 0) { return waits.push_back({peer, cell, lag}), *this; }
  Step& post(Rank peer, int cell) { return posts.push_back({peer, cell, 0}), *this; }
  Step& finished(bool yes = true) { return finish = yes, *this; }
  Step& go_on(bool yes = true) { return more = yes, *this; }
  Step& repeat(int count, int chunk_stride) { return times = count, stride = chunk_stride, *this; }

  friend bool operator==(const Step&, const Step&) = default;
};

// "send", "recv", "recv_reduce", "recv_copy_send", "recv_send", "copy", "reduce", "signal", ...
std::string name(const Step& step);

struct Lane {
  std::vector<Step> steps;
  int copy = 0;  // 0 .. Program::copies - 1
  // Appends a step for `chunk`. The reference is valid until the next call.
  Step& step(int chunk) {
    steps.emplace_back().chunk = chunk;
    return steps.back();
  }
  friend bool operator==(const Lane&, const Lane&) = default;
};

// What one rank does. All but scratch_slots and lanes is equal on all ranks.
struct Program {
  int pieces = 1;
  int message_chunks = 1;  // that a message carries at most
  int scratch_slots = 0;
  int window_slots = 0;
  int window_halves = 1;
  int copies = 1;
  std::vector<Lane> lanes;

  Lane& lane() { return lanes.emplace_back(); }  // valid until the next call
  friend bool operator==(const Program&, const Program&) = default;
};

// The program with every lane `copies` times. Link id i, cell i and slot i of copy l become
// i * copies + l, so that both ends agree. REQUIRES: program.copies == 1.
Program replicate(Program program, int copies);
// Whether the signal is of what was `cell` before there were so many copies.
inline bool is_of(const Signal& signal, int cell, int copies) {
  return cell >= 0 && signal.cell / copies == cell;
}

struct Schedule {
  Collective collective;
  std::vector<Program> programs;  // by rank
  int chunks() const { return programs.empty() ? 0 : blocks(collective) * programs[0].pieces; }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// What a schedule costs: an algorithm claims it, the verifier counts it.
struct Cost {
  int hops = 0;         // messages or signals on the longest chain of dependences, for one round
  int chunks_sent = 0;  // chunks that the busiest rank sends over links, or writes into a window
};

// A step alone in its lane moves at most so many bytes in a round where the executor has worked it
// out beforehand (executor/short_steps.h), and is priced so.
inline constexpr size_t kShortStepBytes = 32 << 10;

// The chunk of the i-th time round a step's loop.
template <class AnyStep>  // a Step, or what it was lowered to
int chunk_at(const AnyStep& step, int i, int chunks) {
  if (i == 0) return step.chunk;
  const int moved = static_cast<int>((step.chunk + int64_t{i} * step.stride) % chunks);
  return moved < 0 ? moved + chunks : moved;
}

}  // namespace weft
