#include "bench/layout.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "bench/cases.h"

namespace weft::bench {
namespace {

Case make_case(Operation operation, size_t bytes, uint64_t seed = 1) {
  Case what;
  what.operation = operation;
  what.type = DataType::int32;
  what.bytes = bytes;
  what.seed = seed;
  if (reduces(info(operation).kind)) what.op = ReduceOp::sum;
  if (has_root(info(operation).kind)) what.root = 1;
  return what;
}

std::vector<Layout> layouts(const Case& what, int ranks) {
  std::vector<Layout> all;
  for (Rank rank = 0; rank < ranks; ++rank) all.push_back(make_layout(what, ranks, rank));
  return all;
}

TEST(Layout, AllGatherLaysBlocksSideBySide) {
  const Layout layout = make_layout(make_case(Operation::all_gather, 40), 3, 1);
  EXPECT_EQ(layout.count, 3u);  // 10 elements over 3 ranks
  EXPECT_EQ(layout.message_count, 9u);
  EXPECT_EQ(layout.input_count, 3u);
  EXPECT_EQ(layout.output_count, 9u);
  EXPECT_EQ(layout.shared_input, 3u);
  ASSERT_EQ(layout.pieces.size(), 3u);
  EXPECT_EQ(layout.pieces[2].source, 2);
  EXPECT_EQ(layout.pieces[2].from, 0u);
  EXPECT_EQ(layout.pieces[2].to, 6u);
  EXPECT_EQ(layout.elements_read, 9u);
  EXPECT_EQ(layout.elements_written, 27u);
  EXPECT_EQ(layout.elements_crossing, 18u);
}

TEST(Layout, RootedOnesGiveOnlyTheRootItsBuffer) {
  const std::vector<Layout> reduce = layouts(make_case(Operation::reduce, 40), 3);
  EXPECT_EQ(reduce[0].output_count, 0u);
  EXPECT_TRUE(reduce[0].pieces.empty());
  ASSERT_EQ(reduce[1].pieces.size(), 1u);
  EXPECT_EQ(reduce[1].pieces[0].source, Piece::kAllRanks);
  const std::vector<Layout> scatter = layouts(make_case(Operation::scatter, 40), 3);
  EXPECT_EQ(scatter[0].input_count, 0u);
  EXPECT_EQ(scatter[1].input_count, 9u);
  EXPECT_EQ(scatter[1].shared_output, 3u);
  EXPECT_EQ(scatter[2].pieces[0].source, 1);
  EXPECT_EQ(scatter[2].pieces[0].from, 6u);
  const std::vector<Layout> broadcast = layouts(make_case(Operation::broadcast, 40), 3);
  EXPECT_EQ(broadcast[0].input_count, 0u);
  EXPECT_EQ(broadcast[1].input_count, 10u);
  EXPECT_EQ(broadcast[2].output_count, 10u);
}

TEST(Layout, SendRecvIsARing) {
  const Layout layout = make_layout(make_case(Operation::sendrecv, 40), 3, 0);
  ASSERT_EQ(layout.moves.size(), 2u);
  for (const Move& move : layout.moves) EXPECT_EQ(move.peer, move.sends ? 1 : 2);
  ASSERT_EQ(layout.pieces.size(), 1u);
  EXPECT_EQ(layout.pieces[0].source, 2);
  EXPECT_EQ(layout.pieces[0].count, 10u);
}

// Whether any rank needs, by way of others' data, what all of a call's ranks have only when it has
// taken part itself.
TEST(Layout, KnowsWhereDataGoesOneWay) {
  const auto answered = [](Operation operation, int ranks, size_t bytes = 400, uint64_t seed = 1) {
    const std::vector<Layout> all = layouts(make_case(operation, bytes, seed), ranks);
    for (const Layout& layout : all) EXPECT_EQ(layout.answered, all[0].answered);
    return all[0].answered;
  };
  for (const Operation operation :
       {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
        Operation::all_to_all, Operation::sendrecv}) {
    EXPECT_TRUE(answered(operation, 3)) << name(operation);
    EXPECT_FALSE(answered(operation, 1)) << name(operation);
    EXPECT_FALSE(answered(operation, 3, 0)) << name(operation);
  }
  EXPECT_TRUE(answered(Operation::barrier, 2, 0));
  EXPECT_FALSE(answered(Operation::barrier, 1, 0));
  for (const Operation operation : {Operation::reduce, Operation::broadcast, Operation::gather,
                                    Operation::scatter, Operation::gather_v, Operation::scatter_v})
    EXPECT_FALSE(answered(operation, 3)) << name(operation);
  // Some counts of these are 0, so that it is by the seed.
  for (const Operation operation : {Operation::all_gather_v, Operation::reduce_scatter_v,
                                    Operation::all_to_all_v, Operation::groups}) {
    std::set<bool> found;
    for (uint64_t seed = 1; seed < 30; ++seed) found.insert(answered(operation, 2, 400, seed));
    EXPECT_EQ(found.size(), 2u) << name(operation);
  }
}

// Pieces ascend, do not overlap, stay in the output, and come from inside the source's input.
void expect_sound(const Case& what, int ranks) {
  const std::vector<Layout> all = layouts(what, ranks);
  size_t read = 0, written = 0;
  for (const Layout& layout : all) {
    read += layout.read_here;
    written += layout.written_here;
    size_t end = 0;
    for (const Piece& piece : layout.pieces) {
      EXPECT_GE(piece.to, end) << describe(what);
      EXPECT_GT(piece.count, 0u);
      end = piece.to + piece.count;
      for (Rank rank = 0; rank < ranks; ++rank)
        if (piece.source == rank || piece.source == Piece::kAllRanks) {
          EXPECT_LE(piece.from + piece.count, all[rank].input_count) << describe(what);
        }
    }
    EXPECT_LE(end, layout.output_count) << describe(what);
    EXPECT_EQ(layout.message_count, all[0].message_count);
    EXPECT_EQ(layout.elements_crossing, all[0].elements_crossing);
  }
  EXPECT_EQ(read, all[0].elements_read) << describe(what);
  EXPECT_EQ(written, all[0].elements_written) << describe(what);
}

TEST(Layout, EveryOperationIsSound) {
  for (const OperationInfo& entry : operations())
    for (const int ranks : {2, 3, 5, 8})
      for (const size_t bytes : {0, 1, 4, 7, 49, 2401, 16807})
        for (const uint64_t seed : {1, 2, 3})
          expect_sound(make_case(entry.operation, bytes, seed), ranks);
}

TEST(Layout, UnevenCountsAgreeBetweenRanks) {
  for (const int ranks : {1, 2, 5}) {
    const std::vector<Layout> all = layouts(make_case(Operation::all_to_all_v, 4000), ranks);
    for (int from = 0; from < ranks; ++from)
      for (int to = 0; to < ranks; ++to) EXPECT_EQ(all[from].counts[to], all[to].recv_counts[from]);
  }
}

TEST(Layout, UnevenCountsHaveZerosAndGaps) {
  const Layout layout = make_layout(make_case(Operation::all_gather_v, 40000), 32, 0);
  size_t zeros = 0, gaps = 0, end = 0;
  for (size_t rank = 0; rank < 32; ++rank) {
    zeros += layout.counts[rank] == 0;
    gaps += layout.offsets[rank] != end;
    end = layout.offsets[rank] + layout.counts[rank];
  }
  EXPECT_GT(zeros, 1u);
  EXPECT_LT(zeros, 24u);
  EXPECT_GT(gaps, 8u);
  EXPECT_NE(layout.counts, make_layout(make_case(Operation::all_gather_v, 40000, 2), 32, 0).counts);
}

// The k-th send to a peer meets the k-th receive there, and the data is where the pieces say.
TEST(Layout, GroupsMatchUp) {
  bool shuffled = false;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    const int ranks = 4;
    const std::vector<Layout> all = layouts(make_case(Operation::groups, 8000, seed), ranks);
    std::map<std::pair<Rank, Rank>, std::vector<Move>> sends, receives;  // by (from, to)
    for (Rank rank = 0; rank < ranks; ++rank)
      for (const Move& move : all[rank].moves) {
        auto& list = move.sends ? sends[{rank, move.peer}] : receives[{move.peer, rank}];
        list.push_back(move);
        shuffled |= list.size() == 1 && !move.sends && &move != &all[rank].moves.front();
      }
    ASSERT_EQ(sends.size(), receives.size());
    for (const auto& [pair, moves] : sends) {
      ASSERT_EQ(moves.size(), receives[pair].size());
      for (size_t k = 0; k < moves.size(); ++k) {
        const Move& into = receives[pair][k];
        EXPECT_EQ(moves[k].count, into.count);
        for (const Piece& piece : all[pair.second].pieces)
          if (piece.to == into.at && piece.count == into.count) {
            EXPECT_EQ(piece.source, pair.first);
            EXPECT_EQ(piece.from, moves[k].at);
          }
      }
    }
  }
  EXPECT_TRUE(shuffled);
}

TEST(Cases, UndefinedCombinationsAreSkippedAndCounted) {
  BenchOptions options;
  options.operations = {Operation::all_reduce, Operation::all_gather};
  options.types = {DataType::boolean, DataType::int8};
  options.ops = {ReduceOp::sum, ReduceOp::band};
  options.min_bytes = options.max_bytes = 64;
  const CaseList list = list_cases(options, 2);
  EXPECT_EQ(list.skipped, 1u);       // the sum of booleans
  EXPECT_EQ(list.cases.size(), 5u);  // 3 reductions, 2 gathers
}

TEST(Cases, RootsOnlyWhereThereIsOne) {
  BenchOptions options;
  options.operations = {Operation::all_reduce, Operation::broadcast};
  options.root = BenchOptions::kAllRoots;
  options.min_bytes = options.max_bytes = 64;
  EXPECT_EQ(list_cases(options, 3).cases.size(), 4u);
}

TEST(Cases, EqualElementCountsAreListedOnce) {
  BenchOptions options;
  options.operations = {Operation::all_reduce};
  options.types = {DataType::float64};
  options.min_bytes = 1;
  options.max_bytes = 64;
  options.step_factor = 2;
  EXPECT_EQ(list_cases(options, 2).cases.size(), 5u);  // 0, 1, 2, 4 and 8 elements
}

std::string error_of(const BenchOptions& options, int ranks) {
  return std::string(check_cases(options, ranks).message());
}

TEST(Cases, SizesThatAllComeToNothingAreAnError) {
  BenchOptions options;
  options.operations = {Operation::all_gather};
  options.min_bytes = options.max_bytes = 4;
  for (const char* part :
       {"all_gather of float32", "8 bytes", "each of 2 ranks", "-e/--maxbytes", "give -e 8"})
    EXPECT_NE(error_of(options, 2).find(part), std::string::npos) << error_of(options, 2);
  EXPECT_TRUE(check_cases(options, 1).ok());
  options.max_bytes = 8;  // which no step hits
  EXPECT_FALSE(check_cases(options, 2).ok());
  options.step_factor = 2;
  EXPECT_TRUE(check_cases(options, 2).ok()) << "the first row may be empty";
  options.types = {DataType::complex128, DataType::uint8};
  EXPECT_TRUE(check_cases(options, 2).ok()) << "bytes have elements";
  options.operations = {Operation::all_reduce};
  options.types = {DataType::complex128};
  EXPECT_NE(error_of(options, 2).find("16 bytes or more, an element,"), std::string::npos)
      << error_of(options, 2);
  options.operations = {Operation::barrier, Operation::gather_v};
  EXPECT_TRUE(check_cases(options, 2).ok());
  options.operations = {Operation::all_reduce};
  options.min_bytes = options.max_bytes = 0;
  EXPECT_TRUE(check_cases(options, 2).ok()) << "asked for";
}

TEST(Cases, RootsThatAreNoRankAreAnError) {
  BenchOptions options;
  options.operations = {Operation::broadcast};
  options.root = 2;
  EXPECT_NE(error_of(options, 2).find("-r/--root: 2"), std::string::npos) << error_of(options, 2);
  EXPECT_TRUE(check_cases(options, 3).ok());
}

TEST(Operations, BusFactorsOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_gather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::reduce_scatter_v, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_to_all, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::broadcast, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::reduce, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::sendrecv, 4), 1);
}

TEST(Cases, RowsThatFillTheMemoryAreRefused) {
  BenchOptions options;
  options.operations = {Operation::broadcast};
  options.root = BenchOptions::kAllRoots;
  options.step_bytes = 100;
  EXPECT_TRUE(check_cases(options, 2).ok());
  EXPECT_NE(error_of(options, 8).find("-i/--stepbytes: 8 sweeps come to"), std::string::npos)
      << error_of(options, 8);
}

TEST(Cases, AsManySweepsAsAPictureHasRoomForAreDrawn) {
  BenchOptions options;
  options.types.clear();
  for (int type = 0; type < kDataTypes; ++type)
    options.types.push_back(static_cast<DataType>(type));
  options.operations = {Operation::broadcast, Operation::barrier};
  options.root = BenchOptions::kAllRoots;
  options.plot_file = "x.svg";
  EXPECT_TRUE(check_cases(options, 2).ok());
  const Status refused = check_cases(options, 64);
  EXPECT_NE(refused.message().find("--plot: "), std::string::npos) << refused.to_string();
  options.plot_file.clear();
  EXPECT_TRUE(check_cases(options, 64).ok());
}

}  // namespace
}  // namespace weft::bench
