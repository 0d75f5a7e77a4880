#include "engine/schedule/text.h"

#include <iomanip>
#include <sstream>

namespace weft {
namespace {

void print(std::ostream& out, const Operand& o) {
  out << name(o.buffer);
  if (o.buffer == Buffer::scratch || o.buffer == Buffer::window) out << ' ' << o.slot;
  if (o.rank >= 0) out << " of rank " << o.rank;
}

void print_data(std::ostream& out, const Step& step) {
  const char* between = "";
  if (step.from.used()) {
    out << "link " << step.from.id << " from rank " << step.from.peer;
    between = " + ";
  }
  for (const Operand& o : step.sources) {
    out << between;
    print(out, o);
    between = " + ";
  }
  if (step.targets.empty() && !step.to.used()) return;
  between = " -> ";
  for (const Operand& o : step.targets) {
    out << between;
    print(out, o);
    between = ", ";
  }
  if (step.to.used()) out << between << "link " << step.to.id << " to rank " << step.to.peer;
}

void print_signals(std::ostream& out, const Step& step) {
  const char* before = "; wait ";
  for (const Signal& s : step.waits) {
    out << before << "cell " << s.cell << " of rank " << s.peer;
    if (s.lag) out << " lag " << s.lag;
    before = ", ";
  }
  before = "; post ";
  for (const Signal& s : step.posts) {
    out << before << "cell " << s.cell << " to rank " << s.peer;
    before = ", ";
  }
}

void print(std::ostream& out, const Program& program) {
  for (size_t l = 0; l < program.lanes.size(); ++l) {
    const Lane& lane = program.lanes[l];
    out << "  lane " << l;
    if (program.copies > 1) out << " (copy " << lane.copy << ')';
    out << '\n';
    for (size_t i = 0; i < lane.steps.size(); ++i)
      out << std::setw(6) << i << "  " << to_text(lane.steps[i]) << '\n';
  }
}

void print_header(std::ostream& out, const Schedule& s) {
  out << name(s.collective.kind) << " of " << s.collective.ranks << " ranks";
  if (has_root(s.collective.kind)) out << ", root " << s.collective.root;
  if (s.collective.in_place) out << ", in place";
  if (s.programs.empty()) return;
  const Program& p = s.programs[0];
  out << ": " << s.chunks() << (s.chunks() == 1 ? " chunk" : " chunks");
  if (p.copies > 1) out << ", " << p.copies << " copies";
  if (p.window_slots) out << ", " << p.window_slots << " window slots x " << p.window_halves;
  out << '\n';
}

void print_rank(std::ostream& out, const Schedule& schedule, Rank rank) {
  const Program& program = schedule.programs[rank];
  out << "rank " << rank;
  if (program.scratch_slots) out << ", " << program.scratch_slots << " scratch slots";
  out << '\n';
  print(out, program);
}

}  // namespace

std::string to_text(const Step& step) {
  std::ostringstream out;
  out << name(step) << " chunk " << step.chunk;
  if (step.times > 1)
    out << " (" << step.times << " times, the chunk's number " << std::showpos << step.stride
        << std::noshowpos << " each time)";
  if (step.from.used() || !step.sources.empty()) out << ": ";
  print_data(out, step);
  if (step.finish) out << "; finish";
  if (step.more) out << "; the message goes on";
  print_signals(out, step);
  return out.str();
}

std::string to_text(const Schedule& schedule, Rank rank) {
  std::ostringstream out;
  print_header(out, schedule);
  print_rank(out, schedule, rank);
  return out.str();
}

std::string to_text(const Schedule& schedule) {
  std::ostringstream out;
  print_header(out, schedule);
  for (Rank r = 0; r < int(schedule.programs.size()); ++r) print_rank(out, schedule, r);
  return out.str();
}

}  // namespace weft
