#include "bench/gpu_floor.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/clock.h"
#include "bench/gather.h"
#include "bench/gpu_memory.h"
#include "engine/device/cuda.h"

namespace weft::bench {
namespace {

using CopyRate = Calibration::CopyRate;

constexpr size_t kMiB = size_t{1} << 20;
constexpr std::array<size_t, 5> kSizes{kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB, 256 * kMiB};
constexpr int kRounds = 5;
constexpr int kCopies = 8;  // in a round, on each stream
constexpr double kLong_s = 0.02;

double seconds_since(int64_t begin_ns) {
  return static_cast<double>(steady_clock().now_ns() - begin_ns) * 1e-9;
}

// Copies from a GPU's memory to that of others, or its own, at once.
class Copies {
 public:
  Copies(std::shared_ptr<Gpu> gpu, size_t bytes) : gpu_(std::move(gpu)), bytes_(bytes) {}

  // False where there is no memory.
  Result<bool> prepare(std::span<const std::shared_ptr<Gpu>> targets) {
    from_ = memory_of(gpu_, bytes_);
    for (const std::shared_ptr<Gpu>& target : targets) {
      to_.push_back(memory_of(target, bytes_));
      if (!from_ || !to_.back()) return false;
      WEFT_TRY(gpu_->reach(to_.back().get()));
      Result<OwnedStream> stream = stream_of(gpu_);
      if (!stream.ok()) return stream.status();
      streams_.push_back(stream.take());
      for (auto* timers : {&begins_, &ends_}) {
        Result<OwnedTimer> timer = timer_of(gpu_);
        if (!timer.ok()) return timer.status();
        timers->push_back(timer.take());
      }
    }
    return true;
  }

  // Of one round, in seconds of the GPU's clock: that of the stream that takes longest.
  Result<double> round() {
    WEFT_TRY(record(begins_));
    for (int i = 0; i < kCopies; ++i)
      for (size_t t = 0; t < to_.size(); ++t)
        WEFT_TRY(gpu_->copy(to_[t].get(), from_.get(), bytes_, streams_[t].get()));
    WEFT_TRY(record(ends_));
    double longest_us = 0;
    for (size_t t = 0; t < to_.size(); ++t) {
      WEFT_TRY(gpu_->synchronize(streams_[t].get()));
      const Result<double> us = gpu_->elapsed_us(begins_[t].get(), ends_[t].get());
      if (!us.ok()) return us;
      longest_us = std::max(longest_us, *us);
    }
    return longest_us * 1e-6;
  }

  double bytes_of_round() const {
    return static_cast<double>(bytes_) * static_cast<double>(to_.size()) * kCopies;
  }

 private:
  Status record(const std::vector<OwnedTimer>& timers) {
    for (size_t t = 0; t < to_.size(); ++t)
      WEFT_TRY(gpu_->record(timers[t].get(), streams_[t].get()));
    return {};
  }

  const std::shared_ptr<Gpu> gpu_;
  const size_t bytes_;
  std::shared_ptr<std::byte> from_;
  std::vector<std::shared_ptr<std::byte>> to_;
  std::vector<OwnedStream> streams_;
  std::vector<OwnedTimer> begins_, ends_;  // of each stream
};

// The first rank on the GPU that `rank` has.
Rank first_there(std::span<const RankInfo> ranks, Rank rank) {
  const std::string& wanted = ranks[static_cast<size_t>(rank)].gpu->uuid;
  return static_cast<Rank>(
      std::find_if(ranks.begin(), ranks.end(),
                   [&](const RankInfo& other) { return other.gpu->uuid == wanted; }) -
      ranks.begin());
}

// The GPUs of all ranks but the first, as this process sees them; none where it does not.
std::vector<std::shared_ptr<Gpu>> gpus_of_others(std::span<const RankInfo> ranks) {
  std::vector<std::shared_ptr<Gpu>> others;
  for (const RankInfo& rank : ranks.subspan(1)) {
    Result<std::shared_ptr<Gpu>> gpu = open_cuda_device(rank.gpu->ordinal);
    if (!gpu.ok() || (*gpu)->identity().uuid != rank.gpu->uuid) return {};
    others.push_back(gpu.take());
  }
  return others;
}

bool none_share(std::span<const RankInfo> ranks) {
  for (Rank rank = 0; rank < static_cast<Rank>(ranks.size()); ++rank)
    if (first_there(ranks, rank) != rank) return false;
  return true;
}

// What a rank has measured, to be gathered.
struct CopiesOfRank {
  std::array<CopyRate, kSizes.size()> copies{};
  size_t sizes = 0;  // of these
  double leaving = 0;
};

Calibration put_together(const std::vector<CopiesOfRank>& measured,
                         std::span<const RankInfo> ranks) {
  Calibration calibration;
  std::map<Rank, Calibration::OfGpu> gpus;  // by their first rank
  for (Rank rank = 0; rank < static_cast<Rank>(ranks.size()); ++rank)
    gpus[first_there(ranks, rank)].ranks.push_back(rank);
  for (auto& [first, gpu] : gpus) {
    const CopiesOfRank& of_first = measured[static_cast<size_t>(first)];
    gpu.copies.assign(of_first.copies.begin(),
                      of_first.copies.begin() + static_cast<ptrdiff_t>(of_first.sizes));
    calibration.gpus.push_back(std::move(gpu));
  }
  calibration.leaving_gpu_bytes_per_second = measured[0].leaving;
  return calibration;
}

}  // namespace

Result<std::vector<CopyRate>> measure_gpu_copies(const std::shared_ptr<Gpu>& gpu,
                                                 std::span<const std::shared_ptr<Gpu>> targets) {
  std::vector<CopyRate> rates;
  for (const size_t bytes : kSizes) {
    Copies copies(gpu, bytes);
    const Result<bool> has = copies.prepare(targets);
    if (!has.ok()) return has.status();
    if (!*has) break;
    std::vector<double> rounds;
    const int64_t begin = steady_clock().now_ns();
    for (int i = 0; i <= kRounds; ++i) {  // the first one warms up
      const Result<double> round = copies.round();
      if (!round.ok()) return round.status();
      if (i > 0) rounds.push_back(*round);
    }
    std::sort(rounds.begin(), rounds.end());
    rates.push_back({static_cast<double>(bytes), copies.bytes_of_round() / rounds[kRounds / 2]});
    if (seconds_since(begin) > kLong_s) break;
  }
  for (size_t i = rates.size(); i-- > 1;)
    rates[i - 1].bytes_per_second =
        std::max(rates[i - 1].bytes_per_second, rates[i].bytes_per_second);
  return rates;
}

Result<Calibration> calibrate_gpus(const std::shared_ptr<Gpu>& gpu, Communicator& control,
                                   std::span<const RankInfo> ranks) {
  CopiesOfRank mine;
  // What goes wrong here is told behind the gathering, for which the others wait.
  Status status;
  const auto measure = [&](std::span<const std::shared_ptr<Gpu>> targets) {
    Result<std::vector<CopyRate>> rates = measure_gpu_copies(gpu, targets);
    status = rates.status();
    return rates.ok() ? rates.take() : std::vector<CopyRate>();
  };
  const Rank me = control.rank();
  if (first_there(ranks, me) == me) {
    const std::vector<CopyRate> copies = measure(std::span(&gpu, 1));
    std::copy(copies.begin(), copies.end(), mine.copies.begin());
    mine.sizes = copies.size();
  }
  WEFT_TRY(control.barrier());
  if (me == 0 && status.ok() && none_share(ranks))
    if (const auto others = gpus_of_others(ranks); !others.empty())
      for (const CopyRate& rate : measure(others))
        mine.leaving = std::max(mine.leaving, rate.bytes_per_second);
  const Result<std::vector<CopiesOfRank>> all = gather_values(control, mine);
  WEFT_TRY(status);
  if (!all.ok()) return all.status();
  return put_together(*all, ranks);
}

}  // namespace weft::bench
