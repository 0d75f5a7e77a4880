#include "tests/chaos/real.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "base/text.h"
#include "engine/communicator.h"
#include "tests/chaos/hosts.h"
#include "tests/chaos/pipe.h"
#include "tests/chaos/remains.h"
#include "tests/chaos/reserve.h"
#include "tests/support/oracle.h"
#include "tests/support/sanitized.h"

namespace weft::chaos {
namespace {

using test::Shape;

enum class Fault { kill, kill_two, stop, leave, abort, descriptors, memory, cut };
constexpr const char* kFaults[] = {"kill -9", "kill -9 twice",  "stop and go on", "leave early",
                                   "abort",   "no descriptors", "no memory",      "cable cut"};
constexpr const char* kMedia[] = {"shm", "tcp", "shm+tcp"};
constexpr double kRun_s = 0.15;    // of a job after its start, at least
constexpr double kGiveUp_s = 60;   // a rank that takes longer hangs
constexpr double kTimeout_s = 20;  // of a call
constexpr double kCutTimeout_s = 2;

struct Plan {
  uint64_t seed;
  Fault fault;
  int medium;
  int ranks;
  Rank victim, second;
  const TwoHosts* hosts;  // where they are needed and can be had
  int delay_us;           // from when all are there
  int stop_us;
};

// Every fault meets every medium, and the first few seeds meet all of both.
Plan plan_of(uint64_t seed) {
  constexpr Fault kMix[] = {Fault::kill,     Fault::kill,        Fault::kill,   Fault::kill,
                            Fault::kill_two, Fault::stop,        Fault::stop,   Fault::leave,
                            Fault::abort,    Fault::descriptors, Fault::memory, Fault::cut};
  std::mt19937_64 random(seed * 2654435761);
  Plan plan{.seed = seed,
            .fault = kMix[seed % std::size(kMix)],
            .medium = static_cast<int>((seed + seed / std::size(kMix)) % std::size(kMedia)),
            .ranks = 3 + static_cast<int>(random() % 4),
            .victim = 0,
            .second = 0,
            .hosts = nullptr,
            .delay_us = static_cast<int>(random() % 60'000),
            .stop_us = 20'000 + static_cast<int>(random() % 300'000)};
  plan.victim = static_cast<Rank>(random() % plan.ranks);
  plan.second = static_cast<Rank>((plan.victim + 1) % plan.ranks);
  if (plan.fault == Fault::cut) plan.medium = 1 + plan.medium % 2;  // tcp or shm+tcp
  return plan;
}

// What a rank tells its parent at the end.
struct Report {
  uint64_t operations = 0, right = 0, wrong = 0;
  int64_t noticed_ns = 0;  // 0: no call failed
  Rank blamed = -1;
  bool says_cause = false;  // of an abort, of what is missing
  bool shrunk = false;
  int size = 0;  // of the communicator that it ended with
  bool complete = false;
  size_t left = 0;  // descriptors, when all was over
};

int host_of(Rank rank) { return rank % 2; }

class RankProgram {
 public:
  RankProgram(const Plan& plan, Rank rank, int report_fd)
      : plan_(plan), rank_(rank), report_fd_(report_fd) {}

  // `ready`: called once the communicator is there.
  void run(Rendezvous& meet, const std::function<void()>& ready) {
    auto made = Communicator::create(meet, options());
    if (!made.ok()) return;
    Communicator* now = made->get();
    if (!step(*now, 0)) return;
    ready();
    const Deadline end = Deadline::after(kRun_s);
    std::unique_ptr<Communicator> shrunk;
    for (uint64_t number = 1;; ++number) {
      if (misbehave(*now, end)) return;
      if (step(*now, number)) {
        if (over(*now, end)) break;
        continue;
      }
      auto smaller = now->shrink();
      // One that has no memory for that ends it for all, and then leaves.
      for (int i = 0; i < 2 && !smaller.ok() && may_try_again(); ++i) smaller = now->shrink();
      if (!smaller.ok()) return;
      report_.shrunk = true;
      shrunk = smaller.take();
      now = shrunk.get();
      // Some may have had the result of the call that failed for others.
      const uint64_t mine = number;
      (void)now->all_reduce(&mine, &number, 1, DataType::uint64, ReduceOp::max);
    }
    report_.size = now->size();
    report_.complete = true;
  }

  void tell(size_t left) {
    report_.left = left;
    if (::write(report_fd_, &report_, sizeof report_) != sizeof report_) ::_exit(3);
  }

 private:
  Options options() const {
    Options options;
    options.timeout_s = plan_.fault == Fault::cut ? kCutTimeout_s : kTimeout_s;
    options.transport = plan_.medium == 1 ? "tcp" : "auto";
    if (plan_.medium == 2) options.host = concat("host ", host_of(rank_));
    return options;
  }

  // One call of everybody's, checked; false where it fails.
  bool step(Communicator& c, uint64_t number) {
    std::mt19937_64 random(plan_.seed + number * 7919);
    const Kind kinds[] = {Kind::all_reduce, Kind::broadcast, Kind::all_gather, Kind::reduce_scatter,
                          Kind::all_to_all};
    const size_t most = random() % 4 == 0 ? 20'000 : 100;
    const Shape shape{.kind = kinds[random() % std::size(kinds)],
                      .ranks = c.size(),
                      .count = 1 + random() % most};
    std::vector<int32_t> in, expected, out;
    {
      const FromReserve own;
      in = expected_input(shape, c.rank(), number);
      expected = expected_output(shape, c.rank(), ReduceOp::sum, number);
      out.assign(expected.size(), -1);
    }
    const Status status = c.run(Call{.kind = shape.kind,
                                     .input = in.data(),
                                     .output = out.data(),
                                     .count = shape.count,
                                     .type = DataType::int32,
                                     .op = ReduceOp::sum});
    ++report_.operations;
    if (status.ok()) {
      out == expected ? ++report_.right : ++report_.wrong;
      return true;
    }
    notice(status);
    return false;
  }

  // The first error says most; later calls only repeat what it was.
  void notice(const Status& status) {
    if (report_.noticed_ns != 0) return;
    const FromReserve own;
    report_.noticed_ns = steady_clock().now_ns();
    report_.blamed = status.peer();
    report_.says_cause = says_cause(std::string(status.message()));
  }

  bool says_cause(const std::string& message) const {
    if (plan_.fault == Fault::cut) return names_a_cut(message);
    const auto says = [&message](std::string_view words) {
      return message.find(words) != std::string::npos;
    };
    if (plan_.fault == Fault::descriptors) return says("Too many open files") || says("ulimit -n");
    if (plan_.fault == Fault::memory)
      return says("Cannot allocate memory") && says(concat("on rank ", plan_.victim));
    return says(concat("rank ", plan_.victim, " aborted"));
  }

  // Whether it says that a rank waited for one of the other host.
  static bool names_a_cut(const std::string& message) {
    for (size_t at = message.find("rank "); at != std::string::npos;
         at = message.find("rank ", at + 1)) {
      int waiter = 0, peer = 0;
      double seconds = 0;
      if (std::sscanf(&message[at], "rank %d waited %lf s for rank %d", &waiter, &seconds, &peer) ==
              3 &&
          host_of(waiter) != host_of(peer))
        return true;
    }
    return false;
  }

  bool may_try_again() const { return plan_.fault == Fault::memory && rank_ != plan_.victim; }

  // Whether all find that it is time to end.
  bool over(Communicator& c, const Deadline& end) {
    const int mine = end.expired();
    int least = 0;
    const Status status = c.all_reduce(&mine, &least, 1, DataType::int32, ReduceOp::min);
    if (!status.ok()) notice(status);
    return status.ok() && least == 1;
  }

  // Whether this rank has left the job.
  bool misbehave(Communicator& c, const Deadline& end) {
    if (rank_ != plan_.victim) return false;
    const bool now = end.left_ns() < (kRun_s * 1e9 - plan_.delay_us * 1e3);
    if (!now) return false;
    if (plan_.fault == Fault::abort) c.abort("chaos");
    return plan_.fault == Fault::leave || plan_.fault == Fault::abort;
  }

  const Plan& plan_;
  const Rank rank_;
  const int report_fd_;
  Report report_;
};

// No more than it has; some of that may still be free.
void take_memory_away() {
  std::ifstream sizes("/proc/self/statm");
  rlim_t pages = 0;
  sizes >> pages;
  const rlimit none{pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)), RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &none);
}

[[noreturn]] void be_rank(const Plan& plan, Rank rank, pid_t group, Meeting& meeting,
                          const Pipe& ready, const Pipe& reports) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, group);
  RankProgram program(plan, rank, reports.write.get());
  RendezvousConfig config{
      .rank = rank, .size = plan.ranks, .where = meeting.address, .job = "chaos"};
  const Remains before;  // with the listener, which goes over to rank 0's rendezvous
  if (rank == 0) config.where = concat("fd:", meeting.listener.release());
  if (plan.hosts) {
    if (!plan.hosts->enter(host_of(rank))) ::_exit(4);
    config.where = concat("file://", meeting_file(::getppid(), plan.seed));
  }
  if (auto meet = make_rendezvous(config, Environment::of_process()); meet.ok())
    program.run(**meet, [&] {
      if (plan.fault == Fault::descriptors && rank == plan.victim) {
        const rlimit none{8, 8};
        ::setrlimit(RLIMIT_NOFILE, &none);
      }
      if (plan.fault == Fault::memory && rank == plan.victim) take_memory_away();
      (void)!::write(ready.write.get(), "r", 1);
    });
  // Counting takes one, and memory.
  const bool deprived = plan.fault == Fault::descriptors || plan.fault == Fault::memory;
  program.tell(deprived ? 0 : before.take_more());
  ::_exit(0);
}

class Job {
 public:
  explicit Job(const Plan& plan)
      : plan_(plan),
        reports_(static_cast<size_t>(plan.ranks)),
        statuses_(reports_.size()),
        killed_(reports_.size()) {
    auto meeting = make_meeting("");
    WEFT_CHECK(meeting.ok());
    for (Rank rank = 0; rank < plan.ranks; ++rank) {
      const pid_t pid = ::fork();
      WEFT_CHECK(pid >= 0);
      const pid_t group = pids_.empty() ? 0 : pids_.front();
      if (pid == 0)
        be_rank(plan, rank, group, *meeting, ready_, reports_[static_cast<size_t>(rank)]);
      ::setpgid(pid, group);  // whoever comes first
      pids_.push_back(pid);
    }
    for (const Pipe& pipe : reports_) const_cast<Pipe&>(pipe).write.reset();
    ready_.write.reset();  // where a rank ends before it is ready, its parent sees it
  }

  // Strikes once all ranks are there, or should be; when that was.
  int64_t strike() {
    const Deadline deadline = Deadline::after(kGiveUp_s);
    for (int i = 0; i < plan_.ranks; ++i) {
      char byte = 0;
      if (!has_news(ready_, deadline) || ::read(ready_.read.get(), &byte, 1) != 1) break;
    }
    const int64_t began_ns = steady_clock().now_ns();
    std::this_thread::sleep_for(std::chrono::microseconds(plan_.delay_us));
    const pid_t victim = pids_[static_cast<size_t>(plan_.victim)];
    const int64_t now_ns = steady_clock().now_ns();
    switch (plan_.fault) {
      case Fault::kill: kill(plan_.victim); break;
      case Fault::kill_two:
        kill(plan_.victim);
        std::this_thread::sleep_for(std::chrono::microseconds(plan_.stop_us / 100));
        kill(plan_.second);
        break;
      case Fault::stop:
        ::kill(victim, SIGSTOP);
        std::this_thread::sleep_for(std::chrono::microseconds(plan_.stop_us));
        ::kill(victim, SIGCONT);
        break;
      case Fault::cut: WEFT_CHECK(plan_.hosts->cut()); break;
      default: return began_ns;
    }
    return now_ns;
  }

  // Whether all have ended by themselves.
  bool wait() {
    const Deadline deadline = Deadline::after(kGiveUp_s);
    size_t left = pids_.size();
    std::vector<bool> ended(pids_.size());
    while (left > 0 && !deadline.expired()) {
      for (size_t i = 0; i < pids_.size(); ++i)
        if (!ended[i] && ::waitpid(pids_[i], &statuses_[i], WNOHANG) == pids_[i]) {
          ended[i] = true;
          --left;
        }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (size_t i = 0; i < pids_.size(); ++i)
      if (!ended[i]) {
        kill(static_cast<Rank>(i));
        ::waitpid(pids_[i], &statuses_[i], 0);
      }
    return left == 0;
  }

  // Once all have ended: how many did so by what nobody has done to them.
  uint64_t crashes() const {
    uint64_t count = 0;
    for (size_t i = 0; i < pids_.size(); ++i) {
      const bool killed = WIFSIGNALED(statuses_[i]) && WTERMSIG(statuses_[i]) == SIGKILL;
      count += statuses_[i] != 0 && !(killed && killed_[i]);
    }
    return count;
  }

  // Once all have ended: whether a process of theirs is left.
  bool has_left_processes() const { return end_group(pids_.front()); }

  Report report(Rank rank) {
    Report report;
    const Pipe& pipe = reports_[static_cast<size_t>(rank)];
    if (!has_news(pipe, Deadline::after(kGiveUp_s)) ||
        ::read(pipe.read.get(), &report, sizeof report) != sizeof report)
      return Report();
    return report;
  }

 private:
  void kill(Rank rank) {
    ::kill(pids_[static_cast<size_t>(rank)], SIGKILL);
    killed_[static_cast<size_t>(rank)] = true;
  }

  const Plan& plan_;
  Pipe ready_;
  std::vector<Pipe> reports_;
  std::vector<pid_t> pids_;
  std::vector<int> statuses_;  // of waitpid(2)
  std::vector<bool> killed_;   // by this trial
};

// How many ranks a survivor has to go on without.
int lost_to(const Plan& plan, Rank rank) {
  if (plan.fault == Fault::cut) return (plan.ranks + host_of(rank)) / 2;  // the other host's
  return plan.fault == Fault::kill_two ? 2 : 1;
}

bool names_the_cause(const Plan& plan, Rank rank, const Report& report) {
  if (plan.fault == Fault::abort) return report.says_cause;
  if (plan.fault == Fault::cut)
    return report.says_cause || (report.blamed >= 0 && host_of(report.blamed) != host_of(rank));
  if (plan.fault == Fault::descriptors && report.says_cause) return true;
  // Its own shortage is nobody else's fault, as a status has it.
  if (plan.fault == Fault::memory && report.blamed < 0) return report.says_cause;
  return report.blamed == plan.victim ||
         (plan.fault == Fault::kill_two && report.blamed == plan.second);
}

// Whether the fault takes the rank out of the job; one that lacks something stays.
bool leaves(const Plan& plan, Rank rank) {
  switch (plan.fault) {
    case Fault::kill_two: return rank == plan.victim || rank == plan.second;
    case Fault::kill:
    case Fault::leave:
    case Fault::abort: return rank == plan.victim;
    default: return false;
  }
}

// Adds what a rank says that the fault leaves in the job.
void judge(const Plan& plan, Rank rank, const Report& report, int64_t struck_ns, Tally& tally) {
  // Connections may be there already, or never come; what goes on lacks memory, too.
  if (plan.fault == Fault::descriptors || (plan.fault == Fault::memory && rank == plan.victim)) {
    tally.errors += report.noticed_ns != 0;
    tally.named += report.noticed_ns != 0 && names_the_cause(plan, rank, report);
    return;
  }
  if (!report.complete) ++tally.stuck;
  if (plan.fault == Fault::stop) {
    tally.wrong += report.noticed_ns != 0;  // nothing was to fail
    return;
  }
  // It may have had all the memory that it needed.
  if (plan.fault == Fault::memory && report.noticed_ns == 0) return;
  // Who has too little memory for a call may have enough to go on with the others.
  const bool all = plan.fault == Fault::memory && report.size == plan.ranks;
  if (report.noticed_ns == 0 || (!all && report.size != plan.ranks - lost_to(plan, rank))) {
    ++tally.stuck;
    return;
  }
  ++tally.errors;
  ++tally.shrunk;
  tally.named += names_the_cause(plan, rank, report);
  if (plan.fault == Fault::kill || plan.fault == Fault::kill_two)
    tally.slowest_notice =
        std::max(tally.slowest_notice, static_cast<double>(report.noticed_ns - struck_ns) * 1e-9);
}

// A job may end before it is struck, where the machine is slow. These faults do not pass unnoticed.
bool was_over_before(const Plan& plan, const std::vector<Report>& reports) {
  if (plan.fault == Fault::stop || plan.fault == Fault::descriptors || plan.fault == Fault::memory)
    return false;
  return std::all_of(reports.begin(), reports.end(), [&plan](const Report& report) {
    return report.complete && report.noticed_ns == 0 && report.size == plan.ranks;
  });
}

void run(const Plan& plan, Tally& tally) {
  Job job(plan);
  const int64_t struck_ns = job.strike();
  tally.hangs += !job.wait();
  tally.crashes += job.crashes();
  tally.leaks += job.has_left_processes();
  std::vector<Report> reports;
  for (Rank rank = 0; rank < plan.ranks; ++rank) reports.push_back(job.report(rank));
  for (const Report& report : reports) {  // also of who leaves
    tally.operations += report.operations;
    tally.right += report.right;
    tally.wrong += report.wrong;
    tally.leaks += report.left;
  }
  if (was_over_before(plan, reports)) tally.faults = 0;
  for (Rank rank = 0; rank < plan.ranks && tally.faults > 0; ++rank) {
    if (!leaves(plan, rank))
      judge(plan, rank, reports[static_cast<size_t>(rank)], struck_ns, tally);
  }
}

std::string kind_of(const Plan& plan) {
  return concat(kFaults[static_cast<size_t>(plan.fault)], ", ", kMedia[plan.medium]);
}

}  // namespace

std::string kind_of(uint64_t seed) { return kind_of(plan_of(seed)); }

std::pair<std::string, Tally> try_real(uint64_t seed) {
  Plan plan = plan_of(seed);
  Tally tally;
  // With a cable cut, those that wait for a rank of their own host may blame it.
  tally.named_percent = plan.fault == Fault::cut ? 95 : 99;
  const std::optional<TwoHosts> hosts = plan.fault == Fault::cut ? TwoHosts::make() : std::nullopt;
  const bool possible = plan.fault == Fault::cut      ? hosts.has_value()
                        : plan.fault == Fault::memory ? !test::kSanitized  // they need it all
                                                      : true;
  if (!possible) {
    tally.skipped = 1;
    return {kind_of(plan), std::move(tally)};
  }
  plan.hosts = hosts ? &*hosts : nullptr;
  tally.trials = tally.faults = 1;
  const Remains before;
  run(plan, tally);
  tally.leaks += before.take_more();
  if (!tally.good()) tally.bad_seeds.push_back(seed);
  return {kind_of(plan), std::move(tally)};
}

}  // namespace weft::chaos
