// Where the chunks of one call lie in this rank's memory, in elements.
#pragma once

#include <algorithm>
#include <vector>

#include "engine/call.h"
#include "engine/schedule/collective.h"

namespace weft {

// The elements of a chunk that one round covers: [begin, begin + size) of the chunk.
struct Extent {
  size_t begin = 0;
  size_t size = 0;
};

class Layout {
 public:
  // REQUIRES: validate(call) is ok. `pieces` as in the program; v-forms have one piece per block.
  Layout(const Collective& collective, Rank me, const Call& call, int pieces);
  // A group: chunk k of the pair (from, to) has the size of the k-th such transfer.
  Layout(const Collective& collective, Rank me, std::span<const Transfer> group, int pieces);

  // Blocks, or transfers, have sizes of their own.
  bool varying() const { return !sizes_.empty() || !sends_.empty(); }

  // Size of a chunk, as far as this rank knows it (of pairs that are not its own: nothing that
  // means anything).
  size_t size(int chunk) const;
  // First element of a chunk in Input (Output). For groups: always 0, see transfer().
  size_t input_offset(int chunk) const { return offset(chunk, input_, me_); }
  size_t output_offset(int chunk) const { return offset(chunk, output_, me_); }
  // In those of another rank. REQUIRES: !varying().
  size_t input_offset(int chunk, Rank rank) const { return offset(chunk, input_, rank); }
  size_t output_offset(int chunk, Rank rank) const { return offset(chunk, output_, rank); }

  Extent extent(int chunk, size_t round, size_t segment) const {
    const size_t all = size(chunk);
    const size_t begin = std::min(all, round * segment);
    return {begin, std::min(segment, all - begin)};
  }

  // For groups: the transfer that moves this chunk in that direction; -1 where there is none.
  int transfer(int chunk, Transfer::Direction direction) const;

 private:
  // One of the two buffers: offsets of its blocks, by place; empty: uniform.
  struct Side {
    std::vector<size_t> offsets;
    bool is_input = true;
  };
  size_t offset(int chunk, const Side& side, Rank rank) const;
  size_t block_size(int block) const;
  size_t piece_size(size_t block_elements) const;

  Collective collective_;
  Rank me_ = 0;
  int pieces_ = 1;
  size_t granule_ = 1;  // pieces begin at multiples of 64 bytes within their block
  size_t uniform_ = 0;  // elements of every block, where sizes_ is empty
  size_t uniform_piece_ = 0;
  // By block; for pairs: what goes to peer p, then what comes from it.
  std::vector<size_t> sizes_, recv_sizes_;
  Side input_, output_;
  // Groups: transfers by (peer, k), -1 for none.
  std::vector<int> sends_, receives_;
  std::vector<size_t> group_counts_;
};

// Offsets that pack blocks of these sizes one after the other.
std::vector<size_t> packed(std::span<const size_t> counts);
// The offsets that were given, or those of blocks packed in order.
std::vector<size_t> given_or_packed(std::span<const size_t> offsets,
                                    std::span<const size_t> counts);

}  // namespace weft
