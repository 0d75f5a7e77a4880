// What somebody between two ranks can read and do: all of it without encryption, with it nothing
// but to cut the connection.
#include <algorithm>

#include "tests/transport/conformance.h"
#include "tests/transport/tcp_world.h"

namespace weft::tcp {
namespace {

using conformance::pattern;

constexpr size_t kBytes = 100'000;  // several records
constexpr LinkShape kShape{2, 1 << 17};

// Stands between rank 0, which calls, and rank 1. Hears everything and may change one byte, the
// `target`-th of one direction over all connections.
class Relay {
 public:
  Relay(const SocketAddress& to, bool change_answers, size_t target)
      : to_(to),
        listener_(listen_on(SocketAddress::parse("127.0.0.1:0").take()).take()),
        change_answers_(change_answers),
        target_(target) {}
  SocketAddress address() const { return local_address(listener_).take(); }
  const std::string& heard() const { return heard_; }
  bool changed() const { return seen_ > target_; }

  void run() {
    Result<Fd> caller = accept_from(listener_);
    if (caller.ok() && caller->valid())
      lines_.push_back({caller.take(), start_connect(to_).take(), {}, {}});
    for (Line& line : lines_) {
      pass(line.caller, line.callee, line.asked, !change_answers_);
      pass(line.callee, line.caller, line.answered, change_answers_);
    }
  }

 private:
  struct Line {
    Fd caller, callee;
    std::string asked, answered;  // on the way
  };

  void pass(Fd& from, Fd& to, std::string& way, bool change) {
    char bytes[4096];
    if (!from.valid() || !to.valid() || !peer_address(to).ok()) return;
    const ssize_t got = ::recv(from.get(), bytes, sizeof bytes, 0);
    if (got == 0) return from.reset(), to.reset();
    if (got > 0) {
      if (change && target_ >= seen_ && target_ < seen_ + static_cast<size_t>(got))
        bytes[target_ - seen_] ^= 4;
      seen_ += change ? static_cast<size_t>(got) : 0;
      heard_.append(bytes, static_cast<size_t>(got));
      way.append(bytes, static_cast<size_t>(got));
    }
    const ssize_t sent = ::send(to.get(), way.data(), way.size(), MSG_NOSIGNAL);
    if (sent > 0) way.erase(0, static_cast<size_t>(sent));
  }

  const SocketAddress to_;
  const Fd listener_;
  const bool change_answers_;
  const size_t target_;
  std::vector<Line> lines_;
  std::string heard_;
  size_t seen_ = 0;  // bytes of the direction that is changed
};

struct Talk {
  bool delivered = false;  // and right
  bool wrong = false;
  std::string told[2];  // what each rank says of the other, if anything
  std::string heard;
  bool changed = false;
};

// Rank 0 sends rank 1 a message through a relay, which gets an answer of the same kind.
Talk talk(bool encrypt, bool change_answers, size_t target) {
  TransportConfig config[2] = {config_of(0, 2), config_of(1, 2)};
  std::unique_ptr<Transport> ranks[2];
  Times times;
  times.close = 0;
  for (int i = 0; i < 2; ++i) {
    config[i].key = Key("a secret of enough bytes");
    config[i].encrypt = encrypt;
    ranks[i] = make_tcp(config[i], times).take();
  }
  const RankAddress real = decode_rank_address(ranks[1]->address()).take();
  Relay relay(real.listeners.front(), change_answers, target);
  const std::string there = encode(RankAddress{"one host", 1, {relay.address()}});
  for (const auto& rank : ranks) EXPECT_TRUE(rank->join({ranks[0]->address(), there}).ok());

  const std::vector<std::byte> message = pattern(kBytes, 1);
  SendLink* out[2];
  RecvLink* in[2];
  out[0] = &ranks[0]->open_send(1, 1, kShape), in[0] = &ranks[0]->open_recv(1, 2, kShape);
  Talk result;
  bool sent[2] = {}, came[2] = {};
  const Deadline deadline = soon();
  const auto over = [&] {
    return (came[0] && came[1]) ||
           (!ranks[0]->peer_status(1).ok() && !ranks[1]->peer_status(0).ok());
  };
  bool called = false;
  while (!over() && !deadline.expired()) {
    relay.run();
    for (const auto& rank : ranks) rank->poll();
    if (!called && ranks[1]->acquainted(0)) {  // it is called, and does not call
      out[1] = &ranks[1]->open_send(0, 2, kShape), in[1] = &ranks[1]->open_recv(0, 1, kShape);
      called = true;
    }
    for (int i = 0; i < (called ? 2 : 1); ++i) {
      if (!sent[i] && !out[i]->reserve().empty()) {
        std::copy(message.begin(), message.end(), out[i]->reserve().begin());
        out[i]->commit(kBytes, 7);
        sent[i] = true;
      }
      const Message* const got = came[i] ? nullptr : in[i]->peek();
      if (!got) continue;
      came[i] = true;
      result.wrong |= got->tag != 7 || !conformance::same_bytes(got->data, message);
    }
  }
  EXPECT_TRUE(over()) << "it hangs";
  result.delivered = came[0] && came[1];
  for (int i = 0; i < 2; ++i) result.told[i] = ranks[i]->peer_status(1 - i).message();
  result.heard = relay.heard();
  result.changed = relay.changed();
  return result;
}

constexpr size_t kNone = ~size_t{0};

std::string part_of_message() {
  const std::vector<std::byte> message = pattern(kBytes, 1);
  return {reinterpret_cast<const char*>(&message[5000]), 64};
}

TEST(TcpTls, WhoListensReadsNothing) {
  const Talk open = talk(false, false, kNone), closed = talk(true, false, kNone);
  EXPECT_TRUE(open.delivered && closed.delivered);
  EXPECT_FALSE(open.wrong || closed.wrong);
  EXPECT_NE(open.heard.find(part_of_message()), std::string::npos) << "the test is blind";
  EXPECT_EQ(closed.heard.find(part_of_message()), std::string::npos);
  EXPECT_GT(closed.heard.size(), 2 * kBytes);
}

TEST(TcpTls, AChangedByteNeverArrives) {
  testing::internal::CaptureStderr();
  int cut = 0, again = 0;
  for (const bool answers : {false, true}) {
    for (size_t target = 0; target < kBytes; target += target < 600 ? 19 : 9001) {
      const Talk changed = talk(true, answers, target);
      EXPECT_TRUE(changed.changed) << target << ": nothing was changed";
      EXPECT_FALSE(changed.wrong) << target;
      changed.delivered ? ++again : ++cut;
      if (changed.delivered) continue;
      const std::string said = changed.told[0] + changed.told[1];
      EXPECT_NE(said.find("changed on its way"), std::string::npos) << target << ": " << said;
    }
  }
  testing::internal::GetCapturedStderr();
  EXPECT_GT(cut, 30);
  EXPECT_GT(again, 5) << "a handshake that was disturbed is made anew";
}

// Lets ranks 0 and 2 say their hellos to 1 and 3, and then joins what 0 says to 3, and 2 to 1.
class Splicer {
 public:
  Splicer(const SocketAddress& to_1, const SocketAddress& to_3) : calls_{Call(to_1), Call(to_3)} {}
  SocketAddress address(int call) const { return local_address(calls_[call].listener).take(); }
  bool spliced() const { return calls_[0].greeted() && calls_[1].greeted(); }

  void run() {
    for (int i = 0; i < 2; ++i) {
      Call& call = calls_[i];
      if (!call.caller.valid()) {
        Result<Fd> caller = accept_from(call.listener);
        if (!caller.ok() || !caller->valid()) continue;
        call.caller = caller.take();
        call.callee = start_connect(call.to).take();
      }
      if (!call.greeted()) {
        pass(call.callee, call.caller, call.answered, kChallengeBytes + kAnswerBytes);
        pass(call.caller, call.callee, call.asked, kHelloBytes + kFrameBytes);
      } else if (spliced()) {
        Call& other = calls_[1 - i];
        size_t any = 0;
        pass(call.caller, other.callee, any, SIZE_MAX);
        any = 0;
        pass(other.callee, call.caller, any, SIZE_MAX);
      }
    }
  }

 private:
  struct Call {
    explicit Call(const SocketAddress& there)
        : to(there), listener(listen_on(SocketAddress::parse("127.0.0.1:0").take()).take()) {}
    bool greeted() const {
      return asked == kHelloBytes + kFrameBytes && answered == kChallengeBytes + kAnswerBytes;
    }
    SocketAddress to;
    Fd listener, caller, callee;
    size_t asked = 0, answered = 0;  // bytes
  };

  static void pass(Fd& from, Fd& to, size_t& count, size_t most) {
    char bytes[4096];
    if (!from.valid() || !to.valid() || !peer_address(to).ok() || count >= most) return;
    const size_t room = std::min(sizeof bytes, most - count);
    const ssize_t got = ::recv(from.get(), bytes, room, MSG_DONTWAIT);
    if (got > 0 && send_all(to, {reinterpret_cast<std::byte*>(bytes), size_t(got)}, soon()).ok())
      count += static_cast<size_t>(got);
  }

  Call calls_[2];
};

// Whether rank 3 gets from "rank 2" what rank 0 sent to rank 1.
bool deceived(bool encrypt, bool& spliced) {
  std::vector<std::unique_ptr<Transport>> ranks;
  Times times;
  times.close = 0;
  for (Rank r = 0; r < 4; ++r) {
    TransportConfig config = config_of(r, 4);
    config.key = Key("a secret of enough bytes");
    config.encrypt = encrypt;
    ranks.push_back(make_tcp(config, times).take());
  }
  const auto real = [&](Rank r) {
    return decode_rank_address(ranks[r]->address()).take().listeners.front();
  };
  Splicer splicer(real(1), real(3));
  const auto false_address = [&](int call) {
    return encode(RankAddress{"one host", 1, {splicer.address(call)}});
  };
  for (const auto& rank : ranks)
    EXPECT_TRUE(
        rank->join({ranks[0]->address(), false_address(0), ranks[2]->address(), false_address(1)})
            .ok());
  SendLink& from_0 = ranks[0]->open_send(1, 1, kShape);
  SendLink& from_2 = ranks[2]->open_send(3, 1, kShape);
  RecvLink* at_3 = nullptr;
  bool sent = false;
  const Deadline deadline = Deadline::after(3);
  while (!deadline.expired()) {
    splicer.run();
    for (const auto& rank : ranks) rank->poll();
    if (!at_3 && ranks[3]->acquainted(2)) at_3 = &ranks[3]->open_recv(2, 1, kShape);
    if (!sent && !from_0.reserve().empty()) {
      from_0.commit(8, 7);
      sent = true;
    }
    (void)from_2.reserve();
    if (at_3 && at_3->peek()) return true;
    spliced = splicer.spliced();
    if (spliced && !ranks[3]->peer_status(2).ok()) return false;
  }
  return false;
}

TEST(TcpTls, TwoConnectionsCannotBeJoinedCrosswise) {
  bool spliced = false;
  EXPECT_TRUE(deceived(false, spliced)) << "the test is blind";
  spliced = false;
  EXPECT_FALSE(deceived(true, spliced));
  EXPECT_TRUE(spliced);
}

}  // namespace
}  // namespace weft::tcp
