// Calls on device memory: how they come there, and how the engine looks after them.
//
// Kernels give up by themselves after a timeout, or when they are told to; a failure of any kind
// tells them (record_failure()). What they cannot see, the engine looks at while calls are under
// way: notes of other ranks, and whether those are still there.
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/agreement.h"
#include "engine/backoff.h"
#include "engine/engine.h"
#include "engine/gather_texts.h"
#include "engine/greeting.h"
#include "engine/notes.h"

namespace weft {
namespace {

using std::chrono::microseconds;

constexpr int64_t kFirstPause_us = 50, kLongestPause_us = 4000;
constexpr double kLookEvery_s = 0.004;
// A peer that is lost may have done its part: then kernels end all the same.
constexpr double kLostGrace_s = 0.3;
// After its timeout, for a kernel to say whom it waits for.
constexpr double kTimeoutGrace_s = 0.5;
// Until others hear which call it is that does not end, and how often.
constexpr double kStateAfter_s = 0.1, kStateAgain_s = 1;
// For a peer in another call to tell its side.
constexpr double kTheirSide_s = 1;
// For kernels that were told to give up to do so.
constexpr double kReport_s = 0.5, kEnd_s = 5;

// Equal on one host for threads of one process only; processes in different PID namespaces may
// have the same number.
int64_t this_process() {
  struct stat space {};
  if (::stat("/proc/self/ns/pid", &space) != 0) space.st_ino = 0;
  return static_cast<int64_t>(mix(space.st_ino, static_cast<uint64_t>(::getpid())) >> 1);
}

// Every step by itself costs a launch, and where processes share a GPU a change from one to the
// other: few large pieces.
DeviceShape stream_shape(int ranks) {
  return {.ranks = ranks,
          .links = 4,  // what algorithms need
          .slots = 2,
          .slot_bytes = 2 << 20,
          .window_bytes = 128 << 20};
}

}  // namespace

// -- making it ------------------------------------------------------------------------------------

// Transports of their own, so that who drives calls on the host does not have to be waited for.
Result<std::unique_ptr<Media>> Engine::connect_for_device(Rendezvous& meet,
                                                          const Deadline& deadline) {
  constexpr size_t kNoWindow = 4096;
  TransportConfig config = transport_config_of(config_, rank(), size(), kNoWindow);
  config.job += "/gpu";
  auto begun = Connecting::begin(config_.make, config_.names, host_of_rank_, config);
  Introduction mine;
  if (begun.ok())
    mine.addresses = begun->addresses();
  else
    mine.error = begun.status().to_string();
  const auto texts = meet.all_gather(to_text(mine), deadline);
  if (!texts.ok()) return texts.status();
  const auto ranks = read_introductions(*texts);
  if (!ranks.ok()) return ranks.status();
  std::vector<Addresses> addresses;
  for (const Introduction& rank : *ranks) addresses.push_back(rank.addresses);
  return begun->finish(addresses);
}

Result<std::unique_ptr<DeviceCalls>> Engine::join_device_calls() {
  std::vector<Rank> all(static_cast<size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  const RunCall run = [this](const Call& call) { return run_internal(call, Purpose::device); };
  MembersRendezvous meet(size(), rank(), run, std::move(all));
  const DeviceMediaConfig config{.rank = rank(),
                                 .host = config_.host,
                                 .process = this_process(),
                                 .shape = {.ranks = size()},
                                 .stream_shape = stream_shape(size()),
                                 .wish = config_.options.device_engine,
                                 .direct = config_.options.gpu_direct,
                                 .queues = config_.device_queues,
                                 .keep = config_.device,
                                 .connect = [this](Rendezvous& ranks, const Deadline& deadline) {
                                   return connect_for_device(ranks, deadline);
                                 }};
  return DeviceCalls::join(*config_.device, meet, config, config_.options, deadline_of(0));
}

Status Engine::join_devices(const DeviceAgreement& agreement) {
  Status none = agreement.none;
  std::unique_ptr<DeviceCalls> calls;
  if (none.ok()) {
    auto joined = join_device_calls();
    WEFT_TRY(health());
    none = joined.status();
    if (joined.ok()) calls = joined.take();
  }
  if (agreement.named) WEFT_TRY(none.within("device memory cannot be used"));
  no_device_ = none.within("calls cannot be on device memory");
  if (agreement.somewhere && rank() == 0)
    log_line(LogLevel::info, 0,
             none.ok()
                 ? concat("calls on device memory are run by the ", name(calls->choice().engine),
                          " device engine: ", calls->choice().reason)
                 : std::string(no_device_.message()));
  if (!config_.device) return {};
  auto device = std::make_unique<DeviceWay>(size(), rank(), config_.device, std::move(calls),
                                            no_device_, [this] {
                                              const std::lock_guard lock(queue_mutex_);
                                              if (progress_) progress_->kick();
                                            });
  const std::lock_guard lock(failure_mutex_);  // a signal may ask for a dump already
  device_ = std::move(device);
  return {};
}

// -- calls ----------------------------------------------------------------------------------------

Status Engine::validate_for_device(const Call& call) const {
  return validate(call, size(), rank());
}

Status Engine::validate_for_device(std::span<const Transfer> group) const {
  WEFT_TRY(validate(group, size()));
  return check_self_transfers(group, rank());
}

// Of putting a call on a stream. An error of the device itself, or no room for the call in time,
// leaves others waiting for this rank's kernels.
Status Engine::device_status(Status status) {
  if (status.ok()) return status;
  if (failed_.load(std::memory_order_acquire)) return health();
  if (!device_->health().ok()) return status;  // whoever watches tells the others
  const bool missed = status.code() == Code::system || status.code() == Code::timeout;
  return missed ? fail_freely(std::move(status)) : status;
}

// What comes right before a call is put on a stream.
template <class What>
Status Engine::get_ready_for_device(const What& what) {
  if (config_.options.check) WEFT_TRY(check_for_device(what));
  const std::lock_guard lock(queue_mutex_);
  return start_progress();
}

// `told`: kernels are known to reach its memory.
template <class What>
Status Engine::put_on_stream(const What& what, Stream stream, bool told) try {
  WEFT_TRY(no_device_);
  if (failed_.load(std::memory_order_acquire)) return health();
  WEFT_TRY(validate_for_device(what));
  const Gpu::Turn turn(*config_.device);
  if (!told) WEFT_TRY(device_->reaches(what));
  WEFT_TRY(get_ready_for_device(what));
  return device_status(device_->enqueue(what, stream));
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Status Engine::enqueue(const Call& call, Stream stream) {
  return put_on_stream(call, stream, false);
}
Status Engine::enqueue(std::span<const Transfer> group, Stream stream) {
  return put_on_stream(group, stream, false);
}
Status Engine::enqueue_told(const Call& call, Stream stream) {
  return put_on_stream(call, stream, true);
}
Status Engine::enqueue_told(std::span<const Transfer> group, Stream stream) {
  return put_on_stream(group, stream, true);
}

// nullopt: the memory is the host's.
template <class What>
std::optional<Work> Engine::start_if_on_device(const What& what) {
  if (failed_.load(std::memory_order_acquire)) return Work::failed(health());
  if (Status status = validate_for_device(what); !status.ok())
    return Work::failed(std::move(status));
  const Result<bool> taken = device_->takes(what);
  if (!taken.ok()) return Work::failed(taken.status());
  if (!*taken) return std::nullopt;
  if (Status status = get_ready_for_device(what); !status.ok())
    return Work::failed(std::move(status));
  const double timeout_s = timeout_of(what) > 0 ? timeout_of(what) : config_.options.timeout_s;
  Work work = device_->start(what, Deadline::after(timeout_s + kTimeoutGrace_s, media_->clock()));
  if (Status status = work.error(); !status.ok()) return Work::failed(device_status(status));
  return work;
}

template std::optional<Work> Engine::start_if_on_device(const Call&);
template std::optional<Work> Engine::start_if_on_device(const std::span<const Transfer>&);

Result<bool> Engine::is_for_stream(const Call& call) const {
  return device_ ? device_->is_for_stream(call) : Result<bool>(false);
}

Result<bool> Engine::is_for_stream(std::span<const Transfer> group) const try {
  return device_ ? device_->is_for_stream(group) : Result<bool>(false);
} catch (const std::bad_alloc&) {
  return no_memory_;
}

bool Engine::enqueue_awaits_peers() const { return device_ && device_->enqueue_awaits_peers(); }

Status Engine::put_behind(Stream first, Stream then) try {
  WEFT_TRY(no_device_);
  return device_status(device_->put_behind(first, then));
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Status Engine::synchronize(Stream stream) {
  if (!config_.device) return {};
  const Result<uint64_t> graph = config_.device->capture_of(stream);
  if (!graph.ok()) return graph.status();
  if (*graph != 0)
    return invalid_argument(
        "The stream is being captured into a graph, and nothing can wait for it; calls on memory "
        "that only the host reaches cannot be captured");
  WEFT_TRY(config_.device->synchronize(stream));
  if (!device_ || device_->health().ok()) return {};
  // Whoever looks after calls will find that kernels gave up, and who is to blame.
  const Deadline patience = Deadline::after(kEnd_s, media_->clock());
  wait_for_device([&] { return failed_.load(std::memory_order_acquire) || patience.expired(); });
  return health();
}

Status Engine::synchronize() {
  if (!device_) return {};
  wait_for_device([this] { return device_->outstanding() == 0; });
  return device_->outstanding() > 0 || device_->cut_short() ? health() : Status();
}

size_t Engine::on_streams() const { return device_ ? device_->outstanding() : 0; }

Result<std::shared_ptr<Gpu>> Engine::device() const {
  WEFT_TRY(no_device_);
  return config_.device;
}

size_t Engine::device_bytes() const { return device_ ? device_->bytes() : 0; }

Status Engine::run_on_device(const Work& work) {
  wait_for_device([&work] { return work.test(); });
  return work.test() ? work.error() : health();
}

// The caller looks itself whether calls have ended, as it has nothing else to do; the progress
// thread looks after failures. Returns some time after one at the latest.
void Engine::wait_for_device(const std::function<bool()>& done) {
  constexpr int kYields = 200, kSpins = 2000;
  constexpr microseconds kNap(50);
  std::optional<Deadline> patience;  // once it has failed
  for (int turn = 0; !done(); ++turn) {
    (void)device_->settle();
    if (failed_.load(std::memory_order_acquire)) {
      if (!patience) patience = Deadline::after(kEnd_s, media_->clock());
      if (patience->expired()) return;
    }
    if (config_.manual_progress) advance(true);
    if (turn < kSpins && !crowded_)
      cpu_relax();
    else if (turn < kSpins + kYields)
      ::sched_yield();
    else
      std::this_thread::sleep_for(kNap);
  }
}

// -- looking after them ---------------------------------------------------------------------------

// Soon where somebody waits for a new call, later and later where nothing happens.
void Engine::watch_device(bool alone) {
  if (!device_->needs_care()) return device_lost_.reset();
  const uint64_t made = device_->made();
  const bool news = device_->awaited() > 0 && made != device_made_;
  if (!news && !device_due_.expired() && !failed_.load(std::memory_order_relaxed)) return;
  device_made_ = made;
  const int64_t last = device_pause_us_.load(std::memory_order_relaxed);
  const int64_t pause = news                      ? kFirstPause_us
                        : device_->awaited() == 0 ? kLongestPause_us
                                                  : std::min(2 * last, kLongestPause_us);
  device_pause_us_.store(pause, std::memory_order_relaxed);
  device_due_ = Deadline::after(static_cast<double>(pause) * 1e-6, media_->clock());
  if (!failed_.load(std::memory_order_acquire)) look_after_device(alone);
  if (!failed_.load(std::memory_order_acquire)) return;
  if (alone) settle_failure();  // else the operation that looks around does
  device_->end(health());
}

void Engine::look_after_device(bool alone) {
  if (const Status status = device_->settle(); !status.ok()) return fail_device(status);
  if (const Status status = device_->health(); !status.ok())
    return fail_device(device_gone_.ok() ? status : device_gone_);
  if (!device_look_due_.expired()) return;
  device_look_due_ = Deadline::after(kLookEvery_s, media_->clock());
  if (alone) {
    media_->poll();
    hear_for_device();
  }
  if (!failed_.load(std::memory_order_acquire)) look_for_lost();
  if (!failed_.load(std::memory_order_acquire)) state_device_call();
  if (failed_.load(std::memory_order_acquire) || !device_->overdue()) return;
  device_->abort();
  fail_device(Status(Code::timeout, concat(device_->oldest(), " on rank ", rank(),
                                           "'s device has not ended in time; see whether the "
                                           "streams before it go on")));
}

// To ranks that may wait where this one never comes: kernels see only whom they meet. Where not all
// are in one call, two neighbours are not, so these are enough.
void Engine::state_device_call() {
  const auto oldest = device_->oldest_collective();
  if (!oldest) return;
  const uint64_t sequence = oldest->sequence;
  const bool news = sequence != device_oldest_;
  device_oldest_ = sequence;
  if (!news && (sequence == 0 || !device_statement_due_.expired())) return;
  device_statement_due_ = Deadline::after(news ? kStateAfter_s : kStateAgain_s, media_->clock());
  if (news) return;
  const std::string statement = device_call_statement(sequence, oldest->call);
  const Rank next = (rank() + 1) % size(), last = (rank() + size() - 1) % size();
  media_->tell(next, NoteKind::call, statement);
  if (last != next) media_->tell(last, NoteKind::call, statement);
}

Status Engine::compare_device_calls(Rank peer, std::string_view statement) {
  const uint64_t sequence = device_ ? stated_device_sequence(statement) : 0;
  if (sequence == 0) return {};
  return compare_calls(device_->call_numbered(sequence), peer, statement, rank());
}

// A graph that is not running takes no harm: what it does later ends at once.
void Engine::look_for_lost() {
  Status lost;
  for (Rank r = 0; r < size() && lost.ok(); ++r) {
    lost = media_->peer_status(r);
    if (lost.ok()) lost = device_->peer_status(r);
  }
  if (lost.ok()) return device_lost_.reset();
  if (!device_lost_) device_lost_ = Deadline::after(kLostGrace_s, media_->clock());
  if (!device_lost_->expired()) return;
  device_->abort();
  device_gone_ = lost.within(concat(device_->oldest(), " on rank ", rank(), "'s device"));
  if (device_->is_busy()) fail_device(device_gone_);
}

// A rank that has waited too long may have waited for this one: it tells whom it waits for itself.
void Engine::hear_for_device() {
  const Status heard = hear_notes();
  if (heard.code() != Code::timeout) return;
  const Deadline patience = Deadline::after(kReport_s, media_->clock());
  Status own;
  while (own.ok() && !patience.expired()) {
    own = device_->health();
    std::this_thread::yield();
  }
  if (own.ok()) return;
  const Status waits(Code::timeout, std::string(own.message()), own.peer());
  notify_all(NoteKind::failure, failure_note({waits, {}}, rank()));
  (void)device_last_words(
      Status(Code::timeout, concat(heard.message(), "; ", own.message()), own.peer()));
}

// After a timeout it is not known who is to blame before all have told whom they waited for.
void Engine::fail_device(const Status& why) {
  const auto blamed = why.peer() >= 0 ? std::vector<Rank>{why.peer()} : std::vector<Rank>();
  const bool mismatch = why.code() == Code::mismatch;
  if (why.code() == Code::aborted) return void(fail(other_side(why), true, blamed));
  if (!mismatch && why.code() != Code::timeout) return void(fail(why, true, blamed));
  device_->abort();
  notify_all(NoteKind::failure, failure_note({why, blamed}, rank()));
  (void)fail(mismatch ? other_side(why) : device_last_words(why), false, blamed);
}

// A peer in another call has mostly met this rank's as well, and tells which its own is; one that
// gave up before this rank knew why says why.
Status Engine::other_side(const Status& status) {
  if (status.peer() < 0) return status;
  const Deadline patience = Deadline::after(kTheirSide_s, media_->clock());
  while (!patience.expired()) {
    media_->poll();
    while (const auto note = media_->hear()) {
      const auto theirs = parse_failure_note(note->text);
      if (!theirs) continue;
      if (status.code() == Code::aborted) return theirs->status;
      if (note->from != status.peer()) continue;
      return Status(status.code(), concat(status.message(), "; ", theirs->status.message()),
                    status.peer());
    }
    media_->wait(patience);
  }
  return status;
}

Status Engine::device_last_words(const Status& status) {
  const auto blamed = status.peer() >= 0 ? std::vector<Rank>{status.peer()} : std::vector<Rank>();
  return with_last_words(status, blamed, device_->oldest_has_default_timeout());
}

// Nobody looks after them any more.
void Engine::end_device() {
  if (!device_) return;
  const Deadline patience = Deadline::after(kEnd_s, media_->clock());
  while (device_->outstanding() > 0 && !patience.expired()) {
    device_->end(health());
    std::this_thread::yield();
  }
}

}  // namespace weft
