// Group: ranks that make calls together, and the calls.
//
// All ranks of a group make the same calls in the same order. Each call first agrees in one small
// all_gather on what is to be done: where arguments are wrong on a rank, or differ between ranks,
// every rank throws the same Error, which says which rank gave what, and the group can be used on.
// Failures of the job itself (a rank that dies, a deadline) are thrown, too, and leave the group
// failed: later calls throw the same at once.
//
// Values are numbers, vectors of them, maps, Tensors, Collections, nlohmann::json (fabric/json.h):
// everything that has an Exchange (fabric/exchange.h). Inputs are never altered, and results are
// new: memory of their own, dense, on every rank, `src` too; except in the calls whose names end in
// `_into`.
//
// A group is a handle: copies mean the same ranks. Ranks are counted within the group. In a forked
// child every call throws.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/communicator.h"
#include "fabric/exchange.h"
#include "fabric/future.h"

namespace weft {

// Where gathered pieces are put one behind the other instead of stacked: all_gather(x, Concat{0}).
struct Concat {
  int dim = 0;  // negative counts from the last dimension
};

// See the top of this file.
class Group {
 public:
  // Without this rank: every call throws.
  Group() = default;
  // Of a communicator's ranks.
  explicit Group(std::unique_ptr<Communicator> communicator);
  // The last handle waits for what async() was given; where an exception is passing by, the group
  // is aborted first.
  ~Group() { finish_if_last(); }
  Group(const Group&) = default;
  Group(Group&&) = default;
  Group& operator=(Group other);

  // Whether this rank is in it.
  bool is_member() const { return state_ != nullptr; }
  // This rank, and how many there are; -1 where is_member() is false (but see Fabric).
  int rank() const;
  int size() const;
  // The engine's own interface to the same ranks.
  Communicator& communicator() const;
  // The same, when all is done that async() was given: what a blocking call waits for first.
  Communicator& turn() const;

  // Collective: a tensor of this dtype and shape on every rank, of zeros, in memory that the others
  // can reach where all share one host: calls on such tensors alone (`..._into`, of one contiguous
  // tensor) then copy nothing in between. Elsewhere it is a tensor like any other.
  Tensor empty(DataType dtype, const Shape& shape) const;

  // Waits for all ranks. When `timeout_s` (0: WEFT_TIMEOUT) passes, the error carries the name and
  // the ranks that did not come.
  void barrier(std::string_view name = {}, double timeout_s = 0) const;

  // Everybody gets the value of rank `src`; the others' are ignored, and need not have its shape.
  template <Exchangeable T>
  T broadcast(const T& value, int src = 0) const {
    return Exchange<T>::unpack(broadcast_tree(packed(value), src));
  }
  // The same into memory that is there on all ranks: dtype and shape must agree.
  void broadcast_into(const Tensor& in_out, int src = 0) const;

  // Everybody gets everybody's value: each tensor with a leading dimension of one entry per rank; a
  // number on 4 ranks gives 4 numbers.
  template <Exchangeable T>
  typename Exchange<T>::Gathered all_gather(const T& value) const {
    return Exchange<T>::unpack_gathered(all_gather_tree(packed(value), {}));
  }
  // The same, each tensor's pieces one behind the other along a dimension.
  template <Exchangeable T>
  T all_gather(const T& value, Concat concat) const {
    return Exchange<T>::unpack(all_gather_tree(packed(value), concat));
  }
  // Values of any shape, which may differ from rank to rank; by rank.
  template <Exchangeable T>
  std::vector<T> all_gather_objects(const T& value) const {
    std::vector<T> values;
    for (const Collection& c : all_gather_trees(packed(value)))
      values.push_back(Exchange<T>::unpack(c));
    return values;
  }

  // Element by element over all ranks. The mean of integers is rounded towards zero.
  template <Exchangeable T>
  T all_reduce(const T& value, ReduceOp op = ReduceOp::avg) const {
    return Exchange<T>::unpack(all_reduce_tree(packed(value), op));
  }
  // The same in place.
  void all_reduce_into(const Tensor& in_out, ReduceOp op = ReduceOp::avg) const;
  template <Scalar T>
  void all_reduce_into(std::span<T> in_out, ReduceOp op = ReduceOp::avg) const {
    all_reduce_into(Tensor::view(in_out), op);
  }

  // The sum (or another operation) of all ranks' tensors, of which rank i gets the i-th part along
  // the first dimension.
  Tensor reduce_scatter(const Tensor& value, ReduceOp op = ReduceOp::sum) const;

  // As all_reduce, all_gather; the result is on rank `dst` only, nothing elsewhere.
  template <Exchangeable T>
  std::optional<T> reduce(const T& value, int dst = 0, ReduceOp op = ReduceOp::sum) const {
    const auto result = reduce_tree(packed(value), dst, op);
    if (!result) return std::nullopt;
    return Exchange<T>::unpack(*result);
  }
  template <Exchangeable T>
  std::optional<typename Exchange<T>::Gathered> gather(const T& value, int dst = 0) const {
    const auto result = gather_tree(packed(value), dst, {});
    if (!result) return std::nullopt;
    return Exchange<T>::unpack_gathered(*result);
  }
  template <Exchangeable T>
  std::optional<T> gather(const T& value, int dst, Concat concat) const {
    const auto result = gather_tree(packed(value), dst, concat);
    if (!result) return std::nullopt;
    return Exchange<T>::unpack(*result);
  }

  // Rank i gets parts[i] of rank `src`; the others' parts are ignored. Parts may differ in shape.
  template <Exchangeable T>
  T scatter(const std::vector<T>& parts, int src = 0) const {
    const auto list = [&] {
      std::vector<Collection> items;
      if (rank() == src)
        for (const T& part : parts) items.push_back(Exchange<T>::pack(part));
      return Collection::list(std::move(items));
    };
    return Exchange<T>::unpack(scatter_tree(packed_by(list, type_text<T>()), src));
  }

  // Point to point, between two different ranks. The k-th send to a rank meets its k-th receive
  // from here, and may wait for it: where both ranks have something to send, one receives first, or
  // both use isend. A recv_into that finds another dtype or shape than it has room for aborts
  // the group with both sides' words; a recv of a value that is no T throws here only.
  template <Exchangeable T>
  void send(const T& value, int dst) const {
    send_tree(Exchange<T>::pack(value), dst);
  }
  template <Exchangeable T>
  T recv(int src) const {
    const Collection value = recv_tree(src);
    try {
      return Exchange<T>::unpack(value);
    } catch (...) {
      throw Error(caught().within(sent_text(value, src)));
    }
  }
  void recv_into(const Tensor& out, int src) const;
  // Beside the caller; the tensor must stay as it is until get() has returned.
  Future<void> isend(const Tensor& tensor, int dst) const;
  Future<void> irecv_into(const Tensor& out, int src) const;

  // Runs f() beside the caller, after everything that was given to async() before, and gives what
  // it returns: auto sum = group.async([&] { return group.all_reduce(x); }). A blocking call waits
  // for those under way first, so that the order of calls is that of the program. An async() inside
  // of f() runs at once, as part of it; get() there throws where it would wait for f() itself.
  template <class F>
  auto async(F f) const -> Future<std::invoke_result_t<F&>> {
    using T = std::invoke_result_t<F&>;
    auto task = std::make_shared<std::packaged_task<T()>>(std::move(f));
    const std::shared_future<T> result = task->get_future().share();
    give([task] { (*task)(); });
    const auto done = [result] {
      return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    };
    const std::weak_ptr<State> state = state_;
    return {done,
            [result, done, state]() -> T {
              if (!done()) check_wait(state);
              return result.get();
            },
            [done, state] { end_calls(state, done); }};
  }

  // Collective: ranks with equal colors >= 0 form a group, ordered by key, then by rank. A negative
  // color gets a group without members.
  Group split(int color, int key = 0) const;
  // Collective over this group: the group of the listed ranks, in that order. The others get a
  // group that they are no member of.
  Group new_group(const std::vector<int>& ranks) const;

  // Ends the calls under way here and on the other ranks with an error that says why; the group is
  // failed afterwards. Ranks that have had no connection with this one are not told why.
  void abort(std::string_view why) const;
  // The same, for a rank that goes on no more: first tells in the call that the other ranks are in,
  // or make within a second, so that those are told, too.
  void leave(std::string_view why) const;

 protected:
  // As Group(), but rank() and size() throw, too; `absent` says why.
  explicit Group(const char* absent) : absent_(absent) {}
  // Until what this gives goes, this rank is alone: calls that need the others throw.
  std::shared_ptr<void> stay_alone() const;

 private:
  struct State;

  // Of ranks of `origin`.
  Group(std::unique_ptr<Communicator> communicator, const Group& origin);
  // What `call` has made of this group's ranks, or why it has not.
  Group part_of(Result<std::unique_ptr<Communicator>> part, std::string_view call) const;
  // As all_reduce() and so on, for trees (group_calls.cc).
  Collection broadcast_tree(const Packed& packed, int src) const;
  Collection all_gather_tree(const Packed& packed, std::optional<Concat> concat) const;
  std::vector<Collection> all_gather_trees(const Packed& packed) const;
  Collection all_reduce_tree(const Packed& packed, ReduceOp op) const;
  std::optional<Collection> reduce_tree(const Packed& packed, int dst, ReduceOp op) const;
  std::optional<Collection> gather_tree(const Packed& packed, int dst,
                                        std::optional<Concat> concat) const;
  Collection scatter_tree(const Packed& parts, int src) const;
  // group_pairs.cc
  void send_tree(const Collection& value, int dst) const;
  Collection recv_tree(int src) const;
  std::function<void()> end_of_pair(const Tensor& tensor, const std::function<bool()>& done) const;
  static std::string sent_text(const Collection& value, int src);

  void give(std::function<void()> task) const;
  // Throws where the caller is what its group runs beside others, so that it would wait for itself.
  static void check_wait(const std::weak_ptr<State>& state);
  // Returns when done() says so; after ten seconds it aborts the group. Returns at once
  // where the caller is part of what it would wait for, or a forked child.
  static void end_calls(const std::weak_ptr<State>& state, const std::function<bool()>& done);
  // The same of transfers, of which no caller is part.
  static void end_transfers(const std::weak_ptr<State>& state, const std::function<bool()>& done);
  void finish_if_last();
  State& state() const;

  std::shared_ptr<State> state_;
  const char* absent_ = nullptr;
};

}  // namespace weft
