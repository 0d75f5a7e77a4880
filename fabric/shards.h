// Shards: model-parallel groups, and tensors that are cut into one part per rank of a group.
//
// In a group a tensor is either *replicated* (the same on all ranks; counted once) or *distributed*
// (each rank has its own: a shard, or a partial sum). Four operations lead from one kind to the
// other, and each has its backward among them:
//
//   scatter   replicated -> shards          backward: gather
//   gather    shards -> replicated          backward: scatter
//   reduce    partial sums -> replicated    backward: identity
//   copy      replicated -> one per rank    backward: reduce
//
// With the inner product of replicated tensors counted once and that of distributed ones summed
// over ranks, they are adjoints: <A x, y> = <x, A^T y>.
//
// Each is asynchronous as shards.group().async([&] { return shards.gather(x); }).
#pragma once

#include <optional>

#include "fabric/group.h"

namespace weft {

// A handle, like Group.
class Shards {
 public:
  // Not initialised.
  Shards() = default;
  // init_process_group: cuts the job's ranks into `groups` groups of as many consecutive ranks (-1:
  // one group). Collective: returns when all ranks have joined. Throws on every rank where the job
  // does not divide, or ranks ask for different numbers. A rank that is no member of the job is in
  // no group.
  explicit Shards(const Group& job, int groups = -1);

  // Whether this rank is in a group.
  bool is_initialized() const { return groups_ > 0; }
  // destroy_process_group: as Shards() from then on.
  void destroy() { *this = Shards(); }

  // This rank's group; throws in its calls where is_initialized() is false.
  const Group& group() const { return group_; }
  // Which of the groups that is; this rank in it; ranks in it; how many groups there are. -1 in
  // none.
  int group_index() const { return index_; }
  int rank() const { return group_.rank(); }
  int world_size() const { return group_.size(); }
  int groups() const { return groups_; }
  // groups() by the name that it has in torchshard; the size of a group is world_size().
  int group_size() const { return groups_; }

  // This rank's part along a dimension, a dense copy: of (6, 8) on 2 ranks (3, 8) for dim 0, (6, 4)
  // for dim 1. No communication. Throws where the size does not divide.
  Tensor scatter(const Tensor& tensor, int dim = -1) const;
  Tensor scatter_backward(const Tensor& gradient, int dim = -1) const {
    return gather(gradient, dim);
  }

  // All parts one behind the other, on all ranks of the group: of (6, 8) on 2 ranks (12, 8) for dim
  // 0, (6, 16) for dim 1.
  Tensor gather(const Tensor& tensor, int dim = -1) const;
  Tensor gather_backward(const Tensor& gradient, int dim = -1) const {
    return scatter(gradient, dim);
  }
  // The same on rank `dst` only.
  std::optional<Tensor> gather_to(const Tensor& tensor, int dst, int dim = -1) const;
  // The gradient that rank `dst` gives, cut; the others give none.
  Tensor gather_to_backward(const std::optional<Tensor>& gradient, int dst, int dim = -1) const;

  // The sum over the group, on all its ranks; complex numbers, too.
  Tensor reduce(const Tensor& tensor) const { return group_.all_reduce(tensor, ReduceOp::sum); }
  // The same in place.
  void reduce_into(const Tensor& tensor) const { group_.all_reduce_into(tensor, ReduceOp::sum); }
  Tensor reduce_backward(const Tensor& gradient) const { return gradient; }

  // The tensor itself.
  Tensor copy(const Tensor& tensor) const { return tensor; }
  // The sum of the gradients over the group.
  Tensor copy_backward(const Tensor& gradient) const { return reduce(gradient); }

 private:
  Group group_;
  int index_ = -1;
  int groups_ = -1;
};

}  // namespace weft
