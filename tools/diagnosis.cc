#include "tools/diagnosis.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/text.h"

namespace weft {
namespace {

using Ranks = std::vector<Rank>;
using Operation = Dump::Operation;

constexpr double kLate_s = 0.1;  // less is not worth a word
constexpr double kMost_ns = 9e18;
constexpr size_t npos = std::string::npos;

std::string who(const Ranks& ranks) { return rank_list(ranks); }
const char* verb(const Ranks& ranks, const char* one, const char* many) {
  return ranks.size() == 1 ? one : many;
}
bool among(const Ranks& ranks, Rank rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

std::string seconds(int64_t ns) {
  const int64_t ms = std::max<int64_t>(0, ns) / 1'000'000;
  return concat(ms / 1000, ".", std::to_string(1000 + ms % 1000).substr(1), " s");
}

// The last collective call of a rank; nullptr where it has made none that is remembered.
const Operation* last_call(const Dump& dump) {
  for (auto at = dump.operations.rbegin(); at != dump.operations.rend(); ++at)
    if (at->sequence > 0) return &*at;
  return nullptr;
}

uint64_t calls_made(const Dump& dump) {
  const Operation* const last = last_call(dump);
  return last ? last->sequence : 0;
}

const Operation* call_number(const Dump& dump, uint64_t sequence) {
  for (const Operation& operation : dump.operations)
    if (operation.sequence == sequence) return &operation;
  return nullptr;
}

std::string call_text(const Operation& call) {
  return concat("collective call ", call.sequence, ", ", call.call);
}

class Doctor {
 public:
  explicit Doctor(const std::vector<Dump>& dumps) : dumps_(dumps) {
    found_.communicator = dumps.front().communicator;
    found_.size = dumps.front().size;
    for (const Dump& dump : dumps) found_.here.push_back(dump.rank);
    std::sort(found_.here.begin(), found_.here.end());
    for (Rank rank = 0; rank < found_.size; ++rank)
      if (!among(found_.here, rank)) missing_.push_back(rank);
  }

  Diagnosis look() {
    look_for_deaths();
    look_for_aborts();
    look_for_failures();
    look_for_differences();
    look_for_who_is_behind();
    found_.wrong = !found_.findings.empty();
    look_for_waiting();
    look_for_stragglers();
    if (found_.findings.empty()) all_is_well();
    return std::move(found_);
  }

 private:
  void say(std::string text, Ranks ranks) {
    found_.findings.push_back({std::move(text), std::move(ranks)});
  }

  // Who is named as lost, by whom.
  void look_for_deaths() {
    std::map<Rank, Ranks> lost;
    for (const Dump& dump : dumps_)
      if (names_a_death(dump)) lost[dump.failure_peer].push_back(dump.rank);
    for (const auto& [rank, witnesses] : lost) {
      const bool wrote = among(found_.here, rank);
      say(concat("Rank ", rank, " was lost: ", who(witnesses), verb(witnesses, " says", " say"),
                 " so, ",
                 wrote
                     ? "though it has written a dump: it had failed, or the connection to it broke"
                     : "and there is no dump of it. It has probably died; its own output, or the "
                       "system's log (out of memory?), says why",
                 "."),
          {rank});
    }
    Ranks silent;
    for (const Rank rank : missing_)
      if (!lost.contains(rank)) silent.push_back(rank);
    if (!silent.empty())
      say(concat("There is no dump of ", who(silent),
                 ": dead, stopped, on another machine's disk, or not asked yet (WEFT_DUMP must be "
                 "set on all ranks)."),
          silent);
  }

  void look_for_aborts() {
    for (const Dump& dump : dumps_)
      if (ended_itself(dump))
        say(concat("Rank ", dump.rank, " ended the job itself: ", dump.failure, "."), {dump.rank});
  }

  static bool failed(const Dump& dump) {
    return !dump.failure_code.empty() || !dump.failure.empty();
  }
  static bool ended_itself(const Dump& dump) {
    return dump.failure_code == "aborted" &&
           dump.failure.starts_with(concat("rank ", dump.rank, " aborted"));
  }
  static bool names_a_death(const Dump& dump) {
    return dump.failure_code == "peer lost" && dump.failure_peer >= 0;
  }

  // Of what has not been said: first what ranks found themselves, then what others told them, where
  // it is all that is known.
  void look_for_failures() {
    bool found = std::ranges::any_of(dumps_, failed_and_said);
    const auto told_by = [](const Dump& dump) { return dump.failure.find(" reported: ") != npos; };
    for (const bool relayed : {false, true}) {
      if (relayed && found) break;
      for (const Dump& dump : dumps_) {
        if (!failed(dump) || failed_and_said(dump) || told_by(dump) != relayed) continue;
        found = true;
        say(concat("Rank ", dump.rank, " failed (", dump.failure_code, "): ", dump.failure, "."),
            {dump.rank});
      }
    }
    for (const Dump& dump : dumps_)
      if (const Operation* const call = failed(dump) ? nullptr : failed_call(dump))
        say(concat("Rank ", dump.rank, "'s ", call->call, " failed."), {dump.rank});
  }
  static bool failed_and_said(const Dump& dump) {
    return names_a_death(dump) || ended_itself(dump);
  }

  static const Operation* failed_call(const Dump& dump) {
    const auto at = std::ranges::find(dump.operations, "failed", &Operation::state);
    return at == dump.operations.end() ? nullptr : &*at;
  }

  // The first collective call that is not the same everywhere.
  void look_for_differences() {
    std::map<uint64_t, std::map<std::string, Ranks>> calls;
    for (const Dump& dump : dumps_)
      for (const Operation& operation : dump.operations)
        if (operation.sequence > 0) calls[operation.sequence][operation.call].push_back(dump.rank);
    for (const auto& [sequence, versions] : calls) {
      if (versions.size() < 2) continue;
      std::string text = concat("Collective call ", sequence, " is not the same everywhere:");
      for (const auto& [call, ranks] : versions)
        text.append(concat(" ", call, " on ", who(ranks), ";"));
      text.back() = '.';
      return say(text + " All ranks must make the same calls in the same order.", {});
    }
  }

  void look_for_who_is_behind() {
    const Dump& first = *std::max_element(
        dumps_.begin(), dumps_.end(),
        [](const Dump& a, const Dump& b) { return calls_made(a) < calls_made(b); });
    const uint64_t most = calls_made(first);
    Ranks ahead;
    bool long_ago = false;  // else it is only a moment's difference
    for (const Dump& dump : dumps_) {
      if (calls_made(dump) < most) continue;
      ahead.push_back(dump.rank);
      const Operation* const call = last_call(dump);
      long_ago |= !dump.failure.empty() ||
                  (call && static_cast<double>(dump.written_ns - call->begun_ns) > kLate_s * 1e9);
    }
    if (!long_ago) return;
    for (const Dump& dump : dumps_)
      if (calls_made(dump) < most) say(behind(dump, most, ahead), {dump.rank});
  }

  static std::string behind(const Dump& dump, uint64_t most, const Ranks& ahead) {
    std::string text =
        concat("Rank ", dump.rank, " is behind: ", who(ahead), verb(ahead, " has", " have"),
               " come to collective call ", most, ", ");
    const Operation* const last = last_call(dump);
    if (!last) return text + "it has made none.";
    if (last->state == "running") return text + concat("it is still in ", call_text(*last), ".");
    return text + concat("its last was ", call_text(*last), ", which it began ",
                         seconds(dump.written_ns - last->begun_ns),
                         " before its dump; since then its program is elsewhere.");
  }

  // What those wait for that are in a call.
  void look_for_waiting() {
    for (const Dump& dump : dumps_)
      if (!dump.waiting.empty())
        say(concat("Rank ", dump.rank, dump.failure.empty() ? " waits" : " waited", " in ",
                   dump.waiting, "."),
            dump.waiting_for);
  }

  // Who came last to the calls that all remember. Clocks of different hosts may differ.
  void look_for_stragglers() {
    std::map<Rank, int> last_of;
    std::map<Rank, double> cost_ns;  // whatever dumps say, sums do not overflow
    int calls = 0;
    if (!missing_.empty() || dumps_.size() < 2) return;
    for (const Operation& operation : dumps_.front().operations) {
      const auto late = latest(operation.sequence);
      if (!late) continue;
      ++calls;
      ++last_of[late->first];
      cost_ns[late->first] += static_cast<double>(late->second);
    }
    for (const auto& [rank, times] : last_of)
      if (cost_ns[rank] > kLate_s * 1e9 && times * 2 > calls)
        say(concat("Rank ", rank, " came last to ", times, " of the last ", calls,
                   " collective calls, and cost the others ",
                   seconds(static_cast<int64_t>(std::min(cost_ns[rank], kMost_ns))), " in all."),
            {rank});
  }

  // The rank that began call `sequence` last, and how long after the one before it.
  std::optional<std::pair<Rank, int64_t>> latest(uint64_t sequence) const {
    if (sequence == 0) return std::nullopt;
    std::vector<std::pair<int64_t, Rank>> began;
    for (const Dump& dump : dumps_) {
      const Operation* const call = call_number(dump, sequence);
      if (!call || dump.host != dumps_.front().host) return std::nullopt;
      began.emplace_back(call->begun_ns, dump.rank);
    }
    std::sort(began.begin(), began.end());
    const size_t last = began.size() - 1;
    return std::pair(began[last].second, began[last].first - began[last - 1].first);
  }

  void all_is_well() {
    const Operation* const last = last_call(dumps_.front());
    if (last && last->state == "running")
      return say(concat("All ranks are in ", call_text(*last), ", and none has failed."), {});
    say("Nothing is wrong: no rank has failed, and none waits for another.", {});
  }

  const std::vector<Dump>& dumps_;
  Ranks missing_;
  Diagnosis found_;
};

}  // namespace

Diagnosis diagnose(const std::vector<Dump>& dumps) { return Doctor(dumps).look(); }

}  // namespace weft
