#include "engine/survivors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_object.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/text.h"

namespace weft {
namespace {

using nlohmann::json;

// Every text carries the number of the member's join that it belongs to (as its attempt): both
// sides pass over what is of an earlier one.
enum FrameKind : uint8_t {
  kJoin = 1,  // member to leader: its descent
  kGo,        // leader to member: who is there
  kPart,      // member to leader: its blob
  kAll,       // leader to member: all blobs
  kAgain,     // leader to member: one is lost, join once more
  kOther,     // leader to member: the rank that shrinks another communicator
  kLeave,     // either to the other: has given up
};

constexpr double kNap_s = 0.01;

template <class T>
std::string to_text(const std::vector<T>& list) {
  return json_text(json(list));
}

bool of_one_line(std::string_view a, std::string_view b) {
  return a.starts_with(b) || b.starts_with(a);
}

Status other_communicator(Rank peer) {
  return Status(Code::mismatch,
                concat("rank ", peer,
                       " does not shrink this communicator, but another one that was shrunk from "
                       "the same one; all ranks have to shrink them in the same order"),
                peer);
}

Status of_too_many(const std::string& descent) {
  return Status(Code::unsupported,
                concat("this communicator was shrunk from others that were, ",
                       std::count(descent.begin(), descent.end(), '/'),
                       " of them one after the other, and they cannot be named any more; make a ",
                       "new one with create()"));
}

}  // namespace

Result<std::vector<Rank>> survivors_from(std::string_view text, int ranks, Rank leader) {
  const Result<json> list = parse_json("The list", text);
  std::vector<Rank> survivors;
  std::vector<bool> there(static_cast<size_t>(ranks));
  bool good = list.ok() && list->is_array();
  for (const json& rank : good ? *list : json::array()) {
    const uint64_t number = rank.is_number_unsigned() ? rank.get<uint64_t>() : there.size();
    good = good && number < there.size() && !there[number];
    if (!good) break;
    there[number] = true;
    survivors.push_back(static_cast<Rank>(number));
  }
  if (good) return survivors;
  return Status(Code::internal,
                concat("rank ", leader, " names survivors that are not different ranks of ", ranks),
                leader);
}

Result<std::vector<std::string>> survivors_texts_from(std::string_view text, size_t survivors,
                                                      Rank leader) {
  const Result<json> list = parse_json("The list", text);
  const auto is_text = [](const json& value) { return value.is_string(); };
  if (list.ok() && list->is_array() && list->size() == survivors &&
      std::all_of(list->begin(), list->end(), is_text))
    return list->get<std::vector<std::string>>();
  return Status(Code::internal,
                concat("rank ", leader, " did not send the texts of ", survivors, " survivors"),
                leader);
}

TextLine& Reunion::line(Rank peer) {
  std::unique_ptr<TextLine>& line = lines_[peer];
  if (!line) line = std::make_unique<TextLine>(media, peer);
  return *line;
}

Survivors::Survivors(Reunion& reunion, std::vector<Rank> candidates, std::string descent,
                     double patience_s, std::function<Status()> meanwhile)
    : reunion_(reunion),
      media_(reunion.media),
      candidates_(std::move(candidates)),
      descent_(std::move(descent)),
      patience_s_(patience_s),
      meanwhile_(std::move(meanwhile)),
      left_out_(static_cast<size_t>(media_.ranks())) {}

Rank Survivors::rank() const {
  const auto me = std::find(members_.begin(), members_.end(), media_.me());
  return static_cast<Rank>(me - members_.begin());
}

Status Survivors::pause() {
  WEFT_TRY(shortage_);
  WEFT_TRY(meanwhile_());
  media_.poll();
  media_.wait(Deadline::after(kNap_s, media_.clock()));
  return {};
}

// Whether the network has fallen apart between this rank and that one. A peer that is only late
// still has a host, which acknowledges what was sent to it.
bool Survivors::cut_off(Rank peer) {
  const double silence_s = media_.silence_s(peer);
  if (silence_s == 0) return answer_by_.erase(peer), false;
  const Deadline patience = Deadline::after(patience_s_, media_.clock());
  const Deadline& by = answer_by_.try_emplace(peer, patience).first->second;
  return silence_s > patience_s_ && by.expired();
}

bool Survivors::lost(Rank peer) {
  if (left_out_[peer]) return true;
  if (!media_.route(peer)) return left_out_[peer] = true;  // nothing leads there
  const Status& status = line(peer).status();
  if (status.ok() && !cut_off(peer)) return false;
  left_out_[peer] = true;
  if (status.code() == Code::system) shortage_ = status;
  const std::string why = status.ok() ? concat("rank ", peer, ", whose host does not answer")
                                      : std::string(status.message());
  log_line(LogLevel::info, media_.me(), concat("goes on without: ", why));
  return true;
}

// The first that is there, as far as this rank knows.
Rank Survivors::leader() {
  for (const Rank rank : candidates_)
    if (rank == media_.me() || !lost(rank)) return rank;
  return media_.me();
}

Status Survivors::meet() {
  broken_ = false;
  leader_ = media_.me();  // of nobody: leave() may come next
  if (descent_.size() > TextLine::bytes_max(media_.ranks())) return of_too_many(descent_);
  for (;;) {
    leader_ = leader();
    if (leader_ == media_.me()) return lead();
    if (const Status status = follow(leader_); status.code() != Code::peer_lost) return status;
  }
}

bool Survivors::has_joined(Rank peer) {
  std::optional<Reunion::Asked>& asked = reunion_.asked[peer];
  while (auto text = line(peer).receive()) {
    if (text->kind == kJoin) asked = Reunion::Asked{text->attempt, std::move(text->text)};
    if (text->kind == kLeave && asked && asked->join == text->attempt) asked.reset();
  }
  return asked.has_value();
}

// Whether all who have joined are to meet here; if not, nobody is.
Status Survivors::check_descent() {
  std::vector<std::optional<Reunion::Asked>>& asked = reunion_.asked;
  const auto stranger = [&](Rank peer) {
    return asked[peer] && !of_one_line(asked[peer]->descent, descent_);
  };
  const auto found = std::find_if(candidates_.begin(), candidates_.end(), stranger);
  if (found == candidates_.end()) return {};
  members_.clear();
  for (const Rank peer : candidates_) {
    if (!asked[peer].has_value() || lost(peer)) continue;
    members_.push_back(peer);
    const Rank who = stranger(peer) ? media_.me() : *found;
    line(peer).send({kOther, asked[peer]->join, std::to_string(who)});
    asked[peer].reset();
  }
  WEFT_TRY(flush(Deadline::after(patience_s_, media_.clock())));
  return other_communicator(*found);
}

bool Survivors::all_have_joined() {
  bool all = true;
  for (const Rank peer : candidates_)
    if (peer != media_.me() && !lost(peer)) all = has_joined(peer) && all;
  return all;
}

Status Survivors::lead() {
  const Deadline deadline = Deadline::after(patience_s_, media_.clock());
  while (!all_have_joined() && !deadline.expired()) WEFT_TRY(pause());
  WEFT_TRY(check_descent());
  members_.clear();
  for (const Rank peer : candidates_)
    if (peer == media_.me() || (reunion_.asked[peer] && !lost(peer)))
      members_.push_back(peer);
    else
      left_out_[peer] = true;
  joins_.clear();
  for (const Rank peer : members_) {
    if (peer == media_.me()) continue;
    joins_[peer] = std::exchange(reunion_.asked[peer], std::nullopt)->join;
    line(peer).send({kGo, joins_[peer], to_text(members_)});
  }
  return {};
}

Status Survivors::follow(Rank leader) {
  join_ = ++reunion_.joins % TextLine::kAttempts;
  line(leader).send({kJoin, join_, descent_});
  // The leader may itself have to wait for another one.
  const Deadline deadline = Deadline::after(2 * patience_s_ + 1, media_.clock());
  while (!deadline.expired()) {
    while (const auto text = line(leader).receive()) {
      if (text->attempt != join_) continue;
      if (text->kind == kOther) {
        const auto who = parse_int(text->text, 0, media_.ranks() - 1);
        return other_communicator(who.ok() ? static_cast<Rank>(*who) : leader);
      }
      if (text->kind == kLeave) left_out_[leader] = true;
      if (text->kind != kGo) continue;
      Result<std::vector<Rank>> told = survivors_from(text->text, media_.ranks(), leader);
      if (!told.ok()) return told.status();
      members_ = told.take();
      if (std::find(members_.begin(), members_.end(), media_.me()) == members_.end())
        return internal_error(concat("rank ", leader, " counts this rank among the lost"));
      return {};
    }
    if (lost(leader)) return Status(Code::peer_lost, "the leader is lost", leader);
    WEFT_TRY(pause());
  }
  return Status(
      Code::timeout,
      concat("rank ", leader, " did not answer: it has to call shrink, too, or all others ",
             "have to name it in `without`; or it has gone on without this rank"),
      leader);
}

// For the leader: calls the others to meet again.
Status Survivors::break_up(Status why) {
  broken_ = true;
  for (const Rank peer : members_)
    if (peer != media_.me() && !lost(peer)) line(peer).send({kAgain, joins_[peer], ""});
  return why;
}

// What they have asked since, which has not been read yet, is for this rank's next meeting.
void Survivors::leave() {
  if (leader_ != media_.me()) {
    if (!lost(leader_)) line(leader_).send({kLeave, join_, ""});
    return media_.poll();
  }
  for (const Rank peer : candidates_) {
    if (peer == media_.me() || lost(peer)) continue;
    const auto asked = std::exchange(reunion_.asked[peer], std::nullopt);
    if (asked || joins_.contains(peer))
      line(peer).send({kLeave, asked ? asked->join : joins_[peer], ""});
  }
  media_.poll();
}

Status Survivors::lose(Rank missing, std::string_view why) {
  left_out_[missing] = true;
  return break_up(Status(Code::peer_lost, concat("rank ", missing, " ", why), missing));
}

// What has come of a member's part of this meeting.
Status Survivors::take_part(Rank peer, std::optional<std::string>& part, const Deadline& deadline) {
  while (auto text = line(peer).receive()) {
    if (text->kind == kJoin) {
      reunion_.asked[peer] = Reunion::Asked{text->attempt, std::move(text->text)};
      return break_up(Status(Code::aborted, concat("rank ", peer, " meets anew"), peer));
    }
    if (text->attempt != joins_[peer]) continue;
    if (text->kind == kLeave) return lose(peer, "gave up while the survivors met");
    if (text->kind != kPart) continue;
    if (text->text.size() > TextLine::kPartBytesMax)
      return lose(peer, concat("contributed ", text->text.size(), " bytes to a meeting, and ",
                               TextLine::kPartBytesMax, " are the most"));
    part = std::move(text->text);
    return {};
  }
  if (lost(peer)) return lose(peer, "was lost while the survivors met");
  if (deadline.expired()) return lose(peer, "did not go on while the survivors met");
  return {};
}

Result<Survivors::Texts> Survivors::gather_as_leader(std::string mine, const Deadline& deadline) {
  std::vector<std::optional<std::string>> parts(members_.size());
  for (bool complete = false; !complete;) {
    complete = true;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (members_[i] == media_.me()) parts[i] = mine;
      if (!parts[i]) WEFT_TRY(take_part(members_[i], parts[i], deadline));
      complete = complete && parts[i];
    }
    if (!complete) WEFT_TRY(pause());
  }
  Texts texts;
  for (std::optional<std::string>& part : parts) texts.push_back(std::move(*part));
  const std::string packed = to_text(texts);
  for (const Rank peer : members_)
    if (peer != media_.me()) line(peer).send({kAll, joins_[peer], packed});
  WEFT_TRY(flush(deadline));
  return texts;
}

// A sender that stops polling may leave its peers without data.
Status Survivors::flush(const Deadline& deadline) {
  const auto waiting = [this](Rank peer) {
    return peer != media_.me() && !lost(peer) && !line(peer).flushed();
  };
  while (std::any_of(members_.begin(), members_.end(), waiting) && !deadline.expired())
    WEFT_TRY(pause());
  return {};
}

Result<Survivors::Texts> Survivors::gather_as_member(std::string mine, const Deadline& deadline) {
  TextLine& to_leader = line(leader_);
  to_leader.send({kPart, join_, std::move(mine)});
  while (!deadline.expired()) {
    while (const auto text = to_leader.receive()) {
      if (text->attempt != join_) continue;
      if (text->kind == kAll) return survivors_texts_from(text->text, members_.size(), leader_);
      if (text->kind == kLeave) left_out_[leader_] = true;
      if (text->kind != kAgain) continue;
      broken_ = true;
      return Status(Code::peer_lost, "a rank was lost while the survivors met");
    }
    if (lost(leader_)) {
      broken_ = true;
      return Status(Code::peer_lost, "the leader is lost", leader_);
    }
    WEFT_TRY(pause());
  }
  return Status(Code::timeout, concat("rank ", leader_, " did not go on while the survivors met"),
                leader_);
}

Result<std::vector<std::string>> Survivors::all_gather(std::string mine, const Deadline& deadline) {
  if (mine.size() > TextLine::kPartBytesMax)
    return internal_error(concat("a rank tells the survivors ", mine.size(), " bytes, at most ",
                                 TextLine::kPartBytesMax, " are possible"));
  return leader_ == media_.me() ? gather_as_leader(std::move(mine), deadline)
                                : gather_as_member(std::move(mine), deadline);
}

}  // namespace weft
