// make_in_process_rendezvous: ranks that are threads of one process.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/text.h"
#include "bootstrap/frame.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/store.h"

namespace weft {
namespace {

// Shared by all ranks. Nobody can be two meetings ahead of another, so one table is enough.
struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> offers;  // of the meeting under way
  std::vector<bool> here;
  std::vector<bool> left;
  std::vector<std::string> table;  // of the last complete meeting
  uint64_t complete = 0;           // meetings
  Status failure;

  std::vector<Rank> ranks_where(const std::vector<bool>& set, bool value) const {
    std::vector<Rank> ranks;
    for (size_t i = 0; i < set.size(); ++i)
      if (set[i] == value) ranks.push_back(static_cast<Rank>(i));
    return ranks;
  }
  bool all_here() const { return std::find(here.begin(), here.end(), false) == here.end(); }
  void fail(Status why) {
    if (failure.ok()) failure = std::move(why);
    changed.notify_all();
  }
};

class Endpoint final : public Rendezvous {
 public:
  Endpoint(std::shared_ptr<Group> group, Rank rank) : group_(std::move(group)), rank_(rank) {}
  ~Endpoint() override {
    const std::lock_guard lock(group_->mutex);
    group_->left[static_cast<size_t>(rank_)] = true;
    group_->changed.notify_all();
  }

  Rank rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->here.size()); }

  Result<std::vector<std::string>> all_gather(std::string mine, const Deadline& deadline) override {
    WEFT_TRY(check_blob(mine));
    std::unique_lock lock(group_->mutex);
    const uint64_t meeting = group_->complete;
    if (group_->failure.ok()) arrive(std::move(mine));
    while (group_->failure.ok() && group_->complete == meeting) {
      check_who_left();
      if (deadline.expired()) group_->fail(ended(deadline, rank_, nobody_came()));
      if (group_->failure.ok())
        group_->changed.wait_for(lock, std::chrono::milliseconds(deadline.left_ms(100)));
    }
    if (group_->complete > meeting) return group_->table;
    return group_->failure;
  }

 private:
  void arrive(std::string mine) {
    group_->offers[static_cast<size_t>(rank_)] = std::move(mine);
    group_->here[static_cast<size_t>(rank_)] = true;
    if (!group_->all_here()) return;
    group_->table = std::exchange(group_->offers, std::vector<std::string>(group_->here.size()));
    group_->here.assign(group_->here.size(), false);
    ++group_->complete;
    group_->changed.notify_all();
  }

  void check_who_left() {
    for (const Rank r : group_->ranks_where(group_->left, true))
      if (!group_->here[static_cast<size_t>(r)])
        group_->fail(Status(Code::peer_lost,
                            concat("Rank ", r, " (a thread) left the job while others met."), r));
  }

  Status nobody_came() const {
    const std::vector<Rank> absent = group_->ranks_where(group_->here, false);
    return Status(Code::timeout,
                  concat("Not all threads came to meeting ", group_->complete,
                         " of the job within the time given; missing of ", size(), ": ",
                         wire::list_ranks(absent), "."),
                  absent.front());
  }

  const std::shared_ptr<Group> group_;
  const Rank rank_;
};

}  // namespace

std::vector<std::unique_ptr<Rendezvous>> make_in_process_rendezvous(int size) {
  const auto group = std::make_shared<Group>();
  const auto ranks = static_cast<size_t>(size);
  group->offers.resize(ranks);
  group->here.assign(ranks, false);
  group->left.assign(ranks, false);
  std::vector<std::unique_ptr<Rendezvous>> endpoints;
  for (Rank r = 0; r < size; ++r) endpoints.push_back(std::make_unique<Endpoint>(group, r));
  return endpoints;
}

}  // namespace weft
