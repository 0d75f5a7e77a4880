// The parsers of the store's protocol take any bytes.
#include "bootstrap/frame.h"

#include <gtest/gtest.h>

#include <random>

namespace weft::wire {
namespace {

std::string random_bytes(std::mt19937& random, size_t at_most) {
  std::string bytes(random() % (at_most + 1), '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

Offer sample() { return {3, 8, 2, 1500, 0x0123456789abcdefu, "job", {}, {}, "blob\0with zero"}; }

TEST(Frame, OffersRoundTrip) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    Offer offer{static_cast<uint32_t>(random()),
                static_cast<uint32_t>(random()),
                static_cast<uint32_t>(random()),
                static_cast<uint32_t>(random()),
                random(),
                random_bytes(random, kJobBytes),
                fresh_nonce(),
                {},
                random_bytes(random, 5000)};
    const Key key = meeting_key(Key(), offer.job);
    const Nonce challenge = fresh_nonce();
    offer.proof = prove(offer, key, challenge);
    size_t used = 0;
    const std::string bytes = encode(offer);
    const auto frame = parse_frame(bytes + "next", kOfferBytes, &used);
    ASSERT_TRUE(frame.ok() && frame->has_value());
    EXPECT_EQ(used, bytes.size());
    EXPECT_EQ((**frame).version, kVersion);
    EXPECT_EQ((**frame).type, Type::offer);
    const auto read = parse_offer((**frame).payload);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->rank, offer.rank);
    EXPECT_EQ(read->size, offer.size);
    EXPECT_EQ(read->round, offer.round);
    EXPECT_EQ(read->patience_ms, offer.patience_ms);
    EXPECT_EQ(read->process, offer.process);
    EXPECT_EQ(read->job, offer.job);
    EXPECT_EQ(read->blob, offer.blob);
    EXPECT_TRUE(proves(*read, key, challenge));
  }
}

// With one thing changed at a time.
TEST(Frame, AnOfferProvesItselfToOneStoreOfOneJobWithOneSecret) {
  const Key secret("a secret of enough bytes");
  const Nonce challenge = fresh_nonce();
  Offer offer = sample();
  offer.nonce = fresh_nonce();
  const Key key = meeting_key(secret, offer.job);
  offer.proof = prove(offer, key, challenge);
  EXPECT_TRUE(proves(offer, key, challenge));
  EXPECT_FALSE(proves(offer, key, fresh_nonce())) << "it can be replayed";
  EXPECT_FALSE(proves(offer, meeting_key(secret, "another"), challenge));
  EXPECT_FALSE(proves(offer, meeting_key(Key(), offer.job), challenge));
  const auto changed = [&](auto&& change) {
    Offer other = offer;
    change(other);
    return proves(other, key, challenge);
  };
  EXPECT_FALSE(changed([](Offer& o) { ++o.rank; }));
  EXPECT_FALSE(changed([](Offer& o) { ++o.size; }));
  EXPECT_FALSE(changed([](Offer& o) { ++o.round; }));
  EXPECT_FALSE(changed([](Offer& o) { ++o.process; }));
  EXPECT_FALSE(changed([](Offer& o) { o.job += "x"; }));
  EXPECT_FALSE(changed([](Offer& o) { o.nonce = fresh_nonce(); }));
  EXPECT_FALSE(changed([](Offer& o) { o.proof[31] ^= std::byte{1}; }));
  EXPECT_FALSE(changed([](Offer& o) { o.blob += "x"; }));
}

// A unique id's job is its key.
TEST(Frame, WhoAsksForAnotherJobIsNotToldWhichOneMeets) {
  const Door door{"rank 0", "8e1f20aa", meeting_key(Key(), "8e1f20aa")};
  Offer offer = sample();
  offer.proof = prove(offer, meeting_key(Key(), offer.job), Nonce());
  for (const uint16_t version : {kVersion, uint16_t{kVersion + 1}}) {
    const Frame frame{version, Type::offer, ""};
    const auto refusal = refusal_at(door, frame, offer, Nonce(), "10.0.0.1:4000");
    ASSERT_TRUE(refusal);
    EXPECT_TRUE(refusal->elsewhere);
    const std::string said(refusal->status.message());
    EXPECT_NE(said.find("Rank 3 at 10.0.0.1:4000 belongs to the job \"job\", but another"),
              std::string::npos)
        << said;
    EXPECT_EQ(encode(*refusal).find("8e1f"), std::string::npos) << said;
  }
}

Frame frame_of(const std::string& bytes) {
  size_t used = 0;
  return parse_frame(bytes, 1 << 20, &used).take().value();
}

TEST(Frame, AnswersProveThemselvesToOneOffer) {
  const Nonce nonce = fresh_nonce(), challenge = fresh_nonce();
  const Key key = meeting_key(Key("a secret of enough bytes"), "job");
  for (const auto& [type, payload] :
       {std::pair(Type::welcome, ""), {Type::table, "blobs"}, {Type::verdict, "why"}}) {
    const Answer answer(type, payload, key);
    const std::string bytes = answer.head(key, nonce, challenge) + *answer.payload();
    const Frame frame = frame_of(bytes);
    EXPECT_EQ(proven_payload(frame, nonce, key, challenge), payload);
    EXPECT_FALSE(proven_payload(frame, fresh_nonce(), key, challenge));
    EXPECT_FALSE(proven_payload(frame, nonce, key, fresh_nonce()));
    EXPECT_FALSE(proven_payload(frame, nonce, meeting_key(Key(), "job"), challenge));
    for (size_t at = 0; at < frame.payload.size(); ++at) {
      Frame changed = frame;
      changed.payload[at] = static_cast<char>(changed.payload[at] ^ 4);
      EXPECT_FALSE(proven_payload(changed, nonce, key, challenge)) << at;
    }
    for (const Type other : {Type::welcome, Type::table, Type::verdict}) {
      Frame changed = frame;
      changed.type = other;
      EXPECT_EQ(proven_payload(changed, nonce, key, challenge).has_value(), other == type);
    }
    EXPECT_FALSE(proven_payload(Frame{kVersion, type, ""}, nonce, key, challenge));
  }
}

TEST(Frame, AWelcomeSaysWhoServes) {
  for (const Rank rank : {0, 1, 70000}) EXPECT_EQ(parse_welcome(payload_of(rank)), rank);
  for (const std::string& none : {std::string(), payload_of(Rank{-1}), std::string("abc")})
    EXPECT_FALSE(parse_welcome(none));
}

TEST(Frame, TablesAndRefusalsRoundTrip) {
  const std::vector<std::string> blobs{"", "a", std::string(70000, 'x'), std::string("\0\1", 2)};
  const std::string table = payload_of(blobs);
  EXPECT_EQ(*parse_table(table, 4), blobs);
  EXPECT_FALSE(parse_table(table, 3));
  EXPECT_FALSE(parse_table(table, 5));

  const Frame frame =
      frame_of(encode(Refusal{true, Status(Code::peer_lost, "Rank 3 is\n\x1b[31mgone.", 3)}));
  const auto refusal = parse_refusal(frame.payload);
  ASSERT_TRUE(refusal);
  EXPECT_TRUE(refusal->elsewhere);
  EXPECT_EQ(refusal->status.to_string(), "peer lost: Rank 3 is  [31mgone.");
  EXPECT_EQ(refusal->status.peer(), 3);
}

TEST(Frame, AnOfferCutAnywhereWaitsForMore) {
  const std::string bytes = encode(sample());
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    size_t used = 1;
    const auto frame = parse_frame(std::string_view(bytes).substr(0, cut), kOfferBytes, &used);
    ASSERT_TRUE(frame.ok()) << cut;
    EXPECT_FALSE(frame->has_value()) << cut;
    EXPECT_EQ(used, 0u);
  }
}

TEST(Frame, TheFirstWrongByteOfTheMagicIsEnough) {
  size_t used = 0;
  for (const char* bytes : {"G", "wG", "weG", "wefG"})
    EXPECT_FALSE(parse_frame(bytes, kOfferBytes, &used).ok()) << bytes;
}

TEST(Frame, LimitsHold) {
  size_t used = 0;
  const std::string bytes = encode(Frame{kVersion, Type::table, std::string(100, 'x')});
  EXPECT_TRUE(parse_frame(bytes, 100, &used).ok());
  EXPECT_FALSE(parse_frame(bytes, 99, &used).ok());
  Offer offer = sample();
  offer.blob.assign(kBlobBytes + 1, 'x');
  EXPECT_FALSE(parse_offer(encode(offer).substr(kHeaderBytes)));
}

// Oracle: a frame is taken only if writing it again gives the very bytes that were read.
TEST(Frame, AnyBytesAreEitherRefusedOrExactlyAFrame) {
  std::mt19937 random(11);
  int taken = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string bytes = random_bytes(random, 64);
    if (i % 2) {  // a good offer with one to three bytes changed
      bytes = encode(sample());
      for (uint32_t n = 1 + random() % 3; n > 0; --n)
        bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    size_t used = 0;
    const auto frame = parse_frame(bytes, 4096, &used);
    if (!frame.ok() || !frame->has_value()) {
      EXPECT_EQ(used, 0u);
      continue;
    }
    ++taken;
    EXPECT_EQ(encode(**frame), bytes.substr(0, used));
    const std::string& payload = (**frame).payload;
    if (const auto offer = parse_offer(payload)) {
      EXPECT_EQ(encode(*offer).substr(kHeaderBytes), payload);
    }
    if (const auto table = parse_table(payload, 2)) {
      EXPECT_EQ(payload_of(*table), payload);
    }
    (void)parse_refusal(payload);
  }
  EXPECT_GT(taken, 1000);
}

TEST(Frame, PayloadParsersTakeAnyBytes) {
  std::mt19937 random(13);
  for (int i = 0; i < 100'000; ++i) {
    const std::string payload = random_bytes(random, 80);
    if (const auto offer = parse_offer(payload)) {
      EXPECT_EQ(encode(*offer).substr(kHeaderBytes), payload);
    }
    if (const auto table = parse_table(payload, random() % 4)) {
      EXPECT_LE(table->size(), 3u);
    }
    (void)parse_refusal(payload);
  }
}

TEST(ListRanks, ShortensRuns) {
  EXPECT_EQ(list_ranks({3}), "3");
  EXPECT_EQ(list_ranks({1, 2, 4, 5, 6, 9}), "1, 2, 4-6, 9");
  std::vector<Rank> odd;
  for (Rank r = 1; r < 99; r += 2) odd.push_back(r);
  EXPECT_EQ(list_ranks(odd), "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31 and more");
}

}  // namespace
}  // namespace weft::wire
