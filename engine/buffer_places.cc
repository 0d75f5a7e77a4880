#include "engine/buffer_places.h"

#include <algorithm>

#include "base/text.h"
#include "engine/schedule/collective.h"

namespace weft {
namespace {

Collective collective_of(const Call& call, int ranks) {
  return {call.kind, ranks, root_of(call), false};
}

// Of the kinds that may run between buffers.
size_t input_blocks(const Collective& c) {
  const bool several =
      c.kind == Kind::reduce_scatter || c.kind == Kind::scatter || c.kind == Kind::all_to_all;
  return several ? static_cast<size_t>(c.ranks) : 1;
}
size_t output_blocks(const Collective& c) {
  const bool several =
      c.kind == Kind::all_gather || c.kind == Kind::gather || c.kind == Kind::all_to_all;
  return several ? static_cast<size_t>(c.ranks) : 1;
}

size_t input_bytes(const Call& call, const Collective& c, Rank rank) {
  return has_input(c, rank) ? call.count * size_of(call.type) * input_blocks(c) : 0;
}
size_t output_bytes(const Call& call, const Collective& c, Rank rank) {
  return has_output(c, rank) ? call.count * size_of(call.type) * output_blocks(c) : 0;
}

}  // namespace

ConstBytes input_of(const Call& call, int ranks, Rank me) {
  return {static_cast<const std::byte*>(call.input),
          input_bytes(call, collective_of(call, ranks), me)};
}

ConstBytes output_of(const Call& call, int ranks, Rank me) {
  return {static_cast<const std::byte*>(call.output),
          output_bytes(call, collective_of(call, ranks), me)};
}

BufferPlaces places_of(const Call& call, int ranks, Rank me, const Allocations* allocations) {
  BufferPlaces places;
  const auto place = [&](ConstBytes bytes, uint32_t& number, uint64_t& offset) {
    if (bytes.empty() || !allocations) return;
    const Allocations::Place found = allocations->find(bytes.data(), bytes.size());
    number = found.number;
    offset = found.offset;
  };
  place(input_of(call, ranks, me), places.input, places.input_offset);
  place(output_of(call, ranks, me), places.output, places.output_offset);
  places.in_place = in_place(call, ranks, me);
  return places;
}

bool is_registered(const Call& call, int ranks, Rank rank, const BufferPlaces& places) {
  const Collective c = collective_of(call, ranks);
  return (!has_input(c, rank) || places.input != 0) && (!has_output(c, rank) || places.output != 0);
}

Rank plain_rank(const Call& call, std::span<const BufferPlaces> by_rank) {
  const auto ranks = static_cast<int>(by_rank.size());
  for (Rank r = 0; r < ranks; ++r)
    if (!is_registered(call, ranks, r, by_rank[static_cast<size_t>(r)])) return r;
  return -1;
}

Status map_buffers(const Call& call, std::span<const BufferPlaces> by_rank, const Media& media,
                   std::vector<MappedBuffers>& mapped) {
  const Collective c = collective_of(call, static_cast<int>(by_rank.size()));
  mapped.assign(by_rank.size(), {});
  for (Rank r = 0; r < c.ranks; ++r) {
    if (r == media.me()) continue;
    const auto locate = [&](uint32_t number, uint64_t offset, size_t bytes) -> std::byte* {
      const Result<Bytes> memory = media.sharing().shared_by(r, number);
      const bool fits = memory.ok() && offset <= memory->size() && bytes <= memory->size() - offset;
      return fits ? memory->data() + offset : nullptr;
    };
    const BufferPlaces& places = by_rank[static_cast<size_t>(r)];
    MappedBuffers& buffers = mapped[static_cast<size_t>(r)];
    const size_t in = input_bytes(call, c, r), out = output_bytes(call, c, r);
    if (in > 0) buffers.input = locate(places.input, places.input_offset, in);
    if (out > 0) buffers.output = locate(places.output, places.output_offset, out);
    if ((in > 0 && !buffers.input) || (out > 0 && !buffers.output))
      return Status(Code::internal,
                    concat("rank ", r, " named memory that it has not shared with rank ",
                           media.me(), ", or not so much of it"),
                    r);
  }
  return {};
}

Status check_readable(const Call& call, std::span<const BufferPlaces> by_rank) {
  const Collective c = collective_of(call, static_cast<int>(by_rank.size()));
  for (Rank r = 0; r < c.ranks; ++r) {
    const BufferPlaces& places = by_rank[static_cast<size_t>(r)];
    if (places.reads == 0)
      return Status(Code::unsupported,
                    concat("rank ", r, " may not read all others' memory (see ",
                           "kernel.yama.ptrace_scope, or the container's rules)"),
                    r);
    if (input_bytes(call, c, r) > 0 && places.input_there == 0)
      return Status(Code::unsupported,
                    concat("rank ", r, "'s input is memory that the kernel cannot read"), r);
  }
  return {};
}

void locate_inputs(std::span<const BufferPlaces> by_rank, std::vector<MappedBuffers>& mapped) {
  mapped.resize(by_rank.size());
  for (size_t r = 0; r < mapped.size(); ++r) mapped[r].input_there = by_rank[r].input_there;
}

}  // namespace weft
