#include "base/key.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
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

// HMAC-SHA256 by the plain functions of that hash. Those for any hash keep something per thread
// behind a lock: a child that is forked while another thread has it would wait for ever.
class Hmac {
 public:
  explicit Hmac(ConstBytes key) {
    begin(inner_, key, 0x36);
    begin(outer_, key, 0x5c);
  }
  void add(ConstBytes said) { ::SHA256_Update(&inner_, said.data(), said.size()); }
  // Of all that was added. Once.
  KeyProof code() {
    const KeyProof said = end(inner_);
    ::SHA256_Update(&outer_, said.data(), said.size());
    return end(outer_);
  }

 private:
  static void begin(SHA256_CTX& hash, ConstBytes key, uint8_t padding) {
    std::array<uint8_t, SHA256_CBLOCK> block{};
    WEFT_CHECK(key.size() <= block.size());
    std::memcpy(block.data(), key.data(), key.size());
    for (uint8_t& byte : block) byte ^= padding;
    ::SHA256_Init(&hash);
    ::SHA256_Update(&hash, block.data(), block.size());
    ::OPENSSL_cleanse(block.data(), block.size());
  }
  static KeyProof end(SHA256_CTX& hash) {
    KeyProof code{};
    ::SHA256_Final(reinterpret_cast<unsigned char*>(code.data()), &hash);
    return code;
  }

  SHA256_CTX inner_, outer_;
};

KeyProof code(ConstBytes key, ConstBytes said) {
  Hmac hmac(key);
  hmac.add(said);
  return hmac.code();
}

// With its length before it, so that no two lists of parts are the same bytes.
void add_part(Hmac& hmac, ConstBytes part) {
  std::array<std::byte, 8> length{};
  for (size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<std::byte>(static_cast<uint64_t>(part.size()) >> 8 * i);
  hmac.add(length);
  hmac.add(part);
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
    : bytes_(code(bytes_of("weft's key of a job"), bytes_of(secret))), secret_(!secret.empty()) {}

Key Key::derive(std::string_view purpose, std::string_view context) const {
  Key key;
  key.bytes_ = prove(purpose, {bytes_of(context)});
  key.secret_ = secret_;
  return key;
}

KeyProof Key::prove(std::string_view role, std::initializer_list<ConstBytes> parts) const {
  Hmac hmac(bytes_);
  add_part(hmac, bytes_of(role));
  for (const ConstBytes part : parts) add_part(hmac, part);
  return hmac.code();
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
