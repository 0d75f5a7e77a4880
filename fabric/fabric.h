// Fabric: the ranks of a job. Who they are, how they are started, and, being a Group, every call
// that they make together.
//
//   int main() {
//     return weft::launch({.devices = 4}, [](weft::Fabric& fabric) {
//       const int sum = fabric.all_reduce(fabric.global_rank(), weft::ReduceOp::sum);
//       fabric.print("sum of ranks:", sum);
//     });
//   }
#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>

#include "base/options.h"
#include "fabric/group.h"
#include "fabric/places.h"

namespace weft {

// What ranks compute on.
enum class Accelerator : uint8_t {
  automatic,  // host memory, in this version
  cpu,        // host memory
  gpu         // not in this version
};

// How local ranks are started where no launcher has.
enum class Strategy : uint8_t {
  processes,  // this program again, once per rank
  threads     // of this process; only by weft::launch(config, body)
};

// Describes a job. What is left at its default is taken from the launcher that started the process;
// what is not must agree with it.
struct FabricConfig {
  Accelerator accelerator = Accelerator::automatic;  // of all ranks
  int devices = 0;                                   // ranks per node; 0: the launcher's, else 1
  int num_nodes = 0;                                 // machines; 0: the launcher's, else 1
  Strategy strategy = Strategy::processes;           // where this process starts ranks
  std::optional<Options> options = {};               // of the engine; none: the environment's
  // Where this process starts ranks: when a signal ends one of them, the others are not ended, and
  // can shrink().
  bool keep_going = false;
};

// See the top of this file.
class Fabric : public Group {
 public:
  // Nothing happens before launch().
  explicit Fabric(const FabricConfig& config = {});
  // One of the ranks that meet in `rendezvous`, launched.
  static Fabric join(Rendezvous& rendezvous, const FabricConfig& config = {});

  // Makes this process a rank of the job. Where a launcher (torchrun, srun, mpirun, WEFT_*) has
  // started it, or it is the only rank, it joins. Else it starts the ranks, waits for them and
  // exits with their status without returning: the program runs from its beginning in each rank. Of
  // several nodes each runs this with MASTER_ADDR, MASTER_PORT and NODE_RANK in its environment.
  // REQUIRES: the process has one thread, and no children.
  void launch();

  // Once a call has failed because a rank is lost: the fabric of those that are left, in their
  // order, whose calls work again. All of them call this; those that do not within `timeout_s` (0:
  // what WEFT_TIMEOUT says) are left out. What the failed call was to give may be there on some of
  // them: agree on where to go on. This fabric's other groups have failed where a
  // rank of theirs is lost, and work where none is. See docs/reliability.md.
  Fabric shrink(double timeout_s = 0) const;

  // Ranks in all, and this one: 0 to world_size() - 1.
  int world_size() const { return size(); }
  int global_rank() const { return rank(); }
  // This rank among those of its node, that node, 0 to num_nodes() - 1, and how many nodes there
  // are. Nodes are those of the launcher where it tells every rank its local rank; else they are
  // machines, in the order of their lowest ranks. See docs/fabric.md.
  int local_rank() const { return place().local_rank; }
  int node_rank() const { return place().node; }
  int num_nodes() const;
  bool is_global_zero() const { return rank() == 0; }
  // Where this rank's tensors live.
  Device device() const { return {}; }

  // The tensor, or all tensors of the collection, on this rank's device.
  Tensor to_device(const Tensor& tensor) const { return tensor.to(device()); }
  Collection to_device(const Collection& value) const;

  // Runs block() on rank 0 first, then on the others; with `local`, on local rank 0 of each node
  // first. Gives what the block gives. When a first rank's block throws, so does this call on every
  // rank, naming it, and the others' blocks do not run. Inside of the block calls of all ranks
  // throw, of this fabric and, from the block's thread, of every group of it that has other ranks:
  // those do not make them. `timeout_s`: how long the others wait.
  template <class F>
  auto rank_zero_first(F block, bool local = false, double timeout_s = 0) const {
    using T = std::invoke_result_t<F&>;
    if (local ? local_rank() != 0 : !is_global_zero()) {
      let_others_go({}, timeout_s);
      const auto scope = stay_alone();
      return block();
    }
    const auto guarded = [&]() -> T {
      try {
        const auto scope = stay_alone();
        return block();
      } catch (...) {
        tell_failure_of_block(caught(), timeout_s);
        throw;
      }
    };
    if constexpr (std::is_void_v<T>) {
      guarded();
      let_others_go({}, timeout_s);
    } else {
      T result = guarded();
      let_others_go({}, timeout_s);
      return result;
    }
  }

  // A line of all arguments, separated by spaces, on standard output or another stream; on rank 0
  // only.
  template <class... Args>
  void print(const Args&... args) const {
    if (!prints()) return;
    std::ostringstream line;
    write_line(line, args...);
    to_standard_output(line.str());
  }
  template <class... Args>
  void print_to(std::ostream& out, const Args&... args) const {
    if (prints()) write_line(out, args...);
  }

 private:
  template <class... Args>
  static void write_line(std::ostream& out, const Args&... args) {
    [[maybe_unused]] const char* separator = "";
    ((out << separator << args, separator = " "), ...);
    out << '\n';
  }
  std::unique_ptr<Rendezvous> meet(const RendezvousConfig& place, const Environment& env);
  RankPlace place() const;
  bool prints() const;
  static void to_standard_output(const std::string& text);
  void let_others_go(const Status& own, double timeout_s) const;
  void tell_failure_of_block(const Status& why, double timeout_s) const;
  void check_nodes(bool started_by_weft) const;

  FabricConfig config_;
  std::vector<RankPlace> places_;  // by rank
};

}  // namespace weft
