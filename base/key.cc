#include "base/key.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/files.h"
#include "base/random.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr size_t kSecretBytesMin = 16;
constexpr std::string_view kHowToMake = "make one with: openssl rand -base64 32";

KeyProof code(ConstBytes key, std::string_view said) {
  KeyProof code{};
  const auto* result = ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
                              reinterpret_cast<const unsigned char*>(said.data()), said.size(),
                              reinterpret_cast<unsigned char*>(code.data()), nullptr);
  WEFT_CHECK(result != nullptr);  // it has no other reason to fail than a lack of memory
  return code;
}

// With its length before it, so that no two lists of parts are the same bytes.
void append(std::string& said, ConstBytes part) {
  for (int shift = 0; shift < 64; shift += 8)
    said.push_back(static_cast<char>(static_cast<uint64_t>(part.size()) >> shift));
  said.append(reinterpret_cast<const char*>(part.data()), part.size());
}

Status check_file(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return system_error(concat("stat of ", path));
  if (!S_ISREG(file.st_mode)) return invalid_argument(concat(path, " is not a file."));
  if ((file.st_mode & 077) != 0)
    return invalid_argument(concat("others than its owner may use ", path, "; chmod 600 ", path));
  if (file.st_uid != ::geteuid() && file.st_uid != 0)
    return invalid_argument(concat(path, " belongs to another user."));
  return {};
}

Result<Key> key_of_file(const std::string& path) {
  WEFT_TRY(check_file(path));
  Result<std::string> text = read_text(path);
  if (!text.ok()) return text.status();
  while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
  return key_of(*text);
}

// Who sets one meant to have a secret, say from a file that was not there.
Status check_not_empty(const Environment& env) {
  for (const std::string_view name : {"WEFT_SECRET", "WEFT_SECRET_FILE"}) {
    const auto found = env.values().find(name);
    if (found != env.values().end() && found->second.empty())
      return invalid_argument(concat(
          name, " is set but empty, which gives no secret; unset it if the job shall have none."));
  }
  return {};
}

}  // namespace

Nonce fresh_nonce() {
  Nonce nonce;
  for (size_t half = 0; half < nonce.size(); half += sizeof(uint64_t)) {
    const uint64_t number = random_number();
    std::memcpy(&nonce[half], &number, sizeof number);
  }
  return nonce;
}

Key::Key(std::string_view secret)
    : bytes_(code(bytes_of("weft's key of a job"), secret)), secret_(!secret.empty()) {}

Key Key::derive(std::string_view purpose, std::string_view context) const {
  Key key;
  key.bytes_ = prove(purpose, {bytes_of(context)});
  key.secret_ = secret_;
  return key;
}

KeyProof Key::prove(std::string_view role, std::initializer_list<ConstBytes> parts) const {
  std::string said;
  append(said, bytes_of(role));
  for (const ConstBytes part : parts) append(said, part);
  return code(bytes_, said);
}

bool Key::proves(ConstBytes proof, std::string_view role,
                 std::initializer_list<ConstBytes> parts) const {
  const KeyProof right = prove(role, parts);
  return proof.size() == right.size() &&
         ::CRYPTO_memcmp(proof.data(), right.data(), right.size()) == 0;
}

Result<Key> key_of(std::string_view secret) {
  if (secret.size() >= kSecretBytesMin) return Key(secret);
  return invalid_argument(concat("the secret has ", secret.size(), " bytes, at least ",
                                 kSecretBytesMin, " are needed; ", kHowToMake));
}

Result<Key> key_of(const Environment& env) {
  WEFT_TRY(check_not_empty(env));
  const auto secret = env.get("WEFT_SECRET"), path = env.get("WEFT_SECRET_FILE");
  if (secret && path)
    return invalid_argument("Both WEFT_SECRET and WEFT_SECRET_FILE are set; set one of them.");
  if (!secret && !path) return Key();
  const Result<Key> key = secret ? key_of(*secret) : key_of_file(*path);
  if (!key.ok()) return key.status().within(secret ? "WEFT_SECRET" : "WEFT_SECRET_FILE");
  return *key;
}

}  // namespace weft
