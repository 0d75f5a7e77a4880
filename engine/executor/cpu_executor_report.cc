// What a CpuExecutor says about itself: who is waited for, and where, when it does not move; and
// what it did when.
#include <algorithm>

#include "engine/executor/cpu_executor.h"
#include "engine/executor/shared_state.h"

namespace weft {
namespace {

Step step_of(const PlanStep& lowered) {
  Step step;
  step.from = {lowered.from_peer, 0};
  step.to = {lowered.to_peer, 0};
  step.sources = lowered.sources;
  step.targets = lowered.targets;
  return step;
}

// Where memory is posted, looking would claim the message that the next post is for.
bool nothing_there(const PlanStep& step) { return step.receives_memory || !step.from->peek(); }
// Nor of a step to come, where its link has memory posted.
bool is_empty(RecvLink& link) { return !link.traits().recv_into_memory && !link.peek(); }

}  // namespace

// A step begins when it first finds something to do, and ends when it has posted its signals.
CpuExecutor::Move CpuExecutor::run_traced(const PlanLane& lane, Cursor& at, StepRing& trace) {
  const PlanStep& step = lane.steps[at.step];
  StepDone done{.chunk = chunk_at(step, at.time, plan_->chunks),
                .round = static_cast<uint32_t>(at.round),
                .lane = static_cast<uint16_t>(&lane - plan_->lanes.data()),
                .sources = static_cast<uint8_t>(step.sources.size()),
                .receives = step.from != nullptr,
                .writes = !step.targets.empty(),
                .sends = step.to != nullptr};
  if (!at.entered || at.position == 0) at.began_ns = media_.clock().now_ns();
  done.begin_ns = std::max(at.began_ns, trace.from_ns());
  const Move move = run_step(lane, step, at);
  if (move != Move::moved || at.entered) return move;
  // Where it moves nothing, and nobody waits for it, there was nothing to do.
  const bool moves = at.size > 0 && (done.sources > 0 || done.receives);
  if (!moves && step.waits.empty() && step.posts.empty()) return move;
  done.end_ns = media_.clock().now_ns();
  trace.add(done);
  return move;
}

std::string CpuExecutor::place(const PlanLane& lane, const Cursor& at) const {
  return "step " + std::to_string(at.step) + " (" + name(step_of(lane.steps[at.step])) +
         "), round " + std::to_string(at.round + 1) + " of " + std::to_string(lane.rounds);
}

bool CpuExecutor::is_missing(const Signal& wait, const Cursor& at) const {
  const uint64_t count = needed(wait, at);
  return count > 0 && posts_missing(seen(wait), count) > 0;
}

// Calls use(rank, missing) for those that the lane's step takes something from, where missing()
// says whether it has not come; until one call is true, and returns whether one was. Of a step
// that is not at hand yet: as far as that can be told.
template <class Use>
bool CpuExecutor::any_source(const PlanLane& lane, size_t index, const Cursor& at, Use use) const {
  const PlanStep& step = lane.steps[index];
  const bool at_hand = index == at.step;
  if (!at_hand || !at.entered)
    for (const Signal& wait : step.waits)
      if (use(wait.peer, [&] { return is_missing(wait, at); })) return true;
  if (at_hand && !at.entered) return false;
  const auto serial = static_cast<uint32_t>(identity_.ll_serial + at.round);
  const auto is_old = [&](const std::atomic<uint64_t>& flag) {
    return signal_count(flag.load(std::memory_order_acquire)) != serial;
  };
  if (short_) {
    for (const ShortPlace& place : plan_->short_steps[index].flags)
      if (use(place.rank, [&] { return is_old(flag_at(place)); })) return true;
  } else if (step.lines && at_hand) {
    for (const Operand& o : step.sources)
      if (o.buffer == Buffer::window && use(o.rank, [&] { return is_old(line(o, at)->flag); }))
        return true;
  } else if (step.pulls) {
    return use(step.sources[0].rank, [&] { return at_hand; });
  } else if (step.from) {
    return use(step.from_peer,
               [&] { return at_hand ? nothing_there(step) : is_empty(*step.from); });
  }
  return false;
}

std::vector<Rank> CpuExecutor::waited_for(const PlanLane& lane, const Cursor& at) const {
  std::vector<Rank> peers;
  any_source(lane, at.step, at, [&](Rank peer, auto missing) {
    if (missing()) peers.push_back(peer);
    return false;
  });
  const PlanStep& step = lane.steps[at.step];
  if (at.entered && step.to && peers.empty()) peers.push_back(step.to_peer);
  return peers;
}

// A group's lanes are transfers with one peer each, of which the one at hand says all, and may be
// very many.
bool CpuExecutor::needs_this_cpu() const {
  if (!started_ || lanes_left_ == 0) return awaited_ >= 0 && media_.shares_cpu(awaited_);
  const auto beside = [&](Rank peer, auto missing) { return media_.shares_cpu(peer) && missing(); };
  for (size_t i = 0; i < cursors_.size(); ++i) {
    if (cursors_[i].finished) continue;
    const PlanLane& lane = plan_->lanes[i];
    const size_t end = plan_->numbered ? cursors_[i].step + 1 : lane.steps.size();
    for (size_t step = cursors_[i].step; step < end; ++step)
      if (any_source(lane, step, cursors_[i], beside)) return true;
  }
  return false;
}

std::vector<Rank> CpuExecutor::blocked_peers() const {
  std::vector<Rank> peers;
  if (!plan_) return peers;
  if (!started_) {
    for (Rank r = 0; r < static_cast<Rank>(plan_->windows.size()); ++r)
      if (r != media_.me() && (plan_->windows[r]->memory == nullptr || !lease_is_free_of(r)))
        peers.push_back(r);
    return peers;
  }
  if (lanes_left_ == 0)
    for (const Plan::Outgoing& out : plan_->send_links)
      if (!out.link->flushed()) peers.push_back(out.peer);
  for (size_t i = 0; i < cursors_.size(); ++i) {
    if (cursors_[i].finished) continue;
    for (const Rank peer : waited_for(plan_->lanes[i], cursors_[i])) peers.push_back(peer);
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

std::string CpuExecutor::blocked_on() const {
  std::string text;
  const std::vector<Rank> peers = blocked_peers();
  constexpr size_t kNamed = 8;
  for (size_t i = 0; i < std::min(kNamed, peers.size()); ++i)
    text += (i == 0 ? "rank " : ", rank ") + std::to_string(peers[i]);
  if (peers.size() > kNamed) text += " and " + std::to_string(peers.size() - kNamed) + " more";
  if (!plan_) return text;
  if (!started_) return text + " before the first step";
  if (lanes_left_ == 0) return text + " to take the last messages";
  for (size_t i = 0; i < cursors_.size(); ++i)
    if (!cursors_[i].finished)
      return text + " in lane " + std::to_string(i) + ", " + place(plan_->lanes[i], cursors_[i]);
  return text;
}

Status CpuExecutor::check() const {
  if (!plan_) return {};
  if (!failure_.ok()) return failure_;
  if (!started_)
    for (const Rank peer : blocked_peers())
      if (Status status = media_.peer_status(peer); !status.ok()) return status;
  if (lanes_left_ == 0)
    for (const Plan::Outgoing& out : plan_->send_links)
      if (!out.link->flushed() && !out.link->status().ok()) return out.link->status();
  for (size_t i = 0; i < cursors_.size(); ++i) {
    if (cursors_[i].finished || !started_) continue;
    const PlanLane& lane = plan_->lanes[i];
    const PlanStep& step = lane.steps[cursors_[i].step];
    if (step.from && !step.from->status().ok() && nothing_there(step)) return step.from->status();
    if (step.to && !step.to->status().ok()) return step.to->status();
    if (step.from || step.to) continue;  // links know what their peers sent before they left
    for (const Rank peer : waited_for(lane, cursors_[i]))
      if (Status status = media_.peer_status(peer); !status.ok()) return status;
  }
  return {};
}

}  // namespace weft
