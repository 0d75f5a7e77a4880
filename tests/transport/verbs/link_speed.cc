// One link between two processes over this machine's RDMA device, for comparison with perftest:
// verbs_link_speed bandwidth BYTES MESSAGES, or verbs_link_speed latency BYTES ROUNDS.
// Prints MB/s, or microseconds one way.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "transport/backends.h"

namespace weft {
namespace {

constexpr uint32_t kSlots = 16;

template <class T>
T checked(Result<T> result) {
  if (result.ok()) return result.take();
  std::fprintf(stderr, "%s\n", result.status().to_string().c_str());
  std::exit(1);
}

// The transports of both processes, joined.
std::unique_ptr<Transport> meet(Rank rank, int socket) {
  TransportConfig config;
  config.rank = rank;
  config.size = 2;
  config.job = "link_speed";
  config.host = "here";
  auto transport = checked(make_verbs(config));
  std::string own = transport->address();
  own.resize(4096);
  std::string other(own.size(), '\0');
  if (::write(socket, own.data(), own.size()) < 0) std::exit(1);
  if (::recv(socket, other.data(), other.size(), MSG_WAITALL) < 0) std::exit(1);
  std::vector<std::string> addresses(2);
  addresses[static_cast<size_t>(rank)] = own.c_str();
  addresses[static_cast<size_t>(1 - rank)] = other.c_str();
  const Status joined = transport->join(std::move(addresses));
  if (!joined.ok()) checked(Result<int>(joined));
  return transport;
}

void expect_ok(const Status& status) {
  if (!status.ok()) checked(Result<int>(status));
}

// Polls as an engine does: links mostly, everything now and then; then it sleeps.
template <class Ready>
void until(Transport& transport, const Ready& ready) {
  for (int i = 1; !ready(); ++i) {
    if (i % 64 == 0) transport.poll();
    if (i > 1000) transport.wait(Deadline::after(0.001));
  }
}

void send(Transport& transport, SendLink& link, std::vector<std::byte>& memory) {
  until(transport, [&] {
    expect_ok(link.status());
    return link.send(memory, 1).has_value();
  });
}

void receive(Transport& transport, RecvLink& link) {
  until(transport, [&] {
    expect_ok(link.status());
    return link.peek() != nullptr;
  });
  link.release();
}

double seconds_since(int64_t begin_ns) {
  return static_cast<double>(steady_clock().now_ns() - begin_ns) * 1e-9;
}

// Rank 0 says what it measured.
void run(Rank rank, int socket, bool latency, size_t bytes, int count) {
  const auto transport = meet(rank, socket);
  const LinkShape shape{kSlots, static_cast<uint32_t>((bytes + 63) / 64 * 64)};
  SendLink& out = transport->open_send(1 - rank, 1, shape);
  RecvLink& in = transport->open_recv(1 - rank, 1, shape);
  std::vector<std::byte> memory(bytes);
  const auto round = [&](int messages) {
    for (int i = 0; i < messages; ++i)
      rank == 0 ? send(*transport, out, memory) : receive(*transport, in);
    rank == 0 ? receive(*transport, in) : send(*transport, out, memory);
  };
  round(8);
  const int64_t begin = steady_clock().now_ns();
  if (latency)
    for (int i = 0; i < count; ++i) round(1);
  else
    round(count);
  const double elapsed = seconds_since(begin);
  if (rank == 0 && latency) std::printf("%.2f\n", elapsed / count / 2 * 1e6);
  if (rank == 0 && !latency)
    std::printf("%.2f\n", static_cast<double>(bytes) * (count + 1) / elapsed * 1e-6);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "bandwidth|latency BYTES COUNT\n"), 2;
  const bool latency = std::string_view(argv[1]) == "latency";
  const size_t bytes = std::strtoul(argv[2], nullptr, 10);
  const int count = std::atoi(argv[3]);
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return 1;
  const pid_t child = ::fork();
  weft::run(child == 0 ? 1 : 0, sockets[child == 0], latency, bytes, count);
  std::fflush(nullptr);
  if (child == 0) ::_exit(0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
