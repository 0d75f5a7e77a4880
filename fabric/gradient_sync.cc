#include "fabric/gradient_sync.h"

#include <map>
#include <optional>
#include <utility>

#include "base/text.h"
#include "fabric/agree.h"
#include "fabric/flat.h"
#include "fabric/overlap.h"
#include "fabric/reduction.h"

namespace weft {

struct GradientSync::Bucket {
  size_t place = 0;             // in the order of reductions
  std::vector<size_t> members;  // gradients
  std::vector<Tensor> tensors;  // theirs
  size_t bytes = 0;
  size_t missing = 0;  // members that are not ready in this pass

  // Runs beside the caller. One contiguous gradient is reduced where it lies.
  void reduce(Communicator& c, ReduceOp op, const std::string& call) const {
    std::vector<FlatBuffer> flat;
    std::optional<Reduction> reduction;
    agree_on_arguments(c, call, [&] {
      flat = flatten(tensors);
      reduction.emplace(op, c.size(), flat[0].memory, flat[0].memory);
    });
    throw_if_failed(reduction->run([&c](const Tensor& in, void* out, ReduceOp how) {
      return c.all_reduce(in.data(), out, static_cast<size_t>(in.count()), in.dtype(), how)
          .within("GradientSync");
    }));
    const std::vector<Tensor> results = unflatten(flat, std::span(&flat[0].memory, 1));
    for (size_t i = 0; i < tensors.size(); ++i)
      if (results[i].data() != tensors[i].data()) tensors[i].copy_from(results[i]);
  }
};

// What the reductions of one pass share; they run one after the other.
struct GradientSync::Pass {
  std::string text;     // "pass 3 of GradientSync #12"
  bool paused = false;  // from its beginning to its end
  Status failure;       // of a reduction; those behind it are not begun, on any rank

  void reduce(const Bucket& bucket, Communicator& c, ReduceOp op) {
    throw_if_failed(failure);
    try {
      bucket.reduce(c, op, concat(text, ", bucket ", bucket.place));
    } catch (const Error& error) {
      failure = error.status();
      throw;
    }
  }
};

GradientSync::GradientSync(const Group& group, const std::vector<Tensor>& gradients,
                           GradientSyncOptions options)
    : group_(group),
      op_(options.average ? ReduceOp::avg : ReduceOp::sum),
      gradients_(gradients),
      bucket_of_(gradients.size()),
      ready_(gradients.size()) {
  Intent intent{.call = concat("GradientSync(", name(op_), ", ", options.bucket_bytes, " bytes)"),
                .leaves = {},
                .own = {}};
  for (size_t i = 0; i < gradients.size(); ++i) {
    intent.leaves.push_back(concat("gradient ", i, ": ", gradients[i].type_text()));
    if (intent.own.ok())
      intent.own = check_reduction(op_, gradients[i]).within(concat("gradient ", i));
  }
  if (const auto shared = overlap_in(gradients); shared && intent.own.ok())
    intent.own = invalid_argument(concat("gradients ", shared->first, " and ", shared->second,
                                         " share memory, which would be reduced once for each; "
                                         "give it in one of them."));
  Communicator& c = group_.turn();
  intent.extra = c.stats().calls;
  number_ = agree(c, intent)[0];
  make_buckets(options);
}

GradientSync::~GradientSync() = default;

void GradientSync::make_buckets(const GradientSyncOptions& options) {
  std::map<DataType, size_t> open;  // the bucket of each dtype that still takes gradients
  for (size_t i = gradients_.size(); i-- > 0;) {
    const Tensor& gradient = gradients_[i];
    const auto it = open.find(gradient.dtype());
    const bool fits =
        it != open.end() && buckets_[it->second]->bytes + gradient.bytes() <= options.bucket_bytes;
    if (!fits) {
      open[gradient.dtype()] = buckets_.size();
      buckets_.push_back(std::make_shared<Bucket>());
      buckets_.back()->place = buckets_.size() - 1;
    }
    bucket_of_[i] = open[gradient.dtype()];
    Bucket& bucket = *buckets_[bucket_of_[i]];
    bucket.members.push_back(i);
    bucket.tensors.push_back(gradient);
    bucket.bytes += gradient.bytes();
  }
}

void GradientSync::begin() {
  if (pass_)
    throw_invalid("backward() was called inside backward(); one pass ends before the next begins.");
  ++passes_;
  pass_ = std::make_shared<Pass>();
  pass_->text = concat("pass ", passes_, " of GradientSync #", number_);
  pass_->paused = paused_ > 0;
  started_ = 0;
  ready_.assign(ready_.size(), false);
  for (const auto& bucket : buckets_) bucket->missing = bucket->members.size();
}

void GradientSync::ready(size_t i) {
  if (!pass_) throw_invalid("ready() was called outside of backward(); call it in its block.");
  if (i >= gradients_.size())
    throw_invalid(concat("gradient ", i, " is ready, but there are ", gradients_.size(),
                         ", counted from 0."));
  if (ready_[i])
    throw_invalid(concat("gradient ", i, " was ready already in this pass; it may be on its way."));
  ready_[i] = true;
  --buckets_[bucket_of_[i]]->missing;
  start_full();
}

// All ranks start buckets in the same order, whatever order gradients become ready in.
void GradientSync::start_full() {
  if (pass_->paused) return;
  for (; started_ < buckets_.size() && buckets_[started_]->missing == 0; ++started_)
    reductions_.push_back(
        group_.async([pass = pass_, bucket = buckets_[started_], group = group_, op = op_] {
          pass->reduce(*bucket, group.communicator(), op);
        }));
}

void GradientSync::finish() {
  for (const auto& bucket : buckets_) bucket->missing = 0;
  try {
    start_full();
  } catch (...) {
    if (reductions_.empty())
      forget_pass();
    else
      give_up(caught());
    throw;
  }
  const Status status = wait_for_reductions();
  pass_.reset();
  throw_if_failed(status);
}

// As if it had not begun: no other rank knows of it.
void GradientSync::forget_pass() {
  pass_.reset();
  --passes_;
}

void GradientSync::give_up(const Status& why) {
  group_.leave(concat("the block of backward() failed: ", why.message()));
  (void)wait_for_reductions();
  pass_.reset();
}

// Of all, so that none touches a gradient afterwards; the first failure.
Status GradientSync::wait_for_reductions() {
  Status first;
  for (const Future<void>& reduction : reductions_) {
    try {
      reduction.get();
    } catch (const Error& error) {
      if (first.ok()) first = error.status();
    }
  }
  reductions_.clear();
  return first;
}

}  // namespace weft
