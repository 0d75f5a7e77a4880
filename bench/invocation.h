// A case bound to memory: the call that one rank makes.
#pragma once

#include <vector>

#include "bench/layout.h"
#include "engine/communicator.h"

namespace weft::bench {

class Invocation {
 public:
  // `layout` must outlive the invocation. Parts are null where they are empty.
  Invocation(const Case& what, const Layout& layout, Bytes input, Bytes output,
             std::vector<std::byte> scalar);

  Status run(Communicator& communicator) const;
  Work start(Communicator& communicator) const;
  // For groups, which are no Call, what there is to say without asking the engine.
  Result<CallInfo> explain(Communicator& communicator) const;

 private:
  bool grouped_;
  std::vector<std::byte> scalar_;
  Call call_;
  std::vector<Transfer> group_;
};

}  // namespace weft::bench
