#include "engine/schedule/verify_plan.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "engine/schedule/lines.h"

namespace weft::symbolic {
namespace {

// What a run may take: some seconds, and a gigabyte or two.
constexpr int64_t kMostOps = int64_t{1} << 23;   // in a round
constexpr int64_t kMostDone = int64_t{1} << 25;  // of them in all rounds
constexpr int64_t kMostBytes = int64_t{1} << 30;
constexpr int64_t kCellBytes = 80;     // of memory, with the value that it holds and who reads it
constexpr int64_t kPostBytes = 16;     // of a cell of signals in a round
constexpr int64_t kMessageBytes = 80;  // of a message on its way, or of what one has freed
constexpr int64_t kMostEnds = int64_t{1} << 24;    // of links and signals
constexpr int64_t kMostPlaces = int64_t{1} << 30;  // ranks x chunks

Status too_large(std::string_view what) {
  return invalid_argument(concat("The schedule is too large to be verified: ", what, "."));
}

class Lowering {
 public:
  explicit Lowering(const Schedule& schedule)
      : schedule_(schedule), links_(schedule.collective.ranks), cells_(schedule.collective.ranks) {}

  Status run() {
    const Program& first = schedule_.programs[0];
    plan_.schedule = &schedule_;
    plan_.ranks = schedule_.collective.ranks;
    plan_.chunks = schedule_.chunks();
    plan_.pieces = first.pieces;
    plan_.copies = first.copies;
    plan_.halves = first.window_halves;
    plan_.window_slots = first.window_slots;
    if (int64_t{plan_.ranks} * plan_.chunks > kMostPlaces)
      return too_large("it has too many chunks for so many ranks");
    lay_out_user_memory();
    WEFT_TRY(number());
    for (Rank r = 0; r < plan_.ranks; ++r) {
      plan_.first_lane.push_back(int(plan_.lanes.size()));
      const Program& program = schedule_.programs[r];
      for (size_t l = 0; l < program.lanes.size(); ++l)
        WEFT_TRY(add_lane(r, int(l), program.lanes[l]));
    }
    plan_.first_lane.push_back(int(plan_.lanes.size()));
    WEFT_TRY(check_links());
    return check_waits();
  }

  Plan take() { return std::move(plan_); }

 private:
  void lay_out_user_memory();
  Status number();
  Status add_lane(Rank rank, int lane, const Lane& steps);
  Status add_op(const PlanLane& lane, const Step& step, int index, int time);
  Status bind_send(const PlanLane& lane, const Op& op, const LinkEnd& end);
  Status bind_receive(const PlanLane& lane, const Op& op, const LinkEnd& end);
  Status bind_post(const PlanLane& lane, const Op& op, const Signal& post);
  Place resolve(const Operand& operand, Rank me, int chunk);
  Status check_links() const;
  Status check_waits() const;
  Status bad(const PlanLane& lane, const Op& op, const std::string& what) const {
    return invalid_argument(place_of(plan_, lane, op) + ": " + what + ".");
  }
  // Where the link's end is used first, for complaints.
  Status bad_link(const PlanLink& link, const std::string& what) const;

  const Schedule& schedule_;
  Plan plan_;
  Triples links_, cells_;
  // By rank: where Output begins in its user memory; outside the in-place form it lies behind
  // Input.
  std::vector<int> output_begin_;
};

void Lowering::lay_out_user_memory() {
  const Collective& c = schedule_.collective;
  const int pieces = plan_.pieces;
  plan_.input_at.resize(plan_.ranks);
  plan_.output_at.resize(plan_.ranks);
  for (Rank r = 0; r < plan_.ranks; ++r) {
    int in_blocks = 0, out_blocks = 0;
    for (int b = 0; b < blocks(c); ++b) {
      if (in_input(c, r, b)) in_blocks = std::max(in_blocks, place_in_input(c, r, b) + 1);
      if (in_output(c, r, b)) out_blocks = std::max(out_blocks, place_in_output(c, r, b) + 1);
    }
    const int size = c.in_place ? std::max(in_blocks, out_blocks) : in_blocks + out_blocks;
    output_begin_.push_back(c.in_place ? 0 : in_blocks * pieces);
    plan_.input_at[r].assign(size_t(size) * pieces, -1);
    plan_.output_at[r].assign(size_t(size) * pieces, -1);
    for (int b = 0; b < blocks(c); ++b) {
      for (int piece = 0; piece < pieces; ++piece) {
        const int chunk = b * pieces + piece;
        if (in_input(c, r, b)) plan_.input_at[r][place_in_input(c, r, b) * pieces + piece] = chunk;
        if (in_output(c, r, b))
          plan_.output_at[r][output_begin_[r] + place_in_output(c, r, b) * pieces + piece] = chunk;
      }
    }
  }
}

Status Lowering::number() {
  int64_t ops = 0, effort = 0;
  for (Rank r = 0; r < plan_.ranks; ++r) {
    for (const Lane& lane : schedule_.programs[r].lanes) {
      for (const Step& step : lane.steps) {
        ops += step.times;
        effort += step.times * static_cast<int64_t>(1 + step.sources.size() + step.targets.size());
        if (step.from.used()) links_.note(step.from.peer, r, step.from.id);
        if (step.to.used()) links_.note(r, step.to.peer, step.to.id);
        for (const Signal& s : step.waits) cells_.note(s.peer, r, s.cell);
        for (const Signal& s : step.posts) cells_.note(r, s.peer, s.cell);
      }
    }
  }
  if (effort > kMostOps) return too_large("it has too many steps");
  if (links_.total() + cells_.total() > kMostEnds)
    return too_large("numbers of links or cells are needlessly large; count from 0");
  links_.close();
  cells_.close();
  plan_.links.resize(links_.size());
  plan_.cells.resize(cells_.size());
  plan_.ops.reserve(ops);
  return {};
}

Status Lowering::add_lane(Rank rank, int lane, const Lane& steps) {
  const int begin = int(plan_.ops.size());
  plan_.lanes.push_back({rank, lane, steps.copy, {begin, begin}});
  for (size_t i = 0; i < steps.steps.size(); ++i)
    for (int time = 0; time < steps.steps[i].times; ++time)
      WEFT_TRY(add_op(plan_.lanes.back(), steps.steps[i], int(i), time));
  plan_.lanes.back().ops.end = int(plan_.ops.size());
  return {};
}

Status Lowering::add_op(const PlanLane& lane, const Step& step, int index, int time) {
  Op op;
  op.chunk = chunk_at(step, time, plan_.chunks);
  op.step = index;
  op.time = time;
  op.finish = step.finish && reduces(schedule_.collective.kind);
  op.begins = plan_.ops.empty() || int(plan_.ops.size()) == lane.ops.begin || plan_.ops.back().ends;
  op.ends = !step.more;
  const auto places = [&](const std::vector<Operand>& operands) {
    const int begin = int(plan_.places.size());
    for (const Operand& o : operands) plan_.places.push_back(resolve(o, lane.rank, op.chunk));
    return Range{begin, int(plan_.places.size())};
  };
  op.sources = places(step.sources);
  op.targets = places(step.targets);
  for (int i = op.sources.begin; i < op.targets.end; ++i)
    if (plan_.places[i].at < 0)
      return bad(lane, op,
                 "chunk " + text(op.chunk) + " is not in " +
                     std::string(name(plan_.places[i].buffer)) + " of rank " +
                     text(plan_.places[i].rank));
  op.waits.begin = int(plan_.waits.size());
  for (const Signal& s : step.waits)
    plan_.waits.push_back({cells_.index(s.peer, lane.rank, s.cell), s.lag, s.peer != lane.rank,
                           carried_by_lines(step, s)});
  op.waits.end = int(plan_.waits.size());
  if (step.from.used()) WEFT_TRY(bind_receive(lane, op, step.from));
  if (step.from.used()) op.from = links_.index(step.from.peer, lane.rank, step.from.id);
  if (step.to.used()) WEFT_TRY(bind_send(lane, op, step.to));
  if (step.to.used()) op.to = links_.index(lane.rank, step.to.peer, step.to.id);
  op.posts.begin = int(plan_.posts.size());
  for (const Signal& s : step.posts) WEFT_TRY(bind_post(lane, op, s));
  op.posts.end = int(plan_.posts.size());
  plan_.ops.push_back(op);
  return {};
}

Place Lowering::resolve(const Operand& o, Rank me, int chunk) {
  const Rank owner = o.rank < 0 ? me : o.rank;
  if (o.buffer == Buffer::scratch) return {o.buffer, owner, o.slot};
  if (o.buffer == Buffer::window) {
    plan_.uses_windows = true;
    return {o.buffer, owner, o.slot * plan_.halves};
  }
  if (owner != me) plan_.touches_peers = true;
  const Collective& c = schedule_.collective;
  const int block = chunk / plan_.pieces;
  const bool input = o.buffer == Buffer::input;
  if (input ? !in_input(c, owner, block) : !in_output(c, owner, block))
    return {o.buffer, owner, -1};
  const int at = input ? place_in_input(c, owner, block) : place_in_output(c, owner, block);
  const int shift = input ? 0 : output_begin_[owner];
  return {o.buffer, owner, shift + at * plan_.pieces + chunk % plan_.pieces};
}

Status Lowering::bind_send(const PlanLane& lane, const Op& op, const LinkEnd& end) {
  PlanLink& link = plan_.links[links_.index(lane.rank, end.peer, end.id)];
  const int me = int(&lane - plan_.lanes.data());
  link.from = lane.rank, link.to = end.peer, link.id = end.id;
  if (link.sender >= 0 && link.sender != me)
    return bad(lane, op,
               "link " + text(end.id) + " to rank " + text(end.peer) +
                   " is already sent on by lane " + text(plan_.lanes[link.sender].lane) +
                   "; an end of a link belongs to one lane");
  link.sender = me;
  link.sends += op.ends;
  return {};
}

Status Lowering::bind_receive(const PlanLane& lane, const Op& op, const LinkEnd& end) {
  PlanLink& link = plan_.links[links_.index(end.peer, lane.rank, end.id)];
  const int me = int(&lane - plan_.lanes.data());
  link.from = end.peer, link.to = lane.rank, link.id = end.id;
  if (link.receiver >= 0 && link.receiver != me)
    return bad(lane, op,
               "link " + text(end.id) + " from rank " + text(end.peer) +
                   " is already received on by lane " + text(plan_.lanes[link.receiver].lane) +
                   "; an end of a link belongs to one lane");
  link.receiver = me;
  link.receives += op.ends;
  return {};
}

Status Lowering::bind_post(const PlanLane& lane, const Op& op, const Signal& post) {
  const int index = cells_.index(lane.rank, post.peer, post.cell);
  PlanCell& cell = plan_.cells[index];
  if (cell.lane >= 0)
    return bad(lane, op,
               "it posts cell " + text(post.cell) + " of rank " + text(post.peer) +
                   ", which is posted already by lane " + text(plan_.lanes[cell.lane].lane) +
                   "; a cell is posted once per round");
  cell = {lane.rank, post.peer, post.cell, int(&lane - plan_.lanes.data())};
  plan_.posts.push_back(index);
  return {};
}

Status Lowering::bad_link(const PlanLink& link, const std::string& what) const {
  const bool sent = link.sender >= 0;
  const PlanLane& lane = plan_.lanes[sent ? link.sender : link.receiver];
  const int index = int(&link - plan_.links.data());
  for (int i = lane.ops.begin; i < lane.ops.end; ++i) {
    const Op& op = plan_.ops[i];
    if ((sent ? op.to : op.from) == index) return bad(lane, op, what);
  }
  return internal_error("A link has no end.");
}

Status Lowering::check_links() const {
  for (const PlanLink& link : plan_.links) {
    if (link.sender < 0 && link.receiver < 0) continue;  // a gap in the numbers
    const std::string number = text(link.id);
    if (link.receiver < 0)
      return bad_link(link, "it sends on link " + number + " to rank " + text(link.to) +
                                ", which never receives from it");
    if (link.sender < 0)
      return bad_link(link, "it receives on link " + number + " from rank " + text(link.from) +
                                ", which never sends on it");
    if (plan_.lanes[link.sender].copy != plan_.lanes[link.receiver].copy)
      return bad_link(link, "link " + number + " connects lanes of different copies");
    if (link.sends != link.receives)
      return bad_link(link, "link " + number + " from rank " + text(link.from) + " to rank " +
                                text(link.to) + " is sent on " + text(link.sends) +
                                " times a round, but received on " + text(link.receives) +
                                " times");
  }
  return {};
}

Status Lowering::check_waits() const {
  for (const PlanLane& lane : plan_.lanes) {
    for (int i = lane.ops.begin; i < lane.ops.end; ++i) {
      const Op& op = plan_.ops[i];
      for (int w = op.waits.begin; w < op.waits.end; ++w) {
        const PlanCell& cell = plan_.cells[plan_.waits[w].cell];
        const Signal& wait = plan_.step(lane, op).waits[w - op.waits.begin];
        const std::string what =
            "it waits for cell " + text(wait.cell) + " of rank " + text(wait.peer);
        if (cell.lane < 0) return bad(lane, op, what + ", which no step of that rank posts");
        if (plan_.lanes[cell.lane].copy != lane.copy)
          return bad(lane, op, what + ", which is posted by a lane of another copy");
      }
    }
  }
  return {};
}

}  // namespace

void Triples::close() {
  int next = 0;
  for (int& entry : begin_) next += std::exchange(entry, next);
}

int Plan::rounds_to_wrap(int slots) const {
  int own = halves;
  for (const PlanLink& link : links)
    if (link.sends > 0) own = std::max(own, (slots + link.sends - 1) / link.sends);
  for (const Wait& wait : waits) own = std::max(own, wait.lag);
  own += 2;
  // The copies do not all have the same number of rounds.
  return copies == 1 ? own : own * copies + 1;
}

Status Plan::check_effort(int rounds, const Room& room) const {
  int64_t memory = int64_t{window_slots} * halves * ranks;
  for (Rank r = 0; r < ranks; ++r)
    memory += int64_t{user_cells(r)} * rounds + schedule->programs[r].scratch_slots;
  memory *= kCellBytes;
  memory += static_cast<int64_t>(cells.size()) * rounds * kPostBytes;
  int64_t under_way = 0;
  for (const PlanLink& link : links)
    under_way +=
        room.least + std::clamp<int64_t>(int64_t{link.sends} * rounds - room.most, 0, room.most);
  memory += under_way * kMessageBytes;
  if (memory > kMostBytes) return too_large("it has too many chunks, slots or halves");
  // The copies share the rounds.
  const auto done = static_cast<int64_t>(ops.size() + places.size()) * rounds_of(0, rounds);
  return done > kMostDone ? too_large("it takes too many steps in all rounds") : Status();
}

Status check_posts(const Plan& plan) {
  std::vector<bool> waited(plan.cells.size(), false);
  for (const Wait& wait : plan.waits) waited[static_cast<size_t>(wait.cell)] = true;
  for (const PlanLane& lane : plan.lanes)
    for (int i = lane.ops.begin; i < lane.ops.end; ++i)
      for (int p = plan.ops[i].posts.begin; p < plan.ops[i].posts.end; ++p)
        if (const PlanCell& cell = plan.cells[plan.posts[p]]; !waited[plan.posts[p]])
          return invalid_argument(place_of(plan, lane, plan.ops[i]) + ": it posts cell " +
                                  text(cell.id) + " of rank " + text(cell.waiter) +
                                  ", which no step of that rank waits for.");
  return {};
}

std::string place_of(const Plan& plan, const PlanLane& lane, const Op& op) {
  const Step& step = plan.step(lane, op);
  std::string out =
      "rank " + text(lane.rank) + ", lane " + text(lane.lane) + ", step " + text(op.step);
  if (step.times > 1)
    out.append(", time ").append(text(op.time + 1)).append(" of ").append(text(step.times));
  return out + " (" + name(step) + " of chunk " + text(op.chunk) + ")";
}

Result<Plan> lower(const Schedule& schedule) {
  WEFT_TRY(check_shape(schedule));
  // What every lane, and every caller, knows of all others: now, and when it last told of it. What
  // goes by pairs of ranks is no more.
  auto all = static_cast<int64_t>(schedule.programs.size());
  for (const Program& program : schedule.programs)
    all += static_cast<int64_t>(program.lanes.size());
  if (2 * all * all * int64_t{sizeof(int)} > kMostBytes) return too_large("it has too many lanes");
  Lowering lowering(schedule);
  WEFT_TRY(lowering.run());
  return lowering.take();
}

}  // namespace weft::symbolic
