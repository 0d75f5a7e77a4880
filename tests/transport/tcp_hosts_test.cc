// Two hosts, played by two network namespaces joined by a virtual cable.
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "tests/transport/conformance.h"
#include "tests/transport/tcp_world.h"

namespace weft::tcp {
namespace {

constexpr LinkId kLink = 1;

// A line of text between the parent and a child.
void put_line(int fd, const std::string& text) {
  const std::string line = text + "\n";
  WEFT_CHECK(::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
}
std::string get_line(int fd) {
  std::string line;
  char c = 0;
  while (::read(fd, &c, 1) == 1 && c != '\n') line += c;
  return line;
}

bool shell(const std::string& command) {
  return std::system(("(" + command + ") 2>/dev/null").c_str()) == 0;
}

// A process in a network namespace of its own, which takes lines and gives lines.
struct Child {
  pid_t pid = -1;
  Fd channel;
};

Child start(const std::function<int(int channel)>& body) {
  int ends[2];
  WEFT_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  WEFT_CHECK(pid >= 0);
  if (pid == 0) {
    ::close(ends[0]);
    const bool allowed = ::unshare(CLONE_NEWNET) == 0;
    put_line(ends[1], allowed ? "ready" : "not permitted");
    ::_exit(allowed && get_line(ends[1]) == "go" ? body(ends[1]) : 0);
  }
  ::close(ends[1]);
  return {pid, Fd(ends[0])};
}

int result_of(const Child& child) {
  int state = 0;
  ::waitpid(child.pid, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : 100;
}

// What a rank does on its host: 0, or the number of the step that failed.
using Program = std::function<int(Transport&, int channel)>;

int run_rank(Rank rank, const Times& times, const Program& program, int channel) {
  const std::string device = "weftt" + std::to_string(rank);
  if (!shell("ip link set lo up && ip link set " + device + " up && ip addr add 10.77.0." +
             std::to_string(rank + 1) + "/24 dev " + device))
    return 90;
  TransportConfig config = config_of(rank, 2, 2);
  config.host = "host " + std::to_string(rank);
  auto made = make_tcp(config, times);
  if (!made.ok()) return 91;
  put_line(channel, (*made)->address());
  std::vector<std::string> addresses = {get_line(channel), get_line(channel)};
  if (!(*made)->join(addresses).ok()) return 92;
  return program(**made, channel);
}

// Runs the program of each rank on its host, and wants 0 of each; skips where namespaces are not
// permitted.
void on_two_hosts(const Times& times, const std::vector<Program>& programs) {
  std::vector<Child> children;
  bool permitted = true;
  for (Rank rank = 0; rank < 2; ++rank) {
    const Program& program = programs[static_cast<size_t>(rank)];
    children.push_back(
        start([&, rank](int channel) { return run_rank(rank, times, program, channel); }));
    permitted = get_line(children.back().channel.get()) == "ready" && permitted;
  }
  const auto pid = [&](size_t i) { return std::to_string(children[i].pid); };
  permitted = permitted && shell("ip link add weftt0 netns " + pid(0) +
                                 " type veth peer name weftt1 netns " + pid(1));
  for (const Child& child : children) put_line(child.channel.get(), permitted ? "go" : "stop");
  std::string addresses;
  for (const Child& child : children)
    if (permitted) addresses += get_line(child.channel.get()) + "\n";
  addresses.resize(addresses.empty() ? 0 : addresses.size() - 1);
  for (const Child& child : children)
    if (permitted) put_line(child.channel.get(), addresses);
  const int results[] = {result_of(children[0]), result_of(children[1])};
  if (!permitted) GTEST_SKIP() << "network namespaces are not permitted here";
  EXPECT_EQ(results[0], 0);
  EXPECT_EQ(results[1], 0);
}

bool until_for(Transport& transport, double seconds, const std::function<bool()>& ready) {
  const Deadline deadline = Deadline::after(seconds);
  while (!ready()) {
    if (deadline.expired()) return false;
    transport.poll();
    transport.wait(Deadline::after(0.05));
  }
  return true;
}

bool until(Transport& transport, const std::function<bool()>& ready) {
  return until_for(transport, 20, ready);
}

constexpr uint32_t kBytes = 200000 / 64 * 64;

int send_twenty(Transport& transport, int) {
  SendLink& out = transport.open_send(1, kLink, {4, kBytes});
  for (uint64_t i = 0; i < 20; ++i) {
    if (!until(transport, [&] { return !out.reserve().empty(); })) return 1;
    const auto data = conformance::pattern(kBytes, i);
    std::copy(data.begin(), data.end(), out.reserve().begin());
    out.commit(kBytes, i);
  }
  return 0;
}

int receive_twenty(Transport& transport, int) {
  RecvLink& in = transport.open_recv(0, kLink, {4, kBytes});
  for (uint64_t i = 0; i < 20; ++i) {
    if (!until(transport, [&] { return in.peek() != nullptr; })) return 2;
    if (in.peek()->tag != i) return 3;
    if (!conformance::same_bytes(in.peek()->data, conformance::pattern(kBytes, i))) return 4;
    in.release();
  }
  return 0;
}

TEST(TcpHosts, TwoHostsTalk) { on_two_hosts({}, {send_twenty, receive_twenty}); }

// Between hosts the system's administrator decides; within one, reno is set.
int leave_congestion_to_the_system(Transport& transport, int channel) {
  if (const int failed = send_twenty(transport, channel)) return failed;
  std::string choice;
  std::ifstream("/proc/sys/net/ipv4/tcp_congestion_control") >> choice;
  const std::vector<std::string> controls = congestion_controls();
  return !controls.empty() && std::ranges::count(controls, choice) == std::ssize(controls) ? 0 : 5;
}

TEST(TcpHosts, TheSystemControlsCongestionBetweenThem) {
  on_two_hosts({}, {leave_congestion_to_the_system, receive_twenty});
}

// The cable is cut while rank 0 has sent something that is not acknowledged.
int lose_the_cable(Transport& transport, int) {
  SendLink& out = transport.open_send(1, kLink, {4, kBytes});
  if (!until(transport, [&] { return !out.reserve().empty(); })) return 1;
  if (!shell("ip link set weftt0 down")) return 2;
  out.commit(kBytes, 1);
  if (!until(transport, [&] { return !transport.peer_status(1).ok(); })) return 3;
  const Status status = transport.peer_status(1);
  const bool named = status.message().find("acknowledged nothing") != std::string_view::npos &&
                     status.message().find("rank 1") != std::string_view::npos;
  return status.code() == Code::peer_lost && named ? 0 : 4;
}

int wait_for_the_loss(Transport& transport, int) {
  RecvLink& in = transport.open_recv(0, kLink, {4, kBytes});
  const Deadline deadline = Deadline::after(3);
  while (!deadline.expired() && !in.peek()) transport.wait(Deadline::after(0.05));
  return in.peek() ? 1 : 0;
}

TEST(TcpHosts, AHostThatVanishesIsNoticed) {
  Times times;
  times.vanish = 1;
  times.close = 0.1;
  on_two_hosts(times, {lose_the_cable, wait_for_the_loss});
}

// Rank 1 does not poll: the kernel takes the call, and nothing is said on it. Its host is silent
// once the cable is cut, and not before.
int lose_the_cable_while_calling(Transport& transport, int) {
  transport.open_send(1, kLink, {4, kBytes});
  (void)until_for(transport, 1.5, [&] { return transport.silence_s(1) > 0.5; });
  if (transport.silence_s(1) > 0.5) return 1;
  if (!shell("ip link set weftt0 down")) return 2;
  if (!until_for(transport, 4, [&] { return transport.silence_s(1) > 1.5; })) return 3;
  return transport.peer_status(1).ok() ? 0 : 4;
}

int sleep_through_it(Transport&, int) {
  ::sleep(5);
  return 0;
}

TEST(TcpHosts, AHostThatVanishesBeforeItSaysAnythingIsSilent) {
  Times times;
  times.close = 0.1;
  on_two_hosts(times, {lose_the_cable_while_calling, sleep_through_it});
}

}  // namespace
}  // namespace weft::tcp
