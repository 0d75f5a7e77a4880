#include "bootstrap/caller.h"

namespace weft {

void Caller::answer(const wire::Answer& answer, const Key& meeting) {
  connection.queue(answer.head(meeting, *proven, challenge));
  if (!answer.payload()->empty()) connection.queue(answer.payload());
}

void Caller::refuse(const wire::Refusal& refusal, const Key& meeting) {
  if (proven)
    answer(wire::Answer(wire::Type::verdict, wire::payload_of(refusal), meeting), meeting);
  else
    connection.queue(wire::encode(refusal));
}

}  // namespace weft
