// A case bound to memory: the call that one rank makes.
#pragma once

#include <vector>

#include "bench/layout.h"
#include "engine/communicator.h"

namespace weft::bench {

class Invocation {
 public:
  // `layout` must outlive the invocation.
  Invocation(const Case& what, const Layout& layout, Bytes input, Bytes output,
             std::vector<std::byte> scalar);

  Status run(Communicator& communicator) const;
  Work start(Communicator& communicator) const;
  Status enqueue(Communicator& communicator, Stream stream) const;
  bool is_group() const { return grouped_; }
  bool is_barrier() const { return !grouped_ && call_.kind == Kind::barrier; }
  // For groups, which are no Call, what there is to say without asking the engine.
  Result<CallInfo> explain(Communicator& communicator) const;

 private:
  bool grouped_;
  std::vector<std::byte> scalar_;
  Call call_;
  std::vector<Transfer> group_;
};

}  // namespace weft::bench
