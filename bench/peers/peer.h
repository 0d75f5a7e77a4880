// What the adapters of other libraries share. An adapter is weft-bench with another library in
// weft's place: the same arguments, loop, inputs, check and output.
#pragma once

#include <vector>

#include "bench/options.h"
#include "engine/communicator.h"

namespace weft::bench {

// Another library as a communicator that makes blocking collective calls. Derived classes have
// run(call), and say in why_not() what they have not got.
class Peer : public Communicator {
 public:
  Peer(Rank rank, int size, const Options& options)
      : rank_(rank), size_(size), options_(options), hosts_(static_cast<size_t>(size), 0) {}

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  const Options& options() const override { return options_; }
  const std::vector<int>& host_of_rank() const override { return hosts_; }

  using Communicator::run;
  Status run(std::span<const Transfer>) override { return no_groups(); }
  Work start(const Call&) override {
    return Work::failed(unsupported("Other libraries are measured with blocking calls (-z 1)."));
  }
  Work start(std::span<const Transfer>) override { return Work::failed(no_groups()); }
  Result<std::unique_ptr<Communicator>> split(int, int) override {
    return unsupported("Communicators of other libraries are not split here.");
  }
  void abort(std::string_view) override {}
  Status health() const override { return {}; }
  CommunicatorStats stats() const override { return {}; }

  Result<CallInfo> explain(const Call& call) override {
    WEFT_TRY(why_not(call));
    CallInfo info;
    info.algorithm = "default";
    return info;
  }

 protected:
  // ok, or why this library cannot do the call.
  virtual Status why_not(const Call& call) const = 0;

 private:
  static Status no_groups() {
    return unsupported("Sends and receives of other libraries are not measured.");
  }

  Rank rank_;
  int size_;
  Options options_;
  std::vector<int> hosts_;  // one host only
};

// Options of an adapter from its command line: what only makes sense for weft is refused, and what
// the library cannot do is left out.
Result<BenchOptions> peer_options(std::span<const std::string> args, const Environment& env);

// Ends this process when the one that started it dies.
void die_with_parent();

}  // namespace weft::bench
