#include "tools/prove.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iomanip>
#include <mutex>
#include <span>
#include <sstream>

#include "engine/schedule/lines.h"
#include "engine/schedule/prove.h"
#include "tools/shelf.h"
#include "tools/spread.h"

namespace weft {
namespace {

constexpr int kRadixes[] = {2, 3, 4};
// Of so many ranks built-in algorithms are proven with many shortages; of more, which have the same
// steps again, with few.
constexpr int kThoroughRanks = 7, kManyShortages = 128, kFewShortages = 2;

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Runs work(0 .. count-1) as the scope says.
void each(int count, const ProveScope& scope, const std::function<void(int)>& work) {
  std::atomic<int> done{0};
  spread(count, scope.threads, [&](int i) {
    work(i);
    const int finished = ++done;
    if (scope.progress) std::fprintf(stderr, "\r%d of %d", finished, count);
  });
  if (scope.progress) std::fprintf(stderr, "\r%20s\r", "");
}

bool wanted(const ProveScope& scope, const Algorithm& algorithm, Kind kind) {
  return (!scope.algorithm || scope.algorithm == &algorithm) && (!scope.kind || scope.kind == kind);
}

std::span<const int> radixes_of(const Algorithm& algorithm) {
  return std::span(kRadixes).first(algorithm.radix ? std::size(kRadixes) : 1);
}

std::string describe(const Algorithm& a, const Collective& c, int radix) {
  std::ostringstream out;
  out << a.name << ' ' << name(c.kind) << " of " << c.ranks << " ranks";
  if (has_root(c.kind)) out << ", root " << c.root;
  if (a.radix) out << ", radix " << radix;
  if (c.in_place) out << ", in place";
  return out.str();
}

// All cases of one algorithm, collective and rank count.
class Batch {
 public:
  Batch(const ProveScope& scope, const Algorithm& algorithm, Kind kind, int ranks)
      : scope_(scope), algorithm_(algorithm), kind_(kind), ranks_(ranks) {}

  ProveRow run() {
    const Stopwatch watch;
    row_.algorithm = &algorithm_;
    row_.kind = kind_;
    const int roots = has_root(kind_) ? ranks_ : 1;
    for (Rank root = 0; root < roots; ++root)
      for (const bool in_place : {false, true}) prove({kind_, ranks_, root, in_place});
    row_.seconds = watch.seconds();
    return row_;
  }

 private:
  void prove(const Collective& c) {
    if (!algorithm_.suits(c)) return;
    row_.most_roots = std::max(row_.most_roots, c.root + 1);
    row_.in_place_forms = std::max(row_.in_place_forms, c.in_place ? 2 : 1);
    for (const int radix : radixes_of(algorithm_)) {
      Parameters parameters;
      parameters.radix = radix;
      prove(schedule_of(algorithm_, c, parameters), describe(algorithm_, c, radix));
    }
  }

  void prove(const Schedule& schedule, const std::string& what) {
    if (!verify(schedule, {.slots = 1}).status.ok()) row_.least_slots = 2;
    if (algorithm_.windows && algorithm_.lines) record(check_lines(schedule), what + ", ll");
    const int shortages = ranks_ <= kThoroughRanks ? kManyShortages : kFewShortages;
    for (const WayToRun& way : ways_to_run(schedule, scope_.slots, {.most = shortages}))
      judge(schedule, way, what);
  }

  void judge(const Schedule& schedule, const WayToRun& way, const std::string& what) {
    const Proof proof = weft::prove(schedule, way);
    Status status = proof.status;
    if (status.ok() && algorithm_.canonical && !proof.canonical)
      status = internal_error(
          "Its results are not folded in rank order, as the algorithm says they are.");
    record(status, what + ", " + describe(way));
    if (!status.ok()) return;
    row_.same_bits &= proof.same_bits;
    row_.canonical &= proof.canonical;
  }

  void record(const Status& status, const std::string& what) {
    ++row_.cases;
    if (status.ok() || row_.failures++ > 0) return;
    row_.first_failure = what + ": " + std::string(status.message());
  }

  const ProveScope& scope_;
  const Algorithm& algorithm_;
  const Kind kind_;
  const int ranks_;
  ProveRow row_;
};

void merge(ProveRow& into, const ProveRow& row) {
  into.cases += row.cases;
  into.most_roots = std::max(into.most_roots, row.most_roots);
  into.in_place_forms = std::max(into.in_place_forms, row.in_place_forms);
  into.least_slots = std::max(into.least_slots, row.least_slots);
  into.seconds += row.seconds;
  into.same_bits &= row.same_bits;
  into.canonical &= row.canonical;
  into.failures += row.failures;
  if (into.first_failure.empty()) into.first_failure = row.first_failure;
}

// -- sequences ------------------------------------------------------------------------------------

// Calls whose neighbours are all ordered pairs of `count` things: the concatenation of 0, 01, 02,
// ..., 1, 12, 13, ... (a de Bruijn sequence), with its first member again at the end.
std::vector<int> all_pairs(int count) {
  std::vector<int> order;
  for (int i = 0; i < count; ++i) {
    order.push_back(i);
    for (int j = i + 1; j < count; ++j) order.insert(order.end(), {i, j});
  }
  order.push_back(0);
  return order;
}

struct NamedSchedule {
  Schedule schedule;
  std::string what;
};

std::vector<NamedSchedule> plans_of(const ProveScope& scope, int ranks) {
  std::vector<NamedSchedule> plans;
  for (const Algorithm& a : scope.algorithms) {
    for (int k = 0; k < kKinds; ++k) {
      const Kind kind = static_cast<Kind>(k);
      if (!wanted(scope, a, kind)) continue;
      std::vector<Rank> roots{0};
      if (has_root(kind))
        for (Rank r = 1; r < ranks; ++r) roots.push_back(r);
      for (const Rank root : roots)
        for (const bool in_place : {false, true}) {
          const Collective c{kind, ranks, root, in_place};
          if (a.suits(c))
            for (const int radix : radixes_of(a))
              plans.push_back({schedule_of(a, c, {radix}), describe(a, c, radix)});
        }
    }
  }
  return plans;
}

constexpr int kCallsPerSequence = 48;

std::string prove_sequence(const std::vector<NamedSchedule>& plans, const std::vector<int>& order,
                           size_t begin) {
  std::vector<const Schedule*> calls;
  // The last call of a sequence is the first of the next.
  for (size_t i = begin; i <= begin + kCallsPerSequence && i < order.size(); ++i)
    calls.push_back(&plans[order[i]].schedule);
  constexpr int kMany = std::ranges::max(kUsualSlots);
  for (const VerifyOptions& options :
       {VerifyOptions{.slots = 2}, VerifyOptions{.slots = 2, .most_slots = kMany, .leases = 2},
        VerifyOptions{.slots = 3, .most_slots = kMany, .rounds = 1, .leases = 3, .uneven = 1},
        VerifyOptions{.slots = 2, .most_slots = kMany, .leases = 2, .uneven = 2, .lines = true}}) {
    const Status status = verify_sequence(calls, options);
    if (!status.ok())
      return "a sequence that begins with " + plans[order[begin]].what + ": " +
             std::string(status.message());
  }
  return {};
}

}  // namespace

std::vector<ProveRow> prove_catalog(const ProveScope& scope) {
  std::vector<Batch> batches;
  // The largest first, so that no thread is left with them at the end.
  for (int n = scope.last_ranks; n >= scope.first_ranks; --n)
    for (const Algorithm& a : scope.algorithms)
      for (int k = 0; k < kKinds; ++k)
        if (wanted(scope, a, static_cast<Kind>(k)))
          batches.emplace_back(scope, a, static_cast<Kind>(k), n);
  std::vector<ProveRow> results(batches.size());
  each(int(batches.size()), scope, [&](int i) { results[i] = batches[i].run(); });
  std::vector<ProveRow> rows;
  // Failures of the fewest ranks are the easiest to read.
  for (auto result = results.rbegin(); result != results.rend(); ++result) {
    if (result->cases == 0) continue;
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const ProveRow& row) {
      return row.algorithm == result->algorithm && row.kind == result->kind;
    });
    same == rows.end() ? rows.push_back(*result) : merge(*same, *result);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const ProveRow& a, const ProveRow& b) {
    return std::pair(a.algorithm, a.kind) < std::pair(b.algorithm, b.kind);
  });
  return rows;
}

std::string to_table(const std::vector<ProveRow>& rows, const ProveScope& scope) {
  std::ostringstream out;
  const auto [few, many] = std::ranges::minmax(scope.slots);
  out << "ranks " << scope.first_ranks << " to " << scope.last_ranks << ", slots " << few
      << (many > few ? " to " + std::to_string(many) : "")
      << ", even and uneven chunks, one and two copies\n\n"
      << std::left << std::setw(23) << "algorithm" << std::setw(16) << "collective" << std::right
      << std::setw(6) << "roots" << std::setw(8) << "radix" << std::setw(10) << "in place"
      << std::setw(11) << "slots from" << std::setw(8) << "cases" << std::setw(9) << "seconds"
      << std::setw(11) << "same bits" << std::setw(11) << "canonical"
      << "  proven\n";
  for (const ProveRow& row : rows) {
    out << std::left << std::setw(23) << row.algorithm->name << std::setw(16) << name(row.kind)
        << std::right << std::setw(6) << row.most_roots << std::setw(8)
        << (row.algorithm->radix ? "2,3,4" : "-") << std::setw(10)
        << (row.in_place_forms > 1 ? "both" : "no") << std::setw(11) << row.least_slots
        << std::setw(8) << row.cases << std::setw(9) << std::fixed << std::setprecision(2)
        << row.seconds << std::setw(11) << (row.failures > 0 ? "-" : yes_no(row.same_bits))
        << std::setw(11) << (row.failures > 0 ? "-" : yes_no(row.canonical)) << "  ";
    if (row.failures == 0)
      out << "yes\n";
    else
      out << "NO, " << row.failures << " failed; first: " << row.first_failure << '\n';
  }
  return out.str();
}

std::vector<SequenceReport> prove_sequences(const ProveScope& scope) {
  std::vector<SequenceReport> reports;
  for (int n = scope.first_ranks; n <= scope.last_ranks; ++n) {
    const Stopwatch watch;
    const std::vector<NamedSchedule> plans = plans_of(scope, n);
    if (plans.empty()) continue;
    const std::vector<int> order = all_pairs(int(plans.size()));
    SequenceReport report{n, int(plans.size()), int(order.size()), 0, 0, {}};
    std::mutex mutex;
    const int sequences = (int(order.size()) + kCallsPerSequence - 1) / kCallsPerSequence;
    each(sequences, scope, [&](int i) {
      const std::string failure = prove_sequence(plans, order, size_t(i) * kCallsPerSequence);
      if (failure.empty()) return;
      const std::lock_guard lock(mutex);
      if (report.failures++ == 0) report.first_failure = failure;
    });
    report.seconds = watch.seconds();
    reports.push_back(report);
  }
  return reports;
}

std::string to_table(const std::vector<SequenceReport>& reports) {
  std::ostringstream out;
  out << "sequences: every ordered pair of plans as neighbours\n\n"
      << std::setw(6) << "ranks" << std::setw(7) << "plans" << std::setw(8) << "calls"
      << std::setw(9) << "seconds"
      << "  proven\n";
  for (const SequenceReport& r : reports) {
    out << std::setw(6) << r.ranks << std::setw(7) << r.plans << std::setw(8) << r.calls
        << std::setw(9) << std::fixed << std::setprecision(2) << r.seconds << "  ";
    if (r.failures == 0)
      out << "yes\n";
    else
      out << "NO, " << r.failures << " failed; first: " << r.first_failure << '\n';
  }
  return out.str();
}

}  // namespace weft
