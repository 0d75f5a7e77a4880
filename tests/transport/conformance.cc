#include "tests/transport/conformance.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>

#include "tests/support/sanitized.h"

namespace weft::conformance {

// Lies in an anonymous shared mapping, so that forked ranks see it, too.
struct Board {
  struct Seat {
    std::atomic<uint32_t> address_state{0};  // 0: not yet, else bytes + 1
    std::array<char, 4096> address{};
    std::atomic<uint32_t> barriers{0};
    std::atomic<bool> gone{false};    // closed or died: nobody waits for it
    std::atomic<bool> to_die{false};  // ends by SIGKILL, and that is right
  };
  std::array<Seat, kRanksMax> seats;
  std::array<std::atomic<uint64_t>, kWordsMax> words{};
  std::atomic<bool> failed{false};
  const pid_t owner = ::getpid();
};

// Lets ranks run one at a time, in rank order. A rank that has ended leaves.
class Turnstile {
 public:
  explicit Turnstile(int size) : in_(static_cast<size_t>(size), true) {}

  void enter(Rank rank) {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [&] { return turn_ == rank; });
  }
  void pass(Rank rank) {
    advance(rank);
    enter(rank);
  }
  void leave(Rank rank) {
    {
      const std::lock_guard lock(mutex_);
      in_[static_cast<size_t>(rank)] = false;
    }
    advance(rank);
  }

 private:
  void advance(Rank rank) {
    {
      const std::lock_guard lock(mutex_);
      const int size = static_cast<int>(in_.size());
      for (int i = 1; i <= size; ++i) {
        turn_ = (rank + i) % size;
        if (in_[static_cast<size_t>(turn_)]) break;
      }
    }
    moved_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable moved_;
  std::vector<bool> in_;
  int turn_ = 0;
};

namespace {

std::string_view name(Mode mode) {
  switch (mode) {
    case Mode::threads: return "threads";
    case Mode::turns: return "turns";
    case Mode::processes: return "processes";
  }
  return "";
}

class SharedBoard {
 public:
  SharedBoard()
      : memory_(::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)) {
    WEFT_CHECK(memory_ != MAP_FAILED);
    new (memory_) Board;
  }
  ~SharedBoard() { ::munmap(memory_, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  Board& operator*() { return *static_cast<Board*>(memory_); }

 private:
  void* memory_;
};

}  // namespace

std::vector<Case> cases(const Backend& backend) {
  const std::vector<Mode>& modes = backend.modes;
  const bool as_threads = std::find(modes.begin(), modes.end(), Mode::threads) != modes.end();
  std::vector<Case> all;
  for (const Mode mode : modes)
    if (!(test::kSeesThreadsOnly && as_threads && mode == Mode::processes))
      all.push_back(Case{backend, mode});
  return all;
}

void PrintTo(const Case& test, std::ostream* out) {
  *out << test.backend.name << " with ranks as " << name(test.mode);
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.backend.name + "_" + std::string(name(info.param.mode));
}

Member::Member(Rank rank, int size, const Case& test, Board& board, Turnstile* turns)
    : rank_(rank), size_(size), test_(test), board_(board), turns_(turns) {}
Member::~Member() { close(); }

bool Member::start(const Factory& factory, uint32_t absent) {
  TransportConfig config;
  config.rank = rank_;
  config.size = size_;
  config.job = "conformance-" + std::to_string(board_.owner) + "-" +
               std::to_string(reinterpret_cast<uintptr_t>(&board_));
  config.host = "host-of-conformance";
  config.window_bytes = kWindowBytes;
  Result<std::unique_ptr<Transport>> made = factory(config);
  if (!made.ok()) {
    ADD_FAILURE() << "rank " << rank_ << ": " << made.status().to_string();
    return false;
  }
  transport_ = made.take();
  Board::Seat& seat = board_.seats[static_cast<size_t>(rank_)];
  const std::string address = (absent >> rank_ & 1) ? "" : transport_->address();
  WEFT_CHECK(address.size() <= seat.address.size());
  std::memcpy(seat.address.data(), address.data(), address.size());
  seat.address_state = static_cast<uint32_t>(address.size()) + 1;

  std::vector<std::string> addresses;
  for (int i = 0; i < size_; ++i) {
    Board::Seat& other = board_.seats[static_cast<size_t>(i)];
    if (!until([&] { return other.address_state != 0; }, "all ranks' addresses")) return false;
    addresses.emplace_back(other.address.data(), other.address_state - 1);
  }
  const Status joined = transport_->join(std::move(addresses));
  EXPECT_TRUE(joined.ok()) << joined.to_string();
  return joined.ok();
}

bool Member::somebody_failed() const {
  return board_.failed.load() || testing::Test::HasFatalFailure();
}

bool Member::until(const std::function<bool()>& ready, std::string_view what,
                   void (Member::*meanwhile)()) {
  const Deadline deadline = Deadline::after(kPatience_s);
  while (!ready()) {
    if (somebody_failed()) return false;
    if (deadline.expired()) {
      ADD_FAILURE() << "rank " << rank_ << " waited in vain for " << what;
      board_.failed = true;
      return false;
    }
    (this->*meanwhile)();
  }
  return true;
}

void Member::linger(double seconds) {
  if (!transport_) return;
  const Deadline deadline = Deadline::after(seconds, transport_->clock());
  while (!deadline.expired() && !somebody_failed()) pump();
}

void Member::doze() {
  if (turns_) return turns_->pass(rank_);
  std::this_thread::sleep_for(std::chrono::microseconds(200));
}

void Member::pump() {
  if (!transport_) return doze();
  transport_->poll();
  if (turns_) {
    transport_->wait(Deadline::after(0.0002, transport_->clock()));
    turns_->pass(rank_);
  } else if (++pumps_ % 16 == 0) {
    transport_->wait(Deadline::after(0.0002, transport_->clock()));
  } else {
    std::this_thread::yield();
  }
}

void Member::wait(const Deadline& deadline) {
  transport_->wait(deadline);
  if (turns_) turns_->pass(rank_);
}

bool Member::barrier() {
  const uint32_t round = ++board_.seats[static_cast<size_t>(rank_)].barriers;
  return until(
      [&] {
        for (int i = 0; i < size_; ++i) {
          const Board::Seat& seat = board_.seats[static_cast<size_t>(i)];
          if (!seat.gone && seat.barriers < round) return false;
        }
        return true;
      },
      "the other ranks at a barrier");
}

void Member::close() {
  board_.seats[static_cast<size_t>(rank_)].gone = true;
  transport_.reset();
}

void Member::die() {
  Board::Seat& seat = board_.seats[static_cast<size_t>(rank_)];
  if (test_.mode != Mode::processes) return close();
  seat.to_die = true;
  seat.gone = true;
  std::fflush(nullptr);
  ::kill(::getpid(), SIGKILL);
}

std::atomic<uint64_t>& Member::word(int index) { return board_.words[static_cast<size_t>(index)]; }

bool send(Member& me, SendLink& link, ConstBytes data, uint64_t tag) {
  const auto ready = [&] { return !link.reserve().empty() || !link.status().ok(); };
  if (!me.until(ready, "a credit")) return false;
  const Bytes slot = link.reserve();
  if (slot.empty()) {
    ADD_FAILURE() << "rank " << me.rank() << " sends: " << link.status().to_string();
    return false;
  }
  EXPECT_EQ(slot.size(), link.shape().slot_bytes);
  std::copy(data.begin(), data.end(), slot.begin());
  link.commit(data.size(), tag);
  return true;
}

std::optional<Letter> receive(Member& me, RecvLink& link) {
  const auto ready = [&] { return link.peek() || !link.status().ok(); };
  if (!me.until(ready, "a message")) return std::nullopt;
  const Message* message = link.peek();
  if (!message) {
    ADD_FAILURE() << "rank " << me.rank() << " receives: " << link.status().to_string();
    return std::nullopt;
  }
  Letter letter{{message->data.begin(), message->data.end()}, message->tag};
  link.release();
  return letter;
}

bool greet(Member& me, Rank peer, LinkId id) {
  const LinkShape shape{2, 64};
  RecvLink& in = me->open_recv(peer, id, shape);  // before sending: the peer does the same
  if (!send(me, me->open_send(peer, id, shape), pattern(8, 8), 8)) return false;
  const std::optional<Letter> letter = receive(me, in);
  if (letter) expect_pattern(letter->data, 8, 8);
  return letter.has_value();
}

std::vector<std::byte> pattern(size_t bytes, uint64_t seed) {
  std::vector<std::byte> data(bytes);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 0x1234567u;
  for (size_t at = 0; at < bytes; at += sizeof state) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(data.data() + at, &state, std::min(bytes - at, sizeof state));
  }
  return data;
}

bool same_bytes(ConstBytes a, ConstBytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

void expect_pattern(ConstBytes data, size_t bytes, uint64_t seed) {
  ASSERT_EQ(data.size(), bytes) << "the length of message " << seed;
  const std::vector<std::byte> expected = pattern(bytes, seed);
  if (same_bytes(data, expected)) return;
  for (size_t i = 0; i < bytes; ++i)
    ASSERT_EQ(data[i], expected[i]) << "byte " << i << " of " << bytes << ", message " << seed;
}

namespace {

using Body = std::function<void(Member&)>;

// Ranks meet at the end, so that closing does not disturb those that still work.
void run_member(Member& me, const Factory& factory, const Body& body, uint32_t absent,
                Board& board) {
  if (me.start(factory, absent)) body(me);
  if (testing::Test::HasFailure()) board.failed = true;
  const bool gone = board.seats[static_cast<size_t>(me.rank())].gone;
  if (!gone && !board.failed) me.barrier();
  me.close();
}

void run_threads(int size, const Case& test, const Factory& factory, const Body& body,
                 uint32_t absent, Board& board) {
  Turnstile turnstile(size);
  Turnstile* turns = test.mode == Mode::turns ? &turnstile : nullptr;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      if (turns) turns->enter(rank);
      {
        Member me(rank, size, test, board, turns);
        run_member(me, factory, body, absent, board);
      }
      if (turns) turns->leave(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void run_processes(int size, const Case& test, const Factory& factory, const Body& body,
                   uint32_t absent, Board& board) {
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0) << "fork failed";
    if (child == 0) {
      {
        Member me(rank, size, test, board, nullptr);
        run_member(me, factory, body, absent, board);
      }
      std::fflush(nullptr);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (int rank = 0; rank < size; ++rank) {
    int state = 0;
    ASSERT_EQ(::waitpid(children[static_cast<size_t>(rank)], &state, 0),
              children[static_cast<size_t>(rank)]);
    const bool killed = WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL &&
                        board.seats[static_cast<size_t>(rank)].to_die;
    const bool well = WIFEXITED(state) && WEXITSTATUS(state) == 0;
    EXPECT_TRUE(well || killed) << "the process of rank " << rank << " ended with wait status "
                                << state;
    if (!well && !killed) board.failed = true;
  }
}

}  // namespace
}  // namespace weft::conformance

void Conformance::run(int size, const Body& body, uint32_t absent) {
  using namespace weft::conformance;
  ASSERT_LE(size, kRanksMax);
  SharedBoard board;
  const Factory factory = backend().world();
  if (mode() == Mode::processes)
    run_processes(size, GetParam(), factory, body, absent, *board);
  else
    run_threads(size, GetParam(), factory, body, absent, *board);
}
