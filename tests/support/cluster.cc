#include "tests/support/cluster.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

namespace weft::test {
namespace {

Options options_for(const Cluster& cluster, Rank rank) {
  Options options = cluster.options;
  if (options.timeout_s == Options{}.timeout_s) options.timeout_s = 60;
  if (!cluster.hosts.empty()) options.host = cluster.hosts[rank];
  return options;
}

void run_threads(const Cluster& cluster, const std::function<void(Rendezvous&)>& body) {
  auto meeting = make_in_process_rendezvous(cluster.ranks);
  std::vector<std::thread> threads;
  for (Rank r = 0; r < cluster.ranks; ++r) threads.emplace_back([&, r] { body(*meeting[r]); });
  for (std::thread& thread : threads) thread.join();
}

[[noreturn]] void run_child(const Cluster& cluster, Rank rank, Meeting& meeting,
                            const std::function<void(Rendezvous&)>& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  RendezvousConfig config{
      .rank = rank, .size = cluster.ranks, .where = meeting.address, .job = "t"};
  if (rank == 0) config.where = "fd:" + std::to_string(meeting.listener.release());
  auto rendezvous = make_rendezvous(config, Environment::of_process());
  EXPECT_TRUE(rendezvous.ok()) << rendezvous.status().to_string();
  if (rendezvous.ok()) body(**rendezvous);
  rendezvous = Status(Code::aborted, "done");
  std::fflush(nullptr);
  ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

void run_processes(const Cluster& cluster, const std::function<void(Rendezvous&)>& body) {
  auto meeting = make_meeting("");
  ASSERT_TRUE(meeting.ok()) << meeting.status().to_string();
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (Rank r = 0; r < cluster.ranks; ++r) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) run_child(cluster, r, *meeting, body);
    children.push_back(pid);
  }
  meeting->listener.reset();
  const Deadline deadline = Deadline::after(cluster.give_up_s);
  for (Rank r = 0; r < cluster.ranks; ++r) {
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(children[r], &status, WNOHANG)) == 0 && !deadline.expired())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (ended == 0) {
      for (const pid_t pid : children) ::kill(pid, SIGKILL);
      ::waitpid(children[r], &status, 0);
      ADD_FAILURE() << "rank " << r << " did not end within " << cluster.give_up_s << " s";
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "rank " << r << " ended with wait status " << status;
    }
  }
}

}  // namespace

void run_bare_ranks(const Cluster& cluster, const std::function<void(Rendezvous&)>& body) {
  cluster.mode == Mode::threads ? run_threads(cluster, body) : run_processes(cluster, body);
}

void run_ranks(const Cluster& cluster, const std::function<void(Communicator&)>& body) {
  run_bare_ranks(cluster, [&](Rendezvous& meet) {
    auto communicator = Communicator::create(meet, options_for(cluster, meet.rank()));
    ASSERT_TRUE(communicator.ok())
        << "rank " << meet.rank() << ": " << communicator.status().to_string();
    body(**communicator);
  });
}

}  // namespace weft::test
