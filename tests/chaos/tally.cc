#include "tests/chaos/tally.h"

#include <algorithm>
#include <cstdio>

#include "tests/support/sanitized.h"

namespace weft::chaos {
namespace {

// A moment, but the machine may be busy with anything; a deadline would take longer.
constexpr double kNoticeMax_s = test::kSanitized ? 15 : 5;

std::string line(const std::string& kind, const Tally& t) {
  char text[256];
  const double named =
      t.errors == 0 ? 100 : 100.0 * static_cast<double>(t.named) / static_cast<double>(t.errors);
  std::snprintf(
      text, sizeof text,
      "%-22s %8llu %8llu %9llu %10llu %8llu %7.2f%% %7llu %6llu %6llu %8llu %6llu %6llu %9.3f\n",
      kind.c_str(), static_cast<unsigned long long>(t.faults),
      static_cast<unsigned long long>(t.skipped), static_cast<unsigned long long>(t.operations),
      static_cast<unsigned long long>(t.right), static_cast<unsigned long long>(t.errors), named,
      static_cast<unsigned long long>(t.shrunk), static_cast<unsigned long long>(t.stuck),
      static_cast<unsigned long long>(t.hangs), static_cast<unsigned long long>(t.crashes),
      static_cast<unsigned long long>(t.leaks), static_cast<unsigned long long>(t.wrong),
      t.slowest_notice);
  return text;
}

}  // namespace

Tally& Tally::operator+=(const Tally& other) {
  trials += other.trials;
  skipped += other.skipped;
  faults += other.faults;
  operations += other.operations;
  right += other.right;
  errors += other.errors;
  named += other.named;
  shrunk += other.shrunk;
  stuck += other.stuck;
  hangs += other.hangs;
  crashes += other.crashes;
  leaks += other.leaks;
  wrong += other.wrong;
  slowest_notice = std::max(slowest_notice, other.slowest_notice);
  named_percent = std::min(named_percent, other.named_percent);
  bad_seeds.insert(bad_seeds.end(), other.bad_seeds.begin(), other.bad_seeds.end());
  return *this;
}

// Where not all have to, one alone says nothing about how many do.
bool Tally::named_enough() const {
  const uint64_t missed = errors - named;
  return missed == 0 ||
         (named_percent < 100 && (missed == 1 || named * 100 >= errors * named_percent));
}

bool Tally::prompt() const { return slowest_notice <= kNoticeMax_s; }

std::string table(const Tallies& tallies) {
  std::string text =
      "fault                    faults  skipped      ops      right   errors    named  shrunk  "
      "stuck  hangs  crashes"
      "  leaks  wrong  notice s\n";
  Tally sum;
  for (const auto& [kind, tally] : tallies) {
    text += line(kind, tally);
    sum += tally;
  }
  return text + line("all", sum);
}

}  // namespace weft::chaos
