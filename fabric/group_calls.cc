// The collective calls of a group: agreement, flat buffers, one collective for each of them.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/text.h"
#include "fabric/agree.h"
#include "fabric/flat.h"
#include "fabric/group_state.h"
#include "fabric/object.h"
#include "fabric/reduction.h"

namespace weft {
namespace {

// A tensor larger than this is broadcast where it lies, a smaller one packed with its layout.
constexpr size_t kPackedBytes = 64 << 10;
constexpr uint64_t kUnpacked = uint64_t{1} << 63;      // in the extra of a broadcast's intent
constexpr uint64_t kObjectsBytes = uint64_t{1} << 56;  // of all ranks; no memory holds more

// The first that is none.
Status failure_of(std::initializer_list<Status> checks) {
  for (const Status& check : checks)
    if (!check.ok()) return check;
  return {};
}

// What rank `from` announces; all ranks know it, so all refuse it.
uint64_t checked_size(uint64_t bytes, uint64_t most, Rank from) {
  if (bytes <= most) return bytes;
  throw Error(Status(Code::mismatch,
                     concat("rank ", from, " announces a collection of ", bytes,
                            " bytes where there can be ", most),
                     from));
}

// Text and null can be sent, but not added up or stacked.
Status check_leaves(const Collection& value) {
  Status status;
  value.visit([&](const Collection::Place& place, const Collection& leaf) {
    if (leaf.kind() == Collection::Kind::tensor || !status.ok()) return;
    const std::string path = place.path();
    status = invalid_argument(concat("the leaf ", path.empty() ? "" : concat("'", path, "' "),
                                     "is ", leaf.describe()[0],
                                     "; only tensors and numbers can be reduced or stacked. "
                                     "all_gather_objects takes anything."));
  });
  return status;
}

Status check_concat(const Collection& value, std::optional<Concat> concat_along) {
  WEFT_TRY(check_leaves(value));
  if (!concat_along) return {};
  try {
    for (const Tensor& tensor : value.tensors()) (void)tensor.axis(concat_along->dim);
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

// Counted from the front where that is the same dimension of all tensors.
int plain_dim(const Collection& value, Concat along) {
  const std::vector<Tensor> tensors = value.tensors();
  const int dims = tensors.empty() ? 0 : tensors[0].dims();
  const bool alike = std::all_of(tensors.begin(), tensors.end(),
                                 [&](const Tensor& tensor) { return tensor.dims() == dims; });
  return alike && along.dim < 0 && along.dim >= -dims ? along.dim + dims : along.dim;
}

std::string gather_text(const char* name, const Collection& value,
                        std::optional<Concat> concat_along) {
  return concat_along ? concat(name, "(concat dim ", plain_dim(value, *concat_along))
                      : concat(name, "(stack");
}

// Of tensors with a leading dimension of ranks.
void join(std::vector<Tensor>& tensors, Concat along) {
  for (Tensor& tensor : tensors) {
    std::vector<Tensor> parts;
    for (int64_t r = 0; r < tensor.size(0); ++r) parts.push_back(tensor[r]);
    const int axis = parts[0].axis(along.dim);
    if (axis > 0) {
      tensor = concatenate(parts, axis);
    } else {
      Shape shape = parts[0].shape();
      shape[0] *= tensor.size(0);
      tensor = tensor.reshape(std::move(shape));
    }
  }
}

// Runs `call` for every buffer; gives the tree of the results, shaped [leading, count] where
// `leading` is not 0. Without `receives`, there are none.
template <class RunCall>
std::optional<Collection> run_flat(const Collection& value, int64_t leading, bool receives,
                                   std::optional<Concat> concat_along, const RunCall& call) {
  const std::vector<FlatBuffer> buffers = flatten(value.tensors());
  std::vector<Tensor> results;
  for (const FlatBuffer& buffer : buffers) {
    const int64_t count = buffer.memory.count();
    Tensor result;
    if (receives)
      result = Tensor::empty(buffer.dtype, leading > 0 ? Shape{leading, count} : Shape{count});
    throw_if_failed(call(buffer.memory, result));
    results.push_back(std::move(result));
  }
  if (!receives) return std::nullopt;
  std::vector<Tensor> tensors = unflatten(buffers, results);
  if (concat_along) join(tensors, *concat_along);
  return value.with_tensors(tensors);
}

}  // namespace

Collection Group::all_reduce_tree(const Packed& packed, ReduceOp op) const {
  Communicator& c = turn();
  const auto& [value, own, kind] = packed;
  const std::string text = concat("all_reduce(", name(op), ")");
  (void)agree(c, {text, value.describe(),
                  failure_of({own, check_leaves(value), check_reduction(op, value)})});
  const RunReduction run = [&](const Tensor& in, void* out, ReduceOp how) {
    return c.all_reduce(in.data(), out, static_cast<size_t>(in.count()), in.dtype(), how)
        .within(text);
  };
  return *run_flat(value, 0, true, {}, [&](const Tensor& in, const Tensor& out) {
    return weft::reduce(op, c.size(), in, out, run);
  });
}

std::optional<Collection> Group::reduce_tree(const Packed& packed, int dst, ReduceOp op) const {
  Communicator& c = turn();
  const auto& [value, own, kind] = packed;
  const std::string text = concat("reduce(", name(op), ", dst=", dst, ")");
  (void)agree(c, {text, value.describe(),
                  failure_of({check_rank("dst", dst, c), own, check_leaves(value),
                              check_reduction(op, value)})});
  const RunReduction run = [&](const Tensor& in, void* out, ReduceOp how) {
    return c.reduce(in.data(), out, static_cast<size_t>(in.count()), in.dtype(), how, dst)
        .within(text);
  };
  return run_flat(value, 0, c.rank() == dst, {}, [&](const Tensor& in, const Tensor& out) {
    return weft::reduce(op, c.size(), in, out, run);
  });
}

Collection Group::all_gather_tree(const Packed& packed, std::optional<Concat> concat_along) const {
  Communicator& c = turn();
  const auto& [value, own, kind] = packed;
  const std::string text = concat(gather_text("all_gather", value, concat_along), ")");
  (void)agree(c, {text, value.describe(), failure_of({own, check_concat(value, concat_along)})});
  return *run_flat(value, c.size(), true, concat_along, [&](const Tensor& in, const Tensor& out) {
    return c.all_gather(in.data(), out.data(), static_cast<size_t>(in.count()), in.dtype())
        .within(text);
  });
}

std::optional<Collection> Group::gather_tree(const Packed& packed, int dst,
                                             std::optional<Concat> concat_along) const {
  Communicator& c = turn();
  const auto& [value, own, kind] = packed;
  const std::string text = concat(gather_text("gather", value, concat_along), ", dst=", dst, ")");
  (void)agree(c, {text, value.describe(),
                  failure_of({check_rank("dst", dst, c), own, check_concat(value, concat_along)})});
  const bool mine = c.rank() == dst;
  return run_flat(value, c.size(), mine, concat_along, [&](const Tensor& in, const Tensor& out) {
    return c.gather(in.data(), out.data(), static_cast<size_t>(in.count()), in.dtype(), dst)
        .within(text);
  });
}

Collection Group::broadcast_tree(const Packed& packed, int src) const {
  Communicator& c = turn();
  const auto& [value, own, kind] = packed;
  const std::string text = concat("broadcast(src=", src, ")");
  const bool mine = c.rank() == src;
  const bool alone = value.kind() == Collection::Kind::tensor;
  const bool whole = !alone || value.tensor().bytes() <= kPackedBytes;
  std::string layout;
  Tensor object;
  if (mine && whole) object = object_of(value);
  if (mine && !whole) layout = layout_of(value);
  const uint64_t bytes = whole ? object.bytes() : layout.size() | kUnpacked;
  const Status failure = failure_of({check_rank("src", src, c), mine ? own : Status()});
  const uint64_t told = agree(c, {text, {packed.type}, failure, bytes})[static_cast<size_t>(src)];
  const auto send = [&](void* memory, size_t count, DataType type) {
    throw_if_failed(c.broadcast(memory, memory, count, type, src).within(text));
  };
  if ((told & kUnpacked) == 0) {
    if (!mine) object = Tensor::empty(DataType::uint8, {static_cast<int64_t>(told)});
    send(object.data(), told, DataType::uint8);
    return from_object(object, src);
  }
  layout.resize(checked_size(told & ~kUnpacked, kPackedBytes, src));
  send(layout.data(), layout.size(), DataType::uint8);
  const Tensor tensor =
      mine ? value.tensor().clone() : from_layout(layout, src, [](DataType type, Shape shape) {
                                        return Tensor::empty(type, std::move(shape));
                                      }).tensor();
  send(tensor.data(), static_cast<size_t>(tensor.count()), tensor.dtype());
  return tensor;
}

std::vector<Collection> Group::all_gather_trees(const Packed& packed) const {
  Communicator& c = turn();
  const std::string text = "all_gather_objects";
  const Tensor object = object_of(packed.value);
  const std::vector<uint64_t> sizes = agree(c, {text, {packed.type}, packed.own, object.bytes()});
  const std::vector<size_t> counts(sizes.begin(), sizes.end());
  uint64_t total = 0;
  for (Rank r = 0; r < c.size(); ++r) total += checked_size(counts[r], kObjectsBytes - total, r);
  const Tensor all = Tensor::empty(DataType::uint8, {static_cast<int64_t>(total)});
  throw_if_failed(c.run({.kind = Kind::all_gather,
                         .input = object.data(),
                         .output = all.data(),
                         .type = DataType::uint8,
                         .varying = true,
                         .counts = counts})
                      .within(text));
  std::vector<Collection> values;
  int64_t begin = 0;
  for (const uint64_t size : sizes) {
    const int64_t end = begin + static_cast<int64_t>(size);
    values.push_back(from_object(all.slice(0, begin, end), static_cast<Rank>(values.size())));
    begin = end;
  }
  return values;
}

Collection Group::scatter_tree(const Packed& packed, int src) const {
  Communicator& c = turn();
  const auto parts = packed.value.items();
  const std::string text = concat("scatter(src=", src, ")");
  const bool mine = c.rank() == src;
  Status own = failure_of({check_rank("src", src, c), packed.own});
  if (own.ok() && mine && static_cast<int>(parts.size()) != c.size())
    own = invalid_argument(concat(text, ": ", parts.size(), " parts were given for ", c.size(),
                                  " ranks; give one for each rank, in order."));
  (void)agree(c, {text, {packed.type}, own});
  std::vector<Tensor> objects;
  std::vector<uint64_t> sizes;
  for (const Collection& part : parts) {
    objects.push_back(object_of(part));
    sizes.push_back(objects.back().bytes());
  }
  uint64_t size = 0;
  throw_if_failed(c.scatter(sizes.data(), &size, 1, DataType::uint64, src).within(text));
  const Tensor all = mine ? concatenate(objects, 0) : Tensor();
  const std::vector<size_t> counts(sizes.begin(), sizes.end());
  const Tensor object = Tensor::empty(DataType::uint8, {static_cast<int64_t>(size)});
  throw_if_failed(c.run({.kind = Kind::scatter,
                         .input = all.data(),
                         .output = object.data(),
                         .count = size,
                         .type = DataType::uint8,
                         .root = src,
                         .varying = true,
                         .counts = counts})
                      .within(text));
  return from_object(object, src);
}

Tensor Group::reduce_scatter(const Tensor& value, ReduceOp op) const {
  Communicator& c = turn();
  const std::string text = concat("reduce_scatter(", name(op), ")");
  Status own = check_reduction(op, value);
  if (own.ok() && (value.dims() == 0 || value.size(0) % c.size() != 0))
    own = invalid_argument(concat(text, ": the first dimension of ", value.type_text(),
                                  " does not divide into ", c.size(), " equal parts."));
  (void)agree(c, {text, {value.type_text()}, own});
  Shape shape = value.shape();
  shape[0] /= c.size();
  const Tensor result = Tensor::empty(value.dtype(), std::move(shape));
  const RunReduction run = [&](const Tensor& in, void* out, ReduceOp how) {
    const auto count = static_cast<size_t>(in.count() / c.size());
    return c.reduce_scatter(in.data(), out, count, in.dtype(), how).within(text);
  };
  throw_if_failed(weft::reduce(op, c.size(), value.contiguous(), result, run));
  return result;
}

void Group::broadcast_into(const Tensor& in_out, int src) const {
  Communicator& c = turn();
  const std::string text = concat("broadcast_into(src=", src, ")");
  (void)agree(c, {text, {in_out.type_text()}, check_rank("src", src, c)});
  const Tensor dense = in_out.contiguous();
  throw_if_failed(c.broadcast(dense.data(), dense.data(), static_cast<size_t>(dense.count()),
                              dense.dtype(), src)
                      .within(text));
  if (dense.data() != in_out.data()) in_out.copy_from(dense);
}

Tensor Group::empty(DataType dtype, const Shape& shape) const {
  Communicator& c = turn();
  const auto check = [&] { (void)Tensor::owning(std::make_shared<char>(), dtype, shape); };
  agree_on_arguments(c, concat("empty(", name(dtype), ", ", to_string(shape), ")"), check);
  const size_t bytes = static_cast<size_t>(count_of(shape)) * size_of(dtype);
  return Tensor::owning(value_or_throw(c.allocate(bytes)), dtype, shape);
}

void Group::all_reduce_into(const Tensor& in_out, ReduceOp op) const {
  Communicator& c = turn();
  const std::string text = concat("all_reduce_into(", name(op), ")");
  (void)agree(c, {text, {in_out.type_text()}, check_reduction(op, in_out)});
  const Tensor dense = in_out.contiguous();
  const RunReduction run = [&](const Tensor& in, void* out, ReduceOp how) {
    return c.all_reduce(in.data(), out, static_cast<size_t>(in.count()), in.dtype(), how)
        .within(text);
  };
  throw_if_failed(weft::reduce(op, c.size(), dense, dense, run));
  if (dense.data() != in_out.data()) in_out.copy_from(dense);
}

}  // namespace weft
