#include "engine/executor/layout.h"

namespace weft {

std::vector<size_t> packed(std::span<const size_t> counts) {
  std::vector<size_t> offsets(counts.size());
  size_t next = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    offsets[i] = next;
    next += counts[i];
  }
  return offsets;
}

std::vector<size_t> given_or_packed(std::span<const size_t> offsets,
                                    std::span<const size_t> counts) {
  if (!offsets.empty()) return {offsets.begin(), offsets.end()};
  return packed(counts);
}

Layout::Layout(const Collective& collective, Rank me, const Call& call, int pieces)
    : collective_(collective), me_(me), pieces_(pieces), uniform_(call.count) {
  // In place too, the pointer to a buffer of one block points at that block, not at what it is part
  // of.
  collective_.in_place = false;
  granule_ = std::max<size_t>(1, 64 / size_of(call.type));
  output_.is_input = false;
  uniform_piece_ = piece_size(uniform_);
  if (!call.varying) return;
  const std::span<const size_t> counts = known_counts(call, me);
  if (counts.empty()) {  // gather, scatter away from the root: only the own block is known
    sizes_.assign(collective.ranks, 0);
    sizes_[me] = call.count;
    return;
  }
  switch (call.kind) {
    case Kind::all_to_all:
      sizes_.assign(call.counts.begin(), call.counts.end());
      recv_sizes_.assign(call.recv_counts.begin(), call.recv_counts.end());
      input_.offsets = given_or_packed(call.offsets, call.counts);
      output_.offsets = given_or_packed(call.recv_offsets, call.recv_counts);
      return;
    case Kind::all_gather:
    case Kind::gather: output_.offsets = given_or_packed(call.offsets, counts); break;
    default: input_.offsets = given_or_packed(call.offsets, counts); break;
  }
  sizes_.assign(counts.begin(), counts.end());
}

Layout::Layout(const Collective& collective, Rank me, std::span<const Transfer> group, int pieces)
    : collective_(collective), me_(me), pieces_(pieces) {
  output_.is_input = false;
  sends_.assign(static_cast<size_t>(collective.ranks) * pieces, -1);
  receives_ = sends_;
  std::vector<int> sent(collective.ranks, 0), received(collective.ranks, 0);
  for (size_t i = 0; i < group.size(); ++i) {
    const Transfer& t = group[i];
    const bool send = t.direction == Transfer::Direction::send;
    const int k = (send ? sent : received)[t.peer]++;
    (send ? sends_ : receives_)[static_cast<size_t>(t.peer) * pieces + k] = static_cast<int>(i);
    group_counts_.push_back(t.count * size_of(t.type));
  }
}

int Layout::transfer(int chunk, Transfer::Direction direction) const {
  const int block = chunk / pieces_;
  const bool send = direction == Transfer::Direction::send;
  const Rank owner = send ? block / collective_.ranks : block % collective_.ranks;
  if (owner != me_) return -1;
  const Rank peer = send ? block % collective_.ranks : block / collective_.ranks;
  return (send ? sends_ : receives_)[static_cast<size_t>(peer) * pieces_ + chunk % pieces_];
}

size_t Layout::piece_size(size_t block_elements) const {
  if (pieces_ == 1) return block_elements;
  const size_t even = (block_elements + pieces_ - 1) / pieces_;
  return (even + granule_ - 1) / granule_ * granule_;
}

size_t Layout::block_size(int block) const {
  if (sizes_.empty()) return uniform_;
  if (!pairwise(collective_.kind)) return sizes_[block];
  return block / collective_.ranks == me_ ? sizes_[block % collective_.ranks]
                                          : recv_sizes_[block / collective_.ranks];
}

size_t Layout::size(int chunk) const {
  if (!group_counts_.empty()) {
    int i = transfer(chunk, Transfer::Direction::send);
    if (i < 0) i = transfer(chunk, Transfer::Direction::receive);
    return i < 0 ? 0 : group_counts_[i];
  }
  if (pieces_ == 1) return block_size(chunk);
  const size_t begin = static_cast<size_t>(chunk % pieces_) * uniform_piece_;
  return begin >= uniform_ ? 0 : std::min(uniform_piece_, uniform_ - begin);
}

size_t Layout::offset(int chunk, const Side& side, Rank rank) const {
  if (!group_counts_.empty()) return 0;
  const int block = pieces_ == 1 ? chunk : chunk / pieces_;
  const int place = side.is_input ? place_in_input(collective_, rank, block)
                                  : place_in_output(collective_, rank, block);
  const size_t piece = pieces_ == 1 ? 0 : static_cast<size_t>(chunk % pieces_) * uniform_piece_;
  const bool listed = place < static_cast<int>(side.offsets.size());
  return (listed ? side.offsets[place] : static_cast<size_t>(place) * uniform_) + piece;
}

}  // namespace weft
