// Proofs of belonging together: who has the key of a job can show it, and see it shown, without
// saying it. Keys come from the job's secret; codes are HMAC-SHA256 (RFC 2104), by OpenSSL.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/status.h"
#include "base/types.h"

namespace weft {

// A number that is used once: a proof that names the other side's nonce cannot have been heard
// before.
using Nonce = std::array<std::byte, 16>;
Nonce fresh_nonce();

using KeyProof = std::array<std::byte, 32>;

class Key {
 public:
  // That of a job without a secret, which everybody has.
  Key() : Key(std::string_view()) {}
  explicit Key(std::string_view secret);

  // Whether it came from a secret.
  bool secret() const { return secret_; }

  // Another one, of no use for finding this one or those of other purposes.
  Key derive(std::string_view purpose, std::string_view context) const;

  // That who has this key says `parts`, in the role of `role`.
  KeyProof prove(std::string_view role, std::initializer_list<ConstBytes> parts) const;
  // In a time that tells nothing about where a wrong proof differs.
  bool proves(ConstBytes proof, std::string_view role,
              std::initializer_list<ConstBytes> parts) const;

  ConstBytes bytes() const { return bytes_; }

 private:
  std::array<std::byte, 32> bytes_{};
  bool secret_ = false;
};

// The key of the secret that WEFT_SECRET holds, or the file that WEFT_SECRET_FILE names, which must
// be readable by its owner alone; without either, that of no secret. One that is set but empty is
// an error. An error names what is wrong and never the secret.
Result<Key> key_of(const Environment& env);
// The same of a secret given otherwise: at least 16 bytes, else an error.
Result<Key> key_of(std::string_view secret);

}  // namespace weft
