// Engine: the communicator's inside. Turns calls into plans and drives their executors, on the
// caller's thread when it blocks and nothing else is under way, else on the progress thread.
//
// Locking: driver_ is held by whoever prepares and polls operations; queue_mutex_ guards what is
// handed from callers to the progress thread; failure_mutex_ the failure. They are taken in that
// order. Calls on device memory are put on streams without any of them, under a lock of DeviceWay;
// who holds driver_ may take that one, but waits for it only after DeviceWay::abort(), which needs
// none: whoever has it may be waiting for kernels.
//
// A call that another thread drives may last until its deadline, so nobody waits for driver_ to be
// free. Calls do not need it: they are queued, and who drives serves the queue while its own call
// is blocked. What needs driver_ for a moment (explain, traces, allocate, shrink) makes a Visit:
// who drives lets visitors in between two polls, once its call has been blocked for long enough to
// look around, and the progress thread between two turns (driver_lock.h). What a visitor may find
// is therefore what the queue may find, too: a call under way in inline_, with a plan that is busy,
// and others in active_; it leaves them as they are, and does not wait for any of them.
//
// A shrink lasts as long as other ranks take. It holds, in this order, the origin's `meeting`, its
// own driver_, and the origin's: that one as a visitor who gives turns, so that calls on the
// communicator that was there first go on.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

#include "base/origin_process.h"
#include "engine/allocations.h"
#include "engine/backoff.h"
#include "engine/communicator.h"
#include "engine/connect.h"
#include "engine/device/way.h"
#include "engine/dump_signal.h"
#include "engine/executor/shared_state.h"
#include "engine/import.h"
#include "engine/notes.h"
#include "engine/operation.h"
#include "engine/origin.h"
#include "engine/progress.h"
#include "engine/readable_memory.h"
#include "engine/recorder.h"
#include "engine/tuner/choose.h"
#include "engine/vain_exchanges.h"

namespace weft {

// How a communicator was made, kept for those that are split off it.
struct CreateConfig {
  Options options;
  Status unable = {};           // why this rank only comes to say that it cannot take part
  std::string name = {};        // of the communicator, the same on all ranks
  std::optional<Key> key = {};  // what its ranks know each other by; nullopt: the rendezvous'
  std::string host;             // of this rank
  std::optional<int> local_rank = {};  // among its machine's in the first communicator; nullopt:
                                       // this is that one
  std::vector<std::string> names;      // transports to make, in order of preference
  MakeTransport make;                  // tests put simulated ones here
  bool manual_progress = false;        // no thread: asynchronous calls move when poll() is called
  std::shared_ptr<const ImportedAlgorithm> imported = nullptr;  // null: not read yet, or none
  std::shared_ptr<Tuner> tuner = nullptr;                       // null: no prices are known
  // The tuning of which those come, as the first communicator's rank 0 read it; nullopt: not yet.
  std::optional<std::string> tuning = {};
  Lineage lineage = {};  // of a shrunk communicator; empty: it is its own
  // This rank's, for calls on device memory; null: there is none, and why not.
  std::shared_ptr<Gpu> device = nullptr;
  Status no_device = {};
  uint32_t device_queues = kDeviceQueues;  // see DevicePlace
};

// For transports of such a communicator. REQUIRES: config.key
TransportConfig transport_config_of(const CreateConfig& config, Rank rank, int ranks,
                                    size_t window_bytes);

// What all ranks know of each other's devices.
struct DeviceAgreement {
  Status none = {};        // not ok: why not all ranks have one
  bool somewhere = false;  // some rank has one
  bool named = false;      // some rank's options name its device
};

// A communicator of `meet`'s ranks. Every rank makes two all_gathers, also one that cannot go on:
// it tells why, so that all fail at once with its name and not by their deadlines, and groups that
// are split off share the parent's all_gathers. Only where the first one itself fails there is no
// second. `patience_s`: for others, 0: as long as for a call. Throws std::bad_alloc where this rank
// has no memory even to say so.
Result<std::unique_ptr<Communicator>> create_communicator(Rendezvous& meet,
                                                          const CreateConfig& config,
                                                          double patience_s = 0);

// That rank `me` has none. To be made before that is so.
Status no_memory(Rank me);
// Throws std::bad_alloc where less than half a MiB is left. JSON has to be used behind it: its
// destructors allocate, and end the process where they cannot.
void ask_for_room();

class Engine final : public Communicator {
 public:
  // `crowded`: the ranks of this rank's machine are more than the CPUs that they may use. The same
  // for all of a host.
  Engine(std::unique_ptr<Media> media, CreateConfig config, std::vector<int> host_of_rank,
         bool crowded);
  ~Engine() override;
  // By all ranks, before any call: makes what calls on device memory need. An error where a rank's
  // options name a device and that cannot be; else such calls will say why not.
  Status join_devices(const DeviceAgreement& agreement);

  Rank rank() const override { return media_->me(); }
  int size() const override { return media_->ranks(); }
  const Options& options() const override { return config_.options; }
  const std::vector<int>& host_of_rank() const override { return host_of_rank_; }

  Status run(const Call& call) override;
  Status run(std::span<const Transfer> group) override;
  Work start(const Call& call) override;
  Work start(std::span<const Transfer> group) override;
  Status enqueue(const Call& call, Stream stream) override;
  Status enqueue(std::span<const Transfer> group, Stream stream) override;
  Status enqueue_told(const Call& call, Stream stream) override;
  Status enqueue_told(std::span<const Transfer> group, Stream stream) override;
  Result<bool> is_for_stream(const Call& call) const override;
  Result<bool> is_for_stream(std::span<const Transfer> group) const override;
  bool enqueue_awaits_peers() const override;
  Status put_behind(Stream first, Stream then) override;
  Status synchronize(Stream stream) override;
  Status synchronize() override;
  size_t on_streams() const override;
  Result<std::shared_ptr<Gpu>> device() const override;
  size_t device_bytes() const override;
  Result<std::unique_ptr<Communicator>> split(int color, int key) override;
  Result<std::unique_ptr<Communicator>> shrink(std::span<const Rank> without,
                                               double timeout_s) override;
  Result<std::shared_ptr<std::byte>> allocate(size_t bytes) override;
  Result<std::vector<std::string>> tell_all(const std::string& mine) override;
  void abort(std::string_view why) override;
  Status health() const override;
  Result<CallInfo> explain(const Call& call) override;
  Status start_trace(size_t most) override;
  std::vector<StepDone> end_trace() override;
  CommunicatorStats stats() const override;

  // Manual progress: moves asynchronous calls along without waiting; whether any are left.
  bool poll();

 private:
  using Operations = std::vector<std::unique_ptr<Operation>>;

  // engine_run.cc: one operation
  Status run_complete(const Call& call);
  Status run_new(const Call& call, Purpose purpose);
  inline bool repeated(const Call& call) const;
  Status run_now(Operation& op);
  Status run_planned(Operation& op, PlanCache::Entry& entry);
  void begin(Operation& op, PlanCache::Entry& entry);
  void start_plan(Operation& op);
  inline void number(Operation& op);  // its place among collective calls; what tells it apart
  void record(Operation& op);
  void pass_over(const Call& call);  // REQUIRES: driver_ is held, is_empty(call)
  Result<PlanCache::Entry*> first_plan(Operation& op);
  Result<PlanCache::Entry*> plan_for(const Operation& op);
  Surroundings surroundings() const;
  LinkShape link_shape() const;
  Result<std::unique_ptr<Plan>> build_plan(const Operation& op, bool in_place);
  void fill_lap(const Plan& plan) const;
  inline void identify(Operation& op, const Plan& plan, CallIdentity& identity);
  Status drive(Operation& op);
  Status look_around(Operation& op);
  Status hear_notes();
  void end_what_can();
  Status how_ended(Operation& op);  // REQUIRES: op.has_ended()
  void state_call(Operation& op, int64_t now_ns);
  Status explain_mismatch(Operation& op, const Status& failure);
  void release(Operation& op, const Status& status);
  Status run_internal(const Call& call, Purpose purpose);
  Status check_arguments(const Call& call, bool on_device = false);
  Operations checks_before(Operation& op);
  double patience_s(const Operation& op) const;  // how long it may wait
  double waited_s(const Operation& op) const;
  Operation& longest_waiting(Operation& looking);
  std::vector<Rank> who_gave_up() const;
  Status answer_timeout(Operation& op, const Status& heard);
  Status describe_timeout(Operation& op, double waited) const;
  Status time_out(Operation& op);
  void time_out_waiting(const Operation& op);
  // `default_deadline`: it was not the call's own.
  Status with_last_words(const Status& status, const std::vector<Rank>& blamed,
                         bool default_deadline);
  void warn(Operation& op, double waited_s);
  std::string whereabouts(const std::vector<Rank>& peers) const;
  Call complete(const Call& call) const;  // with the engine's own memory where the call has none

  inline void bind(const Operation& op, Binding& to) const;
  void begin_plan(const Plan& plan);  // which is new
  CpuExecutor::Progress poll(Operation& op) {
    if (op.exchanges) tell_whether_it_reads(op);
    const CpuExecutor::Progress progress = op.executor.poll();
    return progress == CpuExecutor::Progress::done && op.exchanges ? go_on(op) : progress;
  }
  Status why_failed(Operation& op);

  // engine_memory.cc: buffers in memory that peers map, or read
  Result<std::shared_ptr<SharedMemory>> share(size_t bytes, uint32_t& number);
  Status await_memory(uint32_t number);
  bool may_use_allocations(const Operation& op) const;
  static constexpr uint64_t kNeverExchanges = ~uint64_t{0};
  uint64_t exchanges_from(const Operation& op);
  bool would_pull(const Operation& op);
  void tell_whether_it_reads(Operation& op);
  void suppose_places(Operation& op);
  BufferPlaces own_places(const Operation& op);
  bool supposes_readable(const Operation& op) const;
  Result<PlanCache::Entry*> exchange_plan();
  Binding expose(Operation& op);
  CpuExecutor::Progress go_on(Operation& op);
  void withdraw();

  // engine_async.cc: many operations
  Status start_progress();
  void end_progress();
  Work queue(std::unique_ptr<Operation> op, Operations before = {});
  ProgressThread::Pause step();
  bool advance(bool may_wait);
  bool serve_queue();
  void admit();
  void look_at_waiting();
  Look take_look() const;
  bool was_away(Look& last) const;
  void note_move();
  // Of a counter with one writer at a time.
  static void count_one(std::atomic<uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  std::optional<Signature> call_numbered(uint64_t sequence) const;
  bool poll_active();
  CpuExecutor::Progress poll_one(Operation& op, bool look, Status& status);
  void end(Operation& op, Status status);
  void end_all();
  Status run_queued(std::unique_ptr<Operation> op);
  std::unique_ptr<Operation> group_operation(std::span<const Transfer> group);

  // engine_device.cc: calls on device memory
  Result<std::unique_ptr<DeviceCalls>> join_device_calls();
  Result<std::unique_ptr<Media>> connect_for_device(Rendezvous& meet, const Deadline& deadline);
  Status validate_for_device(const Call& call) const;
  Status validate_for_device(std::span<const Transfer> group) const;
  Status check_for_device(const Call& call) { return check_arguments(call, true); }
  Status check_for_device(std::span<const Transfer>) { return {}; }
  template <class What>
  Status get_ready_for_device(const What& what);
  template <class What>
  std::optional<Work> start_if_on_device(const What& what);
  template <class What>
  Status put_on_stream(const What& what, Stream stream, bool told);
  Status run_on_device(const Work& work);
  void wait_for_device(const std::function<bool()>& done);
  Status device_status(Status status);
  void end_device();
  // REQUIRES, for these: driver_ is held. `alone`: no operation looks around.
  void watch_device(bool alone);
  void look_after_device(bool alone);
  void look_for_lost();
  void hear_for_device();
  void fail_device(const Status& why);
  Status device_last_words(const Status& status);
  Status other_side(const Status& status);
  void state_device_call();
  Status compare_device_calls(Rank peer, std::string_view statement);

  // engine_dump.cc
  void dump(std::string_view why);
  void dump_failure();
  void keep_waiting(const Operation& op);
  void serve_dump(const Operation& op);
  void get_ready_to_dump();

  // engine_shortage.cc: what the entries do where something threw std::bad_alloc
  Status out_of_memory();
  void give_reserve();

  // shrink.cc
  Result<std::vector<Rank>> candidates(std::span<const Rank> without) const;
  Status end_calls(const Deadline& patience);
  struct Reminder {
    Deadline due;
    double pause_s = 0.02;
  };
  void remind(Reminder& reminder);
  Result<std::unique_ptr<Communicator>> meet_and_create(Survivors& survivors, double patience_s);
  std::atomic<uint64_t> aborts_{0};  // calls of abort(): one ends a shrink that is under way

  // Failure. The first one stays; who fails first tells the others, once, holding driver_.
  // `waited_for`: by the call that timed out. REQUIRES: driver_ is held
  Status fail(Status status, bool tell_others, const std::vector<Rank>& waited_for = {});
  // Whether it is the first one, which is what others are told.
  bool record_failure(const Status& status, const std::vector<Rank>& waited_for = {});
  std::string own_note() const;  // that this rank has failed
  void tell_failure();           // REQUIRES: driver_ is held
  void stay_reachable();
  void answer_callers();
  // Before a call of a failed communicator returns: afterwards its memory is the caller's again.
  void settle_failure();              // REQUIRES: driver_ is held
  void tell_when_free();              // without driver_: waits for it, or for its holder to tell
  Status fail_freely(Status status);  // without driver_, where no call is under way here
  void notify_all(NoteKind kind, std::string_view text);
  Deadline deadline_of(double timeout_s) const;

  const CreateConfig config_;
  const std::vector<int> host_of_rank_;
  const OriginProcess process_;
  // Calls on device memory; null: this rank has no device. Set before any call, under
  // failure_mutex_, and never changed. It goes after own_: to give back its memory the GPU may wait
  // for kernels of peers, and these end because the connections of own_ have (or, where survivors
  // keep those, because the communicator has failed).
  std::unique_ptr<DeviceWay> device_;
  const std::shared_ptr<Origin> own_;
  const Lineage lineage_;
  Media* const media_;  // own_'s
  const Status no_memory_;
  const Work no_memory_work_;
  std::unique_ptr<std::byte[]> reserve_;  // for what has to be said and done without memory
  const int neighbours_;                  // ranks of this host, with this one
  const bool crowded_;                    // those of this machine are more than its CPUs
  SharedState shared_;
  PlanCache plans_;
  PlanCache::Key key_;
  Recorder recorder_;
  uint64_t sequence_ = 0;  // collective calls begun
  // All of them folded into one number, which is the last one's tag: ranks that have once called
  // different things never agree again, so that the first that waits for the other notices.
  uint64_t history_ = 0;
  std::shared_ptr<Allocations> allocations_;  // null before the first
  uint64_t allocated_ = 0;                    // by all ranks, ever
  uint32_t last_number_ = 0;                  // of an allocation, tried or made
  struct Exposed {
    uint32_t number = 0;
    ConstBytes bytes{};
  };
  std::array<Exposed, 2> exposed_{};      // this rank's buffers that peers may touch
  std::map<PlanCache::Key, bool> pulls_;  // whether such a call would, were all inputs readable
  VainExchanges vain_;
  ReadableMemory readable_;    // this rank's
  std::optional<bool> reads_;  // the memory of all others' processes; not known: nullopt
  std::byte barrier_bytes_[2] = {};

  DriverLock& driver_;                      // own_'s
  Operation inline_;                        // blocking calls
  PlanCache::Entry* repeatable_ = nullptr;  // the plan of inline_.call, as it is now
  bool repeatable_in_place_ = false;
  uint64_t repeatable_until_ = 0;  // sequence_ from which on it is not, but exchanges first
  Operations active_;              // asynchronous ones, started
  std::deque<std::unique_ptr<Operation>> waiting_;  // not started yet, in order
  size_t waiting_groups_ = 0;                       // of those
  Deadline soonest_;                                // none of theirs is sooner
  Look looked_at_waiting_;                          // since there are any
  bool admit_ = false;                              // one of them may perhaps start now
  Backoff backoff_;
  uint32_t polls_ = 0;              // of active_
  bool moved_ = false;              // something has, since waiting_ was looked at
  std::atomic<uint64_t> moves_{0};  // polls in which something of this rank's moved

  std::mutex queue_mutex_;
  std::deque<std::unique_ptr<Operation>> queue_;  // from callers, not yet seen by the driver
  std::atomic<size_t> outstanding_{0};            // asynchronous calls that have not ended
  std::unique_ptr<ProgressThread> progress_;
  bool closing_ = false;  // no other one is started

  mutable std::mutex failure_mutex_;
  Status failure_;
  std::vector<Rank> waited_for_;  // when it failed
  std::atomic<bool> failed_{false};
  std::atomic<bool> told_{false};
  bool abandoned_ = false;
  struct Said {
    std::string what;
    int64_t at_ns = 0;
  };
  std::map<Rank, Said> said_;                        // where peers are that wait for this one
  Words words_;                                      // written by who holds driver_
  std::atomic<uint64_t> calls_{0}, plans_built_{0};  // written by who holds driver_

  Status no_device_;  // why calls cannot be put on streams; set as device_
  // What follows is written by who holds driver_.
  std::atomic<int64_t> device_pause_us_{0};  // until the next look at what has ended
  uint64_t device_made_ = 0;                 // calls on the device, at the last look
  Deadline device_due_ = Deadline::after(0), device_look_due_ = Deadline::after(0);
  uint64_t device_oldest_ = 0;  // of collective calls on the device, when it was looked at last
  Deadline device_statement_due_ = Deadline::after(0);
  std::optional<Deadline> device_lost_;  // when calls end because a peer is lost
  Status device_gone_;                   // and why they did

  // For dumps: what this rank waits for, guarded by failure_mutex_.
  struct Blocked {
    std::string text;
    std::vector<Rank> peers;
  };
  Blocked blocked_;
  std::atomic<bool> failure_dumped_{false};  // only once
  std::atomic<bool> dump_asked_{false};      // by a signal
  std::unique_ptr<DumpOnSignal> on_signal_;  // uses the others, so it is the last
};

}  // namespace weft
