// Memory that peers map: how it is allocated, and what calls do that may use it.
//
// Such a call begins with an exchange, one hop, in which every rank tells where its buffers lie. So
// all ranks have the same table, and decide alike: where all buffers lie in allocations, the call
// runs between them, else it runs as it would without. Afterwards peers know where this rank's
// buffers are mapped, which matters only where the call then fails: see withdraw().
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

// As this rank would run the call if the others' buffers lay as its own do.
void Engine::suppose_places(Operation& op) const {
  if (allocated_ == 0 || !may_use_allocations(op)) return;
  const BufferPlaces places = places_of(op.call, size(), rank(), *allocations_);
  op.registered = is_registered(op.call, size(), rank(), places);
  op.in_place_somewhere = places.in_place != 0;
}

Result<PlanCache::Entry*> Engine::exchange_plan() {
  static const PlanCache::Key kKey{~uint64_t{0}};
  if (PlanCache::Entry* entry = plans_.find(kKey)) return entry;
  const Call call{.kind = Kind::all_gather, .count = sizeof(BufferPlaces), .type = DataType::uint8};
  const Algorithm& algorithm = *find_algorithm("window_one_shot");
  PlanRequest request;
  request.algorithm = "zero_copy";  // what it is for
  request.collective = {call.kind, size(), 0, false};
  request.type = call.type;
  request.protocol = Protocol::ll;
  request.segment_bytes = call.count;
  request.links = link_shape();
  Program program = algorithm.build(request.collective, rank(), {});
  Layout layout(request.collective, rank(), call, program.pieces);
  auto plan = lower(request, std::move(program), std::move(layout), *media_);
  if (!plan.ok()) return plan.status();
  count_plan();
  return plans_.insert(kKey, plan.take(), 0, recorder_.label("zero_copy/exchange"));
}

// The call's first step: it is not decided yet how it runs.
Binding Engine::expose(Operation& op) {
  op.number = 0;  // not recorded yet
  op.places = places_of(op.call, size(), rank(), *allocations_);
  op.all_places.resize(static_cast<size_t>(size()));
  exposed_[0] = {op.places.input, input_of(op.call, size(), rank())};
  exposed_[1] = {op.places.output, output_of(op.call, size(), rank())};
  return {.input = reinterpret_cast<const std::byte*>(&op.places),
          .output = reinterpret_cast<std::byte*>(op.all_places.data())};
}

// All have told: now the call itself. An error concerns all ranks alike.
CpuExecutor::Progress Engine::go_on(Operation& op) {
  op.exchanges = false;
  const Rank plain = plain_rank(op.call, op.all_places);
  op.registered = plain < 0;
  for (const BufferPlaces& places : op.all_places) op.in_place_somewhere |= places.in_place != 0;
  op.refused = {};
  if (op.registered) op.refused = map_buffers(op.call, op.all_places, *media_, op.mapped);
  if (!op.refused.ok()) {
    op.refused = fail(op.refused, true);
    return CpuExecutor::Progress::failed;
  }
  auto entry = plan_for(op);
  if (!entry.ok()) {
    op.refused = plain < 0 ? entry.status()
                           : entry.status().within(concat("rank ", plain, " passed other memory"));
    return CpuExecutor::Progress::failed;
  }
  if (!(*entry)->plan->touches_peers) exposed_ = {};
  op.plan->busy = false;
  op.plan = *entry;
  op.plan->busy = true;
  recorder_.relabel(op.number, op.plan->label);
  start_plan(op);
  return CpuExecutor::Progress::moved;
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
