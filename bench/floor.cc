#include "bench/floor.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "base/socket.h"
#include "base/thread.h"
#include "bootstrap/cpus.h"

namespace weft::bench {
namespace {

constexpr int64_t kWindowNs = 5'000'000;  // of one measurement; the best of kRepeats counts
constexpr int kRepeats = 3;
constexpr size_t kCopyBytesMax = size_t{16} << 20;
constexpr double kTimeoutS = 5;

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// The CPUs that this process may move to: more than it runs on where a launcher bound it to a core.
std::vector<int> reachable_cpus() {
  std::vector<int> cpus;
  Result<std::thread> unbound = start_thread([&] {
    unbind_from_cpus();
    cpus = cpus_core_by_core();
  });
  if (!unbound.ok()) return cpus_core_by_core();
  unbound->join();
  return cpus;
}

// Runs `body(index)` on `count` threads that start together, `each` of them on one of these CPUs,
// and gives the sum of their results; 0 where there are not as many threads.
double together(std::span<const int> cpus, int count, const std::function<double(int)>& body,
                int each = 1) {
  std::atomic<int> waiting{count};
  std::vector<double> results(static_cast<size_t>(count));
  Result<std::vector<std::thread>> threads =
      start_threads(static_cast<size_t>(count), [&](size_t i) {
        bind_to_cpu(cpus[i / static_cast<size_t>(each) % cpus.size()]);
        waiting.fetch_sub(1);
        while (waiting.load() > 0) std::this_thread::yield();
        results[i] = body(static_cast<int>(i));
      });
  if (!threads.ok()) return 0;
  for (std::thread& thread : *threads) thread.join();
  return std::accumulate(results.begin(), results.end(), 0.0);
}

// Bytes copied per second by one thread.
double copy_window(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  const int64_t begin = steady_clock().now_ns();
  int64_t now = begin;
  double copied = 0;
  while (now - begin < kWindowNs) {
    const size_t batch = std::max<size_t>(1, 65536 / bytes);
    for (size_t i = 0; i < batch; ++i) {
      std::memcpy(to, from, bytes);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // each copy is made
    }
    copied += static_cast<double>(batch * bytes);
    now = steady_clock().now_ns();
  }
  return copied / seconds(now - begin);
}

// No page, and no line that is fetched along with another, is of two threads.
double measure_copies(std::span<const int> cpus, int threads, size_t bytes) {
  constexpr size_t kPage = 4096;
  struct alignas(kPage) Page {
    std::array<std::byte, kPage> bytes;
  };
  const size_t pages = (2 * bytes + kPage - 1) / kPage + 1;
  std::vector<std::vector<Page>> memory(static_cast<size_t>(threads), std::vector<Page>(pages));
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat)
    best = std::max(best, together(cpus, threads, [&](int i) {
                      std::byte* mine = memory[static_cast<size_t>(i)].front().bytes.data();
                      return copy_window(mine, mine + bytes, bytes);
                    }));
  return best;
}

struct alignas(128) Flag {
  std::atomic<uint32_t> value{0};
};

struct Connection {
  Fd left, right;
};

Result<Connection> connect_loopback() {
  Result<SocketAddress> any = SocketAddress::parse("127.0.0.1:0");
  if (!any.ok()) return any.status();
  Result<Fd> listener = listen_on(*any);
  if (!listener.ok()) return listener.status();
  set_pacing(*listener, Pacing::none);
  Result<SocketAddress> address = local_address(*listener);
  if (!address.ok()) return address.status();
  Result<Fd> left = start_connect(*address, Pacing::none);
  if (!left.ok()) return left.status();
  const Deadline deadline = Deadline::after(kTimeoutS);
  while (!deadline.expired()) {
    Result<Fd> right = accept_from(*listener);
    if (!right.ok()) return right.status();
    if (right->valid()) return Connection{left.take(), right.take()};
    std::this_thread::yield();
  }
  return Status(Code::timeout, "The loopback interface did not connect.");
}

// Polls until one byte came; false when the other end is gone.
bool take_byte(const Fd& socket) {
  std::byte byte{};
  for (int spins = 0;; ++spins) {
    const ssize_t got = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT);
    if (got == 1) return true;
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) return false;
    if (spins > 256) std::this_thread::yield();
  }
}

double measure_tcp_hop(std::span<const int> cpus) {
  constexpr int kTrips = 300;
  const Result<Connection> made = connect_loopback();
  if (!made.ok()) return 0;
  const Connection& connection = *made;
  const std::byte byte{1};
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto bounce = [&](int side) {
      const Fd& socket = side == 0 ? connection.left : connection.right;
      const int64_t begin = steady_clock().now_ns();
      for (int trip = 0; trip < kTrips; ++trip) {
        if (side == 1 && !take_byte(socket)) break;
        if (::send(socket.get(), &byte, 1, MSG_NOSIGNAL) != 1) break;
        if (side == 0 && !take_byte(socket)) break;
      }
      return side == 0 ? seconds(steady_clock().now_ns() - begin) : 0;
    };
    const double hop = together(cpus, 2, bounce) / kTrips / 2;
    best = best == 0 ? hop : std::min(best, hop);
  }
  return best;
}

// Threads come in pairs: even ones send, odd ones receive and give bytes per second. What comes
// while the connection's windows grow does not count, nor what is left in them at the end.
double stream(const std::vector<Connection>& connections, int thread) {
  constexpr size_t kChunk = size_t{256} << 10;
  constexpr int64_t kCountedNs = 2 * kWindowNs;
  std::vector<std::byte> chunk(kChunk, std::byte{1});
  const Connection& connection = connections[static_cast<size_t>(thread / 2)];
  const Deadline deadline = Deadline::after(kTimeoutS);
  const int64_t from = steady_clock().now_ns() + kWindowNs, until = from + kCountedNs;
  if (thread % 2 == 0) {
    while (steady_clock().now_ns() < until)
      if (!send_all(connection.left, chunk, deadline).ok()) break;
    ::shutdown(connection.left.get(), SHUT_WR);
    return 0;
  }
  double moved = 0;
  while (recv_all(connection.right, chunk, deadline).ok())
    if (const int64_t now = steady_clock().now_ns(); now >= from && now < until) moved += kChunk;
  return moved / seconds(kCountedNs);
}

// Of so many connections at once, both ends of each on one CPU, or each end on its own.
double measure_streams(std::span<const int> cpus, int pairs, bool ends_together) {
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    std::vector<Connection> connections;
    for (int i = 0; i < pairs; ++i) {
      Result<Connection> made = connect_loopback();
      if (!made.ok()) return 0;
      connections.push_back(made.take());
    }
    const auto body = [&](int i) { return stream(connections, i); };
    best = std::max(best, together(cpus, 2 * pairs, body, ends_together ? 2 : 1));
  }
  return best;
}

// Ends that share a CPU find in its cache what they pass on, and do not get in each other's way.
double measure_tcp_rate(std::span<const int> cpus, int used) {
  return std::max(measure_streams(cpus, std::max(1, used / 2), false),
                  measure_streams(cpus, used, true));
}

}  // namespace

// Half a round trip, in the quickest of many short runs: on a busy machine most of them wait for
// the scheduler, which is not what is asked here.
double measure_flag_hop(std::span<const int> cpus) {
  constexpr uint32_t kTrips = 16;
  constexpr uint32_t kRuns = 2000;
  constexpr int64_t kBudgetNs = 100'000'000;
  constexpr uint32_t kEnd = ~0u;
  Flag there, back;
  const auto wait = [](const Flag& flag, uint32_t trip) {
    for (int spins = 0; flag.value.load(std::memory_order_acquire) < trip; ++spins)
      if (spins > 100000) std::this_thread::yield();
  };
  const auto bounce = [&](int side) {
    for (uint32_t trip = 1; side == 1; ++trip) {
      wait(there, trip);
      if (there.value.load(std::memory_order_relaxed) == kEnd) return 0.0;
      back.value.store(trip, std::memory_order_release);
    }
    const int64_t end = steady_clock().now_ns() + kBudgetNs;
    int64_t best = kBudgetNs;
    int64_t begin = steady_clock().now_ns();
    for (uint32_t trip = 1; trip <= kTrips * kRuns && begin < end; ++trip) {
      there.value.store(trip, std::memory_order_release);
      wait(back, trip);
      if (trip % kTrips != 0) continue;
      const int64_t now = steady_clock().now_ns();
      best = std::min(best, now - begin);
      begin = now;
    }
    there.value.store(kEnd, std::memory_order_release);
    return seconds(best) / kTrips / 2;
  };
  return together(cpus, 2, bounce);
}

Calibration calibrate(int local_ranks, size_t max_bytes, bool tcp) {
  const std::vector<int> cpus = reachable_cpus();
  const int threads = std::clamp(local_ranks, 1, static_cast<int>(cpus.size()));
  Calibration calibration;
  for (size_t bytes = 4096; bytes <= kCopyBytesMax; bytes *= 16) {
    calibration.copies.push_back(
        {static_cast<double>(bytes), measure_copies(cpus, threads, bytes)});
    if (bytes > max_bytes) break;
  }
  calibration.flag_hop_s = measure_flag_hop(cpus);
  if (!tcp) return calibration;
  calibration.tcp_hop_s = measure_tcp_hop(cpus);
  calibration.tcp_bytes_per_second = measure_tcp_rate(cpus, threads);
  return calibration;
}

double copy_rate(std::span<const Calibration::CopyRate> copies, double bytes) {
  if (copies.empty()) return 0;
  if (bytes <= copies.front().bytes) return copies.front().bytes_per_second;
  for (size_t i = 1; i < copies.size(); ++i) {
    if (bytes > copies[i].bytes) continue;
    const double span = std::log(copies[i].bytes / copies[i - 1].bytes);
    const double part = std::log(bytes / copies[i - 1].bytes) / span;
    return copies[i - 1].bytes_per_second * (1 - part) + copies[i].bytes_per_second * part;
  }
  return copies.back().bytes_per_second;
}

namespace {

std::optional<double> gpu_floor_seconds(const Calibration& calibration, const Traffic& traffic) {
  if (calibration.gpus.empty()) return std::nullopt;
  double floor = 0;
  for (const Calibration::OfGpu& gpu : calibration.gpus) {
    double bytes = 0;
    for (const Rank rank : gpu.ranks)
      bytes += static_cast<double>(traffic.moved_by_rank[static_cast<size_t>(rank)]) / 2;
    const double rate = copy_rate(gpu.copies, bytes);
    if (rate == 0) return std::nullopt;
    floor = std::max(floor, bytes / rate);
  }
  const double leaving = calibration.leaving_gpu_bytes_per_second;
  if (leaving == 0) return floor;
  return std::max(floor, static_cast<double>(traffic.bytes_crossing) / traffic.ranks / leaving);
}

}  // namespace

std::optional<double> floor_seconds(const Calibration& calibration, std::string_view transports,
                                    const Traffic& traffic) {
  if (transports == "gpu") return gpu_floor_seconds(calibration, traffic);
  const double hop = traffic.answered ? 1 : 0;
  if (transports == "shm" || traffic.ranks == 1) {
    const double bytes =
        (static_cast<double>(traffic.bytes_read) + static_cast<double>(traffic.bytes_written)) / 2;
    const double rate = copy_rate(calibration, bytes / traffic.ranks);
    if (rate == 0) return std::nullopt;
    return std::max(hop * calibration.flag_hop_s, bytes / rate);
  }
  if (transports == "tcp" && calibration.tcp_bytes_per_second > 0)
    return std::max(hop * calibration.tcp_hop_s,
                    static_cast<double>(traffic.bytes_crossing) / calibration.tcp_bytes_per_second);
  return std::nullopt;
}

}  // namespace weft::bench
