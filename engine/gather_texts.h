// An all_gather of texts of any length, for those who tell each other more than numbers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "bootstrap/rendezvous.h"
#include "engine/call.h"

namespace weft {

// How the caller makes a collective call.
using RunCall = std::function<Status(const Call&)>;

inline constexpr size_t kTextBytesMax = 64 << 20;  // of a rank's text
inline constexpr size_t kTextsBytesMax = 1 << 30;  // of all together

// Collective over `ranks` ranks, in two calls: all ranks' texts, by rank. Where they are too long,
// there is only the first call, and an error on all ranks that names who has the longest.
Result<std::vector<std::string>> gather_texts(int ranks, const RunCall& run,
                                              const std::string& mine);

// Some ranks of a communicator, meeting through it. All of its ranks take part in every all_gather;
// each sees the part of its own group. The deadline is that of the calls.
class MembersRendezvous final : public Rendezvous {
 public:
  // `ranks`: of the communicator, in which this rank is `me`. `members`, who meet, in their order.
  MembersRendezvous(int ranks, Rank me, RunCall run, std::vector<Rank> members);
  Rank rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  Result<std::vector<std::string>> all_gather(std::string mine, const Deadline&) override;

 private:
  const int ranks_;
  const RunCall run_;
  const std::vector<Rank> members_;
  const Rank rank_;
};

}  // namespace weft
