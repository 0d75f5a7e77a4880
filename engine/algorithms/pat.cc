// PAT, parallel aggregated trees: in an all_gather every block goes down a binomial tree of its
// own, the far hops first, while there is little to send; the trees' messages between the same two
// ranks are sent as one, of up to 2^radix blocks. What does not fit is done tree after tree, depth
// first, so that a reduce_scatter, which goes the same way back, never has more than that many
// partial results per level of the tree.
//   all_gather, reduce_scatter  ceil(log2 n) hops where n <= 2^(radix+1), then about n / 2^radix, n
//                               rounded up to a power of two; n-1 blocks
//   all_reduce                  twice that
// Source: S. Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale",
// 2025.
#include <algorithm>
#include <bit>

#include "engine/algorithms/catalog.h"
#include "engine/algorithms/spread.h"
#include "engine/algorithms/words.h"

namespace weft {
namespace {

class Trees {
 public:
  Trees(int n, int radix, Rank me)
      : n_(n), most_(size_t{1} << std::min(radix, 30)), me_(me), spreading_{n, 1, {}} {
    descend({0}, static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))) / 2);
  }

  Spreading take() { return std::move(spreading_); }

 private:
  // Blocks are told by how far they have come. Those that this rank `has` go on by `distance`, and
  // then, with those that it got, by all smaller ones.
  void descend(std::vector<int> has, int distance) {
    if (has.empty() || distance == 0) return;
    std::vector<int> got;
    Trade trade{.to = wrap(me_ + distance, n_), .from = wrap(me_ - distance, n_)};
    for (const int come : has) {
      if (come + distance >= n_) continue;
      trade.gives.push_back(wrap(me_ - come, n_));
      trade.gets.push_back(wrap(me_ - come - distance, n_));
      got.push_back(come + distance);
    }
    spreading_.message_chunks = std::max(spreading_.message_chunks, static_cast<int>(got.size()));
    if (!got.empty()) spreading_.stages.push_back({std::move(trade)});
    if (has.size() + got.size() <= most_) {
      has.insert(has.end(), got.begin(), got.end());
      got.clear();
    }
    descend(std::move(has), distance / 2);
    descend(std::move(got), distance / 2);
  }

  const int n_;
  const size_t most_;
  const Rank me_;
  Spreading spreading_;
};

Program build(const Collective& c, Rank me, const Parameters& parameters) {
  if (c.ranks == 1) return alone(c);
  return spread(c, me, Trees(c.ranks, parameters.radix, me).take());
}

Cost cost(const Collective& c, const Parameters& parameters) {
  const auto messages = Trees(c.ranks, parameters.radix, 0).take().stages.size();
  const int times = c.kind == Kind::all_reduce ? 2 : 1;
  return {times * static_cast<int>(messages), times * (c.ranks - 1)};
}

}  // namespace

Algorithm pat() {
  return {.name = "pat",
          .summary = "a tree per block, far hops first, 2^radix blocks per message (Jeaugey 2025)",
          .radix = true,
          .suits = can_spread,
          .build = build,
          .cost = cost,
          .turn = turn_by_one};
}

}  // namespace weft
