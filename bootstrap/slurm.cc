#include "bootstrap/slurm.h"

#include <algorithm>

#include "base/parse.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr size_t kMaxHosts = 1 << 16;  // lists stand for many names in few bytes

Status bad(std::string_view list) {
  return invalid_argument(
      concat("\"", list, "\" is not a list as Slurm writes it, such as ", "node[01-03,7],x2."));
}

// Parts between commas, where those inside brackets do not count; empty where brackets do not
// match.
std::vector<std::string_view> split_outside_brackets(std::string_view list) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      parts.push_back(list.substr(start, i - start));
      start = i + 1;
    } else if (list[i] == '[') {
      ++depth;
    } else if (list[i] == ']') {
      --depth;
    }
    if (depth < 0 || depth > 1) return {};
  }
  return depth == 0 ? parts : std::vector<std::string_view>();
}

// "01-03" -> 01 02 03; digits keep their width. False where it is no such range.
bool append_range(std::string_view range, std::vector<std::string>& numbers) {
  const size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
  const auto from = parse_int(first, 0, 1'000'000'000), to = parse_int(last, 0, 1'000'000'000);
  if (!from.ok() || !to.ok() || *to < *from) return false;
  if (static_cast<size_t>(*to - *from) >= kMaxHosts) return false;
  for (int64_t i = *from; i <= *to; ++i) {
    const std::string digits = std::to_string(i);
    numbers.push_back(std::string(first.size() - std::min(first.size(), digits.size()), '0') +
                      digits);
  }
  return true;
}

// Appends every name that `part` stands for; false where it is malformed.
bool append_hosts(std::string_view part, std::vector<std::string>& hosts) {
  std::vector<std::string> names{""};
  while (!part.empty()) {
    const size_t open = part.find('[');
    for (std::string& name : names) name.append(part.substr(0, open));
    if (open == std::string_view::npos) break;
    const size_t close = part.find(']', open);
    std::vector<std::string> numbers;
    for (const std::string_view range :
         split_outside_brackets(part.substr(open + 1, close - open - 1)))
      if (!append_range(range, numbers)) return false;
    if (numbers.empty() || names.size() * numbers.size() > kMaxHosts) return false;
    std::vector<std::string> product;
    for (const std::string& name : names)
      for (const std::string& number : numbers) product.push_back(concat(name, number));
    names = std::move(product);
    part.remove_prefix(close + 1);
  }
  if (names.front().empty() || hosts.size() + names.size() > kMaxHosts) return false;
  hosts.insert(hosts.end(), names.begin(), names.end());
  return true;
}

}  // namespace

Result<std::vector<std::string>> expand_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  for (const std::string_view part : split_outside_brackets(list))
    if (!append_hosts(part, hosts)) return bad(list);
  if (hosts.empty()) return bad(list);
  return hosts;
}

Result<std::vector<int>> expand_counts(std::string_view list) {
  std::vector<int> counts;
  for (std::string_view part : split_outside_brackets(list)) {
    int64_t times = 1;
    if (const size_t open = part.find("(x"); open != std::string_view::npos && part.back() == ')') {
      const auto repeat = parse_int(part.substr(open + 2, part.size() - open - 3), 1, kMaxHosts);
      if (!repeat.ok()) return bad(list);
      times = *repeat;
      part = part.substr(0, open);
    }
    const auto count = parse_int(part, 0, kMaxHosts);
    if (!count.ok() || counts.size() + static_cast<size_t>(times) > kMaxHosts) return bad(list);
    counts.insert(counts.end(), static_cast<size_t>(times), static_cast<int>(*count));
  }
  return counts;
}

}  // namespace weft
