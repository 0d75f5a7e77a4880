// The wire format and addresses: pure functions.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "transport/tcp/address.h"
#include "transport/tcp/frame.h"

namespace weft::tcp {
namespace {

constexpr Frame kFrame{FrameKind::data, 0x01020304, 0x05060708, 0x1112131415161718,
                       0x2122232425262728};

TEST(TcpWire, AFrameLooksTheSameOnEveryMachine) {
  const uint8_t expected[kFrameBytes] = {0xf7, 3,    0,    0,    0x04, 0x03, 0x02, 0x01,
                                         0x08, 0x07, 0x06, 0x05, 0,    0,    0,    0,
                                         0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
                                         0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21};
  const FrameHeader header = encode(kFrame);
  for (size_t i = 0; i < kFrameBytes; ++i)
    EXPECT_EQ(std::to_integer<int>(header[i]), expected[i]) << "byte " << i;
}

TEST(TcpWire, EveryKindOfFrameSurvives) {
  for (uint8_t kind = 0; kind < kFrameKinds; ++kind) {
    Frame frame = kFrame;
    frame.kind = static_cast<FrameKind>(kind);
    frame.length = frame.kind == FrameKind::data ? ~0u : 0;
    EXPECT_EQ(decode_frame(encode(frame)), frame);
  }
}

TEST(TcpWire, BytesThatAreNoFrameAreRefused) {
  const auto broken = [](size_t at, int value) {
    FrameHeader header = encode(kFrame);
    header[at] = static_cast<std::byte>(value);
    return decode_frame(header);
  };
  EXPECT_TRUE(broken(1, 3));
  EXPECT_FALSE(broken(0, 'H'));
  EXPECT_FALSE(broken(1, kFrameKinds));
  for (const size_t reserved : {2u, 3u, 12u, 13u, 14u, 15u}) EXPECT_FALSE(broken(reserved, 1));
  Frame frame = kFrame;
  for (const FrameKind kind : {FrameKind::start, FrameKind::credit, FrameKind::open_send,
                               FrameKind::open_recv, FrameKind::heard, FrameKind::bye}) {
    frame.kind = kind;  // with a payload, which these never have
    EXPECT_FALSE(decode_frame(encode(frame)));
  }
  frame.kind = FrameKind::note;
  frame.length = kNoteBytesMax + 1;
  EXPECT_FALSE(decode_frame(encode(frame)));
}

// Whatever is taken for a frame is exactly what encode() makes of it.
TEST(TcpWire, RandomBytesNeverConfuseTheDecoder) {
  std::mt19937 random(7);
  int frames = 0;
  for (int i = 0; i < 200000; ++i) {
    FrameHeader header = encode(kFrame);
    const size_t changes = random() % 4;
    for (size_t c = 0; c < changes; ++c)
      header[random() % kFrameBytes] = static_cast<std::byte>(random());
    const std::optional<Frame> frame = decode_frame(header);
    if (!frame) continue;
    ++frames;
    ASSERT_EQ(encode(*frame), header);
  }
  EXPECT_GT(frames, 1000);
  EXPECT_LT(frames, 199000);
}

TEST(TcpWire, HelloAndAnswerSurvive) {
  const Badge badge = badge_of("a job", Key());
  const Challenge challenge{kVersion, fresh_nonce()};
  EXPECT_EQ(decode_challenge(encode(challenge)), challenge);
  const Hello hello{kVersion, badge.job, 3, 511, 2, 4, fresh_nonce()};
  EXPECT_EQ(decode_hello(encode(hello, badge.key, challenge)), hello);
  EXPECT_NE(badge.job, badge_of("b job", Key()).job);
  for (uint32_t i = 0; i < kAnswers; ++i) {
    const auto answer = static_cast<Answer>(i);
    EXPECT_EQ(decode_answer(encode(answer, badge.key, challenge, hello)), answer);
    EXPECT_FALSE(text(answer).empty());
  }
  AnswerBytes bytes = encode(Answer::welcome, badge.key, challenge, hello);
  bytes[8] = std::byte{kAnswers};
  EXPECT_FALSE(decode_answer(bytes));

  Hello newer = hello;
  newer.version = 9;
  const HelloBytes of_newer = encode(newer, badge.key, challenge);
  EXPECT_EQ(decode_hello(of_newer)->version, 9u);
  EXPECT_EQ(decode_hello(of_newer)->from, -1) << "fields of an unknown version are unknown";
}

// The proofs of hello and answer, with one thing changed at a time.
TEST(TcpWire, ProofsHoldForOneConnectionOfOneJobWithOneSecret) {
  const Key key("a secret of enough bytes");
  const Badge badge = badge_of("a job", key);
  const Challenge challenge{kVersion, fresh_nonce()};
  const Challenge other_challenge{kVersion, fresh_nonce()};
  const Hello hello{kVersion, badge.job, 1, 0, 0, 1, fresh_nonce()};
  Hello other_hello = hello;
  other_hello.nonce = fresh_nonce();
  const Key other_secret = badge_of("a job", Key("another of enough bytes")).key;
  const Key other_job = badge_of("another job", key).key;

  const HelloBytes said = encode(hello, badge.key, challenge);
  EXPECT_TRUE(proves(said, badge.key, challenge));
  EXPECT_FALSE(proves(said, badge.key, other_challenge)) << "it can be replayed";
  EXPECT_FALSE(proves(said, other_secret, challenge));
  EXPECT_FALSE(proves(said, other_job, challenge));
  for (size_t i = 0; i < said.size(); ++i) {
    HelloBytes forged = said;
    forged[i] ^= std::byte{1};
    EXPECT_FALSE(proves(forged, badge.key, challenge)) << "byte " << i;
  }

  for (uint32_t i = 0; i < kAnswers; ++i) {
    const auto answer = static_cast<Answer>(i);
    const AnswerBytes bytes = encode(answer, badge.key, challenge, hello);
    EXPECT_EQ(proves(bytes, badge.key, challenge, hello), is_proven(answer)) << text(answer);
    EXPECT_FALSE(proves(bytes, badge.key, other_challenge, hello));
    EXPECT_FALSE(proves(bytes, badge.key, challenge, other_hello));
    EXPECT_FALSE(proves(bytes, other_secret, challenge, hello));
    AnswerBytes forged = bytes;
    forged[8] ^= std::byte{1};
    EXPECT_FALSE(proves(forged, badge.key, challenge, hello));
  }
}

TEST(TcpWire, EveryConnectionIsBoundToItsOwnWords) {
  const Key key("a secret of enough bytes");
  Challenge challenge;
  challenge.nonce[3] = std::byte{1};
  Hello hello{.from = 0, .to = 1};
  const KeyProof bound = binding_of(key, challenge, hello);
  EXPECT_EQ(binding_of(key, challenge, hello), bound);
  EXPECT_NE(binding_of(Key("another secret of enough bytes"), challenge, hello), bound);
  EXPECT_NE(binding_of(key, Challenge(), hello), bound);
  for (const Hello& other : {Hello{.from = 2, .to = 1}, Hello{.from = 0, .to = 3},
                             Hello{.from = 0, .to = 1, .stream = 1}})
    EXPECT_NE(binding_of(key, challenge, other), bound);
  hello.nonce[0] = std::byte{9};
  EXPECT_NE(binding_of(key, challenge, hello), bound);
}

TEST(TcpWire, StrangersAreTellableByTheirFirstByte) {
  const HelloBytes hello = encode(Hello{}, Key(), Challenge{});
  for (size_t bytes = 0; bytes <= hello.size(); ++bytes)
    EXPECT_TRUE(may_be_hello(ConstBytes(hello).first(bytes)));
  for (const std::string_view text : {"GET / HTTP/1.1\r\n", "SSH-2.0", "\x16\x03\x01", "x"})
    EXPECT_FALSE(may_be_hello(std::as_bytes(std::span(text))));
}

SocketAddress at(std::string_view text) { return SocketAddress::parse(text).take(); }

TEST(TcpAddress, SurvivesWithAnyHost) {
  for (const char* host : {"node7", "", "a host with  spaces", "[::1]:80"}) {
    const RankAddress address{host, 3, {at("10.0.0.1:4000"), at("[fd00::1]:4001")}};
    const auto decoded = decode_rank_address(encode(address));
    ASSERT_TRUE(decoded.ok()) << decoded.status().to_string();
    EXPECT_EQ(decoded->host, host);
    EXPECT_EQ(decoded->streams, 3);
    ASSERT_EQ(decoded->listeners.size(), 2u);
    EXPECT_EQ(decoded->listeners[0].to_string(), "10.0.0.1:4000");
    EXPECT_EQ(decoded->listeners[1].to_string(), "[fd00::1]:4001");
  }
}

TEST(TcpAddress, NonsenseIsAnErrorThatShowsIt) {
  for (const char* text :
       {"", "nonsense", "weft-tcp/2 1 0 h", "weft-tcp/1", "weft-tcp/1 0 0 h", "weft-tcp/1 1 0 h",
        "weft-tcp/1 1 2 10.0.0.1:1 h", "weft-tcp/1 1 1 @unix h", "weft-tcp/1 1 99999999999 h",
        "weft-tcp/1 1 1 10.0.0.1 h"}) {
    const auto decoded = decode_rank_address(text);
    ASSERT_FALSE(decoded.ok()) << text;
    EXPECT_NE(decoded.status().message().find(text), std::string_view::npos);
  }
}

std::vector<std::string> order(const RankAddress& peer, std::string_view host) {
  std::vector<Interface> mine(3);
  mine[0] = {"eth0", at("10.1.2.3:0"), false, true, 16};
  mine[1] = {"docker0", at("172.17.0.1:0"), false, false, 16};
  mine[2] = {"lo", at("127.0.0.1:0"), true, false, 8};
  std::vector<std::string> texts;
  for (const SocketAddress& address : candidates(peer, host, mine))
    texts.push_back(address.to_string());
  return texts;
}

TEST(TcpAddress, TheSubnetThatBothAreInIsTriedFirst) {
  const RankAddress peer{"b",
                         1,
                         {at("127.0.0.1:1"), at("172.17.0.1:2"), at("192.168.0.9:3"),
                          at("10.1.200.9:4"), at("[fd00::9]:5")}};
  const std::vector<std::string> elsewhere = {"10.1.200.9:4", "192.168.0.9:3", "[fd00::9]:5",
                                              "172.17.0.1:2", "127.0.0.1:1"};
  EXPECT_EQ(order(peer, "a"), elsewhere);
  EXPECT_EQ(order(peer, "b").front(), "127.0.0.1:1") << "on one host, loopback is always up";
}

}  // namespace
}  // namespace weft::tcp
