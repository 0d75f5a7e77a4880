// The calls of one rank on device memory, put on streams for its GPU to run.
//
// A call returns when it has been put there, for which it waits for room where many are under way,
// but not into a graph; its result is there once the stream has come past it.
// A rank's calls run one after the other, in the order in which they are made, whichever streams
// they are put on. As with a Communicator all ranks make the same calls in the same order, except
// that groups of sends and receives only need both ends of each transfer. By the stream engine
// (docs/gpu.md) a group that has more than one message with a peer, by size or number of transfers,
// may wait for any of them: there the peers have the other ends in one group each, too.
//
// A stream may be in the course of being captured into a graph. What is put there runs whenever the
// graph does, behind the calls that the same graph has captured before; how a launch of the graph
// is ordered with others and with calls on streams is up to who launches it, and the same for all
// ranks. What it needs stays until all graphs that have calls are gone.
//
// Thread safety: any call from any thread; see above about their order.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/options.h"
#include "engine/arrange.h"
#include "engine/call.h"
#include "engine/communicator.h"
#include "engine/device/media.h"
#include "engine/device/stream_watch.h"
#include "engine/executor/device_lower.h"
#include "engine/executor/device_script.h"
#include "engine/plan_cache.h"
#include "engine/progress.h"
#include "engine/tuner/choose.h"

namespace weft {

// Bytes of a rank's memory for what calls need besides their buffers. Tables are kept for calls of
// the same shape, until there is no room for others.
struct DeviceRoom {
  size_t tables = 16 << 20;   // on the device, and pinned on the host
  size_t words = 1 << 20;     // on the host: reports, and where groups' memory is
  size_t scratch = 16 << 20;  // on the device, for algorithms that want some
};

class DeviceCalls {
 public:
  // By all ranks. `options` are the communicator's: algorithm, lanes, chunk, radix and timeout_s
  // apply. unsupported where neither engine can be (choose_device_engine()).
  static Result<std::unique_ptr<DeviceCalls>> join(Gpu& device, Rendezvous& meet,
                                                   const DeviceMediaConfig& config,
                                                   const Options& options, const Deadline& deadline,
                                                   const DeviceRoom& room = {});
  // Ends what has not ended yet, as abort() does, and waits for it.
  ~DeviceCalls();
  DeviceCalls(const DeviceCalls&) = delete;

  // What was put on a stream.
  struct Launched {
    // Among the calls on streams, from 1. 0: it went into a graph, or nowhere. A call that could
    // not be put there as a whole has one as well; it ends, as all others do then.
    uint64_t number = 0;
    bool in_graph = false;
    std::string_view algorithm;  // that it runs; good until the next call
  };
  // Memory is the device's, or host memory that it can reach at the same address. What Call says
  // of the arguments holds; the timeout is for each wait of the call. A group of nothing is not put
  // there.
  Status enqueue(const Call& call, Gpu::Stream stream, Launched* launched = nullptr);
  Status enqueue(std::span<const Transfer> group, Gpu::Stream stream, Launched* launched = nullptr);
  // Whether enqueue() may wait in the midst of a call, for peers that have to put theirs there,
  // too.
  bool waits_amid_calls() const { return watch_ != nullptr; }
  // What enqueue() would run; an error where it would refuse the call.
  Result<CallInfo> would_run(const Call& call) const;
  // What `then` is given from now on waits for what `first` has been given so far. Where `then` is
  // captured into a graph, `first` has to be, into the same.
  Status put_behind(Gpu::Stream first, Gpu::Stream then);
  // A stream of this rank's own, for those who have none. It waits for no other stream but where
  // calls do.
  Gpu::Stream own_stream() const { return own_stream_; }

  // Whether there are graphs that have calls, which may run at any time.
  bool in_graphs() const { return graphs_.use_count() > 1; }

  // Where there is much on streams, what comes waits for room there. `wake` is called by who waits,
  // before; while waits() somebody else has to look after failures, as while calls are under way.
  // To be set before there are calls.
  void when_waiting(std::function<void()> wake) { wake_ = std::move(wake); }
  bool waits() const { return waits_.load(std::memory_order_acquire); }

  // How many calls on streams have ended, as far as is known: nothing is waited for. None from the
  // first that gave up on, and none once one of a graph has.
  Result<uint64_t> ended();
  // Whether all have ended, however they did.
  Result<bool> idle();

  // ok, or why a launch of this rank gave up, as far as is known: nothing is waited for. From then
  // on nothing more is put on streams, and what is there already ends at once.
  Status health() const;
  // What runs now or later gives up.
  void abort();
  // After abort(): again and again until all has ended, as a peer's steps that were under way may
  // have undone it. idle() does so as well.
  void end_waits();

  // ok, or why a peer is lost whose messages are relayed.
  Status peer_status(Rank peer) const {
    return media_->relay() ? media_->relay()->peer_status(peer) : Status();
  }

  // Waits until peers have what finished calls have said to relays: before they may see this rank
  // as gone. Bounded by the timeout.
  void drain();

  // Of device memory that this rank has besides what calls are given.
  size_t bytes() const {
    return media_->bytes() + tables_.memory.size() + scratch_.size() + barrier_.size();
  }

  Rank rank() const { return media_->map().me; }
  int size() const { return media_->map().layout.shape().ranks; }
  const DeviceChoice& choice() const { return media_->choice(); }

 private:
  // A shape of calls. All of it stays as it is while calls are under way.
  struct Entry {
    device::Program program{};
    std::optional<DeviceScript> script{};  // instead, where steps are launched by themselves
    uint32_t blocks = 1;
    std::string algorithm;
  };
  using Entries = std::map<PlanCache::Key, Entry>;
  // What differs between calls of one shape.
  struct Arguments : device::Call {
    size_t copied = 0;  // bytes, where the entry is alone_
  };
  // In reports: and the place in in_graph_.
  static constexpr uint64_t kInGraph = uint64_t{1} << 63;
  // A call that is on a stream, and what is recorded there behind it.
  struct UnderWay {
    Gpu::Event event = nullptr;
    uint64_t stream = 0;  // Gpu::number_of()
    const Entry* entry = nullptr;
    Signature call;
  };
  struct InGraph {
    const Entry* entry = nullptr;
    Signature call;
  };
  // How long what a call needs has to stay: until there is no room for others, or at least until
  // there are no graphs.
  enum class Stay : uint8_t { as_room_permits, for_graphs };
  // Memory that is given out piece by piece, from its begin and from its end, and taken back in two
  // wholes.
  struct Arena {
    Bytes memory{};
    size_t used = 0, kept = 0;
    bool has_room(size_t bytes) const;
    std::byte* take(size_t bytes, Stay stay);  // REQUIRES: has_room(bytes)
  };

  // Where a call is put: on a stream, or by one into a graph.
  struct Where {
    Gpu::Stream stream;
    uint64_t number = 0;  // of the stream; 0: not known
    uint64_t graph = 0;   // 0: none
    Stay stay() const { return graph == 0 ? Stay::as_room_permits : Stay::for_graphs; }
  };

  DeviceCalls(Gpu& device, std::unique_ptr<DeviceMedia> media, const Options& options);
  Status prepare(const DeviceRoom& room);
  Status start_relay();
  ProgressThread::Pause relay();
  bool has_ended();
  Status await_all();
  Result<Where> begin(Gpu::Stream stream);
  void stop(device::Cause why);
  const device::Report* reported() const;
  // REQUIRES: mutex_ is held, for these
  Status failure() const;
  Status lost() const;
  Status reap();
  Result<size_t> count_ended();
  Result<bool> all_done();
  Result<Gpu::Event> take_event();
  Result<Choice> choose_for(const Call& call) const;
  int copies_for(const Choice& choice, const Collective& collective, size_t bytes) const;
  bool takes_packets(const Choice& choice, const Collective& collective, const Call& call) const;
  Result<Arranged> arranged(const Call& call, bool aliased) const;
  bool is_own_copy(const Call& call) const;
  bool is_for_no_kernel(const Arguments& call, const Where& where) const;
  bool is_on_device(const void* memory) const;
  Result<Arguments> arguments(const Call& call, bool aliased) const;
  Result<DeviceImage> lowered(const Arranged& arranged, uint32_t digest) const;
  Result<DeviceScript> scripted(const Arranged& arranged, const DeviceImage& image) const;
  Entry* known(Stay stay);  // the entry of key_; nullptr where there is none
  Result<Entry*> make_entry(const PlanCache::Key& key, const Arranged& arranged, uint32_t digest,
                            size_t more_words, const Where& where);
  Status make_room(size_t table_bytes, size_t word_bytes);
  void forget_graphs();
  void forget_captures();
  uint64_t progress() const;  // changes when something under way comes on
  Status await_room(double patience_s, const std::function<Result<bool>()>& there_is);
  Status await_room_for(const Entry& entry, double patience_s);
  Status await_portion(size_t step, double patience_s, Gpu::Stream stream);
  Status put(const Entry& entry, const Arguments& call, const device::Limits& limits,
             const Where& where, bool& begun);
  Status put_step(const DeviceScript& script, size_t i, const device::Call& call,
                  const device::Limits& limits, Gpu::Stream stream, bool& begun);
  Status launch(const Entry& entry, const Arguments& call, const Signature& signature,
                double timeout_s, const Where& where, Launched* launched);
  Status launch_on_stream(const Entry& entry, const Arguments& call, const Signature& signature,
                          device::Limits limits, const Where& where);
  Status launch_in_graph(const Entry& entry, const Arguments& call, const Signature& signature,
                         device::Limits limits, const Where& where);

  Gpu& device_;
  const std::unique_ptr<DeviceMedia> media_;
  const Options options_;
  const Entry alone_{.algorithm = "copy"};  // calls of the only rank, which take no kernel

  mutable std::mutex mutex_;  // guards what follows
  Entries entries_;
  Entries kept_;  // those that graphs refer to; calls on streams use them as well
  PlanCache::Key key_;
  Arena tables_;     // in device memory
  Bytes on_host_{};  // the same tables, in pinned memory, so that no copy waits for its stream
  Arena words_;      // in host memory that the device reads and writes: reports, transfers
  Bytes scratch_{};  // in device memory, of the one call that runs
  Bytes barrier_{};  // likewise
  std::deque<UnderWay> under_way_;  // in order; not those that are known to have ended well
  std::vector<Gpu::Event> spare_;
  uint64_t launched_ = 0;
  std::deque<InGraph> in_graph_;
  std::map<uint64_t, Gpu::Event> ends_;  // by graph: behind its last call so far

  std::atomic<uint64_t> ended_{0};  // that are not under_way_ any more; who holds mutex_ writes it
  const std::shared_ptr<const bool> graphs_ = std::make_shared<bool>();  // every graph has one
  // Set once. In words_:
  uint32_t* abort_ = nullptr;
  device::Report* report_ = nullptr;  // of whichever launch gives up first
  Gpu::Stream own_stream_ = nullptr;
  Gpu::Stream copies_ = nullptr;          // which nobody captures, and which waits for nothing
  std::unique_ptr<StreamWatch> watch_;    // null where kernels wait, who look after themselves
  std::array<Gpu::Event, 2> portions_{};  // of steps of one call, by turns; null without watch_
  std::function<void()> wake_ = [] {};
  std::atomic<bool> waits_{false};
  uint64_t idle_turns_ = 0;                       // of relay(), one behind the other
  std::unique_ptr<ProgressThread> relay_thread_;  // null: there is nothing to relay
};

}  // namespace weft
