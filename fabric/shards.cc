#include "fabric/shards.h"

#include <utility>
#include <vector>

#include "base/text.h"
#include "fabric/agree.h"

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

Shards::Shards(const Group& job, int groups) {
  if (job.rank() < 0) return;
  const int wanted = groups == -1 ? 1 : groups;
  Intent intent{.call = concat("Shards(groups=", groups, ")"), .leaves = {}, .own = {}};
  if (wanted < 1 || job.size() % wanted != 0)
    intent.own =
        invalid_argument(concat("groups is ", groups, "; give a number of groups that divides the ",
                                job.size(), " ranks of the job, or -1 for one group."));
  (void)agree(job.turn(), intent);
  const int index = job.rank() / (job.size() / wanted);
  group_ = job.split(index);
  index_ = index;
  groups_ = wanted;
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
  agree_on_arguments(group_.turn(), "gather_to_backward", [&] {
    throw_if_failed(check_rank("dst", dst, group_.communicator()));
    if (rank() != dst) return;
    if (!gradient) throw_invalid(concat("rank ", dst, " is dst and gave no gradient; it has to."));
    for (int r = 0; r < world_size(); ++r)
      parts.push_back(part_of(*gradient, dim, r, world_size()));
  });
  return group_.scatter(parts, dst);
}

}  // namespace weft
