// Two ranks of one process, joined by a link each way and, where memory can be shared, by windows.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "bootstrap/cpus.h"
#include "engine/measure/threads.h"
#include "engine/media.h"
#include "transport/transport.h"

namespace weft::measuring {

class Pair {
 public:
  // Both windows are mapped, and hold `window_bytes` of pages. An error where the transport cannot
  // be made, or the ends do not find each other within seconds.
  static Result<Pair> make(std::string_view transport, size_t window_bytes);

  // Whether there are windows.
  bool shares_memory() const { return transports_[0]->has_windows(); }
  // Of links as jobs over such a transport have them.
  LinkShape shape() const { return shares_memory() ? Media::kUsualLinks : Media::kSocketLinks; }
  SendLink& out(Rank me) { return transports_[me]->open_send(1 - me, kLink, shape()); }
  RecvLink& in(Rank me) { return transports_[me]->open_recv(1 - me, kLink, shape()); }
  // As `me` has it mapped. REQUIRES: shares_memory().
  std::byte* window(Rank me, Rank owner) { return transports_[me]->open_window(owner)->memory; }

  // Whether they can read each other's memory through the kernel, and that; see Transport.
  bool reads_memory() const {
    return transports_[0]->reads_memory(1).value_or(false) &&
           transports_[1]->reads_memory(0).value_or(false);
  }
  bool read(Rank me, const std::byte* there, Bytes into) {
    const auto read = transports_[me]->read_memory(1 - me, reinterpret_cast<uint64_t>(there), into);
    return read.ok() && *read;
  }

  // Polls as an executor does until `ready`; false where that does not come.
  template <class Ready>
  bool await(Rank me, Ready ready) {
    for (uint64_t i = 1; !ready(); ++i) {
      relax(i, one_core_);
      if (i % (one_core_ ? 8 : 128) != 0) continue;
      transports_[me]->poll();
      if (late_.load(std::memory_order_relaxed) || deadline_.expired()) {
        late_.store(true);
        return false;
      }
    }
    return true;
  }
  // From now on the other end has so long to answer. REQUIRES: nobody waits.
  void be_patient() { deadline_ = Deadline::after(kPatience_s); }
  // An error where an end did not answer in time.
  Status status() const;

  Pair(Pair&& other) noexcept;

 private:
  static constexpr LinkId kLink = 1;
  static constexpr double kPatience_s = 10;

  Pair() = default;
  Status map_windows(size_t bytes);

  std::unique_ptr<Transport> transports_[2];
  const bool one_core_ = usable_cpus().size() == 1;
  Deadline deadline_ = Deadline::after(kPatience_s);
  std::atomic<bool> late_{false};
};

}  // namespace weft::measuring
