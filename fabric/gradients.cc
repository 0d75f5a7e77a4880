#include "fabric/gradients.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "fabric/agree.h"

namespace weft {
namespace {

// As many equal parts along a dimension as there are ranks.
std::vector<Tensor> parts_of(const Tensor& whole, int dim, int ranks) {
  const int64_t size = whole.size(dim) / ranks;
  if (size * ranks != whole.size(dim))
    throw_invalid(concat("dim ", dim, " of ", whole.type_text(), " does not divide into ", ranks,
                         " equal parts."));
  std::vector<Tensor> parts;
  for (int r = 0; r < ranks; ++r) parts.push_back(whole.slice(dim, r * size, (r + 1) * size));
  return parts;
}

// Of what was stacked: one entry per rank.
void require_stacked(const Tensor& gradient, int ranks) {
  if (gradient.dims() == 0 || gradient.size(0) != ranks)
    throw_invalid(concat("the gradient is ", gradient.type_text(),
                         "; its first dimension must be the ", ranks, " ranks of the group."));
}

// That rank `dst`, which had the result, gives its gradient.
void require_given(const Group& group, const std::optional<Tensor>& gradient, int dst) {
  throw_if_failed(check_rank("dst", dst, group.communicator()));
  if (group.rank() == dst && !gradient)
    throw_invalid(concat("rank ", dst, " is dst and gave no gradient; it has to."));
}

}  // namespace

Tensor all_gather_backward(const Group& group, const Tensor& gradient) {
  agree_on_arguments(group.turn(), "all_gather_backward",
                     [&] { require_stacked(gradient, group.size()); });
  const Tensor mine = group.reduce_scatter(gradient);
  return mine.reshape({mine.shape().begin() + 1, mine.shape().end()});
}

Tensor all_gather_backward(const Group& group, const Tensor& gradient, Concat concat_along) {
  std::vector<Tensor> parts;
  const int dim = concat_along.dim;
  const bool from_back = dim < 0 && dim >= -gradient.dims();
  const std::string call =
      concat("all_gather_backward(concat dim ", from_back ? dim + gradient.dims() : dim, ")");
  agree_on_arguments(group.turn(), call,
                     [&] { parts = parts_of(gradient, concat_along.dim, group.size()); });
  if (gradient.axis(concat_along.dim) == 0) return group.reduce_scatter(gradient);
  const Tensor mine = group.reduce_scatter(concatenate(parts, 0));
  return mine.reshape(parts[0].shape());
}

Tensor all_reduce_backward(const Group& group, const Tensor& gradient, ReduceOp op) {
  agree_on_arguments(group.turn(), concat("all_reduce_backward(", name(op), ")"), [&] {
    if (op != ReduceOp::sum && op != ReduceOp::avg)
      throw_invalid(concat("op is ", name(op), "; only sum and avg have a backward here."));
  });
  return group.all_reduce(gradient, op);
}

Tensor reduce_scatter_backward(const Group& group, const Tensor& gradient) {
  return group.all_gather(gradient, Concat{0});
}

Tensor broadcast_backward(const Group& group, const Tensor& gradient, int src) {
  const auto sum = group.reduce(gradient, src, ReduceOp::sum);
  return sum ? *sum : Tensor::zeros(gradient.dtype(), gradient.shape());
}

Tensor reduce_backward(const Group& group, const std::optional<Tensor>& gradient, int dst) {
  agree_on_arguments(group.turn(), "reduce_backward", [&] { require_given(group, gradient, dst); });
  return group.broadcast(gradient.value_or(Tensor()), dst);
}

Tensor gather_backward(const Group& group, const std::optional<Tensor>& gradient, int dst) {
  std::vector<Tensor> parts;
  agree_on_arguments(group.turn(), "gather_backward", [&] {
    require_given(group, gradient, dst);
    if (group.rank() != dst) return;
    require_stacked(*gradient, group.size());
    for (int64_t r = 0; r < gradient->size(0); ++r) parts.push_back((*gradient)[r]);
  });
  return group.scatter(parts, dst);
}

std::vector<Tensor> scatter_backward(const Group& group, const Tensor& gradient, int src) {
  Communicator& c = group.turn();
  const auto types = agree(c, {.call = concat("scatter_backward(src=", src, ")"),
                               .leaves = {},
                               .own = check_rank("src", src, c),
                               .extra = hash_of(gradient.type_text())});
  std::vector<Tensor> parts;
  if (std::adjacent_find(types.begin(), types.end(), std::not_equal_to<>()) != types.end()) {
    parts = group.all_gather_objects(gradient);
    if (group.rank() != src) parts.clear();
    return parts;
  }
  const auto all = group.gather(gradient, src);
  for (int64_t r = 0; all && r < all->size(0); ++r) parts.push_back((*all)[r]);
  return parts;
}

}  // namespace weft
