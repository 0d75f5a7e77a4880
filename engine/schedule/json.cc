#include "engine/schedule/json.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "base/json_object.h"
#include "base/text.h"
#include "engine/schedule/verify_plan.h"

namespace weft {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// -- writing --------------------------------------------------------------------------------------

ordered_json write(const LinkEnd& end) { return {{"peer", end.peer}, {"link", end.id}}; }

ordered_json write(const Operand& o) {
  ordered_json out = {{"buffer", name(o.buffer)}};
  if (o.rank >= 0) out["rank"] = o.rank;
  if (o.slot != 0) out["slot"] = o.slot;
  return out;
}

ordered_json write(const Signal& s) {
  ordered_json out = {{"peer", s.peer}, {"cell", s.cell}};
  if (s.lag != 0) out["lag"] = s.lag;
  return out;
}

ordered_json write(const Step& step);
ordered_json write(const Lane& lane);
ordered_json write(const Program& program);
ordered_json write(const Schedule& schedule);

template <class T>
void write_list(ordered_json& out, const char* key, const std::vector<T>& list) {
  for (const T& item : list) out[key].push_back(write(item));
}

ordered_json write(const Step& step) {
  ordered_json out = {{"chunk", step.chunk}};
  if (step.from.used()) out["from"] = write(step.from);
  write_list(out, "sources", step.sources);
  write_list(out, "targets", step.targets);
  if (step.to.used()) out["to"] = write(step.to);
  write_list(out, "waits", step.waits);
  write_list(out, "posts", step.posts);
  if (step.finish) out["finish"] = true;
  if (step.times != 1) out["times"] = step.times;
  if (step.stride != 0) out["stride"] = step.stride;
  if (step.more) out["more"] = true;
  return out;
}

ordered_json write(const Lane& lane) {
  ordered_json out;
  if (lane.copy != 0) out["copy"] = lane.copy;
  out["steps"] = ordered_json::array();
  write_list(out, "steps", lane.steps);
  return out;
}

ordered_json write(const Program& program) {
  ordered_json out;
  if (program.scratch_slots != 0) out["scratch_slots"] = program.scratch_slots;
  out["lanes"] = ordered_json::array();
  write_list(out, "lanes", program.lanes);
  return out;
}

ordered_json write(const Schedule& schedule) {
  const Collective& c = schedule.collective;
  const Program common = schedule.programs.empty() ? Program() : schedule.programs[0];
  ordered_json out = {
      {"collective",
       {{"kind", name(c.kind)}, {"ranks", c.ranks}, {"root", c.root}, {"in_place", c.in_place}}},
      {"pieces", common.pieces},
      {"message_chunks", common.message_chunks},
      {"window_slots", common.window_slots},
      {"window_halves", common.window_halves},
      {"copies", common.copies}};
  out["programs"] = ordered_json::array();
  write_list(out, "programs", schedule.programs);
  return out;
}

// One line per step, so that people and diffs can read it.
void print(const ordered_json& value, int depth, std::string& out) {
  const bool flat = value.is_primitive() || value.contains("chunk") || value.contains("kind");
  if (flat || value.empty()) {
    out += json_text(value);
    return;
  }
  const auto line = [&out](int indent) { out += '\n' + std::string(size_t(indent), ' '); };
  out += value.is_array() ? '[' : '{';
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    if (!std::exchange(first, false)) out += ',';
    line(depth + 1);
    if (value.is_object()) out += json_text(json(key)) + ": ";
    print(item, depth + 1, out);
  }
  line(depth);
  out += value.is_array() ? ']' : '}';
}

// -- reading --------------------------------------------------------------------------------------

using Object = JsonObject;

LinkEnd read_link(Object in) {
  in.only({"peer", "link"});
  in.required("peer");
  LinkEnd end;
  in.read("peer", end.peer);
  in.read("link", end.id);
  return end;
}

Signal read_signal(Object in, bool wait) {
  wait ? in.only({"peer", "cell", "lag"}) : in.only({"peer", "cell"});
  in.required("peer");
  Signal signal;
  in.read("peer", signal.peer);
  in.read("cell", signal.cell);
  if (wait) in.read("lag", signal.lag);
  return signal;
}

Operand read_operand(Object in) {
  in.only({"buffer", "rank", "slot"});
  in.required("buffer");
  Operand operand;
  const std::string buffer = in.text("buffer");
  for (const Buffer b : {Buffer::input, Buffer::output, Buffer::scratch, Buffer::window})
    if (name(b) == buffer) operand.buffer = b;
  if (operand.buffer == Buffer::none)
    in.complain(in.at("buffer"),
                "\"" + buffer + "\" is no buffer; there are input, output, scratch and window");
  in.read("rank", operand.rank);
  in.read("slot", operand.slot);
  return operand;
}

Step read_step(Object in) {
  in.only({"chunk", "from", "sources", "targets", "to", "waits", "posts", "finish", "times",
           "stride", "more"});
  in.required("chunk");
  Step step;
  in.read("chunk", step.chunk);
  in.object("from", [&](Object o) { step.from = read_link(o); });
  in.list("sources", [&](Object o) { step.sources.push_back(read_operand(o)); });
  in.list("targets", [&](Object o) { step.targets.push_back(read_operand(o)); });
  in.object("to", [&](Object o) { step.to = read_link(o); });
  in.list("waits", [&](Object o) { step.waits.push_back(read_signal(o, true)); });
  in.list("posts", [&](Object o) { step.posts.push_back(read_signal(o, false)); });
  in.read("finish", step.finish);
  in.read("times", step.times, 1);
  in.read("stride", step.stride, -Object::kLargest);
  in.read("more", step.more);
  return step;
}

Lane read_lane(Object in) {
  in.only({"copy", "steps"});
  in.required("steps");
  Lane lane;
  in.read("copy", lane.copy);
  in.list("steps", [&](Object o) { lane.steps.push_back(read_step(o)); });
  return lane;
}

Program read_program(Object in, const Program& common) {
  in.only({"scratch_slots", "lanes"});
  in.required("lanes");
  Program program = common;
  in.read("scratch_slots", program.scratch_slots);
  in.list("lanes", [&](Object o) { program.lanes.push_back(read_lane(o)); });
  return program;
}

Collective read_collective(Object in) {
  in.only({"kind", "ranks", "root", "in_place"});
  in.required("kind");
  in.required("ranks");
  Collective c;
  const std::string kind = in.text("kind");
  const std::optional<Kind> parsed = parse_kind(kind);
  if (parsed)
    c.kind = *parsed;
  else
    in.complain(in.at("kind"), "\"" + kind + "\" is no collective");
  in.read("ranks", c.ranks, 1);
  in.read("root", c.root);
  in.read("in_place", c.in_place);
  return c;
}

Schedule read_schedule(Object in) {
  in.only({"collective", "pieces", "message_chunks", "window_slots", "window_halves", "copies",
           "programs"});
  in.required("collective");
  in.required("programs");
  Schedule schedule;
  in.object("collective", [&](Object o) { schedule.collective = read_collective(o); });
  Program common;
  in.read("pieces", common.pieces, 1);
  in.read("message_chunks", common.message_chunks, 1);
  in.read("window_slots", common.window_slots);
  in.read("window_halves", common.window_halves, 1);
  in.read("copies", common.copies, 1);
  in.list("programs", [&](Object o) { schedule.programs.push_back(read_program(o, common)); });
  return schedule;
}

// Names are printed in tables and messages, and given to --algorithm.
bool good_name(std::string_view name) {
  const auto good = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), good);
}

ScheduleFile read_file(Object in) {
  in.only({"name", "summary", "schedules"});
  in.required("name");
  in.required("schedules");
  ScheduleFile file;
  file.name = in.text("name");
  if (in.has("name") && !good_name(file.name))
    in.complain(in.at("name"), "a name has 1 to 64 letters, digits, _ and -");
  file.summary = in.text("summary");
  in.list("schedules", [&](Object o) { file.schedules.push_back(read_schedule(o)); });
  if (in.has("schedules") && file.schedules.empty())
    in.complain(in.at("schedules"), "there is none");
  return file;
}

}  // namespace

std::string describe(const Collective& c) {
  std::string text = concat(name(c.kind), " of ", c.ranks, c.ranks == 1 ? " rank" : " ranks");
  if (has_root(c.kind)) text += concat(", root ", c.root);
  return text + (c.in_place ? ", in place" : "");
}

std::string to_json(const Schedule& schedule) {
  std::string text;
  print(write(schedule), 0, text);
  return text += '\n';
}

std::string to_json(const ScheduleFile& file) {
  ordered_json out = {{"name", file.name}, {"summary", file.summary}};
  out["schedules"] = ordered_json::array();
  write_list(out, "schedules", file.schedules);
  std::string text;
  print(out, 0, text);
  return text += '\n';
}
Result<Schedule> from_json(std::string_view text) {
  const Result<json> parsed = parse_json("The schedule", text);
  if (!parsed.ok()) return parsed.status();
  JsonReading reading{"the schedule's JSON", {}};
  Schedule schedule = read_schedule(Object(*parsed, "", reading));
  WEFT_TRY(reading.status);
  WEFT_TRY(symbolic::check_shape(schedule));
  return schedule;
}

Result<ScheduleFile> file_from_json(std::string_view text, std::string_view name) {
  const Result<json> parsed = parse_json("The schedule", text);
  if (!parsed.ok()) return parsed.status();
  if (!parsed->is_object() || (parsed->contains("programs") && !parsed->contains("schedules"))) {
    Result<Schedule> one = from_json(text);
    if (!one.ok()) return one.status();
    return ScheduleFile{std::string(name), {}, {one.take()}};
  }
  JsonReading reading{"the algorithm's JSON", {}};
  ScheduleFile file = read_file(Object(*parsed, "", reading));
  WEFT_TRY(reading.status);
  for (const Schedule& schedule : file.schedules)
    if (const Status shape = symbolic::check_shape(schedule); !shape.ok())
      return shape.within(describe(schedule.collective));
  return file;
}

}  // namespace weft
