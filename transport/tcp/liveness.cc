#include "transport/tcp/liveness.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace weft::tcp {
namespace {

void set_option(const Fd& socket, int level, int name, int value) {
  (void)::setsockopt(socket.get(), level, name, &value, sizeof value);
}

}  // namespace

void keep_alive(const Fd& socket, const SignsOfLife& signs) {
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, signs.idle);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, signs.between);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, signs.unanswered);
}

double owing_s(const Fd& socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  const bool owes = info.tcpi_unacked > 0 || info.tcpi_probes > 0;
  return owes ? info.tcpi_last_ack_recv * 1e-3 : 0;
}

}  // namespace weft::tcp
