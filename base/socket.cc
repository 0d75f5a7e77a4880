#include "base/socket.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/parse.h"
#include "base/text.h"
#include "base/thread.h"

namespace weft {
namespace {

constexpr size_t kUnixName = sizeof(sockaddr_un::sun_path) - 1;  // the first byte is 0: abstract

// Repeats a system call that a signal interrupted.
template <class Call>
auto retried(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

Status not_an_address(std::string_view text, std::string_view why) {
  return invalid_argument(concat("\"", text, "\" is not an address: ", why,
                                 "; write 10.0.0.1:4000, [fe80::1%eth0]:4000 or @name."));
}

// The interface index that "%eth0" or "%2" names; 0 where there is none.
unsigned scope_index(const std::string& scope) {
  if (const unsigned index = ::if_nametoindex(scope.c_str())) return index;
  const Result<int64_t> number = parse_int(scope, 1, 1 << 30);
  return number.ok() ? static_cast<unsigned>(*number) : 0;
}

std::string scope_name(unsigned index) {
  std::array<char, IF_NAMESIZE> name{};
  return ::if_indextoname(index, name.data()) ? name.data() : std::to_string(index);
}

std::string unix_text(const sockaddr_un& address, socklen_t size) {
  const size_t length = size - std::min<size_t>(size, offsetof(sockaddr_un, sun_path));
  if (length == 0) return "an unnamed Unix socket";
  if (address.sun_path[0] == '\0')
    return concat("@", std::string_view(address.sun_path + 1, length - 1));
  return std::string(address.sun_path, ::strnlen(address.sun_path, length));
}

bool is_inet(int family) { return family == AF_INET || family == AF_INET6; }

Status set_flag(const Fd& socket, int level, int name, int value, const char* what) {
  if (::setsockopt(socket.get(), level, name, &value, sizeof value) == 0) return {};
  return system_error(what);
}

Result<Fd> make_socket(int family) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return system_error("socket");
  if (is_inet(family)) WEFT_TRY(set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1, "set TCP_NODELAY"));
  return fd;
}

std::string peer_text(const Fd& socket) {
  const Result<SocketAddress> peer = peer_address(socket);
  return peer.ok() ? peer->to_string() : "a peer that is gone";
}

bool peer_closed() { return errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN; }

// Waits until `socket` is ready for `events`; a timeout says what was being done, and with whom.
Status wait_ready(const Fd& socket, short events, const Deadline& deadline, const char* what) {
  while (true) {
    pollfd entry{socket.get(), events, 0};
    const int ready = ::poll(&entry, 1, deadline.left_ms(1000));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return system_error("poll");
    if (deadline.expired())
      return Status(Code::timeout, concat(what, " ", peer_text(socket),
                                          " was not finished within the time given."));
  }
}

// Port 0. As long as it takes.
Result<std::vector<SocketAddress>> look_up(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  if (error != 0)
    return Status(Code::system, concat("The host name \"", host,
                                       "\" cannot be resolved: ", ::gai_strerror(error), "."));
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = found; entry; entry = entry->ai_next)
    if (is_inet(entry->ai_family))
      addresses.push_back(SocketAddress::from(entry->ai_addr, entry->ai_addrlen));
  if (!addresses.empty()) return addresses;
  return Status(Code::system, concat("The host name \"", host, "\" has no IPv4 or IPv6 address."));
}

Result<std::vector<SocketAddress>> look_up(const std::string& host, const Deadline& deadline) {
  struct Search {
    std::mutex mutex;
    std::condition_variable ended;
    std::optional<Result<std::vector<SocketAddress>>> found;
  };
  const auto search = std::make_shared<Search>();
  Result<std::thread> thread = start_thread([search, host] {
    auto found = look_up(host);
    const std::lock_guard lock(search->mutex);
    search->found = std::move(found);
    search->ended.notify_one();
  });
  if (!thread.ok())
    return thread.status().within(concat("The host name \"", host, "\" cannot be resolved"));
  thread->detach();
  std::unique_lock lock(search->mutex);
  while (!search->found && !deadline.expired())
    search->ended.wait_for(lock, std::chrono::milliseconds(deadline.left_ms(1000)));
  if (search->found) return std::move(*search->found);
  return Status(Code::timeout, concat("The host name \"", host,
                                      "\" could not be resolved within the time given; is the name "
                                      "server there?"));
}

}  // namespace

Result<SocketAddress> SocketAddress::parse(std::string_view text) {
  if (text.starts_with('@')) {
    if (text.size() < 2 || text.size() - 1 > kUnixName)
      return not_an_address(text, "an abstract name has 1 to 107 bytes");
    return abstract_unix(text.substr(1));
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return not_an_address(text, "the port is missing");
  const Result<int64_t> port = parse_int(text.substr(colon + 1), 0, 65535);
  if (!port.ok()) return not_an_address(text, "the port must be a number from 0 to 65535");
  std::string host(text.substr(0, colon));

  SocketAddress address;
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    auto& in6 = reinterpret_cast<sockaddr_in6&>(address.storage_);
    const size_t percent = host.find('%');
    if (percent != std::string::npos) {
      in6.sin6_scope_id = scope_index(host.substr(percent + 1));
      if (!in6.sin6_scope_id) return not_an_address(text, "there is no such interface here");
      host.resize(percent);
    }
    if (::inet_pton(AF_INET6, host.c_str(), &in6.sin6_addr) != 1)
      return not_an_address(text, "what is in brackets is not IPv6");
    in6.sin6_family = AF_INET6;
    address.size_ = sizeof in6;
  } else {
    auto& in4 = reinterpret_cast<sockaddr_in&>(address.storage_);
    if (::inet_pton(AF_INET, host.c_str(), &in4.sin_addr) != 1)
      return not_an_address(text, "the host is not an IPv4 number");
    in4.sin_family = AF_INET;
    address.size_ = sizeof in4;
  }
  address.set_port(static_cast<int>(*port));
  return address;
}

Result<std::vector<SocketAddress>> SocketAddress::resolve(const std::string& host, int port,
                                                          const Deadline& deadline) {
  const bool six = host.find(':') != std::string::npos;
  const auto number = parse(six ? concat("[", host, "]:", port) : concat(host, ":", port));
  if (number.ok()) return std::vector<SocketAddress>{*number};
  Result<std::vector<SocketAddress>> found = look_up(host, deadline);
  if (!found.ok()) return found;
  for (SocketAddress& address : *found) address.set_port(port);
  return found;
}

SocketAddress SocketAddress::abstract_unix(std::string_view name) {
  WEFT_CHECK(name.size() <= kUnixName);
  SocketAddress address;
  auto& unix_address = reinterpret_cast<sockaddr_un&>(address.storage_);
  unix_address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), unix_address.sun_path + 1);
  address.size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

SocketAddress SocketAddress::from(const sockaddr* address, socklen_t length) {
  SocketAddress result;
  result.size_ = std::min<socklen_t>(length, sizeof result.storage_);
  std::memcpy(&result.storage_, address, result.size_);
  return result;
}

int SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(storage_).sin_port);
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(storage_).sin6_port);
  return 0;
}

void SocketAddress::set_port(int port) {
  const in_port_t in_net_order = htons(static_cast<uint16_t>(port));
  if (family() == AF_INET) reinterpret_cast<sockaddr_in&>(storage_).sin_port = in_net_order;
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6&>(storage_).sin6_port = in_net_order;
}

bool SocketAddress::is_link_local() const {
  return family() == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(storage_).sin6_addr);
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(storage_).sin_addr.s_addr) >> 24 == 127;
  return family() == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(storage_).sin6_addr);
}

std::string SocketAddress::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (family() == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(storage_).sin_addr, text.data(),
                text.size());
    return concat(text.data(), ":", port());
  }
  if (family() == AF_INET6) {
    const auto& in6 = reinterpret_cast<const sockaddr_in6&>(storage_);
    ::inet_ntop(AF_INET6, &in6.sin6_addr, text.data(), text.size());
    const unsigned scope = in6.sin6_scope_id;
    return concat("[", text.data(), scope ? concat("%", scope_name(scope)) : "", "]:", port());
  }
  if (family() == AF_UNIX) return unix_text(reinterpret_cast<const sockaddr_un&>(storage_), size_);
  return "no address";
}

std::string congestion_control(const Fd& socket) {
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX
  socklen_t size = name.size();
  if (::getsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) return {};
  return {name.data(), ::strnlen(name.data(), name.size())};
}

void set_pacing(const Fd& socket, Pacing pacing) {
  constexpr std::string_view kPaces = "bbr", kUnpaced = "reno";
  const auto take = [&](std::string_view control) {
    (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, control.data(),
                       static_cast<socklen_t>(control.size()));
  };
  const std::string control = congestion_control(socket);
  if (pacing == Pacing::none && control == kPaces) take(kUnpaced);
  if (pacing == Pacing::none || control != kUnpaced) return;
  const Result<Fd> fresh = make_socket(AF_INET);
  if (fresh.ok() && congestion_control(*fresh) == kPaces) take(kPaces);
}

Result<Fd> listen_on(const SocketAddress& address, int backlog) {
  Result<Fd> socket = make_socket(address.family());
  if (!socket.ok()) return socket;
  if (is_inet(address.family()))
    WEFT_TRY(set_flag(*socket, SOL_SOCKET, SO_REUSEADDR, 1, "set SO_REUSEADDR"));
  if (address.family() == AF_INET6)  // [::] takes IPv4 as well
    WEFT_TRY(set_flag(*socket, IPPROTO_IPV6, IPV6_V6ONLY, 0, "clear IPV6_V6ONLY"));
  if (::bind(socket->get(), address.data(), address.size()) != 0)
    return system_error(concat("bind ", address.to_string()));
  if (::listen(socket->get(), backlog) != 0)
    return system_error(concat("listen ", address.to_string()));
  return socket;
}

Result<SocketAddress> local_address(const Fd& socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (::getsockname(socket.get(), address, &size) != 0) return system_error("getsockname");
  return SocketAddress::from(address, size);
}

Result<SocketAddress> peer_address(const Fd& socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (::getpeername(socket.get(), address, &size) != 0) return system_error("getpeername");
  return SocketAddress::from(address, size);
}

bool stays_within_host(const Fd& socket) {
  const auto host = [](Result<SocketAddress> address) {
    if (!address.ok() || !is_inet(address->family())) return std::string();
    address->set_port(0);
    return address->to_string();
  };
  const std::string local = host(local_address(socket));
  return !local.empty() && local == host(peer_address(socket));
}

namespace {

Status connect_failure(std::string_view what) {
  const bool refused = errno == ECONNREFUSED;
  const Status status = system_error(what);
  return refused ? Status(Code::peer_lost, std::string(status.message())) : status;
}

}  // namespace

Result<Fd> start_connect(const SocketAddress& address, Pacing pacing) {
  Result<Fd> socket = make_socket(address.family());
  if (!socket.ok()) return socket;
  if (pacing == Pacing::none) set_pacing(*socket, pacing);
  const int result = ::connect(socket->get(), address.data(), address.size());
  if (result == 0 || errno == EINPROGRESS || errno == EINTR) return socket;
  return connect_failure(concat("connect ", address.to_string()));
}

Status connect_error(const Fd& socket) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0)
    return system_error("getsockopt SO_ERROR");
  if (error == 0) return {};
  errno = error;
  return connect_failure("connect");
}

bool lacks_descriptors() { return errno == EMFILE || errno == ENFILE; }

namespace {

// accept(2) wants a descriptor before it looks whether anybody waits. Leaves errno as it is.
bool somebody_waits(const Fd& listener) {
  const int error = errno;
  pollfd entry{listener.get(), POLLIN, 0};
  const bool waits = ::poll(&entry, 1, 0) > 0;
  errno = error;
  return waits;
}

}  // namespace

Result<Fd> accept_from(const Fd& listener) {
  while (true) {
    Fd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      const Result<SocketAddress> local = local_address(fd);
      if (local.ok() && is_inet(local->family()))
        WEFT_TRY(set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1, "set TCP_NODELAY"));
      return fd;
    }
    if (would_block() || (lacks_descriptors() && !somebody_waits(listener))) return Fd();
    // Who gave up while queueing is no fault of the listener's.
    if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO) return system_error("accept");
  }
}

Result<Process> peer_process(const Fd& socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
    return system_error("getsockopt SO_PEERCRED");
  return Process{credentials.pid, credentials.uid};
}

Status send_all(const Fd& socket, ConstBytes bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t sent =
        retried([&] { return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); });
    if (sent >= 0)
      bytes = bytes.subspan(static_cast<size_t>(sent));
    else if (would_block())
      WEFT_TRY(wait_ready(socket, POLLOUT, deadline, "Sending to"));
    else if (peer_closed())
      return Status(Code::peer_lost, "The peer closed the connection while data was sent to it.");
    else
      return system_error(concat("send to ", peer_text(socket)));
  }
  return {};
}

Status recv_all(const Fd& socket, Bytes bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t got =
        retried([&] { return ::recv(socket.get(), bytes.data(), bytes.size(), 0); });
    if (got > 0)
      bytes = bytes.subspan(static_cast<size_t>(got));
    else if (got == 0 || peer_closed())
      return Status(Code::peer_lost, "The peer closed the connection while data was awaited.");
    else if (would_block())
      WEFT_TRY(wait_ready(socket, POLLIN, deadline, "Receiving from"));
    else
      return system_error(concat("receive from ", peer_text(socket)));
  }
  return {};
}

Result<bool> send_with_fd(const Fd& socket, ConstBytes bytes, int fd) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd != -1) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  const ssize_t sent = retried([&] { return ::sendmsg(socket.get(), &message, MSG_NOSIGNAL); });
  if (sent >= 0 && static_cast<size_t>(sent) == bytes.size()) return true;
  if (sent >= 0)
    return internal_error(concat("A message of ", bytes.size(),
                                 " bytes over a Unix socket was cut; keep it below 2 KiB."));
  if (would_block() || errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM) return false;
  if (peer_closed())
    return Status(Code::peer_lost, "The peer closed the connection before a message was sent.");
  return system_error("send a message");
}

Result<Received> recv_with_fd(const Fd& socket, Bytes bytes) {
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_LEN(sizeof(int));  // without the padding, which would hold a second
  Received received;
  const ssize_t got = retried([&] { return ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC); });
  if (got < 0 && would_block()) return received;
  if (got < 0 && !peer_closed()) return system_error("receive a descriptor");
  received.closed = got <= 0;
  received.bytes = got > 0 ? static_cast<size_t>(got) : 0;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (got > 0 && header && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len >= CMSG_LEN(sizeof(int))) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    received.fd = Fd(fd);
  } else if (got > 0 && (message.msg_flags & MSG_CTRUNC)) {
    return Status(Code::system,
                  "A descriptor that came could not be taken; raise the limit with ulimit -n.");
  }
  return received;
}

}  // namespace weft
