// A communicator's calls on device memory: which calls those are, and what has become of them.
//
// Thread safety: any call from any thread. Nothing here waits for the GPU, but enqueue() and
// start() where there is no room for another call, and the destructor.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/device/calls.h"
#include "engine/recorder.h"
#include "engine/work.h"

namespace weft {

// The call's own; 0: the communicator's.
inline double timeout_of(const Call& call) { return call.timeout_s; }
inline double timeout_of(std::span<const Transfer>) { return 0; }

class DeviceWay {
 public:
  // `calls` null: `none` says why calls cannot be on memory of the device, which is told from other
  // memory nevertheless. `wake`: something has been put on a stream where nothing was, or somebody
  // waits for it; from then on settle() has to be called, and end() where the communicator fails.
  DeviceWay(int ranks, Rank me, std::shared_ptr<Gpu> device, std::unique_ptr<DeviceCalls> calls,
            Status none, std::function<void()> wake);
  ~DeviceWay();  // ends what is under way, and waits for it

  // Whether the memory of a valid call is the device's. What the rank reads and writes decides, and
  // has to be of one kind; where it reads and writes nothing, whatever pointers it gives. False for
  // what all ranks know to be empty, for barriers, and where there is no pointer either.
  Result<bool> takes(const Call& call) const;
  Result<bool> takes(std::span<const Transfer> group) const;
  // See Communicator::is_for_stream().
  Result<bool> is_for_stream(const Call& call) const;
  Result<bool> is_for_stream(std::span<const Transfer> group) const;
  // ok, or which memory of a valid call kernels do not reach.
  Status reaches(const Call& call) const;
  Status reaches(std::span<const Transfer> group) const;

  // See DeviceCalls::enqueue().
  Status enqueue(const Call& call, Gpu::Stream stream);
  Status enqueue(std::span<const Transfer> group, Gpu::Stream stream);
  // See Communicator::enqueue_awaits_peers(), and put_behind().
  bool enqueue_awaits_peers() const { return calls_ && calls_->waits_amid_calls(); }
  Status put_behind(Gpu::Stream first, Gpu::Stream then);
  // See DeviceCalls::would_run().
  Result<CallInfo> would_run(const Call& call) const;
  // On a stream of the communicator's own. The deadline is of overdue().
  Work start(const Call& call, const Deadline& deadline);
  Work start(std::span<const Transfer> group, const Deadline& deadline);

  // Whether somebody has to look around: calls are on streams, or graphs have some.
  bool needs_care() const { return is_busy() || (calls_ && calls_->in_graphs()); }
  // Whether calls are on streams, or one is being put there and waits for room.
  bool is_busy() const { return outstanding() > 0 || (calls_ && calls_->waits()); }
  // Calls on streams that are not known to have ended, those among them that somebody waits for,
  // and those that have ever been made.
  size_t outstanding() const { return outstanding_.load(std::memory_order_acquire); }
  size_t awaited() const { return awaited_.load(std::memory_order_acquire); }
  uint64_t made() const { return made_.load(std::memory_order_acquire); }
  // Whether end() has completed any.
  bool cut_short() const { return cut_short_.load(std::memory_order_acquire); }

  // Completes what has ended well. An error is the device's.
  Status settle();
  // ok, or why kernels gave up.
  Status health() const { return calls_ ? calls_->health() : Status(); }
  // ok, or why a peer is lost whose messages pass through the host.
  Status peer_status(Rank peer) const { return calls_ ? calls_->peer_status(peer) : Status(); }
  // Kernels that wait now or later give up.
  void abort();
  // After abort(), again and again while needs_care(): once all kernels have ended, completes
  // everything with `why`.
  void end(const Status& why);

  // See DeviceCalls::drain().
  void drain() {
    if (calls_) calls_->drain();
  }

  // Of the oldest call that is outstanding, in words (or that there may be some of graphs), and
  // whether its timeout is the communicator's. They wait for who puts a call on a stream: abort()
  // ends that.
  std::string oldest() const;
  struct Numbered {
    uint64_t sequence = 0;  // among collective calls, from 1
    Signature call{};
  };
  // Of those that are outstanding, 0 where there is none, nullopt while somebody puts a call on a
  // stream; and the call of that number, where it is not too long ago. As long as no graph has had
  // calls: those are launched without a number. Neither waits.
  std::optional<Numbered> oldest_collective() const;
  std::optional<Signature> call_numbered(uint64_t sequence) const;
  bool oldest_has_default_timeout() const;
  // Whether somebody has waited for a call until its deadline.
  bool overdue() const;

  // Of device memory that calls need besides their buffers.
  size_t bytes() const { return calls_ ? calls_->bytes() : 0; }

  // Calls on the device have numbers and sequences of their own.
  std::vector<Recorder::Record> records() const { return recorder_.records(); }

 private:
  struct UnderWay {
    uint64_t number = 0;    // of DeviceCalls
    uint64_t record = 0;    // of recorder_
    uint64_t sequence = 0;  // 0: a group
    Signature call;
    bool default_timeout = true;
    std::shared_ptr<WorkState> work;  // null: nobody waits
    Deadline deadline;                // of who waits
  };
  template <class What>
  Status put(const What& what, Gpu::Stream stream, UnderWay call);
  template <class What>
  Work start_any(const What& what, const Deadline& deadline);
  // REQUIRES, for these: mutex_ is held
  void add(const DeviceCalls::Launched& launched, UnderWay call);
  void finish(Recorder::State state, const Status& status);

  const int ranks_;
  const Rank me_;
  const std::shared_ptr<Gpu> device_;
  const std::unique_ptr<DeviceCalls> calls_;
  const Status none_;
  const std::function<void()> wake_;

  mutable std::mutex mutex_;  // guards what follows; calls are put on streams under it
  std::deque<UnderWay> under_way_;
  uint64_t sequence_ = 0;  // of collective calls
  Recorder recorder_;      // written by who holds mutex_
  std::string algorithm_;  // of the last call, and its label
  Recorder::Label label_ = 0;

  std::atomic<size_t> outstanding_{0}, awaited_{0};
  std::atomic<uint64_t> made_{0};
  std::atomic<bool> cut_short_{false}, captured_{false};
};

}  // namespace weft
