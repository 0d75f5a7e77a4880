// TCP between any two ranks.
//
// Who connects: whoever opens a link first. Where both do at once, the call of the lower rank goes
// first (Answer::crossed), unless it gets nowhere: then the other's is taken. Links are multiplexed
// over the pair's streams (pair.h); credits, not the sockets, limit what is under way (link.h), so
// every socket can always be read and two ranks that both write cannot block each other.
//
// System calls: one sendmsg per message whose stream is idle, made by commit() or send() on the
// caller's thread; one readv per peek() that finds nothing.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/tcp/address.h"
#include "transport/tcp/dial.h"
#include "transport/tcp/hub.h"
#include "transport/tcp/pair.h"
#include "transport/tcp/reception.h"
#include "transport/transport.h"

namespace weft::tcp {

class TcpTransport final : public Transport, public Host {
 public:
  TcpTransport(const TransportConfig& config, const Times& times);
  ~TcpTransport() override;
  Status open();

  std::string_view name() const override { return "tcp"; }
  std::string address() const override;
  Status join(std::vector<std::string> addresses) override;
  bool reaches(Rank peer) const override;
  SendLink& open_send(Rank peer, LinkId id, LinkShape shape) override;
  RecvLink& open_recv(Rank peer, LinkId id, LinkShape shape) override;
  const Window* open_window(Rank) override { return nullptr; }
  void poll() override { move(0); }
  void wait(const Deadline& deadline) override;
  void wake(Rank) override {}
  void wake_self() override { hub_.poller.wake(); }
  void abandon() override;
  void tell(Rank peer, NoteKind kind, std::string_view text) override;
  std::optional<Note> hear() override;
  bool acquainted(Rank peer) const override;
  Status peer_status(Rank peer) const override;
  double silence_s(Rank peer) const override;

  // For who watches descriptors of another medium in this one's wait(), and sets Hub::news.
  Hub& hub() { return hub_; }

  Answer admit(const Hello& hello) override;
  void arrived(const Hello& hello, Connection connection) override;
  void left(const Hello& hello) override;

 private:
  using Line = std::pair<Rank, uint32_t>;  // one stream of one pair

  Pair& pair(Rank peer);
  Pair& wanted_pair(Rank peer);
  void see_off();
  void dial_missing();
  void dial(Rank peer, uint32_t stream, const RankAddress& address);
  void connected(Line line, Result<Connection> connection);
  void drop_dial(Line line);
  void drop_dials_of_lost();
  // Does what is due, then what is ready, sleeping for it at most so long.
  void move(int timeout_ms);
  void tick();
  void feed_starving();
  int sleep_ms(const Deadline& deadline) const;

  const TransportConfig config_;
  Hub hub_;
  std::vector<Interface> interfaces_;
  std::vector<std::string> addresses_;        // by rank, after join()
  std::vector<std::unique_ptr<Pair>> pairs_;  // by rank, made when needed
  std::vector<Rank> wanted_;                  // peers to be connected to
  bool look_ = false;                         // at wanted_, in the next round
  bool closing_ = false;
  int64_t next_check_ns_ = 0;  // of vanished hosts
  std::map<Line, std::unique_ptr<Dial>> dials_;
  Reception reception_;
};

Result<std::unique_ptr<Transport>> make_tcp(const TransportConfig& config, const Times& times);

}  // namespace weft::tcp
