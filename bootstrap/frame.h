// What the store and its clients say to each other. All integers are little-endian.
//
//   header     "weft", version u16, type u16, payload bytes u32
//   challenge  nonce (16 bytes): what the store says first
//   offer      rank u32, size u32, round u32, patience u32 (milliseconds), process u64,
//              job (u16 + bytes), nonce (16 bytes), proof (32 bytes), blob (rest)
//   welcome    proof (32 bytes), rank i32 of who serves (nothing where that is no rank): "you are
//              at the right place, wait"
//   table      proof (32 bytes), per rank u32 + bytes
//   verdict    proof (32 bytes), as a refusal
//   refusal    elsewhere u8, code u8, peer i32, text (rest): to who has not proven anything
//
// Offers, and what they are answered with, prove that their sender has the job's key, and to this
// very offer: each proof covers both sides' nonces and all that it stands before. A refusal may
// come from anybody. The header, the offer's fields up to the job, and the refusal keep their
// places in every version, so that two versions can tell each other what is wrong. These functions
// touch no socket and accept any bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/key.h"
#include "base/status.h"
#include "base/types.h"

namespace weft::wire {

inline constexpr uint16_t kVersion = 3;
inline constexpr size_t kHeaderBytes = 12;
inline constexpr size_t kBlobBytes = 64 << 10;  // as Rendezvous::all_gather promises
inline constexpr size_t kJobBytes = 1024;
inline constexpr size_t kOfferBytes =
    26 + kJobBytes + sizeof(Nonce) + sizeof(KeyProof) + kBlobBytes;
inline constexpr size_t kRefusalBytes = 64 << 10;

enum class Type : uint16_t { offer = 1, welcome, table, refusal, challenge, verdict };

struct Frame {
  uint16_t version = kVersion;
  Type type = Type::offer;
  std::string payload;
};

struct Offer {
  uint32_t rank = 0;
  uint32_t size = 0;
  uint32_t round = 0;
  uint32_t patience_ms = 0;  // when the sender gives up
  uint64_t process = 0;      // random; the same in all offers of one sender
  std::string job;
  Nonce nonce{};
  KeyProof proof{};  // prove()'s
  std::string blob;
};

struct Refusal {
  bool elsewhere = false;  // another job meets here; yours may meet at another address
  Status status;
};

std::string encode(const Frame& frame);
std::string encode(const Nonce& challenge);
std::string encode(const Offer& offer);
std::string encode(const Refusal& refusal);
// Of a welcome, a table and a verdict, what stands behind the proof.
std::string payload_of(Rank server);
std::string payload_of(const std::vector<std::string>& blobs);
std::string payload_of(const Refusal& refusal);

// The first frame of `bytes`, which holds all that came so far. nullopt: more must come. An error:
// this can never become a frame of at most `max_payload` bytes. `used` says how many bytes the
// frame took.
Result<std::optional<Frame>> parse_frame(std::string_view bytes, size_t max_payload, size_t* used);

std::optional<Nonce> parse_challenge(std::string_view payload);
std::optional<Offer> parse_offer(std::string_view payload);
std::optional<Rank> parse_welcome(std::string_view payload);  // nullopt: it says none
// Its text is printable.
std::optional<Refusal> parse_refusal(std::string_view payload);
std::optional<std::vector<std::string>> parse_table(std::string_view payload, size_t ranks);

// The key by which the ranks of a job know each other at the store; what an offer says in proof.
Key meeting_key(const Key& key, std::string_view job);
KeyProof prove(const Offer& offer, const Key& meeting, const Nonce& challenge);
bool proves(const Offer& offer, const Key& meeting, const Nonce& challenge);

// What the store answers an offer that is proven: a payload that many may share, and before it what
// is this caller's own.
class Answer {
 public:
  Answer(Type type, std::string payload, const Key& meeting);
  // The frame up to the payload.
  std::string head(const Key& meeting, const Nonce& offer, const Nonce& challenge) const;
  const std::shared_ptr<const std::string>& payload() const { return payload_; }

 private:
  Type type_;
  std::shared_ptr<const std::string> payload_;
  KeyProof digest_;
};
// The payload of an answer to this offer; nullopt where that is not proven.
std::optional<std::string_view> proven_payload(const Frame& answer, const Nonce& offer,
                                               const Key& meeting, const Nonce& challenge);

// Who lets ranks of a job in, by their offers.
struct Door {
  std::string keeper;  // for messages: "rank 0"
  std::string job;
  Key meeting{};  // meeting_key()'s
};
// Why the offer in this frame, of somebody at `peer`, is not let in: another version, another job,
// or no proof. nullopt where it is.
std::optional<Refusal> refusal_at(const Door& door, const Frame& frame, const Offer& offer,
                                  const Nonce& challenge, std::string_view peer);

// "3", "1, 5-7": for error messages; the end of a long list is left out.
std::string list_ranks(const std::vector<Rank>& ascending);
// `bytes` with unprintable ones as '.', at most 32 of them: for log lines about strangers.
std::string printable(std::string_view bytes);

}  // namespace weft::wire
