#include "tests/bootstrap/ranks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/socket.h"
#include "base/text.h"

namespace weft::test {
namespace {

std::vector<std::string> run_threads(int ranks, const std::function<std::string(Rank)>& body) {
  std::vector<std::string> said(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (Rank r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] { said[static_cast<size_t>(r)] = body(r); });
  for (std::thread& thread : threads) thread.join();
  return said;
}

std::vector<std::string> run_processes(int ranks, const std::function<std::string(Rank)>& body) {
  struct Child {
    pid_t pid;
    Fd output;
  };
  std::vector<Child> children;
  for (Rank r = 0; r < ranks; ++r) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    const pid_t pid = ::fork();
    if (pid < 0) std::abort();
    if (pid == 0) {
      ::alarm(100);
      children.clear();
      ::close(ends[0]);
      const std::string said = body(r);
      const bool written = ::write(ends[1], said.data(), said.size()) >= 0;
      ::_exit(written ? 0 : 1);
    }
    ::close(ends[1]);
    children.push_back({pid, Fd(ends[0])});
  }
  std::vector<std::string> said;
  for (Child& child : children) {
    std::string text;
    char chunk[4096];
    for (ssize_t got; (got = ::read(child.output.get(), chunk, sizeof chunk)) > 0;)
      text.append(chunk, static_cast<size_t>(got));
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    said.push_back(status == 0 ? text : concat(text, "died"));
  }
  return said;
}

}  // namespace

std::vector<std::string> run(Mode mode, int ranks, const std::function<std::string(Rank)>& body) {
  return mode == Mode::threads ? run_threads(ranks, body) : run_processes(ranks, body);
}

std::string describe(const Result<std::vector<std::string>>& result) {
  if (!result.ok())
    return concat(result.status().to_string(), " [peer ", result.status().peer(), "]");
  std::string text = "ok: ";
  for (size_t i = 0; i < result->size(); ++i) text.append(i ? "," : "").append((*result)[i]);
  return text;
}

int free_port() {
  const auto socket = listen_on(*SocketAddress::parse("127.0.0.1:0"));
  return local_address(*socket)->port();
}

Ways::Ways(std::string kind) : kind_(std::move(kind)) {
  static std::atomic<int> counter{0};
  const std::string unique = concat("weft-test-", ::getpid(), "-", counter++);
  if (kind_ == "tcp") address_ = concat("tcp://127.0.0.1:", free_port());
  if (kind_ == "unix") address_ = concat("unix:", unique);
  if (kind_ == "file") address_ = concat("file:///tmp/", unique);
  if (kind_ == "id" || kind_ == "fd") {
    Result<Meeting> meeting = kind_ == "id" ? make_unique_id("") : make_meeting("");
    if (!meeting.ok()) std::abort();
    address_ = meeting->address;
    job_ = meeting->job;
    listener_ = std::move(meeting->listener);
  }
}

Way Ways::of(Rank rank) {
  if (rank == 0 && listener_.valid()) return {concat("fd:", listener_.release()), job_};
  return {address_, kind_ == "fd" || kind_ == "id" ? job_ : "the job"};
}

std::string join(Ways& ways, Rank rank, int size, double seconds, int rounds) {
  const Way way = ways.of(rank);
  auto meeting = make_rendezvous({rank, size, way.where, way.job}, Environment());
  if (!meeting.ok()) return meeting.status().to_string();
  std::string said;
  for (int round = 0; round < rounds; ++round)
    said = describe((*meeting)->all_gather(concat(rank, ".", round), Deadline::after(seconds)));
  return said;
}

std::string expected_table(int size, int round) {
  std::string text = "ok: ";
  for (int i = 0; i < size; ++i) text.append(concat(i ? "," : "", i, ".", round));
  return text;
}

}  // namespace weft::test
