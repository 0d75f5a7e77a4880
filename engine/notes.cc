#include "engine/notes.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "transport/transport.h"

namespace weft {
namespace {

constexpr std::string_view kMark = "failed ";

std::optional<int> take_int(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data() + text.size() || *end != ' ') return std::nullopt;
  text.remove_prefix(end - text.data() + 1);
  return value;
}

}  // namespace

std::string failure_note(const Status& status, Rank teller) {
  std::string text = std::string(kMark) + std::to_string(static_cast<int>(status.code())) + " " +
                     std::to_string(status.peer()) + " " + std::to_string(teller) + " " +
                     std::string(status.message());
  if (text.size() > kNoteBytesMax) text.resize(kNoteBytesMax);
  return text;
}

std::optional<Status> parse_failure_note(std::string_view text) {
  if (!text.starts_with(kMark)) return std::nullopt;
  text.remove_prefix(kMark.size());
  const auto code = take_int(text);
  const auto peer = code ? take_int(text) : std::nullopt;
  const auto teller = peer ? take_int(text) : std::nullopt;
  if (!teller || *code <= 0 || *code > static_cast<int>(Code::internal)) return std::nullopt;
  return Status(static_cast<Code>(*code),
                "rank " + std::to_string(*teller) + " reported: " + std::string(text), *peer);
}

Culprit find_culprit(const std::vector<Rank>& waited_for, const Words& words, Rank me) {
  std::vector<Culprit> reached;
  for (const Rank rank : waited_for) reached.push_back({rank, nullptr});
  for (size_t i = 0; i < reached.size(); ++i) {
    const auto word = words.find(reached[i].rank);
    if (word == words.end()) return reached[i];
    const Rank next = word->second.peer();
    const bool known = std::any_of(reached.begin(), reached.end(),
                                   [next](const Culprit& c) { return c.rank == next; });
    if (next >= 0 && next != me && !known) reached.push_back({next, &word->second});
  }
  return {};
}

}  // namespace weft
