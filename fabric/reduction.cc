#include "fabric/reduction.h"

#include "base/text.h"

namespace weft {
namespace {

// Calls then(T{}) with the C++ type of an integer dtype.
template <class Then>
void with_integer(DataType dtype, const Then& then) {
  switch (dtype) {
    case DataType::int8: return then(int8_t{});
    case DataType::uint8: return then(uint8_t{});
    case DataType::int16: return then(int16_t{});
    case DataType::uint16: return then(uint16_t{});
    case DataType::int32: return then(int32_t{});
    case DataType::uint32: return then(uint32_t{});
    case DataType::int64: return then(int64_t{});
    default: return then(uint64_t{});
  }
}

// What is summed up for the mean of an integer: a narrow one itself, in 64 bits; of a wide one its
// quotient and its remainder by the number of ranks, so that neither sum can wrap.
template <class T>
struct Mean {
  static constexpr bool kWide = sizeof(T) == 8;
  static constexpr int kTerms = kWide ? 2 : 1;
  using Term = std::conditional_t<kWide, T, int64_t>;

  static void split(T value, Term ranks, Term* terms) {
    terms[0] = kWide ? static_cast<Term>(value) / ranks : static_cast<Term>(value);
    if constexpr (kWide) terms[1] = value % ranks;
  }

  static T of(const Term* sums, Term ranks) {
    if constexpr (!kWide) {
      return static_cast<T>(sums[0] / ranks);
    } else {
      const Term whole = sums[0] + sums[1] / ranks, rest = sums[1] % ranks;
      if (whole > 0 && rest < 0) return whole - 1;
      if (whole < 0 && rest > 0) return whole + 1;
      return whole;
    }
  }
};

// Room for the terms of as many means as there are in `values`.
template <class T>
Tensor room_for_terms(const Tensor& values) {
  return Tensor::empty(kDataTypeOf<typename Mean<T>::Term>, {values.count() * Mean<T>::kTerms});
}

template <class T>
void split(const Tensor& in, int ranks, const Tensor& terms) {
  using M = Mean<T>;
  using Term = typename M::Term;
  for (int64_t i = 0; i < in.count(); ++i)
    M::split(in.data<T>()[i], static_cast<Term>(ranks), terms.data<Term>() + i * M::kTerms);
}

template <class T>
void join(const Tensor& sums, int ranks, const Tensor& out) {
  using M = Mean<T>;
  using Term = typename M::Term;
  for (int64_t i = 0; i < out.count(); ++i)
    out.data<T>()[i] = M::of(sums.data<Term>() + i * M::kTerms, static_cast<Term>(ranks));
}

// Kernels combine the bytes of booleans as bits, of which there must be one.
Tensor zeros_and_ones(const Tensor& booleans) {
  Tensor result = Tensor::empty(DataType::boolean, booleans.shape());
  for (int64_t i = 0; i < booleans.count(); ++i)
    result.data()[i] = std::byte{booleans.data()[i] != std::byte{0}};
  return result;
}

std::string remedy(ReduceOp op, DataType dtype) {
  if (dtype == DataType::boolean)
    return "use band (all), bor (any) or bxor, or make numbers of them.";
  if (op == ReduceOp::min || op == ReduceOp::max) return "complex numbers have no order.";
  return "bits are of integers and booleans; reinterpret() reads others as such.";
}

}  // namespace

Status check_reduction(ReduceOp op, const Tensor& tensor) {
  if (static_cast<int>(op) >= kReduceOps)
    return invalid_argument(concat("op is number ", static_cast<int>(op),
                                   "; give sum, prod, min, max, avg, band, bor or bxor."));
  if (op == ReduceOp::premulsum)
    return invalid_argument(
        "op is premulsum, which needs a factor; use the communicator() for it.");
  if (defined(op, tensor.dtype())) return {};
  return invalid_argument(concat("op ", name(op), " has no meaning on ", tensor.type_text(), "; ",
                                 remedy(op, tensor.dtype())));
}

Status check_reduction(ReduceOp op, const Collection& value) {
  Status status = check_reduction(op, Tensor(0));  // also where there are no leaves
  value.visit([&](const Collection::Place& place, const Collection& leaf) {
    if (leaf.kind() != Collection::Kind::tensor || !status.ok()) return;
    status = check_reduction(op, leaf.tensor());
    if (status.ok()) return;
    const std::string path = place.path();
    if (!path.empty()) status = status.within(concat("the leaf '", path, "'"));
  });
  return status;
}

Reduction::Reduction(ReduceOp op, int ranks, const Tensor& in, const Tensor& out)
    : op_(op),
      ranks_(ranks),
      in_(in.dtype() == DataType::boolean ? zeros_and_ones(in) : in),
      out_(out) {
  if (!is_mean()) return;
  with_integer(in.dtype(), [&](auto zero) {
    terms_ = room_for_terms<decltype(zero)>(in);
    sums_ = room_for_terms<decltype(zero)>(out);
  });
}

Status Reduction::run(const RunReduction& collective) const {
  if (!is_mean()) return collective(in_, out_.data(), op_);
  with_integer(in_.dtype(), [&](auto zero) { split<decltype(zero)>(in_, ranks_, terms_); });
  WEFT_TRY(collective(terms_, out_.data() ? sums_.data() : nullptr, ReduceOp::sum));
  with_integer(in_.dtype(), [&](auto zero) { join<decltype(zero)>(sums_, ranks_, out_); });
  return {};
}

}  // namespace weft
