#include "engine/notes.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/text.h"
#include "transport/transport.h"

namespace weft {
namespace {

constexpr std::string_view kMark = "failed ";
constexpr size_t kMostPeers = 16;  // that a note names beside the first

// Takes the number in front of such a character off `text`.
std::optional<int> take_int(std::string_view& text, char after) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data() + text.size() || *end != after)
    return std::nullopt;
  text.remove_prefix(end - text.data() + 1);
  return value;
}

}  // namespace

bool was_busy(const Word& word) {
  return word.status.code() == Code::timeout && word.status.peer() < 0 && word.waited_for.empty();
}

std::string failure_note(const Word& word, Rank teller) {
  const Status& status = word.status;
  std::string text = concat(kMark, static_cast<int>(status.code()), " ", status.peer());
  for (size_t i = 0; i < std::min(word.waited_for.size(), kMostPeers); ++i)
    text.append(concat(",", word.waited_for[i]));
  text.append(concat(" ", teller, " ", status.message()));
  if (text.size() > kNoteBytesMax) text.resize(kNoteBytesMax);
  return text;
}

std::optional<Word> parse_failure_note(std::string_view text) {
  if (!text.starts_with(kMark)) return std::nullopt;
  text.remove_prefix(kMark.size());
  const auto code = take_int(text, ' ');
  if (!code || *code <= 0 || *code > static_cast<int>(Code::internal)) return std::nullopt;
  std::vector<Rank> peers;
  while (const auto peer = take_int(text, ',')) peers.push_back(*peer);
  const auto last = take_int(text, ' ');
  const auto teller = last ? take_int(text, ' ') : std::nullopt;
  if (!teller) return std::nullopt;
  peers.push_back(*last);
  const Rank peer = peers.front();
  peers.erase(peers.begin());
  return Word{Status(static_cast<Code>(*code), concat("rank ", *teller, " reported: ", text), peer),
              std::move(peers)};
}

Culprit find_culprit(const std::vector<Rank>& waited_for, const Words& words, Rank me) {
  std::vector<Culprit> reached;
  bool circle = false;
  std::optional<Culprit> busy;
  const auto reach = [&](Rank next, const Status* word) {
    const bool known = (next == me && !words.contains(me)) ||
                       std::any_of(reached.begin(), reached.end(),
                                   [&](const Culprit& c) { return c.rank == next; });
    circle |= known;
    if (next >= 0 && !known) reached.push_back({next, word});
  };
  for (const Rank rank : waited_for) reached.push_back({rank, nullptr});
  for (size_t i = 0; i < reached.size(); ++i) {
    const auto found = words.find(reached[i].rank);
    if (found == words.end()) return reached[i];
    const Word& word = found->second;
    if (!busy && was_busy(word)) {
      busy = reached[i];
      busy->busy = true;
    }
    reach(word.status.peer(), &word.status);
    for (const Rank next : word.waited_for) reach(next, &word.status);
  }
  return busy ? *busy : Culprit{.circle = circle};
}

}  // namespace weft
