// The wire format: what two ranks say to each other over a connection. All numbers little-endian.
//
// Who dialled sends a Hello; who accepted sends an Answer; where that is a welcome, who dialled
// sends a `start` frame, and from then on both send frames. Only the start frame makes the
// connection one for the acceptor: a caller that has given up meanwhile is not taken for a dead
// peer.
//
// Decoding is pure and total: any bytes give a value or nothing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/types.h"
#include "transport/transport.h"

namespace weft::tcp {

inline constexpr uint32_t kVersion = 1;
inline constexpr size_t kHelloBytes = 48;
inline constexpr size_t kAnswerBytes = 16;
inline constexpr size_t kFrameBytes = 32;

struct Hello {
  uint32_t version = kVersion;  // the fields after it are those of this version
  uint64_t job = 0;             // job_number() of TransportConfig::job
  Rank from = -1;
  Rank to = -1;
  uint32_t stream = 0;   // which of the pair's connections this is
  uint32_t streams = 1;  // how many the caller wants; both take the smaller number
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
};
inline constexpr uint32_t kAnswers = 7;

enum class FrameKind : uint8_t {
  start,
  open_send,  // the sending end of `link` has been opened: `sequence` slots of `tag` bytes
  open_recv,  // the same for the receiving end; grants the credits for its slots
  data,       // message `sequence` of `link`, `length` bytes follow
  credit,     // `sequence` messages of `link` have been released, all in all
  note,       // `length` bytes of text follow
  bye,        // the last frame of this connection, one of `sequence` that the frame's sender has
};
inline constexpr uint8_t kFrameKinds = 7;

struct Frame {
  FrameKind kind = FrameKind::start;
  LinkId link = 0;
  uint32_t length = 0;  // of the payload, which follows the header
  uint64_t sequence = 0;
  uint64_t tag = 0;
  friend bool operator==(const Frame&, const Frame&) = default;
};

using HelloBytes = std::array<std::byte, kHelloBytes>;
using AnswerBytes = std::array<std::byte, kAnswerBytes>;
using FrameHeader = std::array<std::byte, kFrameBytes>;

uint64_t job_number(std::string_view job);
std::string_view text(Answer answer);

HelloBytes encode(const Hello& hello);
AnswerBytes encode(Answer answer);
FrameHeader encode(const Frame& frame);

// nullopt where the bytes are no such thing. A hello of another version has only its version.
std::optional<Hello> decode_hello(std::span<const std::byte, kHelloBytes> bytes);
std::optional<Answer> decode_answer(std::span<const std::byte, kAnswerBytes> bytes);
std::optional<Frame> decode_frame(std::span<const std::byte, kFrameBytes> bytes);
// Whether these first bytes (any number) can be the beginning of a hello.
bool may_be_hello(ConstBytes bytes);

}  // namespace weft::tcp
