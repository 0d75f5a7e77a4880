#include "base/key.h"

#include <gtest/gtest.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "base/text.h"

namespace weft {
namespace {

constexpr std::string_view kSecret = "correct horse battery staple";

Environment environment(std::map<std::string, std::string, std::less<>> values) {
  return Environment(std::move(values));
}

TEST(Key, ProvesWhatWasSaidInWhichRole) {
  const Key key(kSecret);
  const KeyProof proof = key.prove("caller", {bytes_of("one"), bytes_of("two")});
  EXPECT_TRUE(key.proves(proof, "caller", {bytes_of("one"), bytes_of("two")}));
  EXPECT_FALSE(key.proves(proof, "callee", {bytes_of("one"), bytes_of("two")}));
  EXPECT_FALSE(key.proves(proof, "caller", {bytes_of("one"), bytes_of("tw0")}));
  EXPECT_FALSE(key.proves(proof, "caller", {bytes_of("onet"), bytes_of("wo")}));
  EXPECT_FALSE(key.proves(proof, "caller", {bytes_of("onetwo")}));
  EXPECT_FALSE(key.proves(proof, "calleron", {bytes_of("e"), bytes_of("two")}));
  EXPECT_FALSE(key.proves({}, "caller", {bytes_of("one"), bytes_of("two")}));
  EXPECT_FALSE(
      key.proves(ConstBytes(proof).first(31), "caller", {bytes_of("one"), bytes_of("two")}));
  for (size_t bit = 0; bit < 256; ++bit) {
    KeyProof wrong = proof;
    wrong[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(key.proves(wrong, "caller", {bytes_of("one"), bytes_of("two")})) << bit;
  }
}

TEST(Key, DiffersWithSecretPurposeAndContext) {
  const Key key(kSecret);
  const auto said = [](const Key& by) { return hex(by.prove("", {})); };
  EXPECT_NE(said(key), said(Key("another secret of that kind")));
  EXPECT_NE(said(key), said(Key()));
  EXPECT_NE(said(key), said(key.derive("a", "b")));
  EXPECT_NE(said(key.derive("a", "b")), said(key.derive("b", "b")));
  EXPECT_NE(said(key.derive("a", "b")), said(key.derive("a", "c")));
  EXPECT_NE(said(key.derive("ab", "")), said(key.derive("a", "b")));
  EXPECT_EQ(said(key.derive("a", "b")), said(Key(kSecret).derive("a", "b")));
  EXPECT_TRUE(key.secret() && key.derive("a", "b").secret());
  EXPECT_FALSE(Key().secret() || Key().derive("a", "b").secret());
}

// Computed with Python's hmac and hashlib; what ranks of one version agree on must not change.
TEST(Key, IsHmacSha256) {
  EXPECT_EQ(hex(Key(kSecret).bytes()),
            "e71a689d57e4827a231203c6f27e92226741c551c66c33c7de7dfea88457bd28");
  EXPECT_EQ(hex(Key(kSecret).prove("caller", {bytes_of("one")})),
            "c2b7bea474e3ac819886665d487ca0f7f72d94d3f213eb1bfe2bf62e4502fc73");
}

// What OpenSSL asks for, from before it has asked for anything.
std::atomic<int> allocations{0};
const bool counted = ::CRYPTO_set_mem_functions(
    [](size_t bytes, const char*, int) {
      ++allocations;
      return std::malloc(bytes);
    },
    [](void* memory, size_t bytes, const char*, int) {
      ++allocations;
      return std::realloc(memory, bytes);
    },
    [](void* memory, const char*, int) { std::free(memory); });

// It has state of threads, and a lock around it: a child that was forked while another thread began
// or ended could wait for that for ever, so proofs have none.
TEST(Key, KeepsNothingPerThread) {
  ASSERT_TRUE(counted);
  allocations = 0;
  std::thread([] {
    (void)Key(kSecret).derive("a", "b").prove("caller", {bytes_of("one")});
  }).join();
  EXPECT_EQ(allocations, 0);
  std::thread([] { ::ERR_set_mark(); }).join();
  EXPECT_GT(allocations, 0);  // what does, is seen
}

TEST(Key, NoncesAreFresh) { EXPECT_NE(hex(fresh_nonce()), hex(fresh_nonce())); }

class KeyFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "weft_key_XXXXXX";
    const int fd = ::mkstemp(name.data());
    ASSERT_GE(fd, 0);
    ::close(fd);
    path_ = name;
  }
  void TearDown() override { ::unlink(path_.c_str()); }
  void write(std::string_view text) { std::ofstream(path_) << text; }
  Result<Key> read() const { return key_of(environment({{"WEFT_SECRET_FILE", path_}})); }
  std::string complaint() const {
    const Result<Key> key = read();
    return key.ok() ? "" : key.status().to_string();
  }
  std::string path_;
};

TEST_F(KeyFile, HoldsTheSecretInOneLine) {
  write(concat(kSecret, "\n"));
  const Result<Key> key = read();
  ASSERT_TRUE(key.ok()) << key.status().to_string();
  EXPECT_EQ(hex(key->bytes()), hex(Key(kSecret).bytes()));
}

TEST_F(KeyFile, IsForItsOwnerAlone) {
  write(kSecret);
  for (const mode_t mode : {0640, 0604, 0620, 0610}) {
    ::chmod(path_.c_str(), mode);
    EXPECT_NE(complaint().find("chmod 600 " + path_), std::string::npos) << complaint();
  }
  ::chmod(path_.c_str(), 0400);
  EXPECT_EQ(complaint(), "");
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path_.c_str(), 12345, 12345), 0);
    EXPECT_NE(complaint().find("belongs to another user"), std::string::npos) << complaint();
  }
}

TEST_F(KeyFile, MustBeThereAndLongEnough) {
  write("too short a one");
  EXPECT_NE(complaint().find("15 bytes"), std::string::npos) << complaint();
  EXPECT_EQ(complaint().find("too short a one"), std::string::npos) << "it says the secret";
  ::unlink(path_.c_str());
  EXPECT_NE(complaint().find(path_), std::string::npos) << complaint();
  path_ = ::testing::TempDir();
  EXPECT_NE(complaint(), "");
}

TEST(KeyOfEnvironment, IsThatOfOneSecretAtMost) {
  const std::string secret(kSecret);
  const auto given = key_of(environment({{"WEFT_SECRET", secret}}));
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(hex(given->bytes()), hex(Key(secret).bytes()));
  const auto none = key_of(Environment());
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->secret());
  EXPECT_FALSE(key_of(environment({{"WEFT_SECRET", secret}, {"WEFT_SECRET_FILE", "/x"}})).ok());
  const auto brief = key_of(environment({{"WEFT_SECRET", "sesame"}}));
  ASSERT_FALSE(brief.ok());
  EXPECT_EQ(brief.status().to_string().find("sesame"), std::string::npos);
  EXPECT_NE(brief.status().to_string().find("WEFT_SECRET"), std::string::npos);
}

TEST(KeyOfEnvironment, SaysThatItIsSetButEmpty) {
  for (const std::string name : {"WEFT_SECRET", "WEFT_SECRET_FILE"}) {
    const auto key = key_of(environment({{name, ""}}));
    ASSERT_FALSE(key.ok()) << name;
    EXPECT_EQ(key.status().code(), Code::invalid_argument);
    EXPECT_TRUE(key.status().message().starts_with(name + " is set but empty"))
        << key.status().to_string();
  }
  EXPECT_FALSE(
      key_of(environment({{"WEFT_SECRET", std::string(kSecret)}, {"WEFT_SECRET_FILE", ""}})).ok());
}

}  // namespace
}  // namespace weft
