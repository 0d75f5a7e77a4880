// GradientSync: the gradients of a data-parallel model, averaged over a group while others are
// still being computed.
//
//   weft::GradientSync sync(fabric, {w1_gradient, b1_gradient, w2_gradient});
//   {
//     const auto pause = sync.no_backward_sync();  // accumulate: nothing is sent
//     sync.backward([&] { compute_gradients(batch1); });
//   }
//   sync.backward([&] {  // the last step of an accumulation: everything is reduced once
//     ...                // w2's gradient is computed first
//     sync.ready(2);     // and reduced while b1's and w1's are computed
//     ...
//   });                  // here all gradients are averages
//
// In C++ there is no autograd to tell when a gradient is there, so the program does, with ready();
// what it does not tell of is taken at the end of the pass. Gradients go in buckets of one dtype,
// made from the last gradient to the first, as backward passes compute them.
#pragma once

#include <memory>
#include <vector>

#include "fabric/group.h"

namespace weft {

// How gradients are reduced.
struct GradientSyncOptions {
  size_t bucket_bytes = size_t{4} << 20;  // gradients go together until they are as large
  bool average = true;                    // else their sum
};

// A resource: made once for a model.
class GradientSync {
 public:
  // Collective: all ranks must give gradients of the same shapes and dtypes, in the same order.
  // Their memory must outlive this and every pass. Throws where two of them share memory.
  GradientSync(const Group& group, const std::vector<Tensor>& gradients,
               GradientSyncOptions options = {});
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  // One backward pass, which is done when this returns: block() computes the gradients and says
  // which are ready, then those left are reduced, and all are waited for. Passes are counted,
  // paused ones too, and each bucket is agreed on with its pass: where ranks are in different
  // passes, or in other calls, every rank throws the same error. Then some buckets may be reduced
  // and others not: the gradients have to be computed anew. A block that throws aborts the group,
  // so that the other ranks throw what it said, and its own exception goes on here.
  template <class F>
  void backward(F block) {
    begin();
    try {
      block();
    } catch (...) {
      give_up(caught());
      throw;
    }
    finish();
  }

  // Inside a pass: gradient i (by its place in the constructor's list) is final, and must not be
  // touched before the pass ends. Ranks may say so in different orders. Throws where it was ready
  // already.
  void ready(size_t i);

  // Passes that begin while this lives reduce nothing.
  class [[nodiscard]] NoSync {
   public:
    ~NoSync() {
      if (sync_) --sync_->paused_;
    }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    friend class GradientSync;
    explicit NoSync(GradientSync* sync) : sync_(sync) {
      if (sync_) ++sync_->paused_;
    }
    GradientSync* sync_;  // null: not enabled
  };
  // `enabled`: false makes a scope without effect, for the last step of an accumulation.
  NoSync no_backward_sync(bool enabled = true) { return NoSync(enabled ? this : nullptr); }

  // In how many collectives a pass reduces everything.
  size_t buckets() const { return buckets_.size(); }

 private:
  struct Bucket;
  struct Pass;

  void make_buckets(const GradientSyncOptions& options);
  void begin();
  void finish();
  void give_up(const Status& why);
  void forget_pass();
  void start_full();
  Status wait_for_reductions();

  Group group_;
  ReduceOp op_;
  std::vector<Tensor> gradients_;
  std::vector<std::shared_ptr<Bucket>> buckets_;  // in the order in which they are reduced
  std::vector<size_t> bucket_of_;                 // by gradient
  std::vector<bool> ready_;                       // by gradient, in this pass
  size_t started_ = 0;                            // buckets, in this pass
  std::vector<Future<void>> reductions_;          // of those
  int paused_ = 0;
  uint64_t passes_ = 0;         // begun so far
  uint64_t number_ = 0;         // tells this from others of the group: the same on all ranks
  std::shared_ptr<Pass> pass_;  // that is under way; null between passes
};

}  // namespace weft
