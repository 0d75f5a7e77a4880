// Who has called a store: what it was asked to prove, and how it is answered.
#pragma once

#include <optional>

#include "bootstrap/connection.h"
#include "bootstrap/frame.h"

namespace weft {

struct Caller {
  Connection connection{};
  Nonce challenge = fresh_nonce();
  std::optional<Nonce> proven{};  // that of its last offer, once it has proven to be of the job

  // REQUIRES: it has proven what it asked.
  void answer(const wire::Answer& answer, const Key& meeting);
  // Provably to who has proven something itself.
  void refuse(const wire::Refusal& refusal, const Key& meeting);
};

}  // namespace weft
