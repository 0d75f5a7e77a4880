#include "tests/support/device_cases.h"

#include <algorithm>

#include "base/text.h"
#include "engine/algorithms/catalog.h"
#include "engine/executor/lowering.h"

namespace weft::test {
namespace {

std::vector<Rank> roots_of(Kind kind, int ranks) {
  if (!has_root(kind)) return {0};
  std::vector<Rank> roots{0, ranks / 2, ranks - 1};
  roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
  return roots;
}

}  // namespace

DeviceShape small_device_shape(int ranks) {
  return {.ranks = ranks,
          .cells = 64,
          .links = 24,
          .slots = 2,
          .slot_bytes = 1024,
          .window_bytes = 32 << 10,
          .packet_bytes = 2 * 2 * round_up(kMostInPackets, 64) * ranks * ranks};
}

std::vector<DeviceCase> device_forms(int ranks) {
  std::vector<DeviceCase> all;
  for (const Algorithm& algorithm : catalog())
    for (int kind = 0; kind < kKinds; ++kind)
      for (const Rank root : roots_of(Kind(kind), ranks))
        for (const bool in_place : {false, true}) {
          if (in_place && Kind(kind) == Kind::barrier) continue;
          const Collective c{Kind(kind), ranks, root, in_place};
          if (!algorithm.suits(c) || algorithm.readable) continue;  // which is for CPUs
          DeviceCase form{.algorithm = &algorithm,
                          .shape = {.kind = c.kind, .ranks = ranks, .root = root},
                          .in_place = in_place};
          all.push_back(form);
          form.shape.varying =
              algorithm.any_counts && !in_place &&
              (c.kind == Kind::all_gather || c.kind == Kind::gather || c.kind == Kind::scatter ||
               c.kind == Kind::reduce_scatter || c.kind == Kind::all_to_all);
          if (form.shape.varying) all.push_back(form);
        }
  return all;
}

std::vector<DeviceCase> forms_between_buffers(int ranks, size_t most, uint64_t seed) {
  std::vector<DeviceCase> all = device_forms(ranks);
  std::erase_if(all, [](const DeviceCase& c) { return !c.algorithm->registered; });
  std::shuffle(all.begin(), all.end(), std::mt19937_64(seed));
  all.resize(std::min(all.size(), most));
  return all;
}

DeviceCase Draw::detail(DeviceCase c, bool packets) {
  c.shape.count = of<size_t>({0, 1, 3, 64, 257, 1003});
  if (c.shape.varying) {
    const auto ranks = static_cast<size_t>(c.shape.ranks);
    c.shape.counts.resize(c.shape.kind == Kind::all_to_all ? ranks * ranks : ranks);
    for (size_t& count : c.shape.counts) count = below(3) * below(150);
  }
  c.copies = of({1, 1, 2, 3});
  if (c.shape.kind == Kind::exchange) c.copies = 1;
  c.radix = c.algorithm->radix ? of({2, 3, 4}) : 2;
  c.segment_bytes = of<size_t>({64, 192, 1024, 1 << 20});
  c.misalign = of<size_t>({0, 0, 4});
  if (packets && c.algorithm->windows && c.algorithm->lines && !c.shape.varying &&
      c.shape.count * sizeof(int32_t) <= kMostInPackets && below(2) == 0) {
    c.protocol = Protocol::ll;
    c.copies = 1;
  }
  if (!reduces(c.shape.kind)) {
    if (c.shape.count % 4 == 0 && !c.shape.varying)
      c.type = of({DataType::uint8, DataType::float16, DataType::int32, DataType::complex128,
                   DataType::boolean});
    return c;
  }
  c.op = of({ReduceOp::sum, ReduceOp::max, ReduceOp::avg, ReduceOp::premulsum, ReduceOp::bxor});
  if (c.algorithm->registered && c.op == ReduceOp::premulsum) c.op = ReduceOp::sum;
  return c;
}

Status add_calls(DeviceWorld& world, std::span<const DeviceCase> forms, Draw& draw, bool packets) {
  for (const DeviceCase& form : forms) {
    const DeviceCase c = draw.detail(form, packets);
    if (const Status added = world.add(c); !added.ok())
      return internal_error(concat(describe(c), ": ", added.to_string()));
    for (size_t more = draw.below(4); more > 1; --more) world.replay(draw.of<size_t>({1, 1, 2}));
  }
  return {};
}

}  // namespace weft::test
