// Operation: one call on its way through an engine, from its arguments to its end.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/buffer_places.h"
#include "engine/call.h"
#include "engine/executor/cpu_executor.h"
#include "engine/plan_cache.h"
#include "engine/recorder.h"
#include "engine/work.h"

namespace weft {

// When what waits was last looked after, and how often anything of its rank had moved by then.
struct Look {
  int64_t at_ns = 0;  // 0: not yet
  uint64_t moves = 0;
};

struct Operation {
  Operation(Media& media, SharedState& shared) : executor(media, shared) {}

  bool is_group = false;
  Purpose purpose = Purpose::user;  // else options about algorithms do not apply
  Call call;
  std::span<const Transfer> group;
  // Asynchronous calls own what their spans point to.
  std::vector<Transfer> owned_group;
  std::array<std::vector<size_t>, 4> owned_counts;
  std::shared_ptr<WorkState> work;
  // Called when its turn comes, before it begins: an error fails the communicator. May be empty.
  std::function<Status()> prepare;

  // Where ranks may touch each other's buffers (engine_memory.cc).
  uint64_t exchanges_from = 0;  // the number of the call from which on such calls exchange that
  bool exchanges = false;       // its plan, as yet, is the exchange
  bool registered = false;      // all ranks' lie in allocations
  bool pullable = false;        // ranks could run it by reading others' inputs through the kernel,
  bool readable = false;        // and all of them can
  bool in_place_somewhere = false;
  BufferPlaces places;
  std::vector<BufferPlaces> all_places;  // by rank
  std::vector<MappedBuffers> mapped;     // by rank
  Status refused;                        // not ok: after the exchange there was no plan

  CpuExecutor executor;
  PlanCache::Entry* plan = nullptr;
  uint64_t sequence = 0;  // of collective calls; 0 for groups
  uint64_t tag = 0;       // of collective calls: Engine::history_ with this one
  Recorder::What what;    // that the recorder writes down
  uint64_t number = 0;    // which it gave
  bool waited = false;    // long enough to look around
  // Done or failed by Engine::end_what_can(), whatever has failed since; else blocked.
  CpuExecutor::Progress ended = CpuExecutor::Progress::blocked;
  // Counts from when an asynchronous call was made, a blocking one began to wait (most never do),
  // and anew from when something of it, or one that it waited behind, moved.
  std::optional<Deadline> deadline;
  bool moved = false;            // since then
  int64_t blocked_since_ns = 0;  // 0: not known to be blocked
  Look looked;                   // the last Engine::look_around(), or when deadline was set
  int64_t stated_ns = 0;         // when peers were last told which call this is
  double warn_after_s = 0;       // of waiting, the next warning; 0: the first

  // What it does from now on, whatever it did before.
  void set(const Call& collective, Purpose why = Purpose::user) {
    is_group = false;
    purpose = why;
    call = collective;
    group = {};
    what = signature();
  }
  void set(std::span<const Transfer> transfers) {
    set(Call{.kind = Kind::exchange});
    is_group = true;
    group = transfers;
    what = signature();
  }

  bool has_ended() const { return ended != CpuExecutor::Progress::blocked; }
  Signature signature() const {
    return is_group ? weft::signature(group) : weft::signature(call, purpose);
  }
  std::string text() const { return is_group ? describe(group) : describe(call); }
  void own() {
    owned_group.assign(group.begin(), group.end());
    group = owned_group;
    std::span<const size_t>* lists[] = {&call.counts, &call.offsets, &call.recv_counts,
                                        &call.recv_offsets};
    for (size_t i = 0; i < owned_counts.size(); ++i) {
      owned_counts[i].assign(lists[i]->begin(), lists[i]->end());
      *lists[i] = owned_counts[i];
    }
  }
};

}  // namespace weft
