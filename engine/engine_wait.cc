// What an operation does while it waits, and what is said when it does not end well.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "engine/agreement.h"
#include "engine/engine.h"
#include "engine/notes.h"

namespace weft {
namespace {

// To a peer that does not listen the transport sends the first statement only (Transport::tell).
constexpr double kStatementAfter_s = 0.1, kStatementEvery_s = 1.0;
constexpr double kStatementOld_s = 3;  // what a peer said longer ago may not hold any more
// A line on standard error says that a call waits; the next one comes when it has waited so many
// times as long.
constexpr double kWarnAfter_s = 30, kWarnAgain = 3;
// Who waits, and sees nothing move, looks around every few milliseconds. Where it has not for so
// long, it did not run.
constexpr double kAway_s = 1;
// How long to wait for a peer's side of a disagreement before reporting without it.
constexpr double kOtherSide_s = 0.5;
// Who has waited for less than this part of its own deadline when another rank gives up, and for
// less than so long, was busy.
constexpr double kBusyPart = 0.1, kBusyMost_s = 0.5;
constexpr double kLastWordsLeast_s = 0.2, kLastWordsMost_s = 1;

}  // namespace

// What has been seen of this rank's operations by now.
Look Engine::take_look() const {
  return {media_->clock().now_ns(), moves_.load(std::memory_order_relaxed)};
}

// Whether this process was stopped since the last look (a debugger, a suspended job or machine).
// That time counts for no deadline: peers were stopped, too, or their data is here, unread. Where
// anything moved meanwhile, it may be that which took so long, and a call beside it must not miss
// its deadline.
bool Engine::was_away(Look& last) const {
  const Look now = take_look(), before = std::exchange(last, now);
  return !config_.manual_progress && before.at_ns != 0 && before.moves == now.moves &&
         now.at_ns - before.at_ns > kAway_s * 1e9;
}

void Engine::note_move() {
  moved_ = true;
  count_one(moves_);
}

// The slow path of waiting: connections, deaths, notes, abort, deadline, and peers in other calls.
Status Engine::look_around(Operation& op) {
  op.waited = true;
  if (dump_asked_.load(std::memory_order_relaxed)) serve_dump(op);
  if (device_) watch_device(false);
  media_->poll();
  if (failed_.load(std::memory_order_acquire)) {
    tell_failure();
    return health();
  }
  if (Status heard = hear_notes(); !heard.ok()) {
    if (op.ended == CpuExecutor::Progress::done || heard.code() != Code::timeout) return heard;
    return answer_timeout(op, heard);
  }
  if (Status status = op.executor.check(); !status.ok()) {
    if (status.code() == Code::mismatch) return fail(explain_mismatch(op, status), true);
    end_what_can();
    if (op.has_ended()) return {};
    return fail(status.within(op.text() + " on rank " + std::to_string(rank())), true);
  }
  if (was_away(op.looked)) op.moved = true, op.blocked_since_ns = 0;
  const auto renewed = [&] {
    const bool renews = !op.deadline || std::exchange(op.moved, false);
    if (renews) op.deadline = deadline_of(op.call.timeout_s);
    return renews;
  };
  if (!renewed() && op.deadline->expired()) {
    end_what_can();
    if (op.has_ended()) return {};
    if (!renewed()) return time_out(op);
  }
  const int64_t now_ns = media_->clock().now_ns();
  if (!config_.manual_progress && backoff_.idle() < 64) op.blocked_since_ns = 0;
  if (op.blocked_since_ns == 0) op.blocked_since_ns = now_ns;
  const double waited_s = static_cast<double>(now_ns - op.blocked_since_ns) * 1e-9;
  if (waited_s > kStatementAfter_s) state_call(op, now_ns);
  if (waited_s > std::max(op.warn_after_s, kWarnAfter_s)) warn(op, waited_s);
  return {};
}

double Engine::patience_s(const Operation& op) const {
  return op.call.timeout_s > 0 ? op.call.timeout_s : config_.options.timeout_s;
}

// How long it has, of that, by what counts for its deadline.
double Engine::waited_s(const Operation& op) const {
  if (!op.deadline || op.moved) return 0;
  return std::max(0.0, patience_s(op) - static_cast<double>(op.deadline->left_ns()) * 1e-9);
}

// Of all calls under way, `looking` among them, which looks around.
Operation& Engine::longest_waiting(Operation& looking) {
  Operation* longest = &looking;
  const auto consider = [&](Operation& op) {
    if (op.plan && !op.has_ended() && waited_s(op) > waited_s(*longest)) longest = &op;
  };
  consider(inline_);
  for (const auto& op : active_)
    if (op) consider(*op);
  return *longest;
}

// To another rank's timeout: perhaps that one waited for this rank, which says whom it waits for
// itself. Where it has not for long, that is no reason why others had to: then it was busy.
Status Engine::answer_timeout(Operation& op, const Status& heard) {
  Operation& longest = longest_waiting(op);
  const double waited = waited_s(longest);
  const bool busy = waited < std::min(patience_s(longest) * kBusyPart, kBusyMost_s);
  Status own = describe_timeout(longest, waited);
  if (busy) own = Status(Code::timeout, std::string(own.message()));
  const std::vector<Rank> blamed = busy ? std::vector<Rank>() : longest.executor.blocked_peers();
  const Word word{own, blamed};
  notify_all(NoteKind::failure, failure_note(word, rank()));
  if (busy) words_.emplace(rank(), word);
  const Status both(Code::timeout, concat(heard.message(), "; ", own.message()),
                    busy ? heard.peer() : own.peer());
  return with_last_words(both, blamed, op.call.timeout_s == 0);
}

void Engine::warn(Operation& op, double waited_s) {
  op.warn_after_s = waited_s * kWarnAgain;
  log_line(LogLevel::warning, rank(),
           concat(op.text(), " has waited ", std::llround(waited_s), " s for ",
                  op.executor.blocked_on(), whereabouts(op.executor.blocked_peers())));
}

// What those who are waited for have said lately.
std::string Engine::whereabouts(const std::vector<Rank>& peers) const {
  std::string text;
  for (const Rank peer : peers) {
    const auto said = said_.find(peer);
    if (said == said_.end()) continue;
    const double ago_s = static_cast<double>(media_->clock().now_ns() - said->second.at_ns) * 1e-9;
    if (ago_s < kStatementOld_s)
      text.append(concat("; rank ", peer, " says that it is in ", said->second.what));
  }
  return text;
}

void Engine::state_call(Operation& op, int64_t now_ns) {
  if (op.stated_ns != 0 && now_ns - op.stated_ns < kStatementEvery_s * 1e9) return;
  op.stated_ns = now_ns;
  const NoteKind kind = op.is_group ? NoteKind::group : NoteKind::call;
  const std::string statement =
      op.is_group ? group_statement(op.text()) : call_statement(op.sequence, op.signature());
  for (const Rank peer : op.executor.blocked_peers()) media_->tell(peer, kind, statement);
}

// The collective call of that number, where it is under way or still recorded.
std::optional<Signature> Engine::call_numbered(uint64_t sequence) const {
  if (sequence == 0) return std::nullopt;
  if (inline_.plan && inline_.sequence == sequence) return inline_.signature();
  for (const auto& op : active_)
    if (op && op->sequence == sequence) return op->signature();
  return recorder_.call(sequence);
}

Status Engine::hear_notes() {
  while (const auto note = media_->hear()) {
    if (auto failure = parse_failure_note(note->text)) {
      end_what_can();
      words_.emplace(note->from, *failure);
      const Status status = std::move(failure->status);
      const bool news = record_failure(status);
      if (news) told_.store(true, std::memory_order_release);
      tell_failure();  // of another one, which another thread has found meanwhile
      stay_reachable();
      // Who told may have no connection to some that this rank has one to. (After a timeout every
      // rank tells its own story, see look_around().)
      if (news && status.code() != Code::timeout) notify_all(NoteKind::failure, note->text);
      return status;
    }
    if (std::string what = stated_call(note->text); !what.empty())
      said_[note->from] = {std::move(what), media_->clock().now_ns()};
    const uint64_t sequence = stated_sequence(note->text);
    const std::optional<Signature> ours = call_numbered(sequence);
    if (Status status = compare_calls(ours, note->from, note->text, rank()); !status.ok()) {
      media_->tell(note->from, NoteKind::call, call_statement(sequence, *ours));
      return fail(std::move(status), true);
    }
    if (Status status = compare_device_calls(note->from, note->text); !status.ok())
      return fail(std::move(status), true);
  }
  return {};
}

// What peers did before they failed, gave up or left is mostly here before the word of it: a call
// that lacks nothing else ends well, and the next one learns of the failure. (What was sent to a
// peer that has died since counts as sent: nobody misses it.)
void Engine::end_what_can() {
  using Progress = CpuExecutor::Progress;
  constexpr int kMostPolls = 1000;  // of live peers' data, too, who have to hear of the failure
  const auto last_polls = [this](Operation& op) {
    if (!op.plan || op.has_ended()) return;
    for (int i = 0; i < kMostPolls; ++i) {
      if (failed_.load(std::memory_order_acquire)) return;  // links may be gone already
      const Progress progress = poll(op);
      if (progress == Progress::blocked) return;
      if (progress != Progress::moved) return void(op.ended = progress);
      op.moved = true;
      note_move();
      op.blocked_since_ns = 0;
    }
  };
  last_polls(inline_);
  for (const auto& op : active_)
    if (op) last_polls(*op);
}

Status Engine::how_ended(Operation& op) {
  if (op.ended == CpuExecutor::Progress::done) return {};
  return failed_.load(std::memory_order_acquire) ? health() : why_failed(op);
}

// A peer's data did not fit this call. Ask for its side of the story before reporting.
Status Engine::explain_mismatch(Operation& op, const Status& failure) {
  const Rank peer = failure.peer();
  if (failure.code() != Code::mismatch)
    return failure.within(op.text() + " on rank " + std::to_string(rank()));
  if (!op.is_group && peer >= 0) {
    notify_all(NoteKind::call, call_statement(op.sequence, op.signature()));
    const Deadline patience = Deadline::after(kOtherSide_s, media_->clock());
    while (!patience.expired()) {
      media_->poll();
      while (const auto note = media_->hear()) {
        if (auto theirs = parse_failure_note(note->text)) return theirs->status;
        const std::optional<Signature> ours = call_numbered(stated_sequence(note->text));
        if (Status status = compare_calls(ours, note->from, note->text, rank()); !status.ok())
          return status;
      }
      media_->wait(patience);
    }
  }
  return Status(failure.code(),
                op.text() + " on rank " + std::to_string(rank()) + " cannot go on with rank " +
                    std::to_string(peer) + ": " + std::string(failure.message()) +
                    "; all ranks must make the same calls in the same order (WEFT_CHECK=1 finds "
                    "the first that differs)",
                peer);
}

Status Engine::time_out(Operation& op) {
  const std::vector<Rank> blamed = op.executor.blocked_peers();
  return with_last_words(fail(describe_timeout(op, patience_s(op)), true, blamed), blamed,
                         op.call.timeout_s == 0);
}

void Engine::time_out_waiting(const Operation& op) {
  const Operation* ahead = inline_.plan ? &inline_ : nullptr;
  if (!ahead && !active_.empty()) ahead = active_.front().get();
  const std::vector<Rank> blamed = ahead ? ahead->executor.blocked_peers() : std::vector<Rank>();
  std::string text = concat(op.text(), ": rank ", rank(), " waited ", number_text(patience_s(op)),
                            " s for calls before it to end");
  if (ahead)
    text.append(concat("; ", ahead->text(), " waits for ", ahead->executor.blocked_on(),
                       whereabouts(blamed)));
  const Status status(Code::timeout, std::move(text), blamed.empty() ? -1 : blamed.front());
  (void)with_last_words(fail(status, true, blamed), blamed, op.call.timeout_s == 0);
}

// Where a rank begins to ask who is to blame that was busy itself.
std::vector<Rank> Engine::who_gave_up() const {
  std::vector<Rank> ranks;
  for (const auto& [teller, word] : words_)
    if (word.status.code() == Code::timeout && !was_busy(word)) ranks.push_back(teller);
  return ranks;
}

// After a timeout, which all ranks of the call tell each other: those who are waited for may
// themselves have waited for somebody, and the word of who waited for the last of them goes into
// the report; whoever says nothing is not in the call, or stuck. (A rank can only tell of those
// that it deals with.)
Status Engine::with_last_words(const Status& status, const std::vector<Rank>& blamed,
                               bool default_deadline) {
  const auto silent = [&] {
    std::vector<Rank> ranks;
    for (Rank r = 0; r < size(); ++r)
      if (media_->acquainted(r) && !words_.contains(r)) ranks.push_back(r);
    return ranks;
  };
  // Who waited as long as by default may well be busy, and nobody minds; after less, who comes
  // too late must not be taken for one who has waited.
  const double tenth_s = default_deadline ? config_.options.timeout_s / 10 : 0;
  const Deadline patience =
      Deadline::after(std::clamp(tenth_s, kLastWordsLeast_s, kLastWordsMost_s), media_->clock());
  while (!patience.expired() && !silent().empty()) {
    media_->poll();
    while (const auto note = media_->hear())
      if (auto theirs = parse_failure_note(note->text))
        words_.emplace(note->from, *std::move(theirs));
    media_->wait(patience);
  }
  const std::vector<Rank> missing = silent();
  const std::vector<Rank> first = words_.contains(rank()) ? who_gave_up() : blamed;
  const Culprit culprit = find_culprit(first, words_, rank());
  const Status* cause = culprit.word;
  for (const Rank peer : first)
    if (const auto word = words_.find(peer); !cause && word != words_.end())
      cause = &word->second.status;
  std::string text;
  if (culprit.circle)
    text = "all that are waited for wait themselves, in a circle: ";
  else if (!missing.empty())
    text = concat("no word from ", rank_list(missing), ": ");
  text.append(status.message());
  if (cause && text.find(cause->message()) == std::string::npos)
    text.append("; ").append(cause->message());
  if (default_deadline)
    text.append(" (for a longer deadline set WEFT_TIMEOUT, in seconds, or Options::timeout_s)");
  const bool certain = std::ranges::find(missing, culprit.rank) != missing.end();
  const Rank peer = culprit.circle                 ? status.peer()
                    : !missing.empty() && !certain ? missing.front()
                    : culprit.rank >= 0            ? culprit.rank
                    : cause                        ? cause->peer()
                                                   : status.peer();
  const Status said(Code::timeout, std::move(text), peer);
  const std::lock_guard lock(failure_mutex_);
  if (failure_.code() == Code::timeout) failure_ = said;  // so that later calls say it, too
  return said;
}

// `waited`: seconds. Where those are nearly as many as it may, others were sooner to give up.
Status Engine::describe_timeout(Operation& op, double waited) const {
  constexpr double kNearly = 0.9;
  const std::vector<Rank> peers = op.executor.blocked_peers();
  const double patience = patience_s(op);
  const double rounded = std::round(waited * 1e3) * 1e-3;
  std::string text = op.text();
  if (!op.is_group) text += concat(", collective call ", op.sequence);
  text += concat(", algorithm ", op.plan->plan->request.algorithm, ": rank ", rank(), " waited ",
                 number_text(waited > kNearly * patience ? patience : rounded), " s for ",
                 op.executor.blocked_on(), whereabouts(peers));
  return Status(Code::timeout, std::move(text), peers.empty() ? -1 : peers.front());
}

}  // namespace weft
