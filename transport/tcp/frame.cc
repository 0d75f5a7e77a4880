#include "transport/tcp/frame.h"

#include <algorithm>

#include "base/hash.h"

namespace weft::tcp {
namespace {

// "\xf7weftt" and "cc", "cp" or "ca": no text protocol begins so.
constexpr uint64_t kChallengeMagic = 0x63637474666577f7;
constexpr uint64_t kHelloMagic = 0x70637474666577f7;
constexpr uint64_t kAnswerMagic = 0x61637474666577f7;
constexpr uint8_t kFrameMagic = 0xf7;

template <class T>
void put(std::byte* to, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}

template <class T>
T get(const std::byte* from) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(from[i]) << (8 * i);
  return value;
}

constexpr size_t kProofBytes = sizeof(KeyProof);
constexpr size_t kHelloNonce = 48, kHelloProof = kHelloBytes - kProofBytes;
constexpr size_t kAnswerProof = kAnswerBytes - kProofBytes;

void put_bytes(std::byte* to, ConstBytes bytes) { std::copy(bytes.begin(), bytes.end(), to); }

bool has_payload(FrameKind kind) { return kind == FrameKind::data || kind == FrameKind::note; }

}  // namespace

Badge badge_of(std::string_view job, const Key& key) {
  return {hash_of(job), key.derive("tcp", job)};
}

bool is_proven(Answer answer) {
  switch (answer) {
    case Answer::welcome:
    case Answer::crossed:
    case Answer::connected:
    case Answer::closed: return true;
    case Answer::other_job:
    case Answer::other_rank:
    case Answer::other_version:
    case Answer::unproven: return false;
  }
  return false;
}

std::string_view text(Answer answer) {
  switch (answer) {
    case Answer::welcome: return "it was accepted";
    case Answer::crossed: return "its own call to this rank goes first";
    case Answer::connected: return "it is connected to this rank already";
    case Answer::other_job: return "it belongs to another job";
    case Answer::other_rank: return "it is another rank of this job";
    case Answer::other_version: return "it speaks another version of weft's protocol";
    case Answer::closed: return "it has closed its communicator or given this rank up";
    case Answer::unproven: return "it has another secret (WEFT_SECRET) for this job";
  }
  return "";
}

ChallengeBytes encode(const Challenge& challenge) {
  ChallengeBytes bytes{};
  put(&bytes[0], kChallengeMagic);
  put(&bytes[8], challenge.version);
  put_bytes(&bytes[16], challenge.nonce);
  return bytes;
}

std::optional<Challenge> decode_challenge(std::span<const std::byte, kChallengeBytes> bytes) {
  if (get<uint64_t>(&bytes[0]) != kChallengeMagic) return std::nullopt;
  Challenge challenge;
  challenge.version = get<uint32_t>(&bytes[8]);
  if (challenge.version == kVersion)
    std::copy_n(&bytes[16], challenge.nonce.size(), challenge.nonce.begin());
  return challenge;
}

HelloBytes encode(const Hello& hello, const Key& key, const Challenge& challenge) {
  HelloBytes bytes{};
  put(&bytes[0], kHelloMagic);
  put(&bytes[8], hello.version);
  put(&bytes[12], static_cast<uint32_t>(hello.from));
  put(&bytes[16], static_cast<uint32_t>(hello.to));
  put(&bytes[20], hello.stream);
  put(&bytes[24], hello.streams);
  put(&bytes[32], hello.job);
  put_bytes(&bytes[kHelloNonce], hello.nonce);
  put_bytes(&bytes[kHelloProof],
            key.prove("hello", {challenge.nonce, ConstBytes(bytes).first<kHelloProof>()}));
  return bytes;
}

std::optional<Hello> decode_hello(std::span<const std::byte, kHelloBytes> bytes) {
  if (get<uint64_t>(&bytes[0]) != kHelloMagic) return std::nullopt;
  Hello hello;
  hello.version = get<uint32_t>(&bytes[8]);
  if (hello.version != kVersion) return hello;
  hello.from = static_cast<Rank>(get<uint32_t>(&bytes[12]));
  hello.to = static_cast<Rank>(get<uint32_t>(&bytes[16]));
  hello.stream = get<uint32_t>(&bytes[20]);
  hello.streams = get<uint32_t>(&bytes[24]);
  hello.job = get<uint64_t>(&bytes[32]);
  std::copy_n(&bytes[kHelloNonce], hello.nonce.size(), hello.nonce.begin());
  return hello;
}

bool proves(std::span<const std::byte, kHelloBytes> hello, const Key& key,
            const Challenge& challenge) {
  return key.proves(hello.subspan<kHelloProof>(), "hello",
                    {challenge.nonce, hello.first<kHelloProof>()});
}

KeyProof binding_of(const Key& key, const Challenge& challenge, const Hello& hello) {
  return key.prove("connection", {encode(challenge), encode(hello, key, challenge)});
}

bool may_be_hello(ConstBytes bytes) {
  std::array<std::byte, 8> magic;
  put(magic.data(), kHelloMagic);
  const size_t count = std::min(bytes.size(), magic.size());
  return std::equal(magic.begin(), magic.begin() + count, bytes.begin());
}

AnswerBytes encode(Answer answer, const Key& key, const Challenge& challenge, const Hello& hello) {
  AnswerBytes bytes{};
  put(&bytes[0], kAnswerMagic);
  put(&bytes[8], static_cast<uint32_t>(answer));
  if (is_proven(answer))
    put_bytes(&bytes[kAnswerProof], key.prove("answer", {hello.nonce, challenge.nonce,
                                                         ConstBytes(bytes).first<kAnswerProof>()}));
  return bytes;
}

bool proves(std::span<const std::byte, kAnswerBytes> answer, const Key& key,
            const Challenge& challenge, const Hello& hello) {
  return key.proves(answer.subspan<kAnswerProof>(), "answer",
                    {hello.nonce, challenge.nonce, answer.first<kAnswerProof>()});
}

std::optional<Answer> decode_answer(std::span<const std::byte, kAnswerBytes> bytes) {
  const uint32_t answer = get<uint32_t>(&bytes[8]);
  if (get<uint64_t>(&bytes[0]) != kAnswerMagic || answer >= kAnswers) return std::nullopt;
  return static_cast<Answer>(answer);
}

FrameHeader encode(const Frame& frame) {
  FrameHeader bytes{};
  put(&bytes[0], kFrameMagic);
  put(&bytes[1], static_cast<uint8_t>(frame.kind));
  put(&bytes[4], frame.link);
  put(&bytes[8], frame.length);
  put(&bytes[16], frame.sequence);
  put(&bytes[24], frame.tag);
  return bytes;
}

std::optional<Frame> decode_frame(std::span<const std::byte, kFrameBytes> bytes) {
  const uint8_t kind = get<uint8_t>(&bytes[1]);
  if (get<uint8_t>(&bytes[0]) != kFrameMagic || kind >= kFrameKinds) return std::nullopt;
  if (get<uint16_t>(&bytes[2]) != 0 || get<uint32_t>(&bytes[12]) != 0) return std::nullopt;
  Frame frame;
  frame.kind = static_cast<FrameKind>(kind);
  frame.link = get<uint32_t>(&bytes[4]);
  frame.length = get<uint32_t>(&bytes[8]);
  frame.sequence = get<uint64_t>(&bytes[16]);
  frame.tag = get<uint64_t>(&bytes[24]);
  if (frame.length != 0 && !has_payload(frame.kind)) return std::nullopt;
  if (frame.kind == FrameKind::note && frame.length > kNoteBytesMax) return std::nullopt;
  return frame;
}

}  // namespace weft::tcp
