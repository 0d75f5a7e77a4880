// A rank over TCP and a peer that has said hello properly, or has not, and then sends anything.
#include "transport/tcp/tcp.h"

#include <sys/socket.h>

#include <algorithm>

#include "base/log.h"
#include "tests/fuzz/target.h"

namespace {

using namespace weft;
using namespace weft::tcp;

TransportConfig config_of_rank_0() {
  TransportConfig config;
  config.size = 2;
  config.job = "fuzz";
  config.host = "here";
  config.interfaces = "=lo";
  return config;
}

class Caller {
 public:
  explicit Caller(Transport& callee) : callee_(callee) {
    const RankAddress address = decode_rank_address(callee.address()).take();
    socket_ = start_connect(address.listeners.front()).take();
    poll();
  }
  void hear(Bytes bytes) { (void)::recv(socket_.get(), bytes.data(), bytes.size(), 0); }
  void say(ConstBytes bytes) {
    (void)::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    poll();
  }

 private:
  void poll() {
    for (int i = 0; i < 3; ++i) callee_.poll();
  }
  Transport& callee_;
  Fd socket_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  set_log_level(LogLevel::error);
  if (size == 0) return 0;
  Times times;
  times.close = 0;
  const auto rank = weft::tcp::make_tcp(config_of_rank_0(), times).take();
  const SocketAddress nowhere = SocketAddress::parse("255.255.255.255:1").take();
  if (!rank->join({rank->address(), encode(RankAddress{"there", 1, {nowhere}})}).ok())
    __builtin_trap();
  RecvLink& in = rank->open_recv(1, 3, {4, 256});
  RecvLink& of_large = rank->open_recv(1, 5, {2, 64 << 10});
  rank->open_send(1, 4, {4, 256});
  Caller caller(*rank);
  if (data[0] % 8 != 0) {
    Hello hello;
    const Badge badge = badge_of("fuzz", Key());
    hello.job = badge.job;
    hello.from = 1;
    hello.to = 0;
    hello.streams = 1;
    ChallengeBytes challenge{};
    caller.hear(challenge);
    caller.say(encode(hello, badge.key, decode_challenge(challenge).value_or(Challenge())));
    caller.say(encode(Frame{}));
  }
  for (size_t at = 1; at < size; at += 64)
    caller.say(std::as_bytes(std::span(data + at, std::min<size_t>(64, size - at))));
  for (RecvLink* link : {&in, &of_large})
    for (int i = 0; i < 20 && link->peek(); ++i) {
      if (link->peek()->data.size() > link->shape().slot_bytes) __builtin_trap();
      link->release();
    }
  return 0;
}
