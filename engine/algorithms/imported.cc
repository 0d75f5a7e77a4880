#include "engine/algorithms/imported.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "engine/schedule/lines.h"
#include "engine/schedule/prove.h"
#include "kernels/reduce.h"

namespace weft {
namespace {

// Copies of lanes multiply the numbers of links, and there are 2^20 in all.
constexpr int kLinksMax = 1 << 14;
constexpr int kScratchMax = 1 << 12;  // slots hold a segment each, some 64 KiB

// Of "some/where/my.json": "my", with what no name may have replaced.
std::string name_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string stem = path.substr(slash == std::string::npos ? 0 : slash + 1);
  stem = stem.substr(0, std::min<size_t>(stem.rfind('.'), 64));
  for (char& c : stem)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-') c = '_';
  return stem.empty() ? "imported" : stem;
}

Status check_links(const Step& step, bool windows) {
  if (windows && (step.from.used() || step.to.used()))
    return unsupported(
        "it sends or receives, but the schedule has windows; it can have one of both.");
  if (std::max(step.from.id, step.to.id) >= kLinksMax)
    return unsupported(concat("link number ", std::max(step.from.id, step.to.id),
                              " is too large; count links between two ranks from 0."));
  return {};
}

Status check_signals(const std::vector<Signal>& signals, bool windows) {
  for (const Signal& signal : signals) {
    if (!windows)
      return unsupported("it has signals, which lie in windows, but there are no window slots.");
    if (signal.cell >= kSignalCells)
      return unsupported(concat("there is no cell ", signal.cell,
                                "; for every pair of ranks there are ", kSignalCells, "."));
  }
  return {};
}

Status check_operands(const std::vector<Operand>& operands, Rank me) {
  for (const Operand& o : operands)
    if (o.rank >= 0 && o.rank != me && (o.buffer == Buffer::input || o.buffer == Buffer::output))
      return unsupported(
          concat("it names rank ", o.rank, "'s ", name(o.buffer),
                 "; other ranks' memory is reached through links and windows only."));
  return {};
}

Status check_step(const Step& step, Rank me, bool windows) {
  const size_t operands = step.operands();
  if (operands > ReduceCall::kMaxSources)
    return unsupported(concat("it folds ", operands, " values; a step can fold ",
                              int{ReduceCall::kMaxSources}, "."));
  WEFT_TRY(check_operands(step.sources, me));
  WEFT_TRY(check_operands(step.targets, me));
  WEFT_TRY(check_links(step, windows));
  WEFT_TRY(check_signals(step.waits, windows));
  return check_signals(step.posts, windows);
}

// What the executors cannot do, though it may be proven.
Status check_limits(const Schedule& schedule) {
  for (size_t r = 0; r < schedule.programs.size(); ++r) {
    const Program& program = schedule.programs[r];
    if (program.scratch_slots > kScratchMax)
      return unsupported(concat("rank ", r, " has ", program.scratch_slots,
                                " scratch slots; there can be ", kScratchMax, "."));
    for (size_t l = 0; l < program.lanes.size(); ++l)
      for (size_t s = 0; s < program.lanes[l].steps.size(); ++s) {
        const Step& step = program.lanes[l].steps[s];
        const Status status = check_step(step, static_cast<Rank>(r), program.window_slots > 0);
        if (!status.ok()) return status.within(concat("rank ", r, ", lane ", l, ", step ", s));
      }
  }
  return {};
}

// As the algorithms that are built in write it: a window's rank is named, and no other one.
void name_ranks(Schedule& schedule) {
  for (size_t r = 0; r < schedule.programs.size(); ++r)
    for (Lane& lane : schedule.programs[r].lanes)
      for (Step& step : lane.steps)
        for (auto* operands : {&step.sources, &step.targets})
          for (Operand& o : *operands) {
            if (o.buffer != Buffer::window) o.rank = -1;
            if (o.buffer == Buffer::window && o.rank < 0) o.rank = static_cast<Rank>(r);
          }
}

Status check_served_once(const ScheduleFile& file) {
  std::set<std::string> seen;
  for (const Schedule& schedule : file.schedules) {
    const std::string what = describe(schedule.collective);
    if (!seen.insert(what).second)
      return invalid_argument(concat("There are two schedules for ", what, "; leave one out."));
    if (schedule.collective.in_place && has_root(schedule.collective.kind))
      return invalid_argument(
          concat(what,
                 ": where there is a root, one rank may be in place and another one not, so "
                 "one schedule has to serve both; leave \"in_place\" out."));
  }
  return {};
}

// The schedule that serves a call, or -1.
int serving(const ScheduleFile& file, const Evidence& evidence, const Collective& c) {
  const auto index_of = [&](const Collective& wanted) {
    for (size_t i = 0; i < file.schedules.size(); ++i)
      if (file.schedules[i].collective == wanted) return static_cast<int>(i);
    return -1;
  };
  const int exact = index_of(c);
  if (exact >= 0 || !c.in_place) return exact;
  Collective apart = c;
  apart.in_place = false;
  const int both = index_of(apart);
  const auto& also = evidence.also_in_place;
  return std::binary_search(also.begin(), also.end(), both) ? both : -1;
}

// Notes down what is proven; not ok: what is wrong.
Status prove(const Schedule& schedule, std::span<const int> slots, const Effort& effort,
             Evidence& evidence) {
  for (const WayToRun& way : ways_to_run(schedule, slots, effort)) {
    const Proof proof = prove(schedule, way);
    if (!proof.status.ok())
      return proof.status.within(
          concat(describe(schedule.collective), " (with ", describe(way), ")"));
    evidence.canonical &= proof.canonical;
    evidence.same_bits &= proof.same_bits;
  }
  if (uses_windows(schedule)) evidence.lines &= check_lines(schedule).ok();
  return {};
}

std::string in_words(const std::set<int>& numbers) {
  std::string text;
  for (const int n : numbers) text += concat(text.empty() ? "" : ", ", n);
  return text;
}

}  // namespace

bool names_file(std::string_view algorithm) { return algorithm.ends_with(".json"); }

Result<ScheduleFile> import_schedules(std::string_view text, const std::string& path) {
  Result<ScheduleFile> file = file_from_json(text, name_of(path));
  if (!file.ok()) return file.status().within(path);
  if (file->name == "auto")
    return invalid_argument(concat(path,
                                   ": \"auto\" is weft's own choice of an algorithm; give the "
                                   "one in the file another name."));
  for (Schedule& schedule : file->schedules) {
    if (const Status status = check_limits(schedule); !status.ok())
      return status.within(concat(path, ": ", describe(schedule.collective)));
    name_ranks(schedule);
  }
  if (const Status once = check_served_once(*file); !once.ok()) return once.within(path);
  return file;
}

Result<Evidence> prove(const ScheduleFile& file, int ranks, std::span<const int> slots) {
  const auto asked = [ranks](const Schedule& s) {
    return ranks == 0 || s.collective.ranks == ranks;
  };
  const auto schedules = std::ranges::count_if(file.schedules, asked);
  const Effort effort{.schedules = static_cast<int>(std::max<int64_t>(1, schedules))};
  Evidence evidence;
  for (size_t i = 0; i < file.schedules.size(); ++i) {
    const Schedule& schedule = file.schedules[i];
    if (!asked(schedule)) continue;
    WEFT_TRY(prove(schedule, slots, effort, evidence));
    if (schedule.collective.in_place) continue;
    Schedule in_place = schedule;
    in_place.collective.in_place = true;
    Evidence both = evidence;
    const Status status = prove(in_place, slots, effort, both);
    if (status.ok()) {
      evidence = std::move(both);
      evidence.also_in_place.push_back(static_cast<int>(i));
    } else if (has_root(schedule.collective.kind)) {
      return status;
    }
  }
  return evidence;
}

Algorithm imported(std::shared_ptr<const ScheduleFile> file, const Evidence& evidence) {
  const auto& all = file->schedules;
  Algorithm algorithm;
  algorithm.name = file->name;
  algorithm.summary = file->summary;
  algorithm.windows = std::any_of(all.begin(), all.end(), uses_windows);
  algorithm.lines = evidence.lines;
  algorithm.canonical = evidence.canonical;
  algorithm.suits = [file, evidence](const Collective& c) {
    return serving(*file, evidence, c) >= 0;
  };
  algorithm.build = [file, evidence](const Collective& c, Rank me, const Parameters&) {
    const int index = serving(*file, evidence, c);
    WEFT_CHECK(index >= 0);
    return file->schedules[static_cast<size_t>(index)].programs[static_cast<size_t>(me)];
  };
  return algorithm;
}

std::string list_served(const ScheduleFile& file) {
  std::string text;
  const auto list = [&](Kind kind, const std::set<int>& ranks, std::string_view how) {
    if (ranks.empty()) return;
    text += concat(text.empty() ? "" : "; ", name(kind), " of ", in_words(ranks),
                   *ranks.rbegin() == 1 ? " rank" : " ranks", how);
  };
  for (int k = 0; k < kKinds; ++k) {
    const auto kind = static_cast<Kind>(k);
    std::set<int> apart, only_in_place;
    for (const bool in_place : {false, true})
      for (const Schedule& schedule : file.schedules) {
        const Collective& c = schedule.collective;
        if (c.kind == kind && c.in_place == in_place && apart.count(c.ranks) == 0)
          (in_place ? only_in_place : apart).insert(c.ranks);
      }
    list(kind, apart, "");
    list(kind, only_in_place, ", in place only");
  }
  return text;
}

}  // namespace weft
