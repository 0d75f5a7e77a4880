#include "engine/tuner/choose.h"

#include <algorithm>

#include "base/text.h"
#include "engine/algorithms/imported.h"
#include "engine/schedule/json.h"
#include "kernels/claim.h"
#include "kernels/float_mode.h"
#include "kernels/reduce.h"

namespace weft {
namespace {

// all_reduce over windows: above this, folding only one's share saves more than its second hop
// costs.
constexpr size_t kTwoShotBytes = 8 * 1024;
// Of a block over windows: above, to write lines that lie in the core's own cache saves more than a
// second hop costs; where no lines are claimed before, which was measured on 2 ranks of a Zen 4,
// earlier.
constexpr size_t kRoundTripBytes = 32 * 1024, kRoundTripEarlyBytes = 8 * 1024;
// Of a block over windows, where ranks share cores: up to here it is turns that take the time.
constexpr size_t kTurnsBytes = 16 * 1024;
// Of a block from one to others, over links: up to here windows have to seem much dearer.
constexpr size_t kShortOneWay = 4 * 1024;
// Of a reduce where every core has two ranks: above, the ring's turns are little of its time.
constexpr size_t kAlongCoresBytes = 64 * 1024;
// Each rank of an all_reduce has to write its result to every other one then, so it is for few.
constexpr int kRanksAnswered = 4;
// Between buffers that all ranks have mapped: from here on what is not copied costs more than
// telling each other where they are.
constexpr size_t kRegisteredBytes = 32 * 1024;
// Over links: trees below, algorithms that meet the bandwidth bound above.
constexpr size_t kLinkSmallBytes = 32 * 1024;
// all_reduce over links: above, what is under way between all ranks at once is in no cache, where
// around a ring every link has its turn. On 2 ranks both are the same messages, but what a ring
// passes on is written to a slot and to the Output, here to that alone.
constexpr size_t kAtOnceBytes = 1 << 20, kPairAtOnceBytes = 2 << 20;
// A ring of few ranks goes both ways at once, and half as many hops are waited for. What is only
// gathered or scattered does so up to here, of a message; above, bytes take the time, and those are
// as many. A GPU has a step more per hop.
constexpr size_t kBothWaysBytes = 2 << 20;
// Of a block: up to here a logarithm of steps, of many blocks each, beats a step for each rank.
constexpr size_t kTinyBlock = 4 * 1024;
constexpr int kFewRanks = 8;    // up to here all others at once are as good
constexpr int kManyRanks = 64;  // beyond, so many steps or connections are what takes the time

Collective collective_of(const Call& call, const Surroundings& around) {
  return {call.kind, around.ranks, root_of(call), false};
}

// Whether a second hop pays early: for 2 ranks with a core each, where it was measured that no call
// claims lines for the next one. A core that both share would have to turn once more.
bool hands_back_early(const Surroundings& around) {
  if (around.ranks != 2 || around.device || !around.tuner) return false;
  const Network& network = around.tuner->network();
  return !network.inside.claims && !network.shares_cores(around.ranks);
}

// Bytes of an all_reduce over windows up to which every rank folds all. On 2 ranks one shot takes
// 0.88 of the round trip's time at 16 KiB where lines are claimed, and else 1.2 times as long.
size_t one_shot_most(const Surroundings& around) {
  const bool early = around.ranks != 2 || around.device || hands_back_early(around);
  return early ? kTwoShotBytes : kClaimedNextMost;
}

// Of a block of other kinds, up to which it goes one way.
size_t one_way_most(const Surroundings& around) {
  return hands_back_early(around) ? kRoundTripEarlyBytes : kRoundTripBytes;
}

// Caches of cores are what it is for, and it has no lines.
bool is_handed_back(const Call& call, size_t bytes, const Surroundings& around,
                    const Options& options) {
  if (around.device || call.varying || options.protocol == "ll") return false;
  switch (call.kind) {
    case Kind::all_reduce: return bytes > one_shot_most(around) && around.ranks <= kRanksAnswered;
    case Kind::all_gather: return bytes > one_way_most(around) && around.ranks == 2;
    case Kind::reduce_scatter:
    case Kind::all_to_all: return bytes > one_way_most(around);
    default: return false;
  }
}

std::string_view over_windows(const Call& call, size_t bytes, const Surroundings& around,
                              const Options& options) {
  if (is_handed_back(call, bytes, around, options)) return "window_round_trip";
  if (call.kind == Kind::all_reduce && bytes > one_shot_most(around)) return "window_two_shot";
  return "window_one_shot";
}

std::string_view in_rank_order_over_links(const Call& call, size_t bytes) {
  if (call.kind == Kind::all_reduce && bytes > kLinkSmallBytes) return "direct_two_shot";
  return "direct_one_shot";
}

int asked_radix(const Options& options) { return options.radix > 0 ? options.radix : 2; }

// Whether links hold as many chunks as a message of it carries.
bool links_have_room(std::string_view algorithm, const Collective& c, const Surroundings& around,
                     const Options& options) {
  constexpr size_t kLargestElement = 16;
  const size_t chunks = static_cast<size_t>(
      find_algorithm(algorithm)->build(c, 0, {.radix = asked_radix(options)}).message_chunks);
  const size_t half = around.slot_bytes * static_cast<size_t>(around.slots / 2);
  return around.slot_bytes == 0 || half / chunks >= kLargestElement;
}

std::string_view over_links(const Collective& c, size_t bytes, const Surroundings& around,
                            const Options& options) {
  const int ranks = c.ranks;
  const bool small = bytes <= kLinkSmallBytes;
  const bool few = ranks <= kFewRanks;
  // Those exchange with all others at once what in a ring would wait for its way round.
  const bool handful = ranks == 3 || ranks == 4;
  const auto few_steps = [&](std::string_view by_logarithm, std::string_view else_by) {
    const bool tiny = bytes <= kTinyBlock && !few;
    return tiny && links_have_room(by_logarithm, c, around, options) ? by_logarithm : else_by;
  };
  const bool at_once = (small && few) || handful;
  const bool reaches = c.kind == Kind::all_reduce ||
                       bytes * static_cast<size_t>(message_blocks(c.kind, ranks)) <= kBothWaysBytes;
  const bool both_ways = ranks > 2 && few && reaches && !around.device;
  const std::string_view ring = both_ways ? "bidirectional_ring" : "ring";
  switch (c.kind) {
    case Kind::all_reduce:
      if (small) return "recursive_doubling";
      if (handful && bytes <= kAtOnceBytes) return "direct_two_shot";
      if (ranks == 2 && bytes <= kPairAtOnceBytes) return "direct_two_shot";
      return ranks > kManyRanks ? "double_tree" : ring;
    case Kind::barrier: return "recursive_doubling";
    case Kind::reduce:
    case Kind::broadcast: return small || ranks == 2 ? "knomial" : "double_tree";
    case Kind::all_gather: return at_once ? "direct_one_shot" : few_steps("bruck", ring);
    case Kind::reduce_scatter:
      return at_once ? "direct_one_shot" : few_steps("halving_doubling", ring);
    case Kind::gather:
    case Kind::scatter: return "direct_one_shot";
    case Kind::all_to_all: return few_steps("bruck", "pairwise");
    default: return "pairwise";
  }
}

// Whether ranks may read and write each other's buffers: they know where blocks lie there, and need
// no factor of others.
bool works_on_buffers(const Call& call) {
  return !call.varying && !(reduces(call.kind) && call.op == ReduceOp::premulsum);
}

// Whether the call may run between registered buffers, and is large enough that the exchange of
// where they lie pays.
bool between_buffers(const Call& call, const Surroundings& around) {
  if (!around.registered || !works_on_buffers(call)) return false;
  const Collective c{call.kind, around.ranks, root_of(call), around.in_place};
  return message_bytes(call) >= kRegisteredBytes && find_algorithm("zero_copy")->suits(c);
}

// Lines say nothing where a block is empty: ll is proven for blocks of equal sizes.
bool may_ll(const Call& call) { return !call.varying; }

// Whether windows have room, and steps that fold take so many operands. Windows connect every rank
// with every other one: where there are very many, that has to pay.
bool can_use_windows(std::string_view algorithm, const Call& call, const Surroundings& around,
                     const Options& options) {
  if (!around.windows) return false;
  const bool to_one = call.kind == Kind::gather || call.kind == Kind::scatter;
  if (around.ranks > kManyRanks && (to_one || message_bytes(call) <= kTinyBlock)) return false;
  const Algorithm& a = *find_algorithm(algorithm);
  const Collective c = collective_of(call, around);
  const bool lines = options.protocol == "ll" && may_ll(call);
  return a.suits(c) &&
         slots_in_window(a, c, options.lanes) <= (lines ? around.room.lines : around.room.slots);
}

// Ranks that share a core are neighbours: in a ring's reduce one block crosses between cores, where
// a root that reads windows waits for that of every rank on another core. On 2 cores of a Zen 5
// that takes 8 ranks 1.8 to 2.5 of the ring's time where the cores are far from each other, and 4
// ranks 1.0 to 1.2; where they are near, 0.96 to 1.2.
bool goes_along_cores(const Call& call, size_t bytes, const Surroundings& around,
                      const Options& options) {
  if (call.kind != Kind::reduce || bytes <= kAlongCoresBytes || options.deterministic ||
      options.protocol == "ll" || !around.windows || around.device || !around.tuner)
    return false;
  const int cores = around.tuner->network().node_cores;
  return cores > 0 && around.ranks >= 2 * cores;
}

std::string_view by_table(const Call& call, const Surroundings& around, const Options& options) {
  const size_t bytes = message_bytes(call);
  if (call.kind == Kind::exchange) return "exchange";
  if (pair_sizes(call)) return call.kind == Kind::all_to_all ? "pairwise" : "direct_one_shot";
  if (goes_along_cores(call, bytes, around, options)) return "ring";
  const std::string_view windowed = over_windows(call, bytes, around, options);
  if (can_use_windows(windowed, call, around, options)) return windowed;
  if (options.deterministic && reduces(call.kind)) return in_rank_order_over_links(call, bytes);
  return over_links(collective_of(call, around), bytes, around, options);
}

size_t asked_segment(const Options& options) {
  return options.chunk_bytes > 0 ? options.chunk_bytes : options.slot_bytes;
}

// How an algorithm is run where options, and prices, say nothing else.
Choice usual(const Algorithm& algorithm, const Call& call, const Collective& c,
             const Surroundings& around, const Options& options) {
  Choice choice;
  choice.algorithm = &algorithm;
  choice.radix = asked_radix(options);
  if (options.lanes > 0 && call.kind != Kind::exchange)
    choice.copies = copies_of(algorithm, options.lanes);
  choice.segment_bytes = asked_segment(options);
  if (choice.segment_bytes == 0) {
    const bool shares_cores = around.tuner && around.tuner->network().shares_cores(around.ranks);
    choice.segment_bytes =
        usual_segment_bytes(algorithm, c, around.slot_bytes, message_bytes(call), shares_cores);
  }
  if (algorithm.windows && algorithm.lines && may_ll(call))
    choice.ll = options.protocol == "ll" ||
                (options.protocol == "auto" && usually_ll(algorithm, message_bytes(call)) &&
                 slots_in_window(algorithm, c, options.lanes) <= around.room.lines);
  return choice;
}

bool must_be_canonical(const Collective& c, const Options& options) {
  return options.deterministic && reduces(c.kind);
}

std::string those_that_suit(const Collective& c, const Surroundings& around,
                            const Options& options) {
  const auto suits = [&](const Algorithm& a) {
    return a.suits(c) && (around.windows || !a.windows) && (around.registered || !a.registered) &&
           (around.readable || !a.readable) && (a.canonical || !must_be_canonical(c, options));
  };
  std::string text;
  for (const Algorithm& a : catalog())
    if (suits(a)) text += (text.empty() ? "" : ", ") + std::string(a.name);
  return text;
}

// The algorithm of that name, or why it cannot serve.
Result<const Algorithm*> asked_for(std::string_view asked, const Call& call, const Collective& c,
                                   const Surroundings& around, const Options& options) {
  const Algorithm* algorithm = around.own ? around.own : find_algorithm(asked);
  const std::string quoted = "algorithm \"" + std::string(asked) + "\" ";
  const std::string remedy = "; for " + std::string(name(c.kind)) + " on " +
                             std::to_string(c.ranks) + " ranks here there are " +
                             those_that_suit(c, around, options);
  if (!algorithm) return invalid_argument(quoted + "is not known" + remedy);
  if (!algorithm->suits(c) && around.own)
    return unsupported(quoted + "does not serve " + describe(c) + "; it has " +
                       std::string(around.own_serves));
  if (!algorithm->suits(c)) return unsupported(quoted + "does not serve this call" + remedy);
  if (algorithm->windows && !around.windows)
    return unsupported(quoted +
                       "needs windows that all ranks share: all on one host, WEFT_TRANSPORT with "
                       "shm, and WEFT_WINDOW, where it is set, large enough" +
                       remedy);
  if (algorithm->registered && !around.registered)
    return unsupported(quoted +
                       "needs all ranks' input and output in memory that their communicator "
                       "allocated (Communicator::allocate), or on one GPU that all ranks share as "
                       "threads of one process" +
                       remedy);
  const bool on_buffers = algorithm->registered || algorithm->readable;
  if (on_buffers && !works_on_buffers(call))
    return unsupported(quoted + "works on other ranks' input and output, which counts by rank " +
                       "and premulsum do not allow; leave the choice to weft (algorithm \"auto\")");
  if (algorithm->readable && !around.readable)
    return unsupported(quoted +
                       "needs every rank to read every other one's input through the kernel "
                       "(process_vm_readv), which is not possible here, or not for one of the "
                       "buffers" +
                       remedy);
  if (on_buffers && !algorithm->suits({c.kind, c.ranks, c.root, around.in_place}))
    return unsupported(quoted + "does not serve this call in place" + remedy);
  if (call.varying && cuts_blocks(*algorithm, c))
    return unsupported(quoted + "cuts blocks into pieces, so it cannot serve counts by rank; " +
                       "leave the choice to weft (algorithm \"auto\")");
  if (pair_sizes(call) && !algorithm->any_counts)
    return unsupported(quoted +
                       "cannot serve counts that only two ranks know; leave the choice "
                       "to weft (algorithm \"auto\")");
  if (must_be_canonical(c, options) && !algorithm->canonical)
    return unsupported(quoted +
                       "does not fold in rank order, which deterministic results "
                       "(WEFT_DETERMINISTIC) need" +
                       remedy);
  return algorithm;
}

// The algorithm that the options ask for; nullptr where they leave it open. A wish that does not
// suit a barrier is not an error: nobody names an algorithm for those.
Result<const Algorithm*> wished(const Call& call, const Collective& c, const Surroundings& around,
                                const Options& options) {
  const Algorithm* const none = nullptr;
  if (options.algorithm == "auto" || call.kind == Kind::exchange || call.kind == Kind::barrier)
    return none;
  const std::string_view name = without_or_auto(options.algorithm);
  const bool or_auto = name.size() < options.algorithm.size();
  if (or_auto && names_file(name) && !around.own) return none;  // on devices no file is run
  auto asked = asked_for(name, call, c, around, options);
  if (or_auto && asked.status().code() == Code::unsupported) return none;
  return asked;
}

// Whether the price of what the kernel copies is good to a few per cent: on 8 ranks that share 2
// cores of a Zen 4 it takes 1.2 to 1.35 times that. It was measured to be good on Intel's CPUs,
// which are those where calls claim lines.
bool reading_is_exact(const Network& network, const Collective& c) {
  return network.inside.claims || !network.shares_cores(c.ranks);
}

// Up to so many times an offer's price the table's algorithm is left: prices are not that exact,
// and what the table takes does well in more than the state in which a machine was measured. Over
// windows, and between a rank and all others at once, waiting and moving overlap, which are priced
// one after the other.
//
// A ring that goes both ways has twice as many messages under way, which are all priced as if each
// took room in the caches at once: up to 1.2 times a ring's price where it takes 0.8 to 1.0 of its
// time (all_reduce over TCP, 3 to 8 ranks of 2 cores).
//
// Links are left to windows for longer. Short blocks from one to others take 1.2 to 1.7 times the
// windows' time on 2 ranks of a Zen 4, also where they seem to take half of it because the machine
// was measured while its cores were far from each other. And where ranks share cores, what goes
// through links takes up to three times its price also where it is long, when cores are far from
// each other: who sends does not know what its stores cost who reads them. Each further hop takes a
// turn of every rank there, more than prices say: short calls with more hops take 1.4 to 2.9 times
// theirs.
double margin(const Algorithm& by_table, const Offer& offer, const Collective& c, size_t bytes,
              const Network& network) {
  if (by_table.name == "bidirectional_ring" && offer.algorithm->name == "ring") return 1.3;
  if (by_table.name == "ring" && c.kind == Kind::reduce) return 1.3;
  if (!by_table.windows && !by_table.name.starts_with("direct")) return 1.1;
  if (!by_table.windows) return 1.2;
  const Algorithm& other = *offer.algorithm;
  const bool shares_cores = network.shares_cores(c.ranks);
  const bool short_one_way = has_root(c.kind) && bytes <= kShortOneWay && c.ranks <= kFewRanks;
  if (!other.windows && short_one_way) return 3;
  if (!other.windows && shares_cores) return 2;
  if (!shares_cores) return 1.2;
  if (other.readable && !reading_is_exact(network, c)) return 1.5;
  const bool more_hops = other.cost(c, {.radix = offer.radix}).hops > by_table.cost(c, {}).hops;
  return bytes <= kTurnsBytes && more_hops ? 1.5 : 1.2;
}

// The cheapest, unless the table's algorithm costs about the same. But where all ranks move more
// than a few KiB, it is the other way round with what the kernel copies, where its price is the
// most exact of all: the others' are rather too low. From one to others windows' two copies
// overlap, and the table has its margin.
Choice cheapest(const std::vector<Offer>& offers, const Algorithm* by_table, const Call& call,
                const Collective& c, const Network& network) {
  const size_t bytes = message_bytes(call);
  const auto fills = [&](const Offer& o) { return fills_pieces(o, c, static_cast<double>(bytes)); };
  const auto usual = std::find_if(offers.begin(), offers.end(),
                                  [&](const Offer& o) { return o.algorithm == by_table; });
  auto first = std::find_if(offers.begin(), offers.end(), fills);
  if (first == offers.end()) first = offers.begin();
  constexpr double kTooLow = 1.15;
  const auto exact = std::find_if(offers.begin(), offers.end(),
                                  [](const Offer& o) { return o.algorithm->readable; });
  if (exact != offers.end() && !has_root(c.kind) && bytes > kClaimedNextMost &&
      reading_is_exact(network, c) && exact->seconds <= kTooLow * first->seconds)
    return *exact;
  if (usual == offers.end()) return *first;
  const Offer* best = &*usual;
  double least = usual->seconds;
  for (auto offer = first; offer < usual; ++offer) {
    const double seconds = margin(*by_table, *offer, c, bytes, network) * offer->seconds;
    if (seconds < least && (offer == first || fills(*offer))) best = &*offer, least = seconds;
  }
  return *best;
}

}  // namespace

size_t message_bytes(const Call& call) {
  size_t elements = call.count;
  if (call.varying)
    elements = call.counts.empty() ? 0 : *std::max_element(call.counts.begin(), call.counts.end());
  return elements * size_of(call.type);
}

bool may_use_registered(const Call& call, Surroundings around, const Options& options) {
  around.registered = true;
  const auto asked = wished(call, collective_of(call, around), around, options);
  if (!asked.ok()) return false;
  return *asked ? (*asked)->registered : between_buffers(call, around);
}

bool may_be_pulled(const Call& call, const Surroundings& around) {
  const Collective c{call.kind, around.ranks, root_of(call), around.in_place};
  return around.windows && works_on_buffers(call) && message_bytes(call) > 0 &&
         find_algorithm("pull")->suits(c);
}

bool may_pull(const Call& call, Surroundings around, const Options& options) {
  around.readable = true;
  const Result<Choice> choice = choose(call, around, options);
  return choice.ok() && choice->algorithm->readable;
}

const std::vector<Offer>* offers(const Call& call, const Surroundings& around,
                                 const Options& options) {
  const UsualFloatMode mode;  // ranks whose prices differed would choose apart
  Collective c = collective_of(call, around);
  // Then its root, most likely, has nothing to copy for itself, which windows' prices have in them.
  // Ranks know it when they have told each other where buffers lie, a microsecond.
  c.in_place = around.in_place && c.kind == Kind::broadcast;
  if (!around.tuner || !has_prices(call) || around.ranks < 2) return nullptr;
  Demand demand;
  demand.collective = c;
  demand.windows = around.windows;
  demand.readable = around.readable && may_be_pulled(call, around);
  demand.room = around.room;
  demand.rank_order = options.deterministic;
  demand.varying = call.varying;
  demand.slot_bytes = around.slot_bytes;
  demand.slots = around.slots;
  demand.radix = options.radix;
  demand.copies = options.lanes;
  demand.segment_bytes = asked_segment(options);
  demand.may_ll = may_ll(call) && options.protocol != "simple";
  demand.must_ll = may_ll(call) && options.protocol == "ll";
  const auto blocks = static_cast<size_t>(message_blocks(c.kind, c.ranks));
  return &around.tuner->offers(demand, message_bytes(call) * blocks);
}

Result<Choice> choose(const Call& call, const Surroundings& around, const Options& options) {
  const UsualFloatMode mode;
  const Collective c = collective_of(call, around);
  const auto asked = wished(call, c, around, options);
  if (!asked.ok()) return asked.status();
  if (*asked) return usual(**asked, call, c, around, options);
  if (between_buffers(call, around))
    return usual(*find_algorithm("zero_copy"), call, c, around, options);
  const std::vector<Offer>* const priced = offers(call, around, options);
  const Algorithm* algorithm = find_algorithm(by_table(call, around, options));
  if (priced && !priced->empty())
    return cheapest(*priced, algorithm, call, c, around.tuner->network());
  if (algorithm->suits(c)) return usual(*algorithm, call, c, around, options);
  return unsupported(describe(call) + " cannot be folded in rank order on " +
                     std::to_string(c.ranks) + " ranks (at most " +
                     std::to_string(ReduceCall::kMaxSources) +
                     "); unset WEFT_DETERMINISTIC or use fewer ranks");
}

}  // namespace weft
