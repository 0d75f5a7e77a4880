// Memory that peers touch: how what they map is allocated, and what calls do that may use it, or
// may read others' memory through the kernel.
//
// Such a call begins with an exchange, one hop, in which every rank tells where its buffers lie,
// and whether it can read others' (or does without for a while: vain_exchanges.h). So all ranks
// have the same table, and decide alike: where all buffers lie in allocations, the call runs
// between them; where all inputs can be read, that is one more way to run it; else it runs as it
// would without. Afterwards peers know where this rank's buffers are, which matters only where the
// call then fails: see withdraw() and Transport::abandon().
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/log.h"
#include "base/text.h"
#include "engine/engine.h"
#include "engine/gather_texts.h"

namespace weft {
namespace {

constexpr size_t kBytesMost = std::numeric_limits<size_t>::max() / 2;

// What every rank says about an allocation: the bytes it wants, and what went wrong, if anything.
Status agree_on_memory(const std::vector<std::string>& said, int ranks) {
  const auto bytes = [&](Rank r) { return said[r].substr(0, said[r].find(' ')); };
  for (Rank r = 1; r < ranks; ++r)
    if (bytes(r) != bytes(0))
      return Status(Code::mismatch,
                    concat("allocate: rank 0 asks for ", bytes(0), " bytes and rank ", r, " for ",
                           bytes(r), "; give the same size on all ranks"),
                    r);
  for (Rank r = 0; r < ranks; ++r)
    if (const size_t why = said[r].find(' '); why != std::string::npos)
      return Status(Code::system,
                    concat("allocate: rank ", r, " cannot: ", said[r].substr(why + 1)), r);
  return {};
}

std::string statement(size_t bytes, const Status& status) {
  return status.ok() ? std::to_string(bytes) : concat(bytes, " ", status.message());
}

Result<std::shared_ptr<std::byte>> plain_memory(size_t bytes) {
  constexpr size_t kPage = 4096;
  const size_t whole = (bytes + kPage - 1) / kPage * kPage;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kPage, whole));
  if (!memory) return Status(Code::system, concat("no memory for ", bytes, " bytes"));
  std::memset(memory, 0, whole);
  return std::shared_ptr<std::byte>(memory, [](std::byte* begin) { std::free(begin); });
}

}  // namespace

Result<std::shared_ptr<std::byte>> Engine::allocate(size_t bytes) try {
  if (failed_.load(std::memory_order_acquire)) return health();
  const size_t size_or_one = std::clamp<size_t>(bytes, 1, kBytesMost);
  const RunCall run = [this](const Call& call) { return run_internal(call, Purpose::allocate); };
  const auto agreed = [&](const Status& own) -> Status {
    const auto said = gather_texts(size(), run, statement(bytes, own));
    return said.ok() ? agree_on_memory(*said, size()) : said.status();
  };
  if (bytes > kBytesMost) {
    const Status refused = invalid_argument(
        concat("allocate: bytes is ", bytes, ", at most ", kBytesMost, " are possible"));
    (void)agreed(refused);
    const Visit visit(driver_);
    ++last_number_;  // others have shared theirs under it
    return refused;
  }
  if (!media_->shares_memory()) {
    auto memory = plain_memory(size_or_one);
    WEFT_TRY(agreed(memory.status()));
    return memory;
  }
  uint32_t number = 0;
  auto memory = share(size_or_one, number);
  Status status = agreed(memory.status());
  if (status.ok()) status = agreed(await_memory(number));
  const Visit visit(driver_);
  if (!status.ok()) {
    media_->sharing().unshare(number);
    return status;
  }
  repeatable_ = nullptr;  // from now on large calls begin with an exchange
  ++allocated_;
  return Allocations::add(allocations_, number, memory.take());
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

// All ranks number their allocations alike, as each is a call of all.
Result<std::shared_ptr<SharedMemory>> Engine::share(size_t bytes, uint32_t& number) {
  const Visit visit(driver_);
  if (!allocations_) allocations_ = std::make_shared<Allocations>();
  for (const uint32_t freed : allocations_->take_freed()) media_->sharing().unshare(freed);
  number = ++last_number_;
  return media_->sharing().share(number, bytes);
}

// Until what all ranks share under this number is mapped here, or cannot be.
Status Engine::await_memory(uint32_t number) {
  const Deadline deadline = deadline_of(0);
  while (true) {
    const Visit visit(driver_);
    if (failed_.load(std::memory_order_acquire)) return health();
    media_->poll();
    WEFT_TRY(hear_notes());
    std::vector<Rank> missing;
    for (Rank r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      const Result<Bytes> memory = media_->sharing().shared_by(r, number);
      if (!memory.ok()) return memory.status();
      if (!memory->empty()) continue;
      if (Status lost = media_->peer_status(r); !lost.ok())
        return fail(lost.within("allocate"), true);
      missing.push_back(r);
    }
    if (missing.empty()) return {};
    if (deadline.expired())
      return fail(Status(Code::timeout,
                         concat("allocate: the memory of ", rank_list(missing), " did not come"),
                         missing.front()),
                  true);
    media_->wait(Deadline::after(0.001, media_->clock()));
  }
}

// Whether the call would run between buffers if all of them lay in allocations.
bool Engine::may_use_allocations(const Operation& op) const {
  return !op.is_group && op.purpose == Purpose::user &&
         may_use_registered(op.call, surroundings(), config_.options);
}

// The number of the collective call from which on such calls begin with an exchange: the same on
// all ranks.
uint64_t Engine::exchanges_from(const Operation& op) {
  if (allocated_ > 0 && may_use_allocations(op)) return 0;
  return would_pull(op) ? vain_.rest_until(fingerprint(op.signature())) : kNeverExchanges;
}

// Whether the call would read others' memory through the kernel if that can be. No price is so low
// that short ones would, whose callers this must cost nothing.
bool Engine::would_pull(const Operation& op) {
  constexpr size_t kKnown = 1024, kLeast = 4096;
  if (op.is_group || op.purpose != Purpose::user || reduces(op.call.kind)) return false;
  if (config_.options.algorithm == "auto") {
    if (!config_.tuner || message_bytes(op.call) < kLeast) return false;
  } else if (!config_.options.algorithm.starts_with("pull")) {
    return false;
  }
  if (!may_be_pulled(op.call, surroundings())) return false;
  make_key(op.call, false, op.purpose, key_);
  if (const auto known = pulls_.find(key_); known != pulls_.end()) return known->second;
  if (pulls_.size() >= kKnown) pulls_.clear();
  return pulls_[key_] = may_pull(op.call, surroundings(), config_.options);
}

// The exchange sends nothing before all windows are mapped, and then every rank knows.
void Engine::tell_whether_it_reads(Operation& op) {
  if (!reads_) reads_ = media_->reads_memory();
  op.places.reads = reads_.value_or(false) && media_->is_readable({});
}

// As this rank would run the call, were it the next one, if the others' buffers lay as its own do.
void Engine::suppose_places(Operation& op) {
  op.pullable = may_be_pulled(op.call, surroundings());
  op.places = own_places(op);
  op.exchanges_from = exchanges_from(op);
  if (op.exchanges_from > sequence_ + 1) return;
  op.registered = is_registered(op.call, size(), rank(), op.places);
  op.readable = supposes_readable(op);
  op.in_place_somewhere = op.places.in_place != 0;
}

bool Engine::supposes_readable(const Operation& op) const {
  return op.pullable && media_->reads_memory().value_or(true) &&
         (input_of(op.call, size(), rank()).empty() || op.places.input_there != 0);
}

BufferPlaces Engine::own_places(const Operation& op) {
  BufferPlaces places = places_of(op.call, size(), rank(), allocations_.get());
  const ConstBytes input = input_of(op.call, size(), rank());
  if (op.pullable && !input.empty() && readable_.holds(input, *media_))
    places.input_there = reinterpret_cast<uint64_t>(input.data());
  return places;
}

Result<PlanCache::Entry*> Engine::exchange_plan() {
  static const PlanCache::Key kKey{~uint64_t{0}};
  if (PlanCache::Entry* entry = plans_.find(kKey)) return entry;
  const Call call{.kind = Kind::all_gather, .count = sizeof(BufferPlaces), .type = DataType::uint8};
  const Algorithm& algorithm = *find_algorithm("window_one_shot");
  PlanRequest request;
  request.algorithm = "places";  // which it tells
  request.collective = {call.kind, size(), 0, false};
  request.type = call.type;
  request.protocol = Protocol::ll;
  request.segment_bytes = call.count;
  request.links = link_shape();
  Program program = algorithm.build(request.collective, rank(), {});
  Layout layout(request.collective, rank(), call, program.pieces);
  auto plan = lower(request, std::move(program), std::move(layout), *media_);
  if (!plan.ok()) return plan.status();
  begin_plan(**plan);
  return plans_.insert(kKey, plan.take(), 0, recorder_.label("places/exchange"));
}

// The call's first step: it is not decided yet how it runs.
Binding Engine::expose(Operation& op) {
  op.number = 0;  // not recorded yet
  op.places = own_places(op);
  op.all_places.resize(static_cast<size_t>(size()));
  exposed_[0] = {op.places.input, input_of(op.call, size(), rank())};
  exposed_[1] = {op.places.output, output_of(op.call, size(), rank())};
  return {.input = reinterpret_cast<const std::byte*>(&op.places),
          .output = reinterpret_cast<std::byte*>(op.all_places.data())};
}

// All have told: now the call itself. An error concerns all ranks alike.
CpuExecutor::Progress Engine::go_on(Operation& op) try {
  op.exchanges = false;
  const Rank plain = plain_rank(op.call, op.all_places);
  op.registered = plain < 0;
  for (const BufferPlaces& places : op.all_places) op.in_place_somewhere |= places.in_place != 0;
  Status unreadable;
  if (op.pullable)
    unreadable = check_readable(op.call, op.all_places), op.readable = unreadable.ok();
  op.refused = {};
  if (op.registered) op.refused = map_buffers(op.call, op.all_places, *media_, op.mapped);
  if (op.readable) locate_inputs(op.all_places, op.mapped);
  if (!op.refused.ok()) {
    op.refused = fail(op.refused, true);
    return CpuExecutor::Progress::failed;
  }
  auto entry = plan_for(op);
  if (!entry.ok()) {
    const bool plain_is_why = plain >= 0 && may_use_allocations(op);
    op.refused = plain_is_why
                     ? entry.status().within(concat("rank ", plain, " passed other memory"))
                 : unreadable.ok() ? entry.status()
                                   : entry.status().within(unreadable.message());
    return CpuExecutor::Progress::failed;
  }
  const Plan& plan = *(*entry)->plan;
  if (!plan.touches_peers) exposed_ = {};
  const bool in_vain = !plan.request.registered && !plan.request.readable;  // on all ranks
  if (op.pullable) {
    vain_.note(fingerprint(op.signature()), op.sequence, in_vain);
    repeatable_ = nullptr;  // until when it may be repeated was known from before
  }
  op.plan->busy = false;
  op.plan = *entry;
  op.plan->busy = true;
  recorder_.relabel(op.number, op.plan->label);
  start_plan(op);
  return CpuExecutor::Progress::moved;
} catch (const std::bad_alloc&) {
  // Peers know where the buffers lie: they hear of it before the caller has them back.
  give_reserve();
  op.refused = fail(no_memory_, true);
  return CpuExecutor::Progress::failed;
}

// The communicator has failed in a call that peers may still be in: those that are late neither
// write into the caller's memory any more, nor see what the caller writes there from now on.
void Engine::withdraw() {
  if (!allocations_) return;
  allocations_->abandon();
  for (const Exposed& part : exposed_) {
    const auto memory = allocations_->get(part.number);
    if (!memory || part.bytes.empty()) continue;
    if (const Status status = memory->detach(part.bytes); !status.ok())
      log_line(LogLevel::warning, rank(),
               concat("late ranks may still write into memory of the call that failed: ",
                      status.message()));
  }
}

}  // namespace weft
