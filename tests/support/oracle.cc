#include "tests/support/oracle.h"

#include <algorithm>
#include <cstring>

namespace weft::test {
namespace {

constexpr size_t kGuard = 64;
constexpr std::byte kGuardByte{0xa5};

// A buffer of int32 at an odd place, with guards around it.
class Guarded {
 public:
  Guarded(size_t elements, size_t misalign, std::pmr::memory_resource* memory)
      : bytes_(elements * sizeof(int32_t)),
        begin_(kGuard + misalign),
        memory_(begin_ + bytes_ + kGuard, kGuardByte, memory) {}
  std::byte* data() { return memory_.data() + begin_; }
  // Begins with nothing but guards.
  void fill(const std::vector<int32_t>& values, size_t at = 0) {
    std::fill(memory_.begin(), memory_.end(), kGuardByte);
    if (!values.empty())
      std::memcpy(data() + at * sizeof(int32_t), values.data(), values.size() * sizeof(int32_t));
  }
  void scribble() { std::fill_n(data(), bytes_, std::byte{0x3c}); }
  std::string compare(const std::vector<int32_t>& wanted, size_t at, const char* what) const {
    for (size_t i = 0; i < wanted.size(); ++i) {
      int32_t got;
      std::memcpy(&got, memory_.data() + begin_ + (at + i) * sizeof got, sizeof got);
      if (got != wanted[i])
        return std::string(what) + "[" + std::to_string(i) + "] is " + std::to_string(got) +
               ", should be " + std::to_string(wanted[i]);
    }
    const auto broken = [](std::byte b) { return b != kGuardByte; };
    if (std::any_of(memory_.begin(), memory_.begin() + static_cast<long>(begin_), broken) ||
        std::any_of(memory_.end() - kGuard, memory_.end(), broken))
      return std::string(what) + " was written outside its bounds";
    return {};
  }

 private:
  size_t bytes_, begin_;
  std::pmr::vector<std::byte> memory_;
};

bool whole(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::broadcast;
}

int32_t fold(int32_t a, int32_t b, ReduceOp op) {
  const auto ua = static_cast<uint32_t>(a), ub = static_cast<uint32_t>(b);
  switch (op) {
    case ReduceOp::max: return std::max(a, b);
    case ReduceOp::min: return std::min(a, b);
    case ReduceOp::bxor: return a ^ b;
    case ReduceOp::prod: return static_cast<int32_t>(ua * ub);
    default: return static_cast<int32_t>(ua + ub);
  }
}

void append_folded(std::vector<int32_t>& out, const Shape& s, size_t begin, size_t count,
                   ReduceOp op, uint64_t salt) {
  const auto contributed = [&](Rank r, size_t i) {
    const auto value = static_cast<uint32_t>(element(r, i, salt));
    const auto times = static_cast<uint32_t>(op == ReduceOp::premulsum ? factor(r) : 1);
    return static_cast<int32_t>(value * times);
  };
  for (size_t i = begin; i < begin + count; ++i) {
    int32_t value = contributed(0, i);
    for (Rank r = 1; r < s.ranks; ++r) value = fold(value, contributed(r, i), op);
    out.push_back(op == ReduceOp::avg ? value / s.ranks : value);
  }
}

void append(std::vector<int32_t>& out, Rank from, size_t begin, size_t count, uint64_t salt) {
  for (size_t i = 0; i < count; ++i) out.push_back(element(from, begin + i, salt));
}

// Where rank r's block begins among the blocks of all.
size_t start(const Shape& s, Rank r) {
  size_t begin = 0;
  for (Rank q = 0; q < r; ++q) begin += s.block(q);
  return begin;
}

Call call_of(const Shape& shape, Rank me, ReduceOp op, std::vector<size_t>& row,
             std::vector<size_t>& column) {
  Call call{.kind = shape.kind,
            .count = shape.count,
            .type = DataType::int32,
            .op = op,
            .root = shape.root,
            .varying = shape.varying};
  if (!shape.varying) return call;
  if (shape.kind == Kind::all_to_all) {
    for (Rank r = 0; r < shape.ranks; ++r) {
      row.push_back(shape.counts[me * shape.ranks + r]);
      column.push_back(shape.counts[r * shape.ranks + me]);
    }
    call.counts = row;
    call.recv_counts = column;
    return call;
  }
  const bool rooted = shape.kind == Kind::gather || shape.kind == Kind::scatter;
  call.count = shape.counts[me];
  row = shape.counts;
  if (!rooted || me == shape.root) call.counts = row;
  return call;
}

// In the in-place form, where in the one buffer this rank's smaller side begins.
size_t place_of_own(const Shape& s, Rank me) {
  const bool blocks = s.kind == Kind::all_gather || s.kind == Kind::reduce_scatter ||
                      ((s.kind == Kind::gather || s.kind == Kind::scatter) && me == s.root);
  return blocks ? start(s, me) : 0;
}

}  // namespace

int32_t element(Rank r, size_t i, uint64_t salt) {
  uint64_t x =
      (salt * 1000003 + static_cast<uint64_t>(r)) * 0x9e3779b97f4a7c15u + i * 0xd1342543de82ef95u;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9u;
  return static_cast<int32_t>(x >> 32);
}

std::vector<int32_t> expected_input(const Shape& s, Rank me, uint64_t salt) {
  std::vector<int32_t> in;
  const bool rooted_source = s.kind == Kind::broadcast || s.kind == Kind::scatter;
  if (rooted_source && me != s.root) return in;
  if (whole(s.kind)) {
    append(in, me, 0, s.count, salt);
  } else if (s.kind == Kind::all_to_all) {
    for (Rank to = 0; to < s.ranks; ++to)
      append(in, me, static_cast<size_t>(to) << 20, s.block(s.varying ? me * s.ranks + to : 0),
             salt);
  } else if (s.kind == Kind::all_gather || s.kind == Kind::gather) {
    append(in, me, 0, s.block(me), salt);
  } else {
    append(in, me, 0, start(s, s.ranks), salt);
  }
  return in;
}

std::vector<int32_t> expected_output(const Shape& s, Rank me, ReduceOp op, uint64_t salt) {
  std::vector<int32_t> out;
  const bool at_root = me == s.root;
  switch (s.kind) {
    case Kind::all_reduce: append_folded(out, s, 0, s.count, op, salt); break;
    case Kind::reduce:
      if (at_root) append_folded(out, s, 0, s.count, op, salt);
      break;
    case Kind::broadcast: append(out, s.root, 0, s.count, salt); break;
    case Kind::gather:
      if (!at_root) break;
      [[fallthrough]];
    case Kind::all_gather:
      for (Rank r = 0; r < s.ranks; ++r) append(out, r, 0, s.block(r), salt);
      break;
    case Kind::reduce_scatter: append_folded(out, s, start(s, me), s.block(me), op, salt); break;
    case Kind::scatter: append(out, s.root, start(s, me), s.block(me), salt); break;
    case Kind::all_to_all:
      for (Rank from = 0; from < s.ranks; ++from)
        append(out, from, static_cast<size_t>(me) << 20,
               s.block(s.varying ? from * s.ranks + me : 0), salt);
      break;
    default: break;
  }
  return out;
}

struct CallMemory::Parts {
  Parts(const Shape& asked, Rank rank, bool aliased, ReduceOp operation, size_t misalign,
        std::pmr::memory_resource* memory)
      : shape(asked),
        me(rank),
        in_place(aliased),
        op(operation),
        inputs(expected_input(shape, me, 0).size()),
        outputs(expected_output(shape, me, op, 0).size()),
        one(std::max(inputs, outputs), misalign, memory),
        other(outputs, misalign, memory),
        scalar(factor(me)),
        call(call_of(shape, me, op, row, column)) {
    const size_t own = in_place ? place_of_own(shape, me) : 0;
    in_at = in_place && inputs < outputs ? own : 0;
    out_at = in_place && inputs >= outputs && outputs > 0 ? own : 0;
    call.input = one.data() + in_at * sizeof(int32_t);
    call.output = target().data() + out_at * sizeof(int32_t);
    if (op == ReduceOp::premulsum) call.scalar = &scalar;
  }
  Guarded& target() { return in_place ? one : other; }

  Shape shape;
  Rank me;
  bool in_place;
  ReduceOp op;
  size_t inputs, outputs, in_at = 0, out_at = 0;  // elements
  std::vector<int32_t> in, wanted;
  Guarded one, other;
  int32_t scalar;
  std::vector<size_t> row, column;
  Call call;
};

CallMemory::CallMemory(const Shape& shape, Rank me, bool in_place, ReduceOp op, size_t misalign,
                       std::pmr::memory_resource* memory)
    : parts_(std::make_unique<Parts>(shape, me, in_place, op, misalign, memory)) {}
CallMemory::~CallMemory() = default;

const Call& CallMemory::call() const { return parts_->call; }

void CallMemory::fill(uint64_t salt) {
  Parts& p = *parts_;
  p.in = expected_input(p.shape, p.me, salt);
  p.wanted = expected_output(p.shape, p.me, p.op, salt);
  p.other.fill({});
  p.one.fill(p.in, p.in_at);
}

void CallMemory::scribble() {
  parts_->one.scribble();
  parts_->other.scribble();
}

std::string CallMemory::compare() const {
  Parts& p = *parts_;
  std::string wrong = p.target().compare(p.wanted, p.out_at, "output");
  if (wrong.empty() && !p.in_place) wrong = p.one.compare(p.in, 0, "input");
  if (wrong.empty()) return {};
  return describe(p.call) + (p.in_place ? " in place" : "") + " on rank " + std::to_string(p.me) +
         " of " + std::to_string(p.shape.ranks) + ": " + wrong;
}

std::string run_and_compare(Communicator& communicator, const Shape& shape, bool in_place,
                            uint64_t salt, size_t misalign, ReduceOp op) {
  CallMemory memory(shape, communicator.rank(), in_place, op, misalign);
  memory.fill(salt);
  if (Status status = communicator.run(memory.call()); !status.ok()) return status.to_string();
  return memory.compare();
}

}  // namespace weft::test
