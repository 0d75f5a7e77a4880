#include "engine/executor/plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/executor/lowering.h"
#include "engine/schedule/lines.h"
#include "engine/schedule/moves.h"
#include "engine/schedule/window_lap.h"
#include "kernels/claim.h"

namespace weft {
namespace {

// Groups of sends and receives run beside collectives, so they have links of their own.
constexpr LinkId kExchangeLinks = 1u << 20;

class Lowering {
 public:
  Lowering(const PlanRequest& request, Program program, Layout layout, Media& media)
      : request_(request),
        program_(std::move(program)),
        media_(media),
        plan_(std::make_unique<Plan>(request, std::move(layout))) {}

  Result<std::unique_ptr<Plan>> run() {
    set_arithmetic();
    WEFT_TRY(set_windows());
    set_segment();
    WEFT_TRY(check_room());
    set_lap();
    for (const Lane& lane : program_.lanes) WEFT_TRY(add_lane(lane));
    set_scratch();
    collect_expected();
    plan_->short_steps = short_steps(*plan_);
    if (claims_next()) plan_->short_claims = short_claims(*plan_);
    return std::move(plan_);
  }

 private:
  void set_arithmetic() {
    const Arithmetic arithmetic = arithmetic_of(request_);
    if (arithmetic.folds) plan_->kernel = reduce_kernel(arithmetic.op, request_.type);
    plan_->divisor = arithmetic.divisor;
    plan_->scales = arithmetic.scales;
    plan_->element_bytes = size_of(request_.type);
    plan_->line_elements = LlLine::elements(plan_->element_bytes);
    plan_->chunks = blocks(request_.collective) * program_.pieces;
    plan_->copies = program_.copies;
    plan_->sizes_in_tags = plan_->layout.varying();
    plan_->numbered = request_.collective.kind == Kind::exchange;
  }

  Status set_windows() {
    if (program_.window_slots == 0 && !has_signals(program_)) return {};  // which lie in windows
    if (!media_.windows_everywhere())
      return unsupported("algorithm " + std::string(request_.algorithm) +
                         " needs every rank's window, and not all ranks share memory; choose "
                         "another algorithm, or none");
    for (Rank r = 0; r < media_.ranks(); ++r) plan_->windows.push_back(media_.window(r));
    const WindowLayout& layout = media_.window_layout();
    plan_->window_begin =
        request_.protocol == Protocol::ll ? layout.ll_offset() : layout.data_offset();
    plan_->window_slots = program_.window_slots;
    plan_->window_halves = program_.window_halves;
    return {};
  }

  // Elements per chunk and round: what was asked for, no more than the largest chunk or what the
  // window ring holds.
  void set_segment() {
    const size_t bytes = plan_->element_bytes;
    const bool ll = request_.protocol == Protocol::ll;
    const size_t granule = ll ? plan_->line_elements : std::max<size_t>(1, 64 / bytes);
    const size_t largest =
        largest_chunk(program_, plan_->layout, plan_->chunks, !plan_->windows.empty());

    // The k-th send meets the k-th receive, however both sides group theirs: so a transfer is moved
    // in one piece before the next begins. Links cut it up by themselves.
    if (request_.collective.kind == Kind::exchange) {
      plan_->segment = std::max<size_t>(1, largest);
      plan_->rounds = 1;  // also where nothing moves: messages of no bytes are sent
      return;
    }
    size_t segment = cut(request_.segment_bytes / bytes, largest, granule);
    if (plan_->window_slots > 0) segment = std::min(segment, window_segment(granule));
    // Schedules are proven for two and more rounds of room in every link, not for less.
    if (plan_->window_slots == 0 && has_links(program_))
      segment = std::min(segment, std::max<size_t>(1, link_segment(granule)));
    plan_->segment = segment;
    plan_->rounds = rounds_for(largest);
    const size_t most = std::max<size_t>(1, plan_->rounds_of(0));
    if (most < static_cast<size_t>(plan_->window_halves))
      plan_->window_halves = static_cast<int>(most);
    plan_->window_slot_bytes =
        ll ? LlLine::lines(segment, bytes) * sizeof(LlLine) : round_up(segment * bytes, 64);
  }

  size_t window_ring() const {
    const WindowLayout& layout = media_.window_layout();
    return request_.protocol == Protocol::ll ? WindowLayout::kLlBytes : layout.data_bytes();
  }

  // Elements per chunk, whole granules if there is room, with which a message takes half a link.
  size_t link_segment(size_t granule) const {
    const size_t half = size_t{request_.links.slot_bytes} * (request_.links.slots / 2);
    const size_t each = half / plan_->element_bytes / static_cast<size_t>(program_.message_chunks);
    return whole_granules(each, granule);
  }

  Status check_room() const {
    if (plan_->windows.empty() && link_segment(1) == 0)
      return unsupported("algorithm " + std::string(request_.algorithm) + " sends up to " +
                         std::to_string(program_.message_chunks) +
                         " chunks in a message, for which links of " +
                         std::to_string(request_.links.slots) + " slots of " +
                         std::to_string(request_.links.slot_bytes) +
                         " bytes are too small; use larger slots, or another algorithm");
    if (plan_->window_bytes() <= window_ring()) return {};
    return unsupported(
        "algorithm " + std::string(request_.algorithm) + " needs " +
        std::to_string(plan_->window_bytes()) + " bytes of each window, which has " +
        std::to_string(window_ring()) +
        " for this protocol; use fewer lanes, protocol simple, or another algorithm");
  }

  void set_lap() {
    if (plan_->window_bytes() == 0) return;
    const Traffic traffic = traffic_of(request_.collective.kind, request_.hands_back);
    const size_t lap = window_lap(plan_->window_bytes(), traffic, request_.crowded);
    plan_->window_lap = std::min(lap, window_ring());
  }

  size_t window_segment(size_t granule) const {
    const size_t slots = static_cast<size_t>(program_.window_slots) * program_.window_halves;
    const bool ll = request_.protocol == Protocol::ll;
    const size_t slot = window_ring() / slots / 64 * 64;
    const size_t elements = ll ? slot / sizeof(LlLine) * LlLine::elements(plan_->element_bytes)
                               : slot / plan_->element_bytes;
    return std::max(granule, elements / granule * granule);
  }

  // Where messages vouch for sizes, those of no bytes are sent in the first round.
  size_t rounds_for(size_t largest) const {
    const bool any = largest > 0 || (plan_->sizes_in_tags && plan_->windows.empty());
    return any ? std::max<size_t>(1, (largest + plan_->segment - 1) / plan_->segment) : 0;
  }

  size_t rounds_of(const Lane& lane) const {
    if (!plan_->windows.empty() || plan_->numbered) return plan_->rounds;
    return rounds_for(largest_chunk(lane, plan_->layout, plan_->chunks));
  }

  Status add_lane(const Lane& lane) {
    PlanLane lowered{.steps = {}, .copy = lane.copy, .rounds = rounds_of(lane)};
    if (lane.steps.empty() || lowered.rounds <= static_cast<size_t>(lane.copy)) return {};
    bool begins = true;
    for (const Step& step : lane.steps) {
      lowered.steps.emplace_back();
      lowered.steps.back().begins = std::exchange(begins, !step.more);
      WEFT_TRY(add_step(step, lowered.steps.back()));
    }
    plan_->lanes.push_back(std::move(lowered));
    return {};
  }

  Status add_step(const Step& step, PlanStep& lowered) {
    const size_t operands = step.operands();
    if (operands > ReduceCall::kMaxSources)
      return unsupported(concat("algorithm ", request_.algorithm, " has a step that folds ",
                                operands, " values, and kernels fold ",
                                int{ReduceCall::kMaxSources}, "; use another one, or fewer ranks"));
    lowered.chunk = step.chunk;
    lowered.times = step.times;
    lowered.stride = step.stride;
    lowered.first = plan_->place(step.chunk);
    lowered.sources = step.sources;
    lowered.targets = step.targets;
    for (auto* side : {&lowered.sources, &lowered.targets})
      for (Operand& o : *side)
        if (is_own_buffer(o, media_.me())) o.rank = -1;
    lowered.finish = step.finish;
    lowered.ends = !step.more;
    WEFT_TRY(open_links(step, lowered));
    for (const Operand& o : step.sources) WEFT_TRY(check(o));
    for (const Operand& o : step.targets) WEFT_TRY(check(o));
    for (const Signal& signal : step.waits) WEFT_TRY(check(signal));
    for (const Signal& signal : step.posts) WEFT_TRY(check(signal));
    add_signals(step, lowered);
    lowered.pulls = request_.readable && !lowered.sources.empty() && lowered.sources[0].rank >= 0;
    if (lowered.pulls) return check_pull(lowered);
    add_readers(lowered);
    if (!lowered.begins || !lowered.ends) return {};  // several chunks share the slots
    if (only_sends(step))
      lowered.sends_memory = lowered.to->traits().send_from_memory && !plan_->scales &&
                             !(step.finish && plan_->divisor != 1) &&
                             step.sources[0].buffer != Buffer::window;
    if (only_receives(step))
      lowered.receives_memory = lowered.from->traits().recv_into_memory && !step.finish;
    return {};
  }

  static bool is_shared(const Operand& o) { return o.buffer == Buffer::window || o.rank >= 0; }

  // Whether what the step writes to the Output lies where this rank has just read its Input: in the
  // same step, or earlier in the round where slots are handed back. Those lines are in the core's
  // own cache, and to write past it has to take them out first.
  bool writes_where_it_read(const PlanStep& lowered) const {
    const Collective& c = request_.collective;
    if (!c.in_place || !(reduces(c.kind) || c.kind == Kind::all_to_all)) return false;
    return request_.hands_back || std::ranges::any_of(lowered.sources, [](const Operand& o) {
             return o.buffer == Buffer::input && !is_shared(o);
           });
  }

  // Who reads next what the step writes, and who had it last.
  void add_readers(PlanStep& lowered) const {
    const bool result_is_cached = writes_where_it_read(lowered);
    for (size_t t = 0; t < lowered.targets.size(); ++t) {
      const Operand& target = lowered.targets[t];
      const bool shared = is_shared(target);
      if (shared) lowered.shared |= PlanStep::bit(t);
      if (!shared && target.buffer == Buffer::output && !result_is_cached)
        lowered.results |= PlanStep::bit(t);
      if (std::ranges::find(lowered.sources, target) != lowered.sources.end())
        lowered.also_read |= PlanStep::bit(t);
    }
    if (lowered.to && lowered.to->traits().send_in_place)
      lowered.shared |= PlanStep::bit(lowered.targets.size());
    const bool much = request_.protocol == Protocol::simple &&  // lines are short
                      plan_->segment * plan_->element_bytes >= kStreamedToPeers;
    const bool reads = std::any_of(lowered.sources.begin(), lowered.sources.end(), is_shared);
    lowered.own = !reads && lowered.shared == 0 && !lowered.from && !lowered.to;
    if ((lowered.shared != 0 || reads) && much && !plan_->stores)
      plan_->stores.emplace(StoreTrial::Turns{.before = turns_on_new_pages(),
                                              .untimed = turns_to_come_round(),
                                              .bytes = plan_->segment * plan_->element_bytes});
  }

  // After which a lane writes the same lines again.
  uint64_t turns_to_come_round() const {
    if (plan_->window_slots == 0) return request_.links.slots;
    return plan_->window_lap / plan_->half_bytes();
  }

  // Of the caller's buffers they are those of a call, of windows those of two laps: a call leases
  // so many halves for all its rounds. Own pages of windows are there, others are mapped one by
  // one.
  uint64_t turns_on_new_pages() const {
    const uint64_t rounds = plan_->rounds_of(0);
    if (plan_->window_slots == 0) return std::max<uint64_t>(2 * request_.links.slots, rounds);
    return 2 * (plan_->window_lap / plan_->window_bytes()) * rounds;
  }

  // What is read through the kernel goes straight to where it is wanted.
  static Status check_pull(const PlanStep& lowered) {
    const bool straight = lowered.sources.size() == 1 && lowered.targets.size() == 1 &&
                          lowered.sources[0].buffer == Buffer::input &&
                          lowered.targets[0].buffer == Buffer::output &&
                          lowered.targets[0].rank < 0 && !lowered.from && !lowered.to;
    return straight ? Status() : internal_error("A step reads a peer's memory, and does more.");
  }

  Status check(const Operand& operand) {
    if (!is_peers_buffer(operand, media_.me())) return {};
    plan_->touches_peers = true;
    return check_peers_buffer(request_, operand, plan_->layout,
                              request_.readable || media_.shares_memory());
  }

  Status check(const Signal& signal) const {
    if (signal.cell < WindowLayout::kCells && !plan_->windows.empty()) return {};
    return unsupported("algorithm " + std::string(request_.algorithm) + " uses signal cell " +
                       std::to_string(signal.cell) + "; there are " +
                       std::to_string(WindowLayout::kCells) +
                       " per peer, in windows; use fewer lanes, or an algorithm without signals");
  }

  Status open_links(const Step& step, PlanStep& lowered) {
    const bool exchange = request_.collective.kind == Kind::exchange;
    const LinkId base = exchange ? kExchangeLinks : 0;
    if (step.from.used()) {
      Transport* transport = media_.route(step.from.peer);
      if (!transport) return no_route(step.from.peer);
      lowered.from_peer = step.from.peer;
      lowered.from = &transport->open_recv(step.from.peer, base + step.from.id, request_.links);
      note_transport(*transport);
    }
    if (step.to.used()) {
      Transport* transport = media_.route(step.to.peer);
      if (!transport) return no_route(step.to.peer);
      lowered.to_peer = step.to.peer;
      lowered.to = &transport->open_send(step.to.peer, base + step.to.id, request_.links);
      note_transport(*transport);
      auto& all = plan_->send_links;
      if (std::none_of(all.begin(), all.end(),
                       [&](const Plan::Outgoing& known) { return known.link == lowered.to; }))
        all.push_back({lowered.to, step.to.peer});
    }
    return {};
  }

  Status no_route(Rank peer) const {
    return Status(Code::unsupported,
                  "no transport leads from rank " + std::to_string(media_.me()) + " to rank " +
                      std::to_string(peer) + " (available here: " + media_.names() +
                      "); allow another one, for example transport auto (WEFT_TRANSPORT), or see "
                      "with WEFT_DEBUG=info what each of them says",
                  peer);
  }

  void note_transport(const Transport& transport) {
    if (plan_->transports.find(transport.name()) != std::string::npos) return;
    if (!plan_->transports.empty()) plan_->transports += "+";
    plan_->transports += transport.name();
  }

  void add_signals(const Step& step, PlanStep& lowered) {
    const bool ll = request_.protocol == Protocol::ll;
    lowered.lines = ll && (reads_window(step) || writes_window(step));
    for (const Signal& wait : step.waits)
      if (!known(wait) && !(ll && carried_by_lines(step, wait))) lowered.waits.push_back(wait);
    for (const Signal& post : step.posts) {
      if (known(post)) continue;
      if (!(ll && posts_by_lines(step))) lowered.posts.push_back(post);
      if (post.peer != media_.me()) lowered.wakes.push_back(post.peer);
    }
    if ((reads_window(step) || plan_->touches_peers) && plan_->transports.empty())
      note_transport(*media_.route(other_rank()));
  }
  // Ranks have told each other where their buffers lie, so all are in the call.
  bool known(const Signal& signal) const {
    return is_of(signal, request_.entered, program_.copies);
  }
  Rank other_rank() const { return media_.me() == 0 ? 1 : 0; }

  void set_scratch() {
    plan_->scratch_slot_bytes = round_up(plan_->segment * plan_->element_bytes, 64);
    plan_->scratch_slots = static_cast<size_t>(program_.scratch_slots);
  }

  // Every cell that somebody posts here is waited for by some step (the verifier sees to it).
  void collect_expected() {
    std::set<std::pair<Rank, int>> seen;
    for (const PlanLane& lane : plan_->lanes)
      for (const PlanStep& step : lane.steps)
        for (const Signal& wait : step.waits)
          if (seen.insert({wait.peer, wait.cell}).second)
            plan_->expected.push_back({wait.peer, wait.cell, plan_->rounds_of(lane.copy)});
  }

  const PlanRequest& request_;
  Program program_;
  Media& media_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace

std::string_view name(Protocol protocol) { return protocol == Protocol::ll ? "ll" : "simple"; }

Result<std::unique_ptr<Plan>> lower(const PlanRequest& request, Program program, Layout layout,
                                    Media& media) {
  return Lowering(request, std::move(program), std::move(layout), media).run();
}

}  // namespace weft
