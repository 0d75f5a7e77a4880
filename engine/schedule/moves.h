// Steps that do nothing but move a chunk through a link: such a message may go out of, or into, the
// operand's memory, where the link can do that.
#pragma once

#include "engine/schedule/schedule.h"

namespace weft {

inline bool only_sends(const Step& step) {
  return step.to.used() && !step.from.used() && step.sources.size() == 1 && step.targets.empty();
}
inline bool only_receives(const Step& step) {
  return step.from.used() && !step.to.used() && step.sources.empty() && step.targets.size() == 1;
}

}  // namespace weft
