#include "nccl/item.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "base/text.h"
#include "base/thread.h"
#include "engine/device/gpu.h"
#include "nccl/debug.h"

namespace weft::nccl {
namespace {

// The calls of one communicator in a group.
struct Share {
  std::shared_ptr<ncclComm> comm;
  ncclComm::Engine engine;
  struct Way {
    std::vector<const Item*> calls, transfers;
    bool empty() const { return calls.empty() && transfers.empty(); }
  };
  Way streams, host;  // of kernels; of this process
};

// In an order that is the same on all ranks which two communicators have in common: that of their
// first collectives in the group, and then, where there are none, that in which they were made.
// Whose sends and receives a rank names first says nothing.
bool goes_before(const Share& one, const Share& other) {
  const auto& calls = one.streams.calls;
  const auto& other_calls = other.streams.calls;
  if (!calls.empty() && !other_calls.empty()) return calls.front() < other_calls.front();
  if (calls.empty() != other_calls.empty()) return other_calls.empty();
  return one.comm->number() < other.comm->number();
}

std::vector<Share> shares_of(const std::vector<Item>& items) {
  std::vector<Share> shares;
  for (const Item& item : items) {
    auto share = std::find_if(shares.begin(), shares.end(),
                              [&](const Share& s) { return s.comm == item.comm; });
    if (share == shares.end())
      share = shares.insert(shares.end(), Share{item.comm, item.engine, {}, {}});
    Share::Way& way = item.on_device ? share->streams : share->host;
    (item.is_transfer ? way.transfers : way.calls).push_back(&item);
  }
  std::sort(shares.begin(), shares.end(), goes_before);
  return shares;
}

bool choices_are_told() { return info_enabled(Subsystem::coll) || info_enabled(Subsystem::tuning); }

// Says once for every shape of call what runs it.
void tell_choice(const Item& item) {
  const Call& call = item.call;
  const std::string text = describe(call);
  info(Subsystem::coll, item.comm->device, concat(text, " ", item.comm->label(item.engine.get())));
  const bool untold = item.on_device || call.count == 0;  // what runs these is not told yet
  if (!info_enabled(Subsystem::tuning) || untold || !item.comm->first_of(text)) return;
  const Result<CallInfo> choice = item.engine->explain(call);
  if (choice.ok())
    info(Subsystem::tuning, item.comm->device,
         concat(text, " of ", item.engine->size(), " ranks: algorithm ", choice->algorithm,
                ", protocol ", choice->protocol, ", over ", choice->transports, ", ", choice->lanes,
                " lanes, ", choice->rounds, " rounds, ", item.comm->label(item.engine.get())));
}

// What the stream was given before may be what writes the memory that this process is to read.
Status await_stream(const Item& item) {
  const size_t count = item.is_transfer ? item.transfer.count : item.call.count;
  return count == 0 ? Status() : item.engine->synchronize(item.stream);
}

Work done_or_failed(Status status) {
  return status.ok() ? Work() : Work::failed(std::move(status));
}

Work start(const Item& item) {
  if (item.on_device) return done_or_failed(item.engine->enqueue_told(item.call, item.stream));
  if (Status status = await_stream(item); !status.ok()) return Work::failed(std::move(status));
  return item.engine->start(item.call);
}

std::vector<Transfer> transfers_of(const std::vector<const Item*>& items) {
  std::vector<Transfer> transfers;
  for (const Item* item : items) transfers.push_back(item->transfer);
  return transfers;
}

// To wait for a stream that is being captured would draw another one into the graph.
Status check_captured_alike(const ncclComm::Engine& engine, Stream first, Stream other) {
  const Result<std::shared_ptr<Gpu>> gpu = engine->device();
  if (!gpu.ok()) return gpu.status();
  const Result<uint64_t> one = (*gpu)->capture_of(first), two = (*gpu)->capture_of(other);
  for (const Result<uint64_t>& graph : {one, two})
    if (!graph.ok()) return graph.status();
  if (*one == *two) return {};
  return invalid_argument(
      "One stream of the group's sends and receives is being captured into a graph, and another "
      "one is not, or into another graph; capture all streams of a group, or none");
}

// All at once, as each may need another: on the first one's stream, between what the streams of
// the others are given before and after.
Status enqueue_transfers(const Share& share) {
  const std::vector<const Item*>& items = share.streams.transfers;
  const Stream first = items.front()->stream;
  std::set<Stream> others;
  for (const Item* item : items)
    if (item->stream != first) others.insert(item->stream);
  for (const Stream other : others) WEFT_TRY(check_captured_alike(share.engine, first, other));
  for (const Stream other : others) WEFT_TRY(share.engine->put_behind(other, first));
  WEFT_TRY(share.engine->enqueue_told(transfers_of(items), first));
  for (const Stream other : others) WEFT_TRY(share.engine->put_behind(first, other));
  return {};
}

Status await_streams(const std::vector<const Item*>& items) {
  for (const Item* item : items) WEFT_TRY(await_stream(*item));
  return {};
}

Work start_transfers(const Share& share) {
  if (Status status = await_streams(share.host.transfers); !status.ok())
    return Work::failed(std::move(status));
  return share.engine->start(transfers_of(share.host.transfers));
}

using Keep = std::function<void(const Share&, Outstanding)>;

void start_call(const Share& share, const Item& item, const Keep& keep) {
  if (choices_are_told()) tell_choice(item);
  keep(share, {start(item), item.scalar});
}

void enqueue_transfers(const Share& share, const Keep& keep) {
  if (!share.streams.transfers.empty())
    keep(share, {done_or_failed(enqueue_transfers(share)), nullptr});
}

// A collective that goes on a stream, and which of its communicator's in the group it is.
struct Placed {
  const Share* share = nullptr;
  const Item* item = nullptr;
  size_t turn = 0;
};

// Shares that have a stream in common, and their streams.
struct Together {
  std::vector<const Share*> shares;
  std::set<Stream> streams;
};

// In the group's order.
std::vector<Placed> calls_of(const std::vector<const Share*>& shares) {
  std::vector<Placed> calls;
  for (const Share* share : shares)
    for (size_t i = 0; i < share->streams.calls.size(); ++i)
      calls.push_back({share, share->streams.calls[i], i});
  std::sort(calls.begin(), calls.end(),
            [](const Placed& a, const Placed& b) { return a.item < b.item; });
  return calls;
}

bool by_turn(const Placed& a, const Placed& b) { return a.turn < b.turn; }

// Whether calls that take turns stay in the group's order.
bool may_take_turns(const Together& together) {
  const std::vector<Placed> calls = calls_of(together.shares);
  return std::is_sorted(calls.begin(), calls.end(), by_turn);
}

void enqueue(const std::vector<const Share*>& shares, const std::vector<Placed>& calls,
             const Keep& keep) {
  for (const Placed& call : calls) start_call(*call.share, *call.item, keep);
  for (const Share* share : shares) enqueue_transfers(*share, keep);
}

std::vector<Together> by_streams(const std::vector<Share>& shares) {
  std::vector<Together> all;
  for (const Share& share : shares) {
    Together mine{{&share}, {}};
    for (const auto* items : {&share.streams.calls, &share.streams.transfers})
      for (const Item* item : *items) mine.streams.insert(item->stream);
    if (mine.streams.empty()) continue;
    for (auto other = all.begin(); other != all.end();) {
      const bool meets = std::any_of(other->streams.begin(), other->streams.end(),
                                     [&](Stream s) { return mine.streams.contains(s); });
      if (!meets) {
        ++other;
        continue;
      }
      mine.shares.insert(mine.shares.end(), other->shares.begin(), other->shares.end());
      mine.streams.merge(other->streams);
      other = all.erase(other);
    }
    std::sort(mine.shares.begin(), mine.shares.end());  // as they go before each other
    all.push_back(std::move(mine));
  }
  return all;
}

// Each in a thread of its own.
Status enqueue_beside(const std::vector<Together>& all, const Keep& keep) {
  std::mutex mutex;  // of `keep`
  const Keep keep_one = [&](const Share& share, Outstanding call) {
    const std::lock_guard lock(mutex);
    keep(share, std::move(call));
  };
  std::vector<Status> failures(all.size());
  auto threads = start_threads(all.size(), [&](size_t i) {
    failures[i] = guarded(
        [&] { return enqueue(all[i].shares, calls_of(all[i].shares), keep_one), Status(); });
  });
  if (!threads.ok()) return threads.status();
  for (std::thread& thread : *threads) thread.join();
  for (Status& failure : failures) WEFT_TRY(std::move(failure));
  return {};
}

// In another thread it would be another stream.
bool is_of_each_thread(const Together& together) {
  return together.streams.contains(reinterpret_cast<Stream>(0x2));  // cudaStreamPerThread
}

// On every stream in the group's order, which is what ranks have in common, whatever else is in
// their groups. One thread may be many ranks, and putting a call on a stream may wait for the
// rank's calls before it: so what has no stream in common takes turns, so that no rank's second
// call comes before all ranks' first. Where that would be another order, or where it may wait amid
// a call for those of other ranks, it goes side by side.
Status enqueue_all(const std::vector<Share>& shares, const Keep& keep) {
  std::vector<const Share*> every;
  for (const Share& share : shares) every.push_back(&share);
  std::vector<Placed> calls = calls_of(every);
  const std::vector<Together> all =
      shares.size() > 1 ? by_streams(shares) : std::vector<Together>();
  if (all.size() > 1) {
    const bool awaits_peers = std::any_of(shares.begin(), shares.end(), [](const Share& share) {
      return !share.streams.empty() && share.engine->enqueue_awaits_peers();
    });
    const bool takes_turns = std::all_of(all.begin(), all.end(), may_take_turns);
    if ((awaits_peers || !takes_turns) && std::none_of(all.begin(), all.end(), is_of_each_thread))
      return enqueue_beside(all, keep);
    if (takes_turns) std::stable_sort(calls.begin(), calls.end(), by_turn);
  }
  enqueue(every, calls, keep);
  return {};
}

// What waits for streams comes last.
Status start_all(const std::vector<Share>& shares, const Keep& keep) {
  WEFT_TRY(enqueue_all(shares, keep));
  for (const Share& share : shares) {
    for (const Item* item : share.host.calls) start_call(share, *item, keep);
    if (!share.host.transfers.empty()) keep(share, {start_transfers(share), nullptr});
  }
  return {};
}

Status start_all(const std::vector<Share>& shares, std::vector<Outstanding>& started) {
  return guarded([&] {
    return start_all(shares,
                     [&](const Share&, Outstanding call) { started.push_back(std::move(call)); });
  });
}

// Whether there is nothing but sends and receives of one communicator, by this process.
bool only_transfers(const std::vector<Share>& shares) {
  const Share& first = shares.front();
  return shares.size() == 1 && first.host.calls.empty() && first.streams.empty();
}

Answer run_blocking(const std::vector<Share>& shares) {
  if (only_transfers(shares)) {
    const Share& share = shares.front();
    WEFT_TRY(await_streams(share.host.transfers));
    WEFT_TRY(share.engine->run(transfers_of(share.host.transfers)));
    return ncclSuccess;
  }
  std::vector<Outstanding> started;
  const Status all = start_all(shares, started);
  WEFT_TRY(wait_for(started));
  if (!all.ok()) return all;
  return ncclSuccess;
}

}  // namespace

Status run_at_once(const Item& item) {
  if (choices_are_told() && !item.is_transfer) tell_choice(item);
  const std::span<const Transfer> transfer(&item.transfer, 1);
  if (item.on_device)
    return item.is_transfer ? item.engine->enqueue_told(transfer, item.stream)
                            : item.engine->enqueue_told(item.call, item.stream);
  WEFT_TRY(await_stream(item));
  return item.is_transfer ? item.engine->run(transfer) : item.engine->run(item.call);
}

Status start_all(const std::vector<Item>& items, std::vector<Outstanding>& started) {
  return guarded([&] { return start_all(shares_of(items), started); });
}

Answer run_items(const std::vector<Item>& items) {
  if (items.empty()) return ncclSuccess;
  const std::vector<Share> shares = shares_of(items);
  if (shares.front().comm->config.blocking) return run_blocking(shares);
  WEFT_TRY(start_all(
      shares, [](const Share& share, Outstanding call) { share.comm->keep(std::move(call)); }));
  return ncclInProgress;
}

Result<double> price(const std::vector<Item>& items) {
  double longest = 0;
  for (const Share& share : shares_of(items)) {
    double seconds = 0;
    if (!share.streams.calls.empty())
      return invalid_usage("no prices are known of calls on memory of a GPU");
    for (const Item* item : share.host.calls) {
      if (item->call.count == 0 || item->engine->size() == 1) continue;
      const Result<CallInfo> info = item->engine->explain(item->call);
      if (!info.ok()) return info.status();
      if (info->prices.empty())
        return invalid_usage(
            "no prices are known on this machine; measure it once with weft-bench --tune, and "
            "do not set WEFT_TUNING=off");
      seconds += info->prices.front().seconds;
    }
    longest = std::max(longest, seconds);
  }
  return longest;
}

}  // namespace weft::nccl
