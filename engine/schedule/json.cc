#include "engine/schedule/json.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

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

// One line per step, so that people and diffs can read it.
void print(const ordered_json& value, int depth, std::string& out) {
  const bool flat = value.is_primitive() || value.contains("chunk") || value.contains("kind");
  if (flat || value.empty()) {
    out += value.dump();
    return;
  }
  const auto line = [&out](int indent) { out += '\n' + std::string(size_t(indent), ' '); };
  out += value.is_array() ? '[' : '{';
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    if (!std::exchange(first, false)) out += ',';
    line(depth + 1);
    if (value.is_object()) out += json(key).dump() + ": ";
    print(item, depth + 1, out);
  }
  line(depth);
  out += value.is_array() ? ']' : '}';
}

// -- reading --------------------------------------------------------------------------------------

constexpr int kLargest = std::numeric_limits<int>::max();

// One JSON object, read strictly. The first complaint of a reading is kept in the shared status;
// after it, reading goes on without effect.
class Object {
 public:
  Object(const json& value, std::string path, Status& status)
      : value_(value), path_(std::move(path)), status_(status) {
    if (!value_.is_object()) complain(path_, "an object is expected");
  }

  void only(std::initializer_list<std::string_view> known) {
    if (!value_.is_object()) return;
    for (const auto& [key, item] : value_.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      std::string what = "there is no such field; known are";
      for (std::string_view k : known) what.append(k == *known.begin() ? " " : ", ").append(k);
      complain(at(key), what);
    }
  }

  void required(const char* key) {
    if (value_.is_object() && !value_.contains(key)) complain(at(key), "it is missing");
  }

  void read(const char* key, int& out, int least = 0) {
    const json* item = find(key);
    if (!item) return;
    if (!item->is_number_integer()) return complain(at(key), "a whole number is expected");
    const bool fits = *item >= least && *item <= kLargest;
    if (!fits)
      return complain(at(key), item->dump() + " is not between " + std::to_string(least) + " and " +
                                   std::to_string(kLargest));
    out = item->get<int>();
  }

  void read(const char* key, bool& out) {
    const json* item = find(key);
    if (!item) return;
    if (!item->is_boolean()) return complain(at(key), "true or false is expected");
    out = item->get<bool>();
  }

  std::string text(const char* key) {
    const json* item = find(key);
    if (!item) return {};
    if (item->is_string()) return item->get<std::string>();
    complain(at(key), "a text is expected");
    return {};
  }

  // Calls each(Object) for every object of a list.
  template <class Each>
  void list(const char* key, const Each& each) {
    const json* item = find(key);
    if (!item) return;
    if (!item->is_array()) return complain(at(key), "a list is expected");
    for (size_t i = 0; i < item->size() && status_.ok(); ++i)
      each(Object((*item)[i], at(key) + "[" + std::to_string(i) + "]", status_));
  }

  template <class Then>
  void object(const char* key, const Then& then) {
    if (const json* item = find(key)) then(Object(*item, at(key), status_));
  }

  void complain(const std::string& path, const std::string& what) {
    if (status_.ok())
      status_ = invalid_argument("In the schedule's JSON, at " + path + ": " + what + ".");
  }
  std::string at(std::string_view key) const {
    std::string out = path_;
    if (!out.empty()) out += '.';
    return out.append(key);
  }

 private:
  const json* find(const char* key) const {
    if (!value_.is_object()) return nullptr;
    const auto found = value_.find(key);
    return found == value_.end() ? nullptr : &*found;
  }

  const json& value_;
  std::string path_;
  Status& status_;
};

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
  in.read("stride", step.stride, -kLargest);
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

Result<json> parse(std::string_view text) {
  try {
    return json::parse(text);
  } catch (const json::exception& e) {
    return invalid_argument(std::string("The schedule is not JSON: ") + e.what() + ".");
  }
}

}  // namespace

std::string to_json(const Schedule& schedule) {
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
  std::string text;
  print(out, 0, text);
  return text += '\n';
}

Result<Schedule> from_json(std::string_view text) {
  const Result<json> parsed = parse(text);
  if (!parsed.ok()) return parsed.status();
  Status status;
  Schedule schedule = read_schedule(Object(*parsed, "", status));
  WEFT_TRY(status);
  WEFT_TRY(symbolic::check_shape(schedule));
  return schedule;
}

}  // namespace weft
