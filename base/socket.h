// Sockets as both bootstrap and transports need them: addresses, non-blocking listen, connect,
// accept.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "base/types.h"

namespace weft {

// An IPv4, IPv6 or abstract Unix address, as text "10.0.0.1:4000", "[fe80::1%eth0]:4000", "@name".
class SocketAddress {
 public:
  SocketAddress() = default;
  static Result<SocketAddress> parse(std::string_view text);
  // All addresses of a host name (A and AAAA), the likeliest first, at least one; `port` in host
  // order. A number is not looked up; a name is, until the deadline at most (Code::timeout): the
  // system's resolver, which knows none, is left behind in a thread of its own then.
  static Result<std::vector<SocketAddress>> resolve(const std::string& host, int port,
                                                    const Deadline& deadline);
  static SocketAddress abstract_unix(std::string_view name);
  static SocketAddress from(const sockaddr* address, socklen_t length);

  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  int family() const { return storage_.ss_family; }
  int port() const;
  void set_port(int port);
  // Whether it says nothing without the interface that it belongs to (IPv6, fe80::).
  bool is_link_local() const;
  // Whether it never leads out of its host.
  bool is_loopback() const;
  std::string to_string() const;

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

struct Interface {
  std::string name;
  SocketAddress address;  // port 0
  bool loopback = false;
  bool default_route = false;
  int prefix_bits = 0;  // how many leading bits the addresses of its subnet share
};

// How users choose interfaces, for messages.
inline constexpr std::string_view kInterfacesSetting =
    "WEFT_SOCKET_IFNAME, or NCCL_SOCKET_IFNAME where libnccl is used";

// Interfaces that are up, filtered as Options::interfaces says; default route first, loopback last.
// An error names what was asked for and what there is.
Result<std::vector<Interface>> list_interfaces(std::string_view filter);

// How a TCP connection is paced: as the system's congestion control does, or not. bbr paces, on
// loopback, too, and a connection that came about with it stays paced, whatever control it is given
// later; so where bbr is the system's choice, `none` begins with reno, which every Linux has and
// permits. Else both leave all as it is.
enum class Pacing : uint8_t { by_system, none };
// none: of a new socket, or of those that a listener accepts. by_system: of a connection that has
// begun unpaced. Where it is not possible, nothing changes.
void set_pacing(const Fd& socket, Pacing pacing);
// Its name, of a new socket the system's choice; empty where there is none.
std::string congestion_control(const Fd& socket);

// All descriptors made here are close-on-exec and non-blocking; TCP ones have TCP_NODELAY.
Result<Fd> listen_on(const SocketAddress& address, int backlog = 1024);
Result<SocketAddress> local_address(const Fd& socket);
Result<SocketAddress> peer_address(const Fd& socket);
// Whether both ends of a connection have the same address: what it carries never leaves the host.
bool stays_within_host(const Fd& socket);
// Starts connecting; finished when poll(2) says writable and connect_error() is ok. Both fail with
// Code::peer_lost where the host is there and nobody listens.
Result<Fd> start_connect(const SocketAddress& address, Pacing pacing = Pacing::by_system);
Status connect_error(const Fd& socket);
// Whether what has just failed did for want of descriptors, by errno as it is now.
bool lacks_descriptors();
// An invalid Fd where nobody waits, also where there would be no descriptor for anybody.
Result<Fd> accept_from(const Fd& listener);
// The process on the other end of a Unix socket, as the kernel saw it connect or listen.
struct Process {
  pid_t id = -1;
  uid_t user = 0;
};
Result<Process> peer_process(const Fd& socket);

// Whole-buffer transfers with a deadline, for handshakes and rendezvous (not for data paths).
Status send_all(const Fd& socket, ConstBytes bytes, const Deadline& deadline);
Status recv_all(const Fd& socket, Bytes bytes, const Deadline& deadline);

// A whole message over a Unix socket, with a descriptor attached (SCM_RIGHTS) unless `fd` is -1.
// False where it cannot go now: the socket is full, the system is short of memory, or too many
// descriptors are on their way (a limit for users without privileges). Code::peer_lost where the
// peer has closed.
Result<bool> send_with_fd(const Fd& socket, ConstBytes bytes, int fd);
struct Received {
  size_t bytes = 0;
  bool closed = false;  // the peer's end is gone
  Fd fd;                // invalid where none came
};
// At most one descriptor is taken; bytes == 0 && !closed where nothing came.
Result<Received> recv_with_fd(const Fd& socket, Bytes bytes);

}  // namespace weft
