#include "bench/tracing.h"

#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "base/files.h"
#include "base/text.h"
#include "bench/gather.h"

namespace weft::bench {
namespace {

constexpr int kRoundTrips = 64;
constexpr int kIterations = 4;   // before the one that is kept
constexpr double kGapS = 20e-6;  // between cases

// Rank 0's side: says what time it is whenever it is asked.
Status answer(Communicator& c, Rank peer) {
  for (int i = 0; i < kRoundTrips; ++i) {
    std::byte question{};
    WEFT_TRY(c.recv(peer, &question, 1, DataType::uint8));
    const int64_t now = steady_clock().now_ns();
    WEFT_TRY(c.send(peer, &now, 1, DataType::int64));
  }
  return {};
}

// How far this rank is ahead: rank 0's answer was made halfway, if both ways take as long.
Status ask(Communicator& c, int64_t& ahead) {
  int64_t quickest = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < kRoundTrips; ++i) {
    const std::byte question{};
    int64_t there = 0;
    const int64_t begin = steady_clock().now_ns();
    WEFT_TRY(c.send(0, &question, 1, DataType::uint8));
    WEFT_TRY(c.recv(0, &there, 1, DataType::int64));
    const int64_t end = steady_clock().now_ns();
    if (end - begin >= quickest) continue;
    quickest = end - begin;
    ahead = begin + (end - begin) / 2 - there;
  }
  return {};
}

}  // namespace

Result<std::vector<int64_t>> clock_offsets(Communicator& c) {
  const std::vector<int>& host = c.host_of_rank();
  const auto leader = [&](Rank rank) {
    const auto first = std::find(host.begin(), host.end(), host[static_cast<size_t>(rank)]);
    return static_cast<Rank>(first - host.begin());
  };
  int64_t mine = 0;
  for (Rank rank = 1; rank < c.size(); ++rank) {
    if (leader(rank) != rank) continue;
    if (c.rank() == 0) WEFT_TRY(answer(c, rank));
    if (c.rank() == rank) WEFT_TRY(ask(c, mine));
  }
  Result<std::vector<int64_t>> of_leaders = gather_values(c, mine);
  if (!of_leaders.ok()) return of_leaders.status();
  std::vector<int64_t> offsets;
  for (Rank rank = 0; rank < c.size(); ++rank)
    offsets.push_back((*of_leaders)[static_cast<size_t>(leader(rank))]);
  return offsets;
}

Status Tracer::add(const std::string& title, const std::function<Status()>& iteration) {
  if (offsets_.empty()) {
    auto offsets = clock_offsets(control_);
    if (!offsets.ok()) return offsets.status();
    offsets_ = offsets.take();
  }
  WEFT_TRY(measured_.start_trace(most_));
  WEFT_TRY(control_.barrier());
  for (int i = 0; i < kIterations; ++i) WEFT_TRY(iteration());
  const int64_t begin = steady_clock().now_ns();
  WEFT_TRY(iteration());
  std::vector<StepDone> steps = measured_.end_trace();
  lost_some_ |= steps.size() == most_ && steps.front().begin_ns >= begin;
  std::erase_if(steps, [begin](const StepDone& step) { return step.end_ns < begin; });
  return collect(title, steps);
}

Status Tracer::collect(const std::string& title, const std::vector<StepDone>& mine) {
  struct Share {
    uint64_t bytes = 0;
    bool lost_some = false;
  };
  const size_t bytes = mine.size() * sizeof(StepDone);
  auto shares = gather_values(control_, Share{bytes, lost_some_});
  if (!shares.ok()) return shares.status();
  std::vector<size_t> sizes;
  std::vector<uint64_t> counts;
  size_t steps = 0;
  for (const Share& share : *shares) {
    sizes.push_back(share.bytes);
    counts.push_back(share.bytes / sizeof(StepDone));
    steps += counts.back();
    lost_some_ |= share.lost_some;
  }
  const bool root = control_.rank() == 0;
  std::vector<StepDone> all(root ? steps : 0);
  Call call{.kind = Kind::gather,
            .input = mine.data(),
            .output = all.data(),
            .count = bytes,
            .type = DataType::uint8,
            .varying = true};
  if (root) call.counts = sizes;
  WEFT_TRY(control_.run(call));
  if (root) append(title, all, counts);
  return {};
}

// A slice for the call on every rank's first lane, and in it the steps.
void Tracer::append(const std::string& title, const std::vector<StepDone>& all,
                    const std::vector<uint64_t>& counts) {
  int64_t begin = std::numeric_limits<int64_t>::max();
  size_t at = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank)
    for (size_t i = 0; i < counts[rank]; ++i, ++at)
      begin = std::min(begin, all[at].begin_ns - offsets_[rank]);
  const double shift = events_.empty() ? 0 : end_s_ + kGapS;
  at = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank] == 0) continue;
    const size_t call = events_.size();
    events_.push_back({static_cast<Rank>(rank), 0, title, 0, 1e300, 0});
    for (size_t i = 0; i < counts[rank]; ++i, ++at) {
      TraceEvent event = to_event(all[at], static_cast<Rank>(rank), begin + offsets_[rank]);
      event.begin_s += shift, event.end_s += shift;
      events_[call].begin_s = std::min(events_[call].begin_s, event.begin_s);
      events_[call].end_s = std::max(events_[call].end_s, event.end_s);
      end_s_ = std::max(end_s_, event.end_s);
      events_.push_back(std::move(event));
    }
  }
}

Status Tracer::write(const std::string& path, const std::string& title) const {
  return write_text(path, to_trace_json(events_, TraceKind::measured, title)).within("--trace");
}

}  // namespace weft::bench
