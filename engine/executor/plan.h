// Plan: a program bound to the links, windows and sizes of one communicator, ready to run many
// times.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/executor/layout.h"
#include "engine/executor/short_steps.h"
#include "engine/executor/store_trial.h"
#include "engine/media.h"
#include "engine/schedule/schedule.h"
#include "kernels/copy.h"
#include "kernels/reduce.h"

namespace weft {

// How data edges between windows travel. In `ll` every cache line carries its own flag, and the
// signals that only say "the data is there" fall away.
enum class Protocol : uint8_t { simple, ll };
std::string_view name(Protocol protocol);

// What to lower, and how; equal on all ranks that make the call.
struct PlanRequest {
  std::string_view algorithm;  // its name, and its radix: for reports
  int radix = 2;
  bool registered = false;  // of the algorithm: ranks touch each other's Input and Output,
  bool readable = false;    // or read each other's Input through the kernel
  int entered = -1;         // and the cell by which a rank says no more than that it is in the call
  bool hands_back = false;  // of the algorithm: who writes a window's slot has read it last
  Collective collective;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  Protocol protocol = Protocol::simple;
  size_t segment_bytes = 0;  // bytes of a chunk in one round, at most
  LinkShape links;           // of every link
  bool streaming = false;    // results that lie in no cache yet are written past them
  bool crowded = false;      // ranks are more than the CPUs that they may use
};

// Where a chunk lies in Input and Output, and how large it is, in elements.
struct ChunkPlace {
  size_t size = 0, input = 0, output = 0;
};

struct PlanStep {
  int chunk = 0, times = 1, stride = 0;
  ChunkPlace first;  // of `chunk`
  RecvLink* from = nullptr;
  SendLink* to = nullptr;
  Rank from_peer = -1, to_peer = -1;
  std::vector<Operand> sources, targets;
  // Bit k, of targets[k] and, after the last of them, what goes to `to`: it is a result that lies
  // in no cache of this core yet; read next by another rank, straight from there; one of the
  // sources, too.
  uint64_t results = 0, shared = 0, also_read = 0;
  static constexpr uint64_t bit(size_t target) {  // beyond the last bit: none of these
    return target < 64 ? uint64_t{1} << target : 0;
  }
  std::vector<Signal> waits, posts;
  std::vector<Rank> wakes;  // ranks that may sleep until this step is done
  bool finish = false;
  bool linked = false;              // receives or sends
  bool begins = true, ends = true;  // its messages, which steps that follow each other may share
  bool lines = false;               // ll: window operands are lines
  bool sends_memory = false;        // straight from Input or Output, no fold, the link saves a copy
  bool receives_memory = false;     // straight into the one target
  bool pulls = false;               // its one source is a peer's, and is read through the kernel
  bool own = false;                 // nothing but this rank's own buffers
  // How targets[target] is copied to, but for what goes past the caches.
  CopyWay way_to(size_t target) const {
    if (own) return CopyWay::own;
    return (shared & bit(target)) != 0 ? CopyWay::shared : CopyWay::taken;
  }
};

struct PlanLane {
  std::vector<PlanStep> steps;
  int copy = 0;
  size_t rounds = 0;  // t = copy, copy + copies, ... < rounds
};

// Fewer bytes than this are always written into the caches: past them, all would have to reach
// memory before they are signalled.
inline constexpr size_t kStreamedToPeers = 4096;

struct Plan {
  Plan(const PlanRequest& asked, Layout where) : request(asked), layout(std::move(where)) {}

  PlanRequest request;
  Layout layout;
  ReduceKernel kernel = nullptr;
  int64_t divisor = 1;
  bool scales = false;         // premulsum
  bool touches_peers = false;  // reads or writes their Input or Output
  bool sizes_in_tags = false;  // v-forms and groups: sizes may differ between the ends by mistake
  bool numbered = false;       // groups: the k-th send is for the k-th receive
  size_t element_bytes = 1;
  size_t segment = 1;        // elements of a chunk in one round
  size_t line_elements = 0;  // that fit an ll line
  size_t rounds = 0;         // of the longest lane
  int chunks = 1;
  int copies = 1;
  std::vector<PlanLane> lanes;
  std::vector<ShortStep> short_steps;  // instead of the lane, unless its steps are traced
  std::vector<ShortClaim> short_claims;
  struct Outgoing {
    SendLink* link;
    Rank peer;
  };
  std::vector<Outgoing> send_links;    // all of them, each once
  std::vector<const Window*> windows;  // by rank; empty where the program has none
  bool mapped = false;                 // all of them, as a call has found
  int window_slots = 0, window_halves = 1;
  size_t window_slot_bytes = 0;
  size_t window_begin = 0;  // of the ring that it leases from, in every window
  size_t window_lap = 0;    // bytes after which its leases come round
  size_t scratch_slots = 0, scratch_slot_bytes = 0;
  std::optional<StoreTrial> stores;  // where much is written for other ranks, or read from them
  uint64_t turns = 0;                // of the first lane, in the calls before
  uint64_t tried_in = 0;             // tag of the call in which the last trial ended

  // Cells of other ranks' signals to this one, with the number of posts per call.
  struct Expected {
    Rank peer;
    int cell;
    uint64_t posts;
  };
  std::vector<Expected> expected;
  std::string transports;

  ChunkPlace place(int chunk) const {
    return {layout.size(chunk), layout.input_offset(chunk), layout.output_offset(chunk)};
  }
  // Of a window, with all in front of it, to the end of where leases go round.
  size_t window_end() const { return window_lap > 0 ? window_begin + window_lap : 0; }
  size_t half_bytes() const { return window_slot_bytes * static_cast<size_t>(window_slots); }
  size_t window_bytes() const { return half_bytes() * static_cast<size_t>(window_halves); }
  size_t rounds_of(int copy) const {
    return rounds > static_cast<size_t>(copy) ? (rounds - copy - 1) / copies + 1 : 0;
  }
};

// Binds this rank's program. Opens links and windows, does not wait for them.
Result<std::unique_ptr<Plan>> lower(const PlanRequest& request, Program program, Layout layout,
                                    Media& media);

}  // namespace weft
