// One connection being made by this rank: address after address, again and again, until the peer
// has welcomed it or the transport drops it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/socket.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/hub.h"

namespace weft::tcp {

class Dial final : public Pollable {
 public:
  // Called once, with the connection on which the peer has said welcome, or with the reason why
  // there never will be one: Code::peer_lost, or what this rank lacks. It reads on behind "rank 1".
  using Connected = std::function<void(Result<Connection>)>;

  Dial(Hub& hub, const Hello& hello, std::vector<SocketAddress> candidates, Connected connected);

  // The hello has been said and not yet answered: the peer may be about to take this connection.
  bool spoken() const { return state_ == State::spoken; }

  // Gives up: nothing is said or heard any more, also where events are under way.
  void hang_up() {
    socket_.reset();
    state_ = State::over;
  }
  // What is due by the clock: the next address, the next round.
  void tick(int64_t now_ns);
  int64_t due_ns() const { return due_ns_; }
  // For how many seconds the peer's host has taken no connection, nor acknowledged what was sent on
  // one.
  double silent_s() const;
  void ready(uint32_t events) override;

 private:
  // listening: connected, and the challenge has not come yet
  enum class State { pausing, connecting, listening, spoken, over };

  void start();
  void connected();
  bool fill(Bytes whole);
  void speak();
  void read_answer();
  void answered(Answer answer);
  // Goes on to the next address, or pauses after the last.
  void failed(const Status& why);
  void refused();
  void give_up(Status why);
  void pause();
  void drop();
  int64_t in_ns(double seconds) const;

  Hub& hub_;
  Hello hello_;
  const std::vector<SocketAddress> candidates_;
  const Connected tell_;
  State state_ = State::pausing;
  int64_t due_ns_ = 0;
  WatchedFd socket_;
  size_t at_ = 0;
  size_t refusals_ = 0;           // in this round
  std::optional<Deadline> gone_;  // since all addresses refuse: when the peer counts as gone
  double pause_s_;
  double warn_after_s_ = 5;
  int64_t began_ns_, reacted_ns_;
  ChallengeBytes challenge_bytes_{};
  Challenge challenge_;
  AnswerBytes answer_{};
  size_t filled_ = 0;  // bytes of what is being read
};

}  // namespace weft::tcp
