#include "base/settings.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "base/text.h"

namespace weft {
namespace {

constexpr std::string_view kStem = "WEFT_";

// What the build and the tests of weft itself go by, and by beginning, which its programs inherit.
constexpr std::string_view kOfTheBuild[] = {"WEFT_CUDA", "WEFT_NO_INSTALL", "WEFT_RANKS_ID",
                                            "WEFT_TEST", "WEFT_VM"};

// Whoever reads another one adds it here and to docs/settings.md (tests/tidy/settings.py).
constexpr std::string_view kSettings[] = {
    "WEFT_ALGORITHM",
    "WEFT_CHECK",
    "WEFT_CHUNK",
    "WEFT_DEBUG",
    "WEFT_DETERMINISTIC",
    "WEFT_DEVICE",
    "WEFT_DEVICE_ENGINE",
    "WEFT_DUMP",
    "WEFT_DUMP_SIGNAL",
    "WEFT_ENCRYPT",
    "WEFT_GPU_DIRECT",
    "WEFT_HOST",
    "WEFT_IB_ADAPTIVE_ROUTING",
    "WEFT_IB_GID_INDEX",
    "WEFT_IB_HCA",
    "WEFT_IB_QPS",
    "WEFT_IB_RETRY_CNT",
    "WEFT_IB_SL",
    "WEFT_IB_TC",
    "WEFT_IB_TIMEOUT",
    "WEFT_JOB",
    "WEFT_LANES",
    "WEFT_LAUNCHED",
    "WEFT_LOCAL_RANK",
    "WEFT_LOCAL_SIZE",
    "WEFT_PROTOCOL",
    "WEFT_RADIX",
    "WEFT_RANK",
    "WEFT_RENDEZVOUS",
    "WEFT_SECRET",
    "WEFT_SECRET_FILE",
    "WEFT_SLOT",
    "WEFT_SLOTS",
    "WEFT_SOCKET_IFNAME",
    "WEFT_SUPERVISED",
    "WEFT_TCP_STREAMS",
    "WEFT_TIMEOUT",
    "WEFT_TOPOLOGY",
    "WEFT_TRANSPORT",
    "WEFT_TUNING",
    "WEFT_WINDOW",
    "WEFT_WORLD_SIZE",
};

// How many letters have to be put in, left out or replaced to make one word of the other.
// Source: V. I. Levenshtein, "Binary codes capable of correcting deletions, insertions, and
// reversals", Soviet Physics Doklady 1966.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

// That it is the beginning of, WEFT_ALGO, or is misspelled. Empty where none is like it.
std::string_view nearest(std::string_view setting) {
  constexpr size_t kBeginning = 3;  // fewer letters are the beginning of anything
  const size_t own = setting.size() - kStem.size();
  const auto unlikeness = [&](std::string_view known) {
    return own >= kBeginning && known.starts_with(setting) ? 0 : distance(setting, known);
  };
  const auto at = std::ranges::min_element(kSettings, {}, unlikeness);
  return unlikeness(*at) <= std::max<size_t>(1, own / 3) ? *at : std::string_view();
}

bool is_known(std::string_view name) {
  return std::ranges::find(kSettings, name) != std::end(kSettings) ||
         std::ranges::any_of(kOfTheBuild, [&](std::string_view s) { return name.starts_with(s); });
}

}  // namespace

std::vector<std::string> unread_settings(const Environment& env) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : env.values()) {
    if (!name.starts_with(kStem) || is_known(name)) continue;
    const std::string_view meant = nearest(name);
    lines.push_back(concat(name, " is set, which weft does not read; ",
                           meant.empty() ? std::string("docs/settings.md has all that it reads")
                                         : concat("did you mean ", meant, "?")));
  }
  return lines;
}

}  // namespace weft
