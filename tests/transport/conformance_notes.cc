// Notes: short messages outside all links.
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

}  // namespace
}  // namespace weft::conformance
