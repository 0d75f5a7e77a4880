#include "engine/call.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "engine/executor/layout.h"
#include "engine/schedule/collective.h"

namespace weft {
namespace {

constexpr size_t kCountMax = std::numeric_limits<size_t>::max() / 64;  // bytes never overflow

std::string rank_range(int ranks) { return "0 to " + std::to_string(ranks - 1); }

Status check_counts(std::string_view what, std::span<const size_t> counts,
                    std::span<const size_t> offsets, int ranks) {
  if (counts.size() != static_cast<size_t>(ranks))
    return invalid_argument(std::string(what) + " has " + std::to_string(counts.size()) +
                            " entries; it needs one for each of the " + std::to_string(ranks) +
                            " ranks");
  if (!offsets.empty() && offsets.size() != counts.size())
    return invalid_argument("the offsets beside " + std::string(what) + " have " +
                            std::to_string(offsets.size()) + " entries; give " +
                            std::to_string(ranks) + ", or none to pack the blocks");
  size_t before = 0;  // so many elements
  for (size_t r = 0; r < counts.size(); ++r) {
    if (counts[r] > kCountMax - before)
      return invalid_argument(std::string(what) + "[" + std::to_string(r) + "] is " +
                              std::to_string(counts[r]) +
                              ", which no memory can hold beside those before it");
    before += counts[r];
    if (!offsets.empty() && counts[r] > 0 && offsets[r] > kCountMax)
      return invalid_argument("the offset beside " + std::string(what) + "[" + std::to_string(r) +
                              "] is " + std::to_string(offsets[r]) +
                              ", beyond what any memory can hold");
  }
  return {};
}

size_t total(std::span<const size_t> counts) {
  size_t sum = 0;
  for (const size_t count : counts) sum += count;
  return sum;
}

// In place, what comes from a rank takes the place of what goes to it.
Status check_in_place_pairs(const Call& call) {
  if (call.input != call.output || !call.input) return {};
  const auto same = [](std::span<const size_t> a, std::span<const size_t> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  };
  if (same(call.counts, call.recv_counts) &&
      same(given_or_packed(call.offsets, call.counts),
           given_or_packed(call.recv_offsets, call.recv_counts)))
    return {};
  return invalid_argument(
      "input and output are the same memory, but recv_counts or recv_offsets differ from counts or "
      "offsets; all_to_all in place needs equal ones, else give it an output of its own");
}

Status validate_varying(const Call& call, int ranks, Rank me) {
  switch (call.kind) {
    case Kind::all_to_all:
      WEFT_TRY(check_counts("counts", call.counts, call.offsets, ranks));
      WEFT_TRY(check_counts("recv_counts", call.recv_counts, call.recv_offsets, ranks));
      if (call.counts[me] != call.recv_counts[me])
        return invalid_argument("counts[" + std::to_string(me) + "] is " +
                                std::to_string(call.counts[me]) + " but recv_counts there is " +
                                std::to_string(call.recv_counts[me]) +
                                "; what a rank sends to itself it also receives");
      return check_in_place_pairs(call);
    case Kind::all_gather:
    case Kind::reduce_scatter: return check_counts("counts", call.counts, call.offsets, ranks);
    case Kind::gather:
    case Kind::scatter:
      if (me == call.root) return check_counts("counts", call.counts, call.offsets, ranks);
      return call.count <= kCountMax ? Status()
                                     : invalid_argument("count is " + std::to_string(call.count) +
                                                        ", which no memory can hold");
    default:
      return invalid_argument(std::string(name(call.kind)) +
                              " has no form with varying counts; set varying to false");
  }
}

// Chunks of a group are numbered, so many for every pair of ranks as one pair has transfers.
Status check_pairs(std::span<const Transfer> group, int ranks) {
  const size_t most = std::numeric_limits<int>::max() / (static_cast<size_t>(ranks) * ranks);
  if (group.size() <= most) return {};
  std::vector<size_t> sends(static_cast<size_t>(ranks)), receives(sends);
  for (const Transfer& t : group) {
    const bool send = t.direction == Transfer::Direction::send;
    if (++(send ? sends : receives)[static_cast<size_t>(t.peer)] > most)
      return invalid_argument("a group may have " + std::to_string(most) +
                              " transfers to or from one of " + std::to_string(ranks) +
                              " ranks; it has more with rank " + std::to_string(t.peer) +
                              ": make it several groups");
  }
  return {};
}

}  // namespace

Needs needs(const Call& call, int ranks, Rank me) {
  const Collective c{call.kind, ranks, call.root, false};
  Needs result;
  const std::span<const size_t> counts = known_counts(call, me);
  const size_t all = call.varying ? total(counts) : call.count * ranks;
  const size_t own = call.varying && !counts.empty() ? counts[me] : call.count;
  switch (call.kind) {
    case Kind::all_to_all: result = {all, call.varying ? total(call.recv_counts) : all}; break;
    case Kind::all_gather:
    case Kind::gather: result = {own, all}; break;
    case Kind::reduce_scatter:
    case Kind::scatter: result = {all, own}; break;
    default: result = {call.count, call.count}; break;
  }
  if ((call.kind == Kind::broadcast || call.kind == Kind::scatter) && me != c.root)
    result.input = 0;
  if ((call.kind == Kind::reduce || call.kind == Kind::gather) && me != c.root) result.output = 0;
  return result;
}

namespace {

std::string_view of(Purpose purpose) {
  switch (purpose) {
    case Purpose::user: return "";
    case Purpose::allocate: return " of allocate()";
    case Purpose::split: return " of split()";
    case Purpose::check: return " of the check of arguments";
    case Purpose::device: return " of making device memory";
    case Purpose::tell: return " of tell_all()";
  }
  return "";
}

}  // namespace

Transfer send_to(Rank peer, const void* memory, size_t count, DataType type) {
  return {Transfer::Direction::send, peer, const_cast<void*>(memory), count, type};
}

Transfer receive_from(Rank peer, void* memory, size_t count, DataType type) {
  return {Transfer::Direction::receive, peer, memory, count, type};
}

Call with_barrier_bytes(const Call& call, const std::byte* from, std::byte* to) {
  Call result = call;
  if (call.kind != Kind::barrier) return result;
  result.input = from;
  result.output = to;
  result.count = 1;
  result.type = DataType::uint8;
  result.op = ReduceOp::bor;
  result.varying = false;
  result.root = 0;
  return result;
}

Status validate(const Call& call, int ranks, Rank me) {
  if (!(call.timeout_s >= 0))
    return invalid_argument("timeout_s is " + number_text(call.timeout_s) +
                            "; give seconds, or 0 for the communicator's");
  if (call.kind == Kind::barrier) return {};
  if (call.kind == Kind::exchange)
    return invalid_argument("exchange is not a call of this form; pass a group of transfers");
  if (static_cast<int>(call.kind) >= kKinds)
    return invalid_argument("kind is " + std::to_string(static_cast<int>(call.kind)) +
                            "; collectives go from 0 to " + std::to_string(kKinds - 1));
  if (static_cast<int>(call.type) >= kDataTypes)
    return invalid_argument("type is " + std::to_string(static_cast<int>(call.type)) +
                            "; data types go from 0 to " + std::to_string(kDataTypes - 1));
  if (static_cast<int>(call.op) >= kReduceOps)
    return invalid_argument("op is " + std::to_string(static_cast<int>(call.op)) +
                            "; operations go from 0 to " + std::to_string(kReduceOps - 1));
  if (has_root(call.kind) && (call.root < 0 || call.root >= ranks))
    return invalid_argument("root is " + std::to_string(call.root) + "; ranks go from " +
                            rank_range(ranks));
  if (reduces(call.kind)) {
    if (!defined(call.op, call.type))
      return invalid_argument("op " + std::string(name(call.op)) + " has no meaning on " +
                              std::string(name(call.type)) +
                              "; see defined() in base/types.h for what has");
    if (call.op == ReduceOp::premulsum && !call.scalar)
      return invalid_argument("scalar is null; premulsum needs one element of " +
                              std::string(name(call.type)) + " to multiply by");
  }
  if (call.varying)
    WEFT_TRY(validate_varying(call, ranks, me));
  else if (call.count > kCountMax / static_cast<size_t>(ranks))
    return invalid_argument("count is " + std::to_string(call.count) +
                            ", which no memory can hold");
  const Needs need = needs(call, ranks, me);
  if (need.input > 0 && !call.input)
    return invalid_argument("input is null; " + describe(call) + " reads " +
                            std::to_string(need.input) + " elements there on this rank");
  if (need.output > 0 && !call.output)
    return invalid_argument("output is null; " + describe(call) + " writes " +
                            std::to_string(need.output) + " elements there on this rank");
  return {};
}

Status validate(std::span<const Transfer> group, int ranks) {
  for (size_t i = 0; i < group.size(); ++i) {
    const Transfer& t = group[i];
    const std::string which = group.size() > 1 ? concat("transfer ", i, ": ") : "";
    if (t.peer < 0 || t.peer >= ranks)
      return invalid_argument(which + "peer is " + std::to_string(t.peer) + "; ranks go from " +
                              rank_range(ranks));
    if (static_cast<int>(t.type) >= kDataTypes)
      return invalid_argument(which + "type is " + std::to_string(static_cast<int>(t.type)) +
                              "; data types go from 0 to " + std::to_string(kDataTypes - 1));
    if (t.count > kCountMax)
      return invalid_argument(which + "count is " + std::to_string(t.count) +
                              ", which no memory can hold");
    if (t.count > 0 && !t.memory)
      return invalid_argument(which + "memory is null, but count is " + std::to_string(t.count));
  }
  return check_pairs(group, ranks);
}

Status check_self_transfers(std::span<const Transfer> group, Rank me) {
  std::vector<size_t> sends, receives;
  for (const Transfer& t : group)
    if (t.peer == me)
      (t.direction == Transfer::Direction::send ? sends : receives)
          .push_back(t.count * size_of(t.type));
  if (sends == receives) return {};
  return Status(Code::mismatch,
                "rank " + std::to_string(me) + " sends " + std::to_string(sends.size()) +
                    " messages to itself and receives " + std::to_string(receives.size()) +
                    ", or their sizes differ; each send to oneself needs a receive of the "
                    "same size in the same group");
}

Signature signature(const Call& call, Purpose purpose) {
  Signature s{call.kind, call.type, call.op, call.varying, call.root, call.count, 0, purpose};
  if (!call.varying) return s;
  // Of pairs and of a root's blocks each rank knows its own part only.
  const bool known = call.kind == Kind::all_gather || call.kind == Kind::reduce_scatter;
  s.count = known ? total(call.counts) : 0;
  if (known)
    for (const size_t count : call.counts) s.counts = mix(s.counts, count);
  return s;
}

std::string describe(const Signature& call) {
  if (call.kind == Kind::barrier) return "barrier()";
  if (call.kind == Kind::exchange)
    return concat("group of ", call.count, " sends and receives, the first with rank ", call.root);
  std::string text(name(call.kind));
  text += call.varying ? "_v(" : "(";
  if (!call.varying) {
    text += "count=" + std::to_string(call.count);
  } else if (call.counts == 0) {
    text += "counts by rank";
  } else {
    text += "counts by rank, " + std::to_string(call.count) + " in all, digest " +
            std::to_string(call.counts % 100000);
  }
  text += ", " + std::string(name(call.type));
  if (reduces(call.kind)) text += ", " + std::string(name(call.op));
  if (has_root(call.kind)) text += ", root=" + std::to_string(call.root);
  return text + ")" + std::string(of(call.purpose));
}

std::string describe(std::span<const Transfer> group) {
  std::string text = "group(";
  constexpr size_t kNamed = 4;
  for (size_t i = 0; i < group.size() && i < kNamed; ++i) {
    const Transfer& t = group[i];
    text += i > 0 ? ", " : "";
    text += t.direction == Transfer::Direction::send ? "send to " : "recv from ";
    text += std::to_string(t.peer) + " count=" + std::to_string(t.count) + " " +
            std::string(name(t.type));
  }
  if (group.size() > kNamed) text += ", and " + std::to_string(group.size() - kNamed) + " more";
  return text + ")";
}

bool in_place(const Call& call, int ranks, Rank me) {
  if (!call.input || !call.output) return false;
  const auto* in = static_cast<const std::byte*>(call.input);
  const auto* out = static_cast<const std::byte*>(call.output);
  const auto own_block = [&](std::span<const size_t> counts, std::span<const size_t> offsets) {
    size_t first = static_cast<size_t>(me) * call.count;
    if (call.varying && !offsets.empty()) {
      first = offsets[me];
    } else if (call.varying && !counts.empty()) {
      first = total(counts.first(me));
    }
    return first * size_of(call.type);
  };
  switch (call.kind) {
    case Kind::all_gather: return in == out + own_block(call.counts, call.offsets);
    case Kind::gather: return me == call.root && in == out + own_block(call.counts, call.offsets);
    case Kind::reduce_scatter: return out == in + own_block(call.counts, call.offsets);
    case Kind::scatter: return me == call.root && out == in + own_block(call.counts, call.offsets);
    case Kind::barrier: return false;
    default: return ranks > 0 && in == out;
  }
}

uint64_t fingerprint(const Signature& call) {
  uint64_t hash = mix(0, static_cast<uint64_t>(call.kind));
  if (call.kind == Kind::barrier) return hash;
  hash = mix(hash, call.varying ? ~call.counts : call.count);
  hash = mix(hash, static_cast<uint64_t>(call.type));
  if (reduces(call.kind)) hash = mix(hash, static_cast<uint64_t>(call.op));
  if (has_root(call.kind)) hash = mix(hash, static_cast<uint64_t>(call.root));
  return call.purpose == Purpose::user ? hash : mix(hash, static_cast<uint64_t>(call.purpose));
}

}  // namespace weft
