// Survivors: the ranks of a failed communicator that are still there meet again, over its own
// connections. Who has the lowest rank among them leads: it waits until every other rank has joined
// or is known to be lost, tells all who is there, and carries their all_gathers. Where a rank is
// lost on the way, the leader calls all to meet again; where it is the leader that is lost, they
// join the next one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/rendezvous.h"
#include "engine/text_line.h"

namespace weft {

// What a leader tells, read: who is there of `ranks` ranks, each once, and their texts. Errors name
// the leader.
Result<std::vector<Rank>> survivors_from(std::string_view text, int ranks, Rank leader);
Result<std::vector<std::string>> survivors_texts_from(std::string_view text, size_t survivors,
                                                      Rank leader);

// What all meetings over the same connections share: nothing that was said in one of them may be
// taken for part of another.
class Reunion {
 public:
  explicit Reunion(Media& own) : media(own), asked(static_cast<size_t>(own.ranks())) {}

  TextLine& line(Rank peer);

  // What a rank that has asked this one to lead it says.
  struct Asked {
    uint32_t join = 0;  // by its own count; answers say which one they are to
    std::string descent;
  };

  Media& media;
  uint32_t joins = 0;                       // that this rank has made
  std::vector<std::optional<Asked>> asked;  // by rank; those that were not told yet

 private:
  std::map<Rank, std::unique_ptr<TextLine>> lines_;
};

class Survivors final : public Rendezvous {
 public:
  // `candidates`: the ranks that may be there, this one included, in the order that they shall
  // have. `descent`: the names of the communicators from the first one to that which is shrunk;
  // ranks meet where one's begins with the other's, for one may have got further than the other,
  // and else all get Code::mismatch. Those that have not joined after `patience_s` are left out. A
  // leader that is there and does not come is not, for it cannot be told from one that has gone on
  // without this rank: that is Code::timeout, after twice `patience_s` and a second.
  // `meanwhile` is called again and again; an error of it ends what waits.
  Survivors(Reunion& reunion, std::vector<Rank> candidates, std::string descent, double patience_s,
            std::function<Status()> meanwhile);

  // Meets: afterwards rank(), size() and all_gather() are those of the ranks that are there.
  Status meet();
  // Tells those that it meets with, or was to, that it does not any more. REQUIRES: meet() was
  // called.
  void leave();
  // Whether one was lost since: then all of them meet() again.
  bool broken() const { return broken_; }
  // Who is there, by their rank here.
  const std::vector<Rank>& members() const { return members_; }

  Rank rank() const override;
  int size() const override { return static_cast<int>(members_.size()); }
  Result<std::vector<std::string>> all_gather(std::string mine, const Deadline& deadline) override;

 private:
  using Texts = std::vector<std::string>;

  TextLine& line(Rank peer) { return reunion_.line(peer); }
  bool lost(Rank peer);
  bool cut_off(Rank peer);
  Rank leader();
  Status lead();
  Status follow(Rank leader);
  bool all_have_joined();
  bool has_joined(Rank peer);
  Status check_descent();
  Result<Texts> gather_as_leader(std::string mine, const Deadline& deadline);
  Result<Texts> gather_as_member(std::string mine, const Deadline& deadline);
  Status take_part(Rank peer, std::optional<std::string>& part, const Deadline& deadline);
  Status lose(Rank missing, std::string_view why);
  Status break_up(Status why);
  Status flush(const Deadline& deadline);
  Status pause();

  Reunion& reunion_;
  Media& media_;
  const std::vector<Rank> candidates_;
  const std::string descent_;
  const double patience_s_;
  const std::function<Status()> meanwhile_;
  Status shortage_;                     // of this rank: it cannot talk to others any more
  std::vector<bool> left_out_;          // by rank
  std::map<Rank, Deadline> answer_by_;  // hosts that owe an acknowledgement
  std::vector<Rank> members_;
  Rank leader_ = -1;
  uint32_t join_ = 0;               // this rank's, where it follows
  std::map<Rank, uint32_t> joins_;  // the members' of this meeting, where it leads
  bool broken_ = false;
};

}  // namespace weft
