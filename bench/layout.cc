#include "bench/layout.h"

#include <algorithm>
#include <numeric>

#include "bench/random.h"

namespace weft::bench {
namespace {

// Blocks by rank in one buffer.
struct Blocks {
  std::vector<size_t> counts, offsets;
  size_t span = 0;   // elements from the first to behind the last, gaps included
  size_t total = 0;  // without gaps
};

// Packs `counts` in order; a v-form leaves gaps of 0 to 3 elements, the same for the same `seed`.
Blocks place(std::vector<size_t> counts, bool gaps, uint64_t seed) {
  Blocks blocks;
  Random random(seed);
  for (const size_t count : counts) {
    const size_t gap = gaps ? random.next_below(4) : 0;
    blocks.offsets.push_back(blocks.span + gap);
    blocks.span += gap + count;
    blocks.total += count;
  }
  blocks.counts = std::move(counts);
  return blocks;
}

// 0 with probability 1/4, else up to twice the even share.
size_t uneven_count(size_t even, Random& random) {
  return random.next() % 4 == 0 ? 0 : random.next_below(2 * even + 2);
}

class Maker {
 public:
  Maker(const Case& what, int ranks, Rank me)
      : what_(what), n_(static_cast<size_t>(ranks)), me_(static_cast<size_t>(me)) {
    total_ = what.bytes / size_of(what.type);
    seed_ = mix(what.seed, mix(what.bytes, static_cast<uint64_t>(what.operation)));
  }

  Layout make() {
    switch (info(what_.operation).kind) {
      case Kind::all_reduce:
      case Kind::reduce:
      case Kind::broadcast: whole(); break;
      case Kind::all_gather:
      case Kind::gather: collect(); break;
      case Kind::reduce_scatter:
      case Kind::scatter: distribute(); break;
      case Kind::all_to_all: all_to_all(); break;
      case Kind::exchange: exchange(); break;
      case Kind::barrier: layout_.answered = n_ > 1; break;
    }
    if (!varying()) layout_.read_here = layout_.input_count;  // else there are gaps
    for (const Piece& piece : layout_.pieces) layout_.written_here += piece.count;
    return std::move(layout_);
  }

 private:
  bool is_root() const { return me_ == static_cast<size_t>(what_.root_or_0()); }
  bool varying() const { return info(what_.operation).varying; }
  Kind kind() const { return info(what_.operation).kind; }

  void add(Rank source, size_t from, size_t to, size_t count) {
    if (count > 0) layout_.pieces.push_back({source, from, to, count});
  }

  void sizes(size_t message, size_t block, size_t read, size_t written, size_t crossing) {
    layout_.message_count = message;
    layout_.block_count = block;
    layout_.elements_read = read;
    layout_.elements_written = written;
    layout_.elements_crossing = crossing;
  }

  void whole() {
    const bool has_input = kind() != Kind::broadcast || is_root();
    const bool has_output = kind() != Kind::reduce || is_root();
    layout_.count = total_;
    layout_.input_count = has_input ? total_ : 0;
    layout_.output_count = has_output ? total_ : 0;
    const Rank source = kind() == Kind::broadcast ? what_.root_or_0() : Piece::kAllRanks;
    if (has_output) add(source, 0, 0, total_);
    const size_t inputs = kind() == Kind::broadcast ? 1 : n_;
    const size_t outputs = kind() == Kind::reduce ? 1 : n_;
    const size_t hops = kind() == Kind::all_reduce ? 2 : 1;
    layout_.answered = kind() == Kind::all_reduce && n_ > 1 && total_ > 0;
    sizes(total_, total_, inputs * total_, outputs * total_, hops * (n_ - 1) * total_);
  }

  // A block per rank: even, or of seeded random counts.
  Blocks blocks_by_rank() const {
    std::vector<size_t> counts(n_, total_ / n_);
    Random random(seed_);
    if (varying())
      for (size_t& count : counts) count = uneven_count(total_ / n_, random);
    return place(std::move(counts), varying(), seed_ + 1);
  }

  // `counts` for those who must give them, this rank's `count` for the others.
  void block_arguments(const Blocks& blocks, bool here) {
    layout_.count = blocks.counts[me_];
    if (!varying() || !here) return;
    layout_.counts = blocks.counts;
    layout_.offsets = blocks.offsets;
  }

  // Where every rank needs all blocks, or a part of every block's sum.
  static bool answered_by(const Blocks& blocks) {
    return std::ranges::count_if(blocks.counts, [](size_t count) { return count > 0; }) > 1;
  }

  void collect() {
    const Blocks blocks = blocks_by_rank();
    const bool everywhere = kind() == Kind::all_gather;
    const bool receives = everywhere || is_root();
    block_arguments(blocks, receives);
    layout_.input_count = layout_.read_here = blocks.counts[me_];
    if (receives) {
      layout_.output_count = blocks.span;
      layout_.shared_input = blocks.offsets[me_];
      for (size_t r = 0; r < n_; ++r)
        add(static_cast<Rank>(r), 0, blocks.offsets[r], blocks.counts[r]);
    }
    layout_.answered = everywhere && answered_by(blocks);
    const size_t leaving =
        everywhere ? (n_ - 1) * blocks.total : blocks.total - blocks.counts[root_index()];
    sizes(blocks.total, blocks.total / n_, blocks.total,
          everywhere ? n_ * blocks.total : blocks.total, leaving);
  }

  void distribute() {
    const Blocks blocks = blocks_by_rank();
    const bool reduced = kind() == Kind::reduce_scatter;
    const bool sends = reduced || is_root();
    block_arguments(blocks, sends);
    layout_.output_count = blocks.counts[me_];
    layout_.input_count = sends ? blocks.span : 0;
    layout_.read_here = sends ? blocks.total : 0;
    if (sends) layout_.shared_output = blocks.offsets[me_];
    add(reduced ? Piece::kAllRanks : what_.root_or_0(), blocks.offsets[me_], 0, blocks.counts[me_]);
    layout_.answered = reduced && answered_by(blocks);
    const size_t leaving =
        reduced ? (n_ - 1) * blocks.total : blocks.total - blocks.counts[root_index()];
    sizes(blocks.total, blocks.total / n_, reduced ? n_ * blocks.total : blocks.total, blocks.total,
          leaving);
  }

  size_t root_index() const { return static_cast<size_t>(what_.root_or_0()); }

  // What rank `from` sends to each rank.
  Blocks row(size_t from) const {
    std::vector<size_t> counts(n_, total_ / n_);
    if (varying())
      for (size_t to = 0; to < n_; ++to) {
        Random random(mix(seed_, from * n_ + to));
        counts[to] = uneven_count(total_ / n_, random);
      }
    return place(std::move(counts), varying(), mix(seed_ + 1, from));
  }

  void all_to_all() {
    std::vector<Blocks> rows;
    size_t everything = 0, kept = 0;
    for (size_t from = 0; from < n_; ++from) {
      rows.push_back(row(from));
      everything += rows[from].total;
      kept += rows[from].counts[from];
      for (size_t to = 0; to < from; ++to)
        layout_.answered |= rows[from].counts[to] > 0 && rows[to].counts[from] > 0;
    }
    std::vector<size_t> coming(n_);
    for (size_t from = 0; from < n_; ++from) coming[from] = rows[from].counts[me_];
    const Blocks incoming = place(std::move(coming), varying(), mix(seed_ + 2, me_));
    for (size_t from = 0; from < n_; ++from)
      add(static_cast<Rank>(from), rows[from].offsets[me_], incoming.offsets[from],
          incoming.counts[from]);
    layout_.input_count = rows[me_].span;
    layout_.read_here = rows[me_].total;
    layout_.output_count = incoming.span;
    layout_.count = total_ / n_;
    if (varying()) {
      layout_.counts = rows[me_].counts;
      layout_.offsets = rows[me_].offsets;
      layout_.recv_counts = incoming.counts;
      layout_.recv_offsets = incoming.offsets;
    }
    sizes(everything / n_, everything / n_ / n_, everything, everything, everything - kept);
  }

  // Transfers of rank `from` to rank `to`, in order.
  std::vector<size_t> transfers(size_t from, size_t to) const {
    if (what_.operation == Operation::sendrecv)
      return (from + 1) % n_ == to ? std::vector<size_t>{total_} : std::vector<size_t>{};
    Random random(mix(seed_, from * n_ + to));
    std::vector<size_t> counts(random.next_below(4));
    for (size_t& count : counts) count = uneven_count(total_ / n_ / 2, random);
    return counts;
  }

  void exchange() {
    size_t everything = 0, kept = 0;
    std::vector<std::vector<Move>> queues;
    std::vector<size_t> gone(n_ * n_);  // from each rank to each
    layout_.answered = what_.operation == Operation::sendrecv && n_ > 1 && total_ > 0;  // a ring
    for (size_t from = 0; from < n_; ++from) {
      size_t sent = 0;
      for (size_t to = 0; to < n_; ++to) {
        std::vector<Move> sends, receives;
        for (const size_t count : transfers(from, to)) {
          if (to == me_) {
            receives.push_back({false, static_cast<Rank>(from), layout_.output_count, count});
            add(static_cast<Rank>(from), sent, layout_.output_count, count);
            layout_.output_count += count;
          }
          if (from == me_) sends.push_back({true, static_cast<Rank>(to), sent, count});
          sent += count;
          gone[from * n_ + to] += count;
          if (from == to) kept += count;
        }
        if (!sends.empty()) queues.push_back(std::move(sends));
        if (!receives.empty()) queues.push_back(std::move(receives));
        layout_.answered |= to < from && gone[from * n_ + to] > 0 && gone[to * n_ + from] > 0;
      }
      if (from == me_) layout_.input_count = layout_.read_here = sent;
      everything += sent;
    }
    merge(queues);
    sizes(everything / n_, everything / n_, everything, everything, everything - kept);
  }

  // Any order is right that keeps the order of each peer and direction.
  void merge(std::vector<std::vector<Move>>& queues) {
    Random random(mix(seed_ + 3, me_));
    std::vector<size_t> next(queues.size(), 0);
    while (!queues.empty()) {
      const size_t q = random.next_below(queues.size());
      layout_.moves.push_back(queues[q][next[q]++]);
      if (next[q] < queues[q].size()) continue;
      std::swap(queues[q], queues.back());
      std::swap(next[q], next.back());
      queues.pop_back();
      next.pop_back();
    }
  }

  const Case& what_;
  const size_t n_;
  const size_t me_;
  size_t total_ = 0;
  uint64_t seed_ = 0;
  Layout layout_;
};

}  // namespace

Layout make_layout(const Case& what, int ranks, Rank me) { return Maker(what, ranks, me).make(); }

}  // namespace weft::bench
