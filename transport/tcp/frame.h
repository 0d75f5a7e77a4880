// The wire format: what two ranks say to each other over a connection. All numbers little-endian.
//
// Who accepted sends a Challenge; who dialled sends a Hello; who accepted sends an Answer; where
// that is a welcome, who dialled sends a `start` frame, and from then on both send frames. Only the
// start frame makes the connection one for the acceptor: a caller that has given up meanwhile is
// not taken for a dead peer.
//
// Hello and answer prove that their sender has the job's key, to this very connection: each covers
// the other side's nonce. What does not prove it changes nothing on either side.
//
// Decoding is pure and total: any bytes give a value or nothing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/key.h"
#include "base/types.h"
#include "transport/transport.h"

namespace weft::tcp {

inline constexpr uint32_t kVersion = 4;
inline constexpr size_t kChallengeBytes = 32;
inline constexpr size_t kHelloBytes = 96;
inline constexpr size_t kAnswerBytes = 48;
inline constexpr size_t kFrameBytes = 32;

// What ranks of a job have in common, and others do not.
struct Badge {
  uint64_t job = 0;  // tells the job from others; no secret
  Key key;
};
Badge badge_of(std::string_view job, const Key& key);

struct Challenge {
  uint32_t version = kVersion;  // the fields after it are those of this version
  Nonce nonce{};
  friend bool operator==(const Challenge&, const Challenge&) = default;
};

struct Hello {
  uint32_t version = kVersion;  // the fields after it are those of this version
  uint64_t job = 0;             // Badge::job
  Rank from = -1;
  Rank to = -1;
  uint32_t stream = 0;   // which of the pair's connections this is
  uint32_t streams = 1;  // how many the caller wants; both take the smaller number
  Nonce nonce{};
  friend bool operator==(const Hello&, const Hello&) = default;
};

enum class Answer : uint32_t {
  welcome,
  crossed,        // the acceptor's own call is under way, and goes first
  connected,      // there is such a connection already
  other_job,      // the address belongs to another job,
  other_rank,     // or to another rank,
  other_version,  // or to another version of weft
  closed,         // the acceptor has closed its end, or has given this peer up
  unproven,       // the caller does not have the job's key
};
inline constexpr uint32_t kAnswers = 8;
// Whether it is said to a rank of the job only, with a proof.
bool is_proven(Answer answer);

enum class FrameKind : uint8_t {
  start,
  open_send,  // the sending end of `link` has been opened: `sequence` slots of `tag` bytes
  open_recv,  // the same for the receiving end; grants the credits for its slots
  data,       // message `sequence` of `link`, `length` bytes follow
  credit,     // `sequence` messages of `link` have been released, all in all
  note,       // of NoteKind `link`: `length` bytes of text follow
  heard,      // the last note of NoteKind `link` has been
  bye,        // the last frame of this connection, one of `sequence` that the frame's sender has
};
inline constexpr uint8_t kFrameKinds = 8;

struct Frame {
  FrameKind kind = FrameKind::start;
  LinkId link = 0;
  uint32_t length = 0;  // of the payload, which follows the header
  uint64_t sequence = 0;
  uint64_t tag = 0;
  friend bool operator==(const Frame&, const Frame&) = default;
};

using ChallengeBytes = std::array<std::byte, kChallengeBytes>;
using HelloBytes = std::array<std::byte, kHelloBytes>;
using AnswerBytes = std::array<std::byte, kAnswerBytes>;
using FrameHeader = std::array<std::byte, kFrameBytes>;

std::string_view text(Answer answer);

ChallengeBytes encode(const Challenge& challenge);
HelloBytes encode(const Hello& hello, const Key& key, const Challenge& challenge);
// Without a proof where is_proven() says so.
AnswerBytes encode(Answer answer, const Key& key, const Challenge& challenge, const Hello& hello);
FrameHeader encode(const Frame& frame);

// nullopt where the bytes are no such thing. Of another version there is only its version.
std::optional<Challenge> decode_challenge(std::span<const std::byte, kChallengeBytes> bytes);
std::optional<Hello> decode_hello(std::span<const std::byte, kHelloBytes> bytes);
std::optional<Answer> decode_answer(std::span<const std::byte, kAnswerBytes> bytes);
std::optional<Frame> decode_frame(std::span<const std::byte, kFrameBytes> bytes);
// Whether their proof is right.
bool proves(std::span<const std::byte, kHelloBytes> hello, const Key& key,
            const Challenge& challenge);
bool proves(std::span<const std::byte, kAnswerBytes> answer, const Key& key,
            const Challenge& challenge, const Hello& hello);
// What tells the connection on which these were said from all others of the job.
KeyProof binding_of(const Key& key, const Challenge& challenge, const Hello& hello);
// Whether these first bytes (any number) can be the beginning of a hello.
bool may_be_hello(ConstBytes bytes);

}  // namespace weft::tcp
