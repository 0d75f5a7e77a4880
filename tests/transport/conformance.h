// The one suite that every transport runs. A backend joins with a file like this:
//
//   conformance::Backend tcp() {
//     conformance::Backend backend;
//     backend.name = "tcp";
//     backend.world = [] { return conformance::Factory(make_tcp); };
//     backend.modes = {conformance::Mode::threads, conformance::Mode::processes};
//     backend.traits = {.send_from_memory = true, .recv_into_memory = true};
//     return backend;
//   }
//   INSTANTIATE_TEST_SUITE_P(Tcp, Conformance, testing::ValuesIn(conformance::cases(tcp())),
//                            conformance::case_name);
//
// and links the object library weft_transport_conformance. What a test asserts is what
// transport/transport.h promises; a backend's own limits are stated in its Backend, never probed.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace weft::conformance {

enum class Mode {
  threads,    // every rank is a thread of this process
  turns,      // as threads, but only one of them runs at a time (for backends driven by one thread)
  processes,  // every rank is a forked process
};

// Makes the transport of one rank; called once per rank, in the rank's thread or process. It may
// change the configuration (streams, interfaces) before use.
using Factory = std::function<Result<std::unique_ptr<Transport>>(const TransportConfig&)>;

struct Backend {
  std::string name;
  // Called once per test, before the ranks start: what ranks share in the test lives in the
  // Factory.
  std::function<Factory()> world;
  std::vector<Mode> modes;
  LinkTraits traits;     // what its links must say
  bool windows = false;  // open_window() gives memory
  bool shares = false;   // share() does
  bool reads = false;    // read_memory() is possible, once windows are mapped
  // What was committed and flushed before the sender closed or died still arrives.
  bool delivers_after_close = false;
  // But not before it was killed: a device stops where its process does.
  bool loses_at_death = false;
  int many_ranks = 16;  // the size of the largest test
};

struct Case {
  Backend backend;
  Mode mode;
};
void PrintTo(const Case& test, std::ostream* out);  // for GoogleTest's messages
std::vector<Case> cases(const Backend& backend);
std::string case_name(const testing::TestParamInfo<Case>& info);

inline constexpr int kRanksMax = 32;
inline constexpr int kWordsMax = 16;
inline constexpr size_t kWindowBytes = 64 << 10;  // in every test
inline constexpr double kPatience_s = 20;         // after which any waiting in a test is a failure

struct Board;     // memory that all ranks of a test share, beside the transport under test
class Turnstile;  // who runs, in Mode::turns

// One rank of a test, as its body sees it.
class Member {
 public:
  Member(Rank rank, int size, const Case& test, Board& board, Turnstile* turns);
  ~Member();

  Rank rank() const { return rank_; }
  int size() const { return size_; }
  const Case& test() const { return test_; }
  Transport& transport() { return *transport_; }
  Transport* operator->() { return transport_.get(); }

  // Makes the transport, exchanges addresses, joins. False after a failure was recorded. The ranks
  // whose bits are set in `absent` appear without this transport.
  bool start(const Factory& factory, uint32_t absent);

  // Polls until `ready()`; false (and a failure) after kPatience_s, or where another rank failed.
  bool until(const std::function<bool()>& ready, std::string_view what) {
    return until(ready, what, &Member::pump);
  }
  // The same without a single call of the transport.
  bool until_idle(const std::function<bool()>& ready, std::string_view what) {
    return until(ready, what, &Member::doze);
  }
  // Polls for so long, on the transport's clock.
  void linger(double seconds);
  // One round of poll, with a short sleep now and then.
  void pump();
  // Transport::wait, and the turn to the next.
  void wait(const Deadline& deadline);
  // Meets all ranks that have not closed or died, without the transport; polls meanwhile.
  bool barrier();

  // Destroys the transport cleanly.
  void close();
  // As a crash would: SIGKILL to this process, or, among threads, close() without goodbye to tests.
  // Among processes it does not return.
  void die();

  // A number all ranks see, at first 0; not through the transport.
  std::atomic<uint64_t>& word(int index);

 private:
  bool somebody_failed() const;
  bool until(const std::function<bool()>& ready, std::string_view what,
             void (Member::*meanwhile)());
  void doze();

  const Rank rank_;
  const int size_;
  const Case& test_;
  Board& board_;
  Turnstile* const turns_;
  std::unique_ptr<Transport> transport_;
  uint64_t pumps_ = 0;
};

// Waits for a credit and sends; for a message, copies it out and releases it. Empty or false after
// a failure was recorded.
bool send(Member& me, SendLink& link, ConstBytes data, uint64_t tag);
struct Letter {
  std::vector<std::byte> data;
  uint64_t tag = 0;
};
std::optional<Letter> receive(Member& me, RecvLink& link);

// One message each way; afterwards the two are connected.
inline constexpr LinkId kData = 1;
bool greet(Member& me, Rank peer, LinkId id = kData);

// `bytes` bytes that depend on the seed.
std::vector<std::byte> pattern(size_t bytes, uint64_t seed);
// Compares a whole message; a failure says where they differ first.
void expect_pattern(ConstBytes data, size_t bytes, uint64_t seed);
// Fast even where nothing is optimized.
bool same_bytes(ConstBytes a, ConstBytes b);

}  // namespace weft::conformance

// Not in the namespace, so that instantiations read well.
class Conformance : public testing::TestWithParam<weft::conformance::Case> {
 protected:
  using Body = std::function<void(weft::conformance::Member&)>;

  const weft::conformance::Backend& backend() const { return GetParam().backend; }
  weft::conformance::Mode mode() const { return GetParam().mode; }

  // Runs `body` once per rank and waits for all. Ranks meet before their transports are destroyed.
  void run(int size, const Body& body, uint32_t absent = 0);
};
