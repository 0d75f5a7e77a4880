#include "fabric/shards.h"

#include <utility>
#include <vector>

#include "base/text.h"

namespace weft {
namespace {

// Part r of `ranks` equal ones along a dimension.
Tensor part_of(const Tensor& tensor, int dim, int r, int ranks) {
  const int64_t size = tensor.size(dim);
  if (size % ranks != 0)
    throw_invalid(concat("dim ", dim, " of ", tensor.type_text(), " does not divide into ", ranks,
                         " equal shards; pad it, or use groups of another size."));
  return tensor.slice(dim, r * (size / ranks), (r + 1) * (size / ranks));
}

}  // namespace

Shards::Shards(const Group& job, int group_size) {
  if (!job.is_member()) return;
  const int groups = group_size == -1 ? 1 : group_size;
  if (groups < 1 || job.size() % groups != 0)
    throw_invalid(concat("group_size is ", group_size,
                         "; give a number of groups that divides the ", job.size(),
                         " ranks of the job, or -1 for one group."));
  const int index = job.rank() / (job.size() / groups);
  group_ = job.split(index);
  index_ = index;
  group_size_ = groups;
}

Tensor Shards::scatter(const Tensor& tensor, int dim) const {
  (void)group_.communicator();  // throws where there is no group
  return part_of(tensor, dim, rank(), world_size()).clone();
}

Tensor Shards::gather(const Tensor& tensor, int dim) const {
  return group_.all_gather(tensor, Concat{dim});
}

std::optional<Tensor> Shards::gather_to(const Tensor& tensor, int dst, int dim) const {
  return group_.gather(tensor, dst, Concat{dim});
}

Tensor Shards::gather_to_backward(const std::optional<Tensor>& gradient, int dst, int dim) const {
  std::vector<Tensor> parts;
  for (int r = 0; gradient && r < world_size(); ++r)
    parts.push_back(part_of(*gradient, dim, r, world_size()));
  return group_.scatter(parts, dst);
}

}  // namespace weft
