// Notes: short messages outside all links.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "tests/transport/conformance.h"

namespace weft::conformance {
namespace {

TEST_P(Conformance, NotesAreDelivered) {
  run(3, [](Member& me) {
    const auto text = [](Rank from, Rank to) {
      return "from " + std::to_string(from) + " to " + std::to_string(to) +
             std::string(from == 0 ? kNoteBytesMax - 20 : 0, 'x');
    };
    for (Rank peer = 0; peer < 3; ++peer)
      if (peer != me.rank() && !greet(me, peer)) return;
    for (Rank peer = 0; peer < 3; ++peer)
      if (peer != me.rank()) me->tell(peer, NoteKind::failure, text(me.rank(), peer));
    std::vector<Rank> heard;
    const auto all = [&] {
      while (const std::optional<Note> note = me->hear()) {
        EXPECT_EQ(note->text, text(note->from, me.rank()));
        heard.push_back(note->from);
      }
      return heard.size() >= 2;
    };
    if (!me.until(all, "a note")) return;
    me.linger(0.005);
    EXPECT_FALSE(me->hear()) << "a note was delivered twice";
    EXPECT_NE(heard[0], heard[1]);
  });
}

TEST_P(Conformance, TooManyOrTooLongNotesDoNoHarm) {
  run(2, [](Member& me) {
    const Rank peer = 1 - me.rank();
    me->tell(peer, NoteKind::failure, "before anything is connected: may be dropped");
    if (!greet(me, peer)) return;
    for (int i = 0; i < 2000; ++i)
      me->tell(peer, NoteKind::failure, std::string(kNoteBytesMax * 4, 'y'));
    for (int i = 0; i < 50; ++i) {
      me.pump();
      while (const std::optional<Note> note = me->hear()) EXPECT_EQ(note->from, peer);
    }
    greet(me, peer);
  });
}

// A rank that tells far more than anybody keeps, the failure in the middle, and one that hears
// nothing meanwhile.
constexpr uint64_t kMany = 3000;

std::string numbered(NoteKind kind, uint64_t number) {
  return concat(static_cast<int>(kind), " ", number, " ", std::string(700, 'x'));
}

void tell_many(Member& me, bool polls) {
  for (uint64_t i = 1; i <= kMany; ++i) {
    if (i == kMany / 2) me->tell(1, NoteKind::failure, "failed");
    for (const NoteKind kind : {NoteKind::call, NoteKind::group})
      me->tell(1, kind, numbered(kind, i));
    if (polls && i % 10 == 0) me.pump();
  }
  me.word(0) = 1;
  // What is not kept back arrives without any help, the newest of what was with a poll.
  if (!me.until_idle([&] { return me.word(1) >= 1; }, "the failure to be heard of")) return;
  me.until([&] { return me.word(1) == 2; }, "the newest notes to be heard");
}

void hear_newest(Member& me, bool polls) {
  const auto told = [&] { return me.word(0) == 1; };
  if (!(polls ? me.until(told, "the notes") : me.until_idle(told, "the notes"))) return;
  bool failure = false;
  std::map<NoteKind, std::vector<uint64_t>> heard;
  const auto hear = [&] {
    while (const std::optional<Note> note = me->hear()) {
      EXPECT_EQ(note->from, 0);
      failure = failure || note->kind == NoteKind::failure;
      if (note->kind == NoteKind::failure) {
        EXPECT_EQ(note->text, "failed");
        continue;
      }
      const uint64_t number = std::stoull(note->text.substr(2));
      EXPECT_EQ(note->text, numbered(note->kind, number));
      heard[note->kind].push_back(number);
    }
  };
  if (!me.until([&] { return hear(), failure; }, "the failure")) return;
  me.word(1) = 1;
  const auto all = [&] {
    hear();
    return heard.size() == 2 && std::ranges::all_of(heard, [](const auto& numbers) {
             return numbers.second.back() == kMany;
           });
  };
  if (!me.until(all, "the newest of each kind")) return;
  me.word(1) = 2;
  for (const auto& [kind, numbers] : heard) {
    EXPECT_LE(numbers.size(), 2u) << "the one that was under way, and the newest";
    EXPECT_TRUE(numbers.size() == 1 || numbers[0] < numbers[1]);
  }
}

void crowd(Member& me, bool polls) {
  if (!greet(me, 1 - me.rank()) || !me.barrier()) return;
  me.rank() == 0 ? tell_many(me, polls) : hear_newest(me, polls);
  EXPECT_TRUE(greet(me, 1 - me.rank(), 2));
}

TEST_P(Conformance, ManyNotesToOneThatDoesNotPollKeepNoOtherBack) {
  run(2, [](Member& me) { crowd(me, false); });
}

TEST_P(Conformance, ManyNotesToOneThatDoesNotListenKeepNoOtherBack) {
  run(2, [](Member& me) { crowd(me, true); });
}

}  // namespace
}  // namespace weft::conformance
