// Where this rank is called: its listeners, and callers until it is clear who they are.
//
// A caller is nobody until it has said hello and proven that it belongs to the job, and a guest
// until its start frame has come; then it is handed to the transport. Strangers are refused with a
// line in the log. However many they are, a rank of the job gets in: those who keep silent hold a
// part of the process's descriptors at most, and leave in the order in which they came.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/log.h"
#include "base/socket.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/hub.h"

namespace weft::tcp {

// Who decides about callers.
class Host {
 public:
  virtual Answer admit(const Hello& hello) = 0;
  virtual void arrived(const Hello& hello, Connection connection) = 0;
  // A guest that was admitted has left before it started.
  virtual void left(const Hello& hello) = 0;

 protected:
  ~Host() = default;
};

class Reception {
 public:
  Reception(Hub& hub, Host& host);
  ~Reception();
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  // Listens on each of these addresses that can be had, at ports of the system's choice; an error
  // where that is none.
  Status open(const std::vector<SocketAddress>& addresses);
  const std::vector<SocketAddress>& listeners() const { return addresses_; }

  // Somebody has been admitted for this connection and has not started it yet.
  bool expects(Rank from, uint32_t stream) const;
  // Sends such guests away: the connection has been made otherwise, or they have called again.
  void dismiss(Rank from, uint32_t stream);
  // Sends away who has said nothing for too long, and accepts again where that failed.
  void tick(int64_t now_ns);
  int64_t due_ns() const;

 private:
  class Listener;
  class Guest;

  Status listen(const SocketAddress& address);
  void enter(Fd socket);
  void cannot_accept(const Status& why);
  void make_room();
  // The guest is gone; `why` is for the log.
  void turn_away(Guest& guest, std::string_view why);
  void report(const Guest& guest, std::string_view why);
  std::unique_ptr<Guest> remove(Guest& guest);
  void bury(std::unique_ptr<Guest> guest);

  Hub& hub_;
  Host& host_;
  std::vector<SocketAddress> addresses_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::unique_ptr<Guest>> guests_;  // in the order in which they came
  const size_t silent_max_;
  int64_t accept_again_ns_ = std::numeric_limits<int64_t>::max();
  bool accept_failed_ = false;  // the last time
  Thinned refused_, accept_failures_;
};

}  // namespace weft::tcp
