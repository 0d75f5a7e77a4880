#include "fabric/places.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/parse.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr int kMost = 1 << 20;

// A node before nodes are numbered: what its launcher calls it, or a machine and how many nodes
// were begun there before it.
using NodeKey = std::pair<int, int>;

int number_in(std::string_view text) {
  const Result<int64_t> number = parse_int(text, -1, kMost);
  return number.ok() ? static_cast<int>(*number) : -1;
}

// Each rank is of the first node of its machine that has no such local rank yet: right where ranks
// are placed node after node, and in turns.
std::vector<NodeKey> nodes_by_machine(const std::vector<PlaceHint>& hints,
                                      const std::vector<int>& host_of_rank) {
  std::set<std::tuple<int, int, int>> taken;  // machine, node there, local rank
  std::vector<NodeKey> keys;
  for (size_t r = 0; r < hints.size(); ++r) {
    int node = 0;
    while (!taken.emplace(host_of_rank[r], node, hints[r].local_rank).second) ++node;
    keys.emplace_back(host_of_rank[r], node);
  }
  return keys;
}

}  // namespace

PlaceHint hint_of(const Membership& member) {
  if (!member.is_placed) return {};
  return {member.node, member.local_rank};
}

std::string to_text(const PlaceHint& hint) { return concat(hint.node, " ", hint.local_rank); }

PlaceHint hint_from(const std::string& text) {
  const size_t space = std::min(text.find(' '), text.size());
  if (space == text.size()) return {};
  return {number_in(std::string_view(text).substr(0, space)),
          number_in(std::string_view(text).substr(space + 1))};
}

std::vector<RankPlace> places_by_machine(const std::vector<int>& host_of_rank) {
  std::vector<RankPlace> places;
  std::map<int, int> ranks;  // of each machine so far
  for (const int host : host_of_rank) places.push_back({host, ranks[host]++});
  return places;
}

std::vector<RankPlace> places_by_launcher(const std::vector<PlaceHint>& hints,
                                          const std::vector<int>& host_of_rank) {
  const auto has_local = [](const PlaceHint& hint) { return hint.local_rank >= 0; };
  const auto has_node = [](const PlaceHint& hint) { return hint.node >= 0; };
  if (!std::all_of(hints.begin(), hints.end(), has_local)) return places_by_machine(host_of_rank);
  const bool numbered = std::all_of(hints.begin(), hints.end(), has_node);
  std::vector<NodeKey> keys;
  if (numbered)
    for (const PlaceHint& hint : hints) keys.emplace_back(hint.node, 0);
  else
    keys = nodes_by_machine(hints, host_of_rank);

  std::map<NodeKey, std::set<int>> local_ranks;
  std::map<NodeKey, int> index;  // where nodes are not numbered: in the order of the lowest rank
  for (size_t r = 0; r < keys.size(); ++r) {
    if (!local_ranks[keys[r]].insert(hints[r].local_rank).second)
      return places_by_machine(host_of_rank);
    index.emplace(keys[r], static_cast<int>(index.size()));
  }
  if (numbered)
    for (int next = 0; auto& [key, number] : index) number = next++;

  std::vector<RankPlace> places;
  for (size_t r = 0; r < keys.size(); ++r) {
    const std::set<int>& there = local_ranks[keys[r]];
    const auto before = std::distance(there.begin(), there.find(hints[r].local_rank));
    places.push_back({index[keys[r]], static_cast<int>(before)});
  }
  return places;
}

}  // namespace weft
