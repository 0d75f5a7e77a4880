// One link between two processes over this machine's RDMA device, for comparison with perftest:
// verbs_link_speed bandwidth BYTES MESSAGES, or verbs_link_speed latency BYTES ROUNDS.
// Prints MB/s, or microseconds one way.
#include <sched.h>
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

double seconds_since(int64_t begin_ns) {
  return static_cast<double>(steady_clock().now_ns() - begin_ns) * 1e-9;
}

// As perftest is started, each end has a core to itself.
void bind_to_core(Rank rank) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(rank, &cores);
  ::sched_setaffinity(0, sizeof cores, &cores);
}

struct Request {
  bool latency = false;
  size_t bytes = 0;
  int count = 0;
};

class Measurement {
 public:
  Measurement(Rank rank, int socket, const Request& request)
      : rank_(rank),
        request_(request),
        transport_(meet(rank, socket)),
        out_(transport_->open_send(1 - rank, 1, shape())),
        in_(transport_->open_recv(1 - rank, 1, shape())),
        memory_(request.bytes) {}

  // Rank 0 says what it measured.
  void run() {
    round(8);
    const int64_t begin = steady_clock().now_ns();
    if (request_.latency)
      for (int i = 0; i < request_.count; ++i) round(1);
    else
      round(request_.count);
    const double elapsed = seconds_since(begin);
    if (rank_ != 0) return;
    if (request_.latency)
      std::printf("%.2f\n", elapsed / request_.count / 2 * 1e6);
    else
      std::printf("%.2f\n",
                  static_cast<double>(request_.bytes) * (request_.count + 1) / elapsed * 1e-6);
  }

 private:
  // Of the core where software plays the device polling takes time away from it, so whoever waits
  // for a large message sleeps soon.
  static constexpr int kSpins = 50, kSpinsForLatency = 20'000;

  LinkShape shape() const {
    return {kSlots, static_cast<uint32_t>((request_.bytes + 63) / 64 * 64)};
  }

  // Polls as an engine does: links mostly, everything now and then; then it sleeps.
  template <class Ready>
  void until(const Ready& ready) {
    const int spins = request_.latency ? kSpinsForLatency : kSpins;
    for (int i = 1; !ready(); ++i) {
      if (i % 64 == 0) transport_->poll();
      if (i > spins) transport_->wait(Deadline::after(0.001));
    }
  }

  void send() {
    until([&] {
      expect_ok(out_.status());
      return out_.send(memory_, 1).has_value();
    });
  }

  void receive() {
    until([&] {
      expect_ok(in_.status());
      return in_.peek() != nullptr;
    });
    in_.release();
  }

  void round(int messages) {
    for (int i = 0; i < messages; ++i) rank_ == 0 ? send() : receive();
    rank_ == 0 ? receive() : send();
  }

  const Rank rank_;
  const Request request_;
  const std::unique_ptr<Transport> transport_;
  SendLink& out_;
  RecvLink& in_;
  std::vector<std::byte> memory_;
};

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "bandwidth|latency BYTES COUNT\n"), 2;
  const weft::Request request{std::string_view(argv[1]) == "latency",
                              std::strtoul(argv[2], nullptr, 10), std::atoi(argv[3])};
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return 1;
  const pid_t child = ::fork();
  const weft::Rank rank = child == 0 ? 1 : 0;
  weft::bind_to_core(rank);
  weft::Measurement(rank, sockets[rank], request).run();
  std::fflush(nullptr);
  if (child == 0) ::_exit(0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
