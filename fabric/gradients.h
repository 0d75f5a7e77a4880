// The way back through a group's calls: for each differentiable one, what the gradient of its input
// is, given the gradient of its output. All are collective, like the calls themselves.
//
// Every rank's tensors count as variables of their own, and the loss is the sum over all ranks'
// losses; then each of these is the adjoint of its call: the sum over ranks of <call(x), y> equals
// that of <x, backward(y)>. What the call's result was is not remembered: an error on every rank is
// a gradient that is missing on `dst`, or that cannot be cut into as many parts as there are ranks
// where it has to be. A gradient of another shape or dtype gives one of another shape or dtype.
#pragma once

#include <optional>
#include <vector>

#include "fabric/group.h"

namespace weft {

// Of all_gather(x): each rank gets the sum of all ranks' gradients of its part. (With
// sync_grads=False, take this rank's part of its own gradient instead.)
Tensor all_gather_backward(const Group& group, const Tensor& gradient);
// Of all_gather(x, concat).
Tensor all_gather_backward(const Group& group, const Tensor& gradient, Concat concat);
// Of all_reduce(x, op). REQUIRES (or throws): op is sum or avg.
Tensor all_reduce_backward(const Group& group, const Tensor& gradient, ReduceOp op = ReduceOp::avg);
// Of reduce_scatter(x, sum).
Tensor reduce_scatter_backward(const Group& group, const Tensor& gradient);
// Of broadcast(x, src): the sum of all gradients on rank `src`; zeros elsewhere, whose x is not
// used.
Tensor broadcast_backward(const Group& group, const Tensor& gradient, int src = 0);
// Of reduce(x, dst, sum): the gradient that rank `dst` gives; the others give none.
Tensor reduce_backward(const Group& group, const std::optional<Tensor>& gradient, int dst = 0);
// Of gather(x, dst): this rank's part of the gradient that rank `dst` gives.
Tensor gather_backward(const Group& group, const std::optional<Tensor>& gradient, int dst = 0);
// Of scatter(parts, src): the parts' gradients on rank `src`, nothing elsewhere. Like the parts,
// they may differ in shape and dtype; they are gathered faster where they do not.
std::vector<Tensor> scatter_backward(const Group& group, const Tensor& gradient, int src = 0);

}  // namespace weft
