// The collective calls of a group: agreement, flat buffers, one collective for each of them.
#include <algorithm>
#include <concepts>
#include <initializer_list>
#include <optional>
#include <string_view>
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

// What `action` gives, which needs memory when ranks count on this one already: where there is
// none, the others are told by the end of the group.
template <std::invocable Action>
auto get_or_abort(Communicator& c, std::string_view call, const Action& action) {
  try {
    return action();
  } catch (...) {
    const Status status = caught().within(call);
    if (status.code() == Code::system) c.abort(status.message());
    throw Error(status);
  }
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

// The buffers of a call on a tree, and those of its results.
class FlatCall {
 public:
  // Nothing, in no call.
  FlatCall() = default;
  // Results are shaped [leading, count] where `leading` is not 0, and empty where the call has none
  // on this rank.
  FlatCall(const Collection& value, int64_t leading, bool receives)
      : inputs_(flatten(value.tensors())) {
    for (const FlatBuffer& in : inputs_) {
      const int64_t count = in.memory.count();
      results_.push_back(!receives     ? Tensor()
                         : leading > 0 ? Tensor::empty(in.dtype, {leading, count})
                                       : Tensor::empty(in.dtype, {count}));
    }
  }

  // As above, of a reduction.
  static FlatCall reducing(const Collection& value, bool receives, ReduceOp op, int ranks) {
    FlatCall flat(value, 0, receives);
    for (size_t b = 0; b < flat.inputs_.size(); ++b)
      flat.reductions_.emplace_back(op, ranks, flat.inputs_[b].memory, flat.results_[b]);
    return flat;
  }

  // Runs the collective for every buffer.
  template <class RunCall>
  void run(const RunCall& call) const {
    for (size_t b = 0; b < inputs_.size(); ++b)
      throw_if_failed(call(inputs_[b].memory, results_[b]));
  }
  void run_reductions(const RunReduction& collective) const {
    for (const Reduction& reduction : reductions_) throw_if_failed(reduction.run(collective));
  }

  // The tree of the results.
  Collection tree(const Collection& value, std::optional<Concat> concat_along) const {
    std::vector<Tensor> tensors = unflatten(inputs_, results_);
    if (concat_along) join(tensors, *concat_along);
    return value.with_tensors(tensors);
  }

 private:
  std::vector<FlatBuffer> inputs_;
  std::vector<Tensor> results_;
  std::vector<Reduction> reductions_;
};

}  // namespace

Collection Group::all_reduce_tree(const Packed& packed, ReduceOp op) const {
  Communicator& c = turn();
  const Collection& value = packed.value;
  const std::string text = concat("all_reduce(", name(op), ")");
  FlatCall flat;
  const Status own =
      prepared(failure_of({packed.own, check_leaves(value), check_reduction(op, value)}), text,
               [&] { flat = FlatCall::reducing(value, true, op, c.size()); });
  (void)agree(c, {text, value.describe(), own});
  flat.run_reductions([&](const Tensor& in, void* out, ReduceOp how) {
    return c.all_reduce(in.data(), out, static_cast<size_t>(in.count()), in.dtype(), how)
        .within(text);
  });
  return get_or_abort(c, text, [&] { return flat.tree(value, {}); });
}

std::optional<Collection> Group::reduce_tree(const Packed& packed, int dst, ReduceOp op) const {
  Communicator& c = turn();
  const Collection& value = packed.value;
  const std::string text = concat("reduce(", name(op), ", dst=", dst, ")");
  const bool mine = c.rank() == dst;
  FlatCall flat;
  const Status own = prepared(failure_of({check_rank("dst", dst, c), packed.own,
                                          check_leaves(value), check_reduction(op, value)}),
                              text, [&] { flat = FlatCall::reducing(value, mine, op, c.size()); });
  (void)agree(c, {text, value.describe(), own});
  flat.run_reductions([&](const Tensor& in, void* out, ReduceOp how) {
    return c.reduce(in.data(), out, static_cast<size_t>(in.count()), in.dtype(), how, dst)
        .within(text);
  });
  if (!mine) return std::nullopt;
  return get_or_abort(c, text, [&] { return flat.tree(value, {}); });
}

Collection Group::all_gather_tree(const Packed& packed, std::optional<Concat> concat_along) const {
  Communicator& c = turn();
  const Collection& value = packed.value;
  const std::string text = concat(gather_text("all_gather", value, concat_along), ")");
  FlatCall flat;
  const Status own = prepared(failure_of({packed.own, check_concat(value, concat_along)}), text,
                              [&] { flat = FlatCall(value, c.size(), true); });
  (void)agree(c, {text, value.describe(), own});
  flat.run([&](const Tensor& in, const Tensor& out) {
    return c.all_gather(in.data(), out.data(), static_cast<size_t>(in.count()), in.dtype())
        .within(text);
  });
  return get_or_abort(c, text, [&] { return flat.tree(value, concat_along); });
}

std::optional<Collection> Group::gather_tree(const Packed& packed, int dst,
                                             std::optional<Concat> concat_along) const {
  Communicator& c = turn();
  const Collection& value = packed.value;
  const std::string text = concat(gather_text("gather", value, concat_along), ", dst=", dst, ")");
  const bool mine = c.rank() == dst;
  FlatCall flat;
  const Status own = prepared(
      failure_of({check_rank("dst", dst, c), packed.own, check_concat(value, concat_along)}), text,
      [&] { flat = FlatCall(value, c.size(), mine); });
  (void)agree(c, {text, value.describe(), own});
  flat.run([&](const Tensor& in, const Tensor& out) {
    return c.gather(in.data(), out.data(), static_cast<size_t>(in.count()), in.dtype(), dst)
        .within(text);
  });
  if (!mine) return std::nullopt;
  return get_or_abort(c, text, [&] { return flat.tree(value, concat_along); });
}

Collection Group::broadcast_tree(const Packed& packed, int src) const {
  Communicator& c = turn();
  const Collection& value = packed.value;
  const std::string text = concat("broadcast(src=", src, ")");
  const bool mine = c.rank() == src;
  const bool alone = value.kind() == Collection::Kind::tensor;
  const bool whole = !alone || value.tensor().bytes() <= kPackedBytes;
  std::string layout;
  Tensor object, tensor;
  const auto pack = [&] {
    if (!mine) return;
    if (whole) object = object_of(value);
    if (!whole) layout = layout_of(value);
    if (!whole) tensor = value.tensor().clone();
  };
  const Status own =
      prepared(failure_of({check_rank("src", src, c), mine ? packed.own : Status()}), text, pack);
  const uint64_t bytes = whole ? object.bytes() : layout.size() | kUnpacked;
  const uint64_t told = agree(c, {text, {packed.type}, own, bytes})[static_cast<size_t>(src)];
  const auto send = [&](void* memory, size_t count, DataType type) {
    throw_if_failed(c.broadcast(memory, memory, count, type, src).within(text));
  };
  const auto room = [&](DataType type, Shape shape) {
    return get_or_abort(c, text, [&] { return Tensor::empty(type, shape); });
  };
  if ((told & kUnpacked) == 0) {
    if (!mine) object = room(DataType::uint8, {static_cast<int64_t>(told)});
    send(object.data(), told, DataType::uint8);
    return from_object(object, src);
  }
  layout.resize(checked_size(told & ~kUnpacked, kPackedBytes, src));
  send(layout.data(), layout.size(), DataType::uint8);
  if (!mine) tensor = from_layout(layout, src, room).tensor();
  send(tensor.data(), static_cast<size_t>(tensor.count()), tensor.dtype());
  return tensor;
}

std::vector<Collection> Group::all_gather_trees(const Packed& packed) const {
  Communicator& c = turn();
  const std::string text = "all_gather_objects";
  Tensor object;
  const Status own = prepared(packed.own, text, [&] { object = object_of(packed.value); });
  const std::vector<uint64_t> sizes = agree(c, {text, {packed.type}, own, object.bytes()});
  const std::vector<size_t> counts(sizes.begin(), sizes.end());
  uint64_t total = 0;
  for (Rank r = 0; r < c.size(); ++r) total += checked_size(counts[r], kObjectsBytes - total, r);
  const Tensor all = get_or_abort(
      c, text, [&] { return Tensor::empty(DataType::uint8, {static_cast<int64_t>(total)}); });
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
  Tensor all;
  std::vector<uint64_t> sizes;
  own = prepared(own, text, [&] {
    std::vector<Tensor> objects;
    for (const Collection& part : parts) objects.push_back(object_of(part));
    for (const Tensor& object : objects) sizes.push_back(object.bytes());
    if (mine) all = concatenate(objects, 0);
  });
  (void)agree(c, {text, {packed.type}, own});
  uint64_t size = 0;
  throw_if_failed(c.scatter(sizes.data(), &size, 1, DataType::uint64, src).within(text));
  const std::vector<size_t> counts(sizes.begin(), sizes.end());
  const Tensor object = get_or_abort(
      c, text, [&] { return Tensor::empty(DataType::uint8, {static_cast<int64_t>(size)}); });
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
  Tensor result;
  std::optional<Reduction> reduction;
  own = prepared(own, text, [&] {
    Shape shape = value.shape();
    shape[0] /= c.size();
    result = Tensor::empty(value.dtype(), std::move(shape));
    reduction.emplace(op, c.size(), value.contiguous(), result);
  });
  (void)agree(c, {text, {value.type_text()}, own});
  throw_if_failed(reduction->run([&](const Tensor& in, void* out, ReduceOp how) {
    const auto count = static_cast<size_t>(in.count() / c.size());
    return c.reduce_scatter(in.data(), out, count, in.dtype(), how).within(text);
  }));
  return result;
}

void Group::broadcast_into(const Tensor& in_out, int src) const {
  Communicator& c = turn();
  const std::string text = concat("broadcast_into(src=", src, ")");
  Tensor dense;
  const Status own =
      prepared(check_rank("src", src, c), text, [&] { dense = in_out.contiguous(); });
  (void)agree(c, {text, {in_out.type_text()}, own});
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
  auto memory = c.allocate(bytes);
  throw_if_failed(memory.status().within("empty"));
  return Tensor::owning(memory.take(), dtype, shape);
}

void Group::all_reduce_into(const Tensor& in_out, ReduceOp op) const {
  Communicator& c = turn();
  const std::string text = concat("all_reduce_into(", name(op), ")");
  Tensor dense;
  std::optional<Reduction> reduction;
  const Status own = prepared(check_reduction(op, in_out), text, [&] {
    dense = in_out.contiguous();
    reduction.emplace(op, c.size(), dense, dense);
  });
  (void)agree(c, {text, {in_out.type_text()}, own});
  throw_if_failed(reduction->run([&](const Tensor& in, void* out, ReduceOp how) {
    return c.all_reduce(in.data(), out, static_cast<size_t>(in.count()), in.dtype(), how)
        .within(text);
  }));
  if (dense.data() != in_out.data()) in_out.copy_from(dense);
}

}  // namespace weft
