// TCP links against plain sockets on the loopback interface: round trips of 8 bytes and a stream of
// 1 GiB. Prints times and ratios; figures of a noisy machine are the best of several rounds.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/socket.h"
#include "transport/backends.h"

namespace weft {
namespace {

constexpr int kRounds = 7;
constexpr int kTrips = 5000;
constexpr size_t kStreamBytes = size_t{1} << 30;
constexpr size_t kBufferBytes = 16 << 20;
constexpr size_t kPieceBytes = 1 << 20;

double seconds(const std::function<void()>& left, const std::function<void()>& right) {
  std::thread other(right);
  const int64_t begin = steady_clock().now_ns();
  left();
  other.join();
  return static_cast<double>(steady_clock().now_ns() - begin) * 1e-9;
}

void check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}

template <class T>
T checked(Result<T> result) {
  check(result.status());
  return result.take();
}

// ---- plain sockets

struct Sockets {
  Fd a, b;
};

Sockets connected_sockets(bool blocking) {
  const Fd listener = checked(listen_on(checked(SocketAddress::parse("127.0.0.1:0"))));
  set_pacing(listener, Pacing::none);
  Sockets sockets;
  sockets.a = checked(start_connect(checked(local_address(listener)), Pacing::none));
  pollfd entry{listener.get(), POLLIN, 0};
  ::poll(&entry, 1, 1000);
  sockets.b = checked(accept_from(listener));
  if (blocking)
    for (const Fd* fd : {&sockets.a, &sockets.b}) ::fcntl(fd->get(), F_SETFL, 0);
  return sockets;
}

void put(const Fd& fd, const std::byte* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = ::send(fd.get(), data, bytes, 0);
    if (sent <= 0) continue;
    data += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

void get(const Fd& fd, std::byte* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::recv(fd.get(), data, bytes, 0);
    if (got <= 0) {
      std::this_thread::yield();
      continue;
    }
    data += got;
    bytes -= static_cast<size_t>(got);
  }
}

double plain_trip(bool blocking) {
  const Sockets sockets = connected_sockets(blocking);
  const auto play = [](const Fd& fd, bool first) {
    std::byte word[8]{};
    for (int i = 0; i < kTrips; ++i) {
      if (first) put(fd, word, sizeof word);
      get(fd, word, sizeof word);
      if (!first) put(fd, word, sizeof word);
    }
  };
  return seconds([&] { play(sockets.a, true); }, [&] { play(sockets.b, false); }) / kTrips;
}

double plain_stream() {
  const Sockets sockets = connected_sockets(true);
  std::vector<std::byte> from(kBufferBytes, std::byte{1}), to(kBufferBytes, std::byte{2});
  const auto at = [](size_t done) { return done % kBufferBytes; };
  return seconds(
      [&] {
        for (size_t done = 0; done < kStreamBytes; done += kPieceBytes)
          put(sockets.a, from.data() + at(done), kPieceBytes);
      },
      [&] {
        for (size_t done = 0; done < kStreamBytes; done += kPieceBytes)
          get(sockets.b, to.data() + at(done), kPieceBytes);
      });
}

// ---- weft

struct Ranks {
  std::unique_ptr<Transport> a, b;
};

Ranks joined_ranks(int streams) {
  std::vector<std::unique_ptr<Transport>> made;
  for (Rank rank = 0; rank < 2; ++rank) {
    TransportConfig config;
    config.rank = rank;
    config.size = 2;
    config.job = "micro_tcp";
    config.streams = streams;
    made.push_back(checked(make_tcp(config)));
  }
  for (const auto& transport : made)
    check(transport->join({made[0]->address(), made[1]->address()}));
  return {std::move(made[0]), std::move(made[1])};
}

void relax(Transport& transport, bool sleeping) {
  if (sleeping)
    transport.wait(Deadline::after(1));
  else
    std::this_thread::yield();
}

// Polls rarely, as an executor does that has something to look at.
template <class Ready>
void until(Transport& transport, bool sleeping, Ready ready) {
  for (uint64_t i = 1; !ready(); ++i) {
    relax(transport, sleeping);
    if (i % 64 == 0) transport.poll();
  }
}

double weft_trip(bool sleeping) {
  const Ranks ranks = joined_ranks(1);
  const auto play = [sleeping](Transport& transport, Rank peer, bool first) {
    SendLink& out = transport.open_send(peer, 1, {4, 64});
    RecvLink& in = transport.open_recv(peer, 1, {4, 64});
    const auto send = [&] {
      until(transport, sleeping, [&] { return !out.reserve().empty(); });
      out.commit(8, 0);
    };
    for (int i = 0; i < kTrips; ++i) {
      if (first) send();
      until(transport, sleeping, [&] { return in.peek() != nullptr; });
      in.release();
      if (!first) send();
    }
  };
  return seconds([&] { play(*ranks.a, 1, true); }, [&] { play(*ranks.b, 0, false); }) / kTrips;
}

void stream_out(Transport& transport, SendLink& link, size_t piece, bool sleeping) {
  const std::vector<std::byte> from(kBufferBytes, std::byte{1});
  Ticket last = 0;
  for (size_t done = 0; done < kStreamBytes; done += piece) {
    std::optional<Ticket> ticket;
    const ConstBytes memory(from.data() + done % kBufferBytes, piece);
    until(transport, sleeping, [&] { return (ticket = link.send(memory, done)).has_value(); });
    last = *ticket;
  }
  // With several streams the last message may be written before the ones before it.
  for (Ticket ticket = 1; ticket <= last; ++ticket)
    until(transport, sleeping, [&] { return link.done(ticket); });
}

// Posts ahead as far as it may, so that data is placed without a copy.
void stream_in(Transport& transport, RecvLink& link, size_t piece, bool sleeping) {
  std::vector<std::byte> to(kBufferBytes, std::byte{2});
  const size_t count = kStreamBytes / piece;
  std::vector<Ticket> posted;
  for (size_t next = 0; next < count;) {
    while (posted.size() < count) {
      const auto ticket = link.post(Bytes(to).subspan(posted.size() * piece % kBufferBytes, piece));
      if (!ticket) break;
      posted.push_back(*ticket);
    }
    if (next < posted.size()) {
      until(transport, sleeping, [&] { return link.done(posted[next]).has_value(); });
    } else {
      until(transport, sleeping, [&] { return link.peek() != nullptr; });
      const Message& message = *link.peek();
      std::copy(message.data.begin(), message.data.end(), to.begin());
      link.release();
      posted.push_back(0);
    }
    ++next;
  }
}

double weft_stream(int streams, size_t piece, bool sleeping) {
  const Ranks ranks = joined_ranks(streams);
  const LinkShape shape{8, static_cast<uint32_t>(piece)};
  return seconds([&] { stream_out(*ranks.a, ranks.a->open_send(1, 1, shape), piece, sleeping); },
                 [&] { stream_in(*ranks.b, ranks.b->open_recv(0, 1, shape), piece, sleeping); });
}

// ----

struct Measure {
  std::string name;
  std::function<double()> run;
  double best = std::numeric_limits<double>::max();
};

// In turns, so that all see the same machine.
void compare(std::vector<Measure> measures, double scale, const char* unit) {
  for (int round = 0; round < kRounds; ++round)
    for (Measure& measure : measures) measure.best = std::min(measure.best, measure.run());
  for (const Measure& measure : measures)
    std::printf("%-36s %9.3f %s  ratio %.3f\n", measure.name.c_str(), measure.best * scale, unit,
                measure.best / measures.front().best);
}

}  // namespace
}  // namespace weft

// weft-micro-tcp [trip] [spin] [stream]: all three where none is named.
int main(int argc, char** argv) {
  using namespace weft;
  for (int i = 1; i < argc; ++i)
    if (const std::string word = argv[i]; word != "trip" && word != "spin" && word != "stream") {
      std::fprintf(stderr, "weft-micro-tcp: \"%s\" is none of trip, spin, stream.\n", argv[i]);
      return 2;
    }
  const auto wanted = [&](const char* name) {
    return argc == 1 || std::any_of(argv + 1, argv + argc,
                                    [&](const char* word) { return std::string(word) == name; });
  };
  if (wanted("trip"))
    compare({{"8 B round trip, plain blocking", [] { return plain_trip(true); }},
             {"8 B round trip, weft wait()", [] { return weft_trip(true); }}},
            1e6, "us");
  if (wanted("spin"))
    compare({{"8 B round trip, plain spinning", [] { return plain_trip(false); }},
             {"8 B round trip, weft peek()", [] { return weft_trip(false); }}},
            1e6, "us");
  if (wanted("stream"))
    compare({{"1 GiB, plain blocking", plain_stream},
             {"1 stream, 1 MiB, wait()", [] { return weft_stream(1, 1 << 20, true); }},
             {"1 stream, 256 KiB, wait()", [] { return weft_stream(1, 1 << 18, true); }},
             {"1 stream, 1 MiB, peek()", [] { return weft_stream(1, 1 << 20, false); }},
             {"2 streams, 1 MiB, wait()", [] { return weft_stream(2, 1 << 20, true); }},
             {"2 streams, 1 MiB, peek()", [] { return weft_stream(2, 1 << 20, false); }}},
            1e3, "ms");
  return 0;
}
