#include "engine/schedule/picture.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <vector>

#include "engine/schedule/text.h"
#include "engine/schedule/timeline.h"

namespace weft {
namespace {

using symbolic::Op;
using symbolic::Plan;
using symbolic::PlanLane;

constexpr std::string_view kLegend =
    "c2 3>+=>1 is chunk 2, received from rank 3, reduced, written, sent to rank 1;\n"
    "w reads or writes a window, ? waits for a signal, ! posts one, . finishes\n\n";

bool in_window(const std::vector<Operand>& operands) {
  return std::any_of(operands.begin(), operands.end(),
                     [](const Operand& o) { return o.buffer == Buffer::window; });
}

// The chunks of the message that ends with this op.
std::string chunks_of(const Op& last) {
  const Op* first = &last;
  while (!first->begins) --first;
  std::string out = std::to_string(first->chunk);
  for (const Op* op = first; op != &last; ++op) out += ',' + std::to_string(op[1].chunk);
  return out;
}

// "c2 3>+=>1"
std::string shorthand(const Step& step, const std::string& chunks) {
  std::ostringstream out;
  out << 'c' << chunks << ' ';
  if (!step.waits.empty()) out << '?';
  if (step.from.used()) out << step.from.peer << '>';
  if (in_window(step.sources)) out << 'w';
  if (step.operands() > 1) out << '+';
  if (step.finish) out << '.';
  if (!step.targets.empty()) out << '=' << (in_window(step.targets) ? "w" : "");
  if (step.to.used()) out << '>' << step.to.peer;
  if (!step.posts.empty()) out << '!';
  return out.str();
}

std::string column_name(const Plan& plan, const PlanLane& lane) {
  std::string out = "rank ";
  out += std::to_string(lane.rank);
  const bool many = plan.first_lane[lane.rank + 1] - plan.first_lane[lane.rank] > 1;
  return many ? out.append(".").append(std::to_string(lane.lane)) : out;
}

// Without the blanks at the end.
std::string trimmed(const std::ostringstream& line) {
  std::string text = line.str();
  text.erase(text.find_last_not_of(' ') + 1);
  return text += '\n';
}

std::string table(const Plan& plan, const Timeline& timeline) {
  const size_t lanes = plan.lanes.size();
  // The last row is for what never starts.
  std::vector<std::vector<std::string>> cells(timeline.end + 1, std::vector<std::string>(lanes));
  bool blocks = false;
  std::vector<int> widths;
  for (size_t l = 0; l < lanes; ++l) {
    const PlanLane& lane = plan.lanes[l];
    size_t width = column_name(plan, lane).size();
    for (int i = lane.ops.begin; i < lane.ops.end; ++i) {
      const bool never = timeline.starts[i] == Timeline::kNever;
      const Op& op = plan.ops[i];
      std::string& cell = cells[never ? timeline.end : timeline.starts[i]][l];
      cell = shorthand(plan.step(lane, op), chunks_of(op));
      width = std::max(width, cell.size());
      blocks = blocks || never;
      if (never) break;
    }
    widths.push_back(int(width));
  }
  std::string out(kLegend);
  for (int t = -1; t < timeline.end + (blocks ? 1 : 0); ++t) {
    std::ostringstream line;
    line << std::setw(4)
         << (t < 0              ? "time"
             : t < timeline.end ? std::to_string(t)
                                : "stop")
         << std::left;
    for (size_t l = 0; l < lanes; ++l)
      line << "  " << std::setw(widths[l])
           << (t < 0 ? column_name(plan, plan.lanes[l]) : cells[t][l]);
    out += trimmed(line);
  }
  if (blocks)
    out += "\nThe lanes of the last row wait there for ever; weft-schedule verify says why.\n";
  return out;
}

class Drawing {
 public:
  Drawing(const Schedule& schedule, const Plan& plan, const Timeline& timeline)
      : schedule_(schedule), plan_(plan), timeline_(timeline) {}

  std::string svg() {
    const int width = kLeft + timeline_.end * kTime + 20;
    const int height = kTop + int(plan_.lanes.size()) * kLane + 20;
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
         << "\" width=\"" << width << "\" height=\"" << height
         << "\" font-family=\"sans-serif\" font-size=\"11\">\n"
         << "<defs><marker id=\"tip\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" markerWidth=\"6\" "
            "markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0L6 3L0 6z\" fill=\"#555\"/></marker>"
            "</defs>\n"
         << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    for (size_t l = 0; l < plan_.lanes.size(); ++l) lane(int(l));
    for (const Timeline::Arrow& a : timeline_.arrows) arrow(a);
    for (size_t l = 0; l < plan_.lanes.size(); ++l) boxes(int(l));
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  static constexpr int kLeft = 70, kTop = 20, kTime = 46, kLane = 34, kBox = 30, kHigh = 20;

  int x(int op) const { return kLeft + timeline_.starts[op] * kTime; }
  int y(int lane) const { return kTop + lane * kLane; }

  void lane(int l) {
    const int middle = y(l) + kHigh / 2;
    out_ << "<text x=\"4\" y=\"" << middle + 4 << "\">" << column_name(plan_, plan_.lanes[l])
         << "</text><line x1=\"" << kLeft << "\" y1=\"" << middle << "\" x2=\""
         << kLeft + timeline_.end * kTime << "\" y2=\"" << middle << "\" stroke=\"#ddd\"/>\n";
  }

  void arrow(const Timeline::Arrow& a) {
    const int from = timeline_.lane_of[a.from], to = timeline_.lane_of[a.to];
    out_ << "<line x1=\"" << x(a.from) + kBox << "\" y1=\"" << y(from) + kHigh / 2 << "\" x2=\""
         << x(a.to) << "\" y2=\"" << y(to) + kHigh / 2 << "\" stroke=\"#555\""
         << (a.message ? "" : " stroke-dasharray=\"3 3\"") << " marker-end=\"url(#tip)\"/>\n";
  }

  void boxes(int l) {
    const PlanLane& lane = plan_.lanes[l];
    for (int i = lane.ops.begin; i < lane.ops.end; ++i) {
      const Op& op = plan_.ops[i];
      if (timeline_.starts[i] == Timeline::kNever || !op.ends) continue;
      const int hue = op.chunk * 360 / std::max(1, schedule_.chunks());
      out_ << "<g><title>" << symbolic::place_of(plan_, lane, op)
           << (op.begins ? "" : ", with chunks " + chunks_of(op)) << "</title><rect x=\"" << x(i)
           << "\" y=\"" << y(l) << "\" width=\"" << kBox << "\" height=\"" << kHigh
           << "\" rx=\"3\" fill=\"hsl(" << hue << ",70%,80%)\" stroke=\"#333\"/><text x=\""
           << x(i) + kBox / 2 << "\" y=\"" << y(l) + kHigh / 2 + 4 << "\" text-anchor=\"middle\">"
           << symbol(plan_.step(lane, op)) << op.chunk << (op.begins ? "" : "..")
           << "</text></g>\n";
    }
  }

  // Reductions carry a sign, plain movements none.
  static const char* symbol(const Step& step) { return step.operands() > 1 ? "+" : ""; }

  const Schedule& schedule_;
  const Plan& plan_;
  const Timeline& timeline_;
  std::ostringstream out_;
};

}  // namespace

Result<std::string> to_diagram(const Schedule& schedule) {
  const Result<Plan> plan = symbolic::lower(schedule);
  if (!plan.ok()) return plan.status();
  return table(*plan, timeline_of(*plan));
}

Result<std::string> to_svg(const Schedule& schedule) {
  const Result<Plan> plan = symbolic::lower(schedule);
  if (!plan.ok()) return plan.status();
  const Timeline timeline = timeline_of(*plan);
  return Drawing(schedule, *plan, timeline).svg();
}

}  // namespace weft
