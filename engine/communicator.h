// Communicator: the ranks of a job and what they can do together.
//
// Thread safety: calls of one communicator may come from any thread, but like in MPI all ranks must
// make its collective calls in the same order, so callers from several threads have to agree on
// one. abort() may be called from any thread at any time.
//
// Memory of a GPU (Options::device, docs/gpu.md): run() and start() follow the memory. Where that
// of all ranks is on their devices, kernels do the call, on a stream of the communicator's own:
// what produces the input must have ended before, and ranks that are threads which share a GPU must
// not have it wait for the legacy default stream, which waits for all others. What a rank reads and
// writes has to be all on the device or all on the host; pinned and managed memory is the host's.
// Each rank decides for itself: one that reads and writes nothing, as in v-forms, goes by the
// pointers that it gives nevertheless, and takes the host's way where none is the device's.
// Barriers, and collectives of no elements, take the host's. Calls of the two ways overtake each
// other.
//
// Failure: a call that fails on this rank because of another one (death, timeout, mismatch) leaves
// the communicator failed: later calls return the same status at once. Argument errors do not.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "bootstrap/rendezvous.h"
#include "engine/call.h"
#include "engine/schedule/trace.h"
#include "engine/work.h"

namespace weft {

class Gpu;  // engine/device/gpu.h

// What run() of a call of these arguments would run, for benchmarks and logs. Of calls on device
// memory it says the algorithm, its radix and lanes.
struct CallInfo {
  std::string algorithm;  // as `weft-schedule list` names it
  std::string protocol;   // "ll" or "simple"
  // "shm", "tcp", "verbs", "shm+tcp": those that the plan's links and windows use; "gpu": kernels.
  std::string transports;
  int lanes = 1;             // copies of the algorithm's lanes
  int radix = 2;             // of algorithms that take one
  size_t rounds = 0;         // in which the message is cut
  size_t segment_bytes = 0;  // bytes of a chunk in one round
  // A way to run the call that was considered.
  struct Price {
    std::string algorithm;     // as above
    std::string protocol;      // as above
    int lanes = 1;             // as above
    int radix = 2;             // as above
    size_t segment_bytes = 0;  // as above
    double seconds = 0;  // that the cost model says a call takes among many that follow each other
  };
  // What the choice was made from, the cheapest first; empty where it was made without prices.
  std::vector<Price> prices{};
};

// What a communicator has done so far.
struct CommunicatorStats {
  uint64_t calls = 0;        // collectives and groups, its own ones included
  uint64_t plans_built = 0;  // calls of a shape that was new
};

// What calls on device memory are put on: a cudaStream_t of this rank's GPU.
using Stream = void*;

// See the top of this file.
class Communicator {
 public:
  // Collective over the rendezvous' ranks. Every rank gets an error if one does not come in time,
  // or is `unable`: then it comes to say why, and all get its error at once.
  static Result<std::unique_ptr<Communicator>> create(Rendezvous& rendezvous,
                                                      const Options& options,
                                                      const Status& unable = {});
  // The same, on a GPU that was looked for before (find_cuda_device()), or why there is none: what
  // Options::device calls "auto" is another thread's, where another thread makes the communicator.
  static Result<std::unique_ptr<Communicator>> create_on(Result<std::shared_ptr<Gpu>> device,
                                                         Rendezvous& rendezvous,
                                                         const Options& options);
  // Of the job that the process's environment describes (launchers, WEFT_*); see
  // bootstrap/rendezvous.h. What is wrong with it, all ranks hear, if this one can meet them.
  static Result<std::unique_ptr<Communicator>> create_from_environment();

  virtual ~Communicator() = default;

  // This rank, how many there are, and what they were made with.
  virtual Rank rank() const = 0;
  virtual int size() const = 0;
  virtual const Options& options() const = 0;
  // Ranks by host: equal numbers share a host, numbered by first appearance. Where users or network
  // namespaces differ, memory cannot be shared, and those are hosts of their own.
  virtual const std::vector<int>& host_of_rank() const = 0;

  // Blocking: returns when the output is there and the input may be changed.
  virtual Status run(const Call& call) = 0;
  virtual Status run(std::span<const Transfer> group) = 0;
  // Asynchronous: memory must stay as it is until the Work is done. Collective calls start in the
  // order given; sends and receives proceed independently, in order per peer and direction.
  virtual Work start(const Call& call) = 0;
  virtual Work start(std::span<const Transfer> group) = 0;

  // Puts the call on the caller's stream, and returns: the stream goes on when the output is there.
  // Where 256 calls of this rank are on streams, it waits first until one of them has ended.
  // Memory is on the device, or pinned memory that it reaches, and stays as it is until then. Calls
  // run one after the other, in the order given, whichever streams they are on. Barriers, and calls
  // of no elements, are put there, too; but a call of the only rank that moves nothing, as one in
  // place, is not, and orders nothing. A failure shows in health() and in the next call; what is on
  // streams ends at once then, and the outputs are worth nothing.
  virtual Status enqueue(const Call& call, Stream stream);
  virtual Status enqueue(std::span<const Transfer> group, Stream stream);
  // Whether enqueue() can have a valid call: its memory is the device's, or pinned; false where all
  // is other memory, or all ranks know that there is nothing to do. An error where the device does
  // not reach all of it. Goes by the pointers where this rank reads and writes nothing.
  virtual Result<bool> is_for_stream(const Call& call) const;
  virtual Result<bool> is_for_stream(std::span<const Transfer> group) const;
  // enqueue() of what is_for_stream() has just said true of: whose memory it is is not asked again.
  virtual Status enqueue_told(const Call& call, Stream stream) { return enqueue(call, stream); }
  virtual Status enqueue_told(std::span<const Transfer> group, Stream stream) {
    return enqueue(group, stream);
  }
  // Whether enqueue() of a long call may wait for what other ranks put on their streams: a thread
  // that has several of them lets each have a thread for that.
  virtual bool enqueue_awaits_peers() const { return false; }
  // What `then` is given from now on waits for what `first` has been given so far.
  virtual Status put_behind(Stream first, Stream then);
  // Waits until the stream has come past all that it was given, whoever gave it; not at all where
  // this rank has no GPU. An error where a call of this communicator has failed on its GPU by then.
  virtual Status synchronize(Stream stream);
  // Waits until all that enqueue() has put on streams has ended; the reason where it failed.
  virtual Status synchronize();
  // How many calls are on streams that are not known to have ended.
  virtual size_t on_streams() const;
  // This rank's GPU, or why calls cannot be on its memory; and how many bytes of that the
  // communicator has for itself.
  virtual Result<std::shared_ptr<Gpu>> device() const;
  virtual size_t device_bytes() const;

  // Blocking calls by name; counts as in Call.
  Status all_reduce(const void* in, void* out, size_t count, DataType type, ReduceOp op);
  Status reduce(const void* in, void* out, size_t count, DataType type, ReduceOp op, Rank root);
  Status broadcast(const void* in, void* out, size_t count, DataType type, Rank root);
  Status all_gather(const void* in, void* out, size_t count, DataType type);
  Status reduce_scatter(const void* in, void* out, size_t count, DataType type, ReduceOp op);
  Status gather(const void* in, void* out, size_t count, DataType type, Rank root);
  Status scatter(const void* in, void* out, size_t count, DataType type, Rank root);
  Status all_to_all(const void* in, void* out, size_t count, DataType type);
  Status barrier();
  Status send(Rank peer, const void* memory, size_t count, DataType type);
  Status recv(Rank peer, void* memory, size_t count, DataType type);

  // Collective. Ranks with equal colors >= 0 form a new communicator, ordered by key, then by rank;
  // a negative color joins none and gets a null pointer.
  virtual Result<std::unique_ptr<Communicator>> split(int color, int key) = 0;

  // Collective over the ranks that are still there, sound or failed as this communicator may be:
  // makes a new one of them, in their order, without those that are lost and without `without`
  // (ranks that do not call; the same on all). Ranks that do not call within `timeout_s` (0: that
  // of the options) are left out as well, but for the lowest of those that are there, under which
  // they meet: where that one does not call, the others get Code::timeout with it as the peer,
  // after twice `timeout_s` and a second, and may call again `without` it. Who comes when the
  // others have gone on gets the same. A rank that is lost meanwhile is left out, too. Where a
  // network falls apart, each part goes on by itself: compare size() with what is needed. abort()
  // ends a shrink that is under way on this rank; the others then leave this rank out. Those that
  // were shrunk from the same one are shrunk in the same order on all ranks: else Code::mismatch.
  virtual Result<std::unique_ptr<Communicator>> shrink(std::span<const Rank> without = {},
                                                       double timeout_s = 0);

  // Collective: memory that every rank gets of its own, as many bytes on each, zeroed, aligned to
  // pages. Where all ranks share a host's memory, calls whose buffers all lie in such memory run
  // between them, without copies in between; everywhere else it is memory as any other. It is freed
  // with the last copy of the pointer, in any order, also after the communicator is gone; no call
  // on it may be under way then. A forked child that writes to it writes to its parent's. A size
  // that differs is an error on all ranks.
  virtual Result<std::shared_ptr<std::byte>> allocate(size_t bytes);

  // Collective: a text of each rank, by rank. For agreeing on what comes next, as those who build
  // on communicators have to: ranks that make a call in its place get an error.
  virtual Result<std::vector<std::string>> tell_all(const std::string& mine);

  // Ends every call under way on this rank with Code::aborted, and on the others, as soon as they
  // hear of it, those that do not have all they need by then; the communicator is failed
  // afterwards.
  virtual void abort(std::string_view why) = 0;
  // ok, or why the communicator has failed.
  virtual Status health() const = 0;

  // From now on notes down what this rank's lanes do and when, the last `most` steps, in memory
  // that is allocated here.
  virtual Status start_trace(size_t most);
  // Ends that, and gives what was noted, oldest first (nothing where there is no memory for a
  // copy); times are those of steady_clock().
  virtual std::vector<StepDone> end_trace() { return {}; }

  // For benchmarks and tests.
  virtual Result<CallInfo> explain(const Call& call) = 0;
  virtual CommunicatorStats stats() const = 0;
};

}  // namespace weft
