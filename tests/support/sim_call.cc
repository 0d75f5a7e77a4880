#include "tests/support/sim_call.h"

namespace weft::test {

SimCall::SimCall(SimWorld& world, const Shape& s, uint64_t number)
    : shape(s), salt(number), in(s.ranks), out(s.ranks) {
  for (Rank r = 0; r < s.ranks; ++r) {
    in[r] = expected_input(s, r, salt);
    out[r].assign(expected_output(s, r, ReduceOp::sum, salt).size(), -1);
    works.push_back(world.engine(r).start(Call{.kind = s.kind,
                                               .input = in[r].data(),
                                               .output = out[r].data(),
                                               .count = s.count,
                                               .type = DataType::int32,
                                               .op = ReduceOp::sum,
                                               .root = s.root,
                                               .varying = s.varying,
                                               .counts = shape.counts}));
  }
}

bool SimCall::right(Rank rank) const {
  return out[rank] == expected_output(shape, rank, ReduceOp::sum, salt);
}

Shape random_call(std::mt19937_64& random, int ranks, size_t most) {
  const Kind kinds[] = {Kind::all_reduce,     Kind::reduce, Kind::broadcast, Kind::all_gather,
                        Kind::reduce_scatter, Kind::gather, Kind::scatter,   Kind::all_to_all};
  const Kind kind = kinds[random() % std::size(kinds)];
  const size_t bound = random() % 4 == 0 ? most : 60;
  return {.kind = kind,
          .ranks = ranks,
          .root = has_root(kind) ? static_cast<Rank>(random() % ranks) : 0,
          .count = 1 + random() % bound};
}

}  // namespace weft::test
