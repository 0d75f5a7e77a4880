#include "engine/schedule/text.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/algorithms/algorithm.h"
#include "engine/schedule/picture.h"
#include "tests/engine/schedule/samples.h"

namespace weft {
namespace {

Schedule ring_of_three() {
  return schedule_of(*find_algorithm("ring"), {Kind::all_reduce, 3, 0, false}, {});
}

TEST(Text, OfARing) {
  EXPECT_EQ(to_text(ring_of_three(), 1),
            R"(all_reduce of 3 ranks: 3 chunks
rank 1
  lane 0
     0  send chunk 1: input -> link 0 to rank 2
     1  recv_reduce_send chunk 0: link 0 from rank 0 + input -> link 0 to rank 2
     2  recv_reduce_copy_send chunk 2: link 0 from rank 0 + input -> output, link 0 to rank 2; finish
     3  recv_copy_send chunk 1: link 0 from rank 0 -> output, link 0 to rank 2
     4  recv chunk 0: link 0 from rank 0 -> output
)");
}

TEST(Text, OfWindowsAndSignals) {
  EXPECT_EQ(to_text(samples::window_all_reduce(2)),
            R"(all_reduce of 2 ranks: 1 chunk, 1 window slots x 2
rank 0
  lane 0
     0  copy chunk 0: input -> window 0 of rank 0; post cell 0 to rank 1
     1  reduce chunk 0: window 0 of rank 0 + window 0 of rank 1 -> output; finish; wait cell 0 of rank 1
rank 1
  lane 0
     0  copy chunk 0: input -> window 0 of rank 1; post cell 0 to rank 0
     1  reduce chunk 0: window 0 of rank 0 + window 0 of rank 1 -> output; finish; wait cell 0 of rank 0
)");
}

TEST(Text, OfLoopsLagsAndCopies) {
  Step step;
  step.chunk = 4;
  step.recv({1, 2}).send({3, 0}).repeat(5, -1).wait(2, 1, 3);
  EXPECT_EQ(to_text(step),
            "recv_send chunk 4 (5 times, the chunk's number -1 each time): link 2 from rank 1 -> "
            "link 0 to rank 3; "
            "wait cell 1 of rank 2 lag 3");
  Schedule copies = samples::chain_broadcast(2);
  for (Program& p : copies.programs) p = replicate(p, 2);
  EXPECT_NE(to_text(copies, 1).find("  lane 1 (copy 1)\n     0  recv chunk 0: link 1 from rank 0"),
            std::string::npos)
      << to_text(copies, 1);
}

TEST(Diagram, OfARing) {
  const Result<std::string> diagram = to_diagram(ring_of_three());
  ASSERT_TRUE(diagram.ok());
  EXPECT_EQ(diagram->substr(diagram->find("time")),
            R"(time  rank 0      rank 1      rank 2
   0  c0 >1       c1 >2       c2 >0
   1  c2 2>+>1    c0 0>+>2    c1 1>+>0
   2  c1 2>+.=>1  c2 0>+.=>2  c0 1>+.=>0
   3  c0 2>=>1    c1 0>=>2    c2 1>=>0
   4  c2 2>=      c0 0>=      c1 1>=
)");
}

TEST(Text, OfMessagesOfSeveralChunks) {
  const std::string text = to_text(samples::doubling_all_gather(4), 3);
  EXPECT_NE(text.find("     3  send chunk 2: output -> link 0 to rank 1; the message goes on\n"
                      "     4  send chunk 3: output -> link 0 to rank 1\n"),
            std::string::npos)
      << text;
}

TEST(Diagram, OfMessagesOfSeveralChunks) {
  const Result<std::string> diagram = to_diagram(samples::doubling_all_gather(4));
  ASSERT_TRUE(diagram.ok());
  EXPECT_EQ(diagram->substr(diagram->find("time")),
            R"(time  rank 0    rank 1    rank 2    rank 3
   0  c0 =      c1 =      c2 =      c3 =
   1  c0 >1     c1 >0     c2 >3     c3 >2
   2  c1 1>=    c0 0>=    c3 3>=    c2 2>=
   3  c0,1 >2   c0,1 >3   c2,3 >0   c2,3 >1
   4  c2,3 2>=  c2,3 3>=  c0,1 0>=  c0,1 1>=
)");
}

TEST(Diagram, ShowsABlockedScheduleUpToThere) {
  Schedule s = samples::window_all_reduce(2);
  s.programs[0].lanes[0].steps[0].wait(1, 0);
  s.programs[1].lanes[0].steps[0].wait(0, 0);
  const Result<std::string> diagram = to_diagram(s);
  ASSERT_TRUE(diagram.ok());
  EXPECT_EQ(diagram->substr(diagram->find("time")),
            "time  rank 0   rank 1\n"
            "stop  c0 ?=w!  c0 ?=w!\n\n"
            "The lanes of the last row wait there for ever; weft-schedule verify says why.\n");
}

TEST(Diagram, OfNonsenseIsAnError) {
  Schedule s = samples::chain_broadcast(2);
  s.programs[0].lanes[0].steps[0].to.peer = 9;
  EXPECT_FALSE(to_diagram(s).ok());
  EXPECT_FALSE(to_svg(s).ok());
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Svg, HasABoxPerStepAndAnArrowPerMessageOrSignal) {
  const Result<std::string> ring = to_svg(ring_of_three());
  ASSERT_TRUE(ring.ok());
  EXPECT_EQ(count(*ring, "<g><title>"), 15);
  EXPECT_EQ(count(*ring, "marker-end"), 12);
  EXPECT_EQ(count(*ring, "stroke-dasharray"), 0);
  EXPECT_EQ(count(*ring, "<g>"), count(*ring, "</g>"));
  EXPECT_EQ(ring->substr(ring->size() - 7), "</svg>\n");
  const Result<std::string> shared = to_svg(samples::doubling_all_gather(4));
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(count(*shared, "<g><title>"), 4 * 5);
  EXPECT_EQ(count(*shared, "marker-end"), 4 * 2);
  const Result<std::string> windows = to_svg(samples::window_all_reduce(2));
  ASSERT_TRUE(windows.ok());
  EXPECT_EQ(count(*windows, "stroke-dasharray"), 2);
}

}  // namespace
}  // namespace weft
