// The flight recorder: what this rank's last operations were, always on, for messages and dumps.
//
// Writing an operation down costs a cache line and a look at the processor's counter; it happens
// under the engine's driver lock. Reading is possible from any thread at any time: an operation
// that is written over meanwhile is left out.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/ticks.h"
#include "engine/call.h"

namespace weft {

class Recorder {
 public:
  static constexpr size_t kOperations = 256;
  // Stands for an algorithm and a protocol.
  using Label = uint16_t;

  enum class State : uint8_t { running, done, failed };

  struct Record {
    uint64_t number = 0;    // among all operations, from 1
    uint64_t sequence = 0;  // among collective calls, from 1; 0: a group of sends and receives
    Signature call;         // of a group: count is how many, root the first peer
    std::string algorithm;  // "ring/simple"
    State state = State::running;
    int64_t begun_ns = 0;  // since 1970
    int64_t ended_ns = 0;  // 0: not known, but before the next one began
  };

  Label label(const std::string& algorithm);

  // A call as it is written down: worked out once for calls that are made again and again.
  struct What {
    What() = default;
    What(const Signature& call);  // NOLINT: implicit, for it says no less
    uint64_t arguments = 0, count = 0, counts = 0;
  };

  // An operation begins; gives its number.
  uint64_t begin(uint64_t sequence, const What& call, Label label) {
    const uint64_t number = number_.load(kRelaxed) + 1;
    number_.store(number, kRelaxed);
    if (sequence > 0) sequence_.store(sequence, kRelaxed);
    Line& to = line(number);
    to.number.store(0, kRelaxed);
    to.sequence.store(sequence, kWrite);
    to.what.store(call.arguments, kWrite);
    to.count.store(call.count, kWrite);
    to.counts.store(call.counts, kWrite);
    to.begun.store(ticks(), kWrite);
    to.ended.store(0, kWrite);
    to.state.store(uint64_t{label} << 8, kWrite);
    to.number.store(number, kWrite);
    return number;
  }
  // It runs as something else than it was thought to.
  void relabel(uint64_t number, Label label);
  // It ends. Only where it took long it is worth a time stamp.
  void end(uint64_t number, State state, bool took_long) {
    Line& of = line(number);
    if (of.number.load(kRelaxed) != number) return;  // so long ago that others came over it
    if (took_long) of.ended.store(ticks(), kRelaxed);
    of.state.store((of.state.load(kRelaxed) & ~uint64_t{0xff}) | static_cast<uint64_t>(state),
                   kRelaxed);
  }

  // Of the last collective call; 0 before the first.
  uint64_t sequence() const { return sequence_.load(kRelaxed); }
  // That collective call, where it is not too long ago.
  std::optional<Signature> call(uint64_t sequence) const;
  // Oldest first.
  std::vector<Record> records() const;

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  // Of what a line holds: who sees a new word of it sees that its number was taken away before.
  static constexpr auto kWrite = std::memory_order_release, kRead = std::memory_order_acquire;

  // Words, so that they can be read while they are written. A number of 0: being written.
  struct alignas(64) Line {
    std::atomic<uint64_t> number{0}, sequence{0}, what{0}, count{0}, counts{0}, begun{0}, ended{0},
        state{0};
  };

  Line& line(uint64_t number) { return lines_[number % kOperations]; }
  std::optional<Record> read(const Line& line) const;

  std::array<Line, kOperations> lines_;
  std::atomic<uint64_t> number_{0}, sequence_{0};
  TickDial dial_;
  mutable std::mutex labels_mutex_;
  std::vector<std::string> labels_;
};

}  // namespace weft
