#include "bootstrap/frame.h"

#include <algorithm>
#include <type_traits>

#include "base/text.h"

namespace weft::wire {
namespace {

constexpr std::string_view kMagic = "weft";

template <class T>
void put(std::string& text, T value) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(value);
  for (size_t i = 0; i < sizeof(T); ++i) text.push_back(static_cast<char>(bits >> (8 * i)));
}

// Takes integers and bytes off the front of a payload; once it fell short, ok() stays false.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T integer() {
    const std::string_view raw = take(sizeof(T));
    std::make_unsigned_t<T> bits = 0;
    for (size_t i = raw.size(); i-- > 0;)
      bits = static_cast<decltype(bits)>((bits << 8) | static_cast<unsigned char>(raw[i]));
    return static_cast<T>(bits);
  }
  std::string_view take(size_t count) {
    if (count > bytes_.size()) {
      ok_ = false;
      bytes_ = {};
      return {};
    }
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::string_view rest() { return take(bytes_.size()); }
  bool ok() const { return ok_; }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

std::string_view text_of(ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Takes as many bytes as `to` has.
void take(Cursor& cursor, Bytes to) {
  const ConstBytes taken = bytes_of(cursor.take(to.size()));
  std::copy(taken.begin(), taken.end(), to.begin());
}

std::string header(uint16_t version, Type type, size_t payload_bytes) {
  std::string bytes(kMagic);
  put(bytes, version);
  put(bytes, static_cast<uint16_t>(type));
  put(bytes, static_cast<uint32_t>(payload_bytes));
  return bytes;
}

// The same on both sides, so that many callers' proofs cost one reading of what they are told.
KeyProof digest_of(Type type, std::string_view payload, const Key& meeting) {
  const std::string number = std::to_string(static_cast<int>(type));
  return meeting.prove("answer", {bytes_of(number), bytes_of(payload)});
}

// An offer up to its proof.
std::string head_of(const Offer& offer) {
  std::string head;
  put(head, offer.rank);
  put(head, offer.size);
  put(head, offer.round);
  put(head, offer.patience_ms);
  put(head, offer.process);
  put(head, static_cast<uint16_t>(offer.job.size()));
  return head.append(offer.job).append(text_of(offer.nonce));
}

}  // namespace

std::string encode(const Frame& frame) {
  return header(frame.version, frame.type, frame.payload.size()).append(frame.payload);
}

std::string encode(const Nonce& challenge) {
  return encode(Frame{kVersion, Type::challenge, std::string(text_of(challenge))});
}

std::string encode(const Offer& offer) {
  std::string payload = head_of(offer);
  payload.append(text_of(offer.proof)).append(offer.blob);
  return encode(Frame{kVersion, Type::offer, std::move(payload)});
}

std::string encode(const Refusal& refusal) {
  return encode(Frame{kVersion, Type::refusal, payload_of(refusal)});
}

std::string payload_of(Rank server) {
  std::string payload;
  put(payload, static_cast<int32_t>(server));
  return payload;
}

std::string payload_of(const Refusal& refusal) {
  std::string payload;
  put(payload, static_cast<uint8_t>(refusal.elsewhere));
  put(payload, static_cast<uint8_t>(refusal.status.code()));
  put(payload, static_cast<int32_t>(refusal.status.peer()));
  payload.append(refusal.status.message().substr(0, kRefusalBytes - payload.size()));
  return payload;
}

std::string payload_of(const std::vector<std::string>& blobs) {
  std::string payload;
  for (const std::string& blob : blobs) {
    put(payload, static_cast<uint32_t>(blob.size()));
    payload.append(blob);
  }
  return payload;
}

Result<std::optional<Frame>> parse_frame(std::string_view bytes, size_t max_payload, size_t* used) {
  *used = 0;
  const size_t compared = std::min(bytes.size(), kMagic.size());
  if (bytes.substr(0, compared) != kMagic.substr(0, compared))
    return invalid_argument(concat("It does not speak weft's protocol; its first bytes are \"",
                                   printable(bytes), "\"."));
  if (bytes.size() < kHeaderBytes) return std::optional<Frame>();
  Cursor header(bytes.substr(kMagic.size(), kHeaderBytes - kMagic.size()));
  Frame frame;
  frame.version = header.integer<uint16_t>();
  frame.type = static_cast<Type>(header.integer<uint16_t>());
  const size_t length = header.integer<uint32_t>();
  if (frame.type < Type::offer || frame.type > Type::verdict)
    return invalid_argument(
        concat("It sent a message of the unknown type ", static_cast<int>(frame.type), "."));
  if (length > max_payload)
    return invalid_argument(concat("It announced a message of ", length, " bytes where at most ",
                                   max_payload, " are allowed."));
  if (bytes.size() < kHeaderBytes + length) return std::optional<Frame>();
  frame.payload = bytes.substr(kHeaderBytes, length);
  *used = kHeaderBytes + length;
  return std::optional<Frame>(std::move(frame));
}

std::optional<Nonce> parse_challenge(std::string_view payload) {
  Cursor cursor(payload);
  Nonce nonce;
  take(cursor, nonce);
  return cursor.ok() ? std::optional(nonce) : std::nullopt;
}

std::optional<Offer> parse_offer(std::string_view payload) {
  Cursor cursor(payload);
  Offer offer;
  offer.rank = cursor.integer<uint32_t>();
  offer.size = cursor.integer<uint32_t>();
  offer.round = cursor.integer<uint32_t>();
  offer.patience_ms = cursor.integer<uint32_t>();
  offer.process = cursor.integer<uint64_t>();
  offer.job = cursor.take(cursor.integer<uint16_t>());
  take(cursor, offer.nonce);
  take(cursor, offer.proof);
  offer.blob = cursor.rest();
  if (!cursor.ok() || offer.job.size() > kJobBytes || offer.blob.size() > kBlobBytes)
    return std::nullopt;
  return offer;
}

std::optional<Rank> parse_welcome(std::string_view payload) {
  Cursor cursor(payload);
  const Rank server = cursor.integer<int32_t>();
  return cursor.ok() && server >= 0 ? std::optional(server) : std::nullopt;
}

std::optional<Refusal> parse_refusal(std::string_view payload) {
  Cursor cursor(payload);
  const bool elsewhere = cursor.integer<uint8_t>() != 0;
  const auto code = static_cast<Code>(cursor.integer<uint8_t>());
  const int peer = cursor.integer<int32_t>();
  if (!cursor.ok() || code == Code::ok || code > Code::internal) return std::nullopt;
  std::string text(cursor.rest());
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = ' ';
  return Refusal{elsewhere, Status(code, std::move(text), peer)};
}

std::optional<std::vector<std::string>> parse_table(std::string_view payload, size_t ranks) {
  Cursor cursor(payload);
  std::vector<std::string> blobs;
  for (size_t i = 0; i < ranks && cursor.ok(); ++i)
    blobs.emplace_back(cursor.take(cursor.integer<uint32_t>()));
  if (!cursor.ok() || !cursor.empty()) return std::nullopt;
  return blobs;
}

Key meeting_key(const Key& key, std::string_view job) { return key.derive("meeting", job); }

KeyProof prove(const Offer& offer, const Key& meeting, const Nonce& challenge) {
  return meeting.prove("offer", {challenge, bytes_of(head_of(offer)), bytes_of(offer.blob)});
}

bool proves(const Offer& offer, const Key& meeting, const Nonce& challenge) {
  return meeting.proves(offer.proof, "offer",
                        {challenge, bytes_of(head_of(offer)), bytes_of(offer.blob)});
}

Answer::Answer(Type type, std::string payload, const Key& meeting)
    : type_(type),
      payload_(std::make_shared<const std::string>(std::move(payload))),
      digest_(digest_of(type, *payload_, meeting)) {}

std::string Answer::head(const Key& meeting, const Nonce& offer, const Nonce& challenge) const {
  const KeyProof proof = meeting.prove("answered", {offer, challenge, digest_});
  return header(kVersion, type_, proof.size() + payload_->size()).append(text_of(proof));
}

std::optional<std::string_view> proven_payload(const Frame& answer, const Nonce& offer,
                                               const Key& meeting, const Nonce& challenge) {
  const std::string_view all = answer.payload;
  if (all.size() < sizeof(KeyProof)) return std::nullopt;
  const std::string_view payload = all.substr(sizeof(KeyProof));
  const KeyProof digest = digest_of(answer.type, payload, meeting);
  if (!meeting.proves(bytes_of(all.substr(0, sizeof(KeyProof))), "answered",
                      {offer, challenge, digest}))
    return std::nullopt;
  return payload;
}

std::optional<Refusal> refusal_at(const Door& door, const Frame& frame, const Offer& offer,
                                  const Nonce& challenge, std::string_view peer) {
  const auto refusal = [&](bool elsewhere, const std::string& why) {
    return Refusal{elsewhere, Status(Code::mismatch, concat("Rank ", offer.rank, " at ", peer, why),
                                     static_cast<int>(offer.rank))};
  };
  // Whose name this one is not told: who knows it may take part, where there is no secret.
  if (offer.job != door.job)
    return refusal(true, concat(" belongs to the job \"", printable(offer.job),
                                "\", but another job meets here; give every job an address of its ",
                                "own, and all ranks of one the same address and job."));
  if (frame.version != kVersion)
    return refusal(false,
                   concat(" speaks version ", frame.version, " of weft's protocol, ", door.keeper,
                          " version ", kVersion, "; use the same build of weft everywhere."));
  if (!proves(offer, door.meeting, challenge))
    return refusal(false, concat(" does not have the secret of this job; give all ranks the same ",
                                 "WEFT_SECRET or WEFT_SECRET_FILE, or none of them one."));
  return std::nullopt;
}

std::string list_ranks(const std::vector<Rank>& ascending) {
  constexpr int kRuns = 16;
  std::string text;
  int runs = 0;
  for (size_t i = 0; i < ascending.size();) {
    size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    if (++runs > kRuns) return text.append(" and more");
    text.append(text.empty() ? "" : ", ").append(std::to_string(ascending[i]));
    if (last > i) text.append(last == i + 1 ? ", " : "-").append(std::to_string(ascending[last]));
    i = last + 1;
  }
  return text;
}

std::string printable(std::string_view bytes) {
  std::string text(bytes.substr(0, 32));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '.');
  return text;
}

}  // namespace weft::wire
