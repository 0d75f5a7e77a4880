#include "fabric/agree.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/hash.h"
#include "base/text.h"
#include "engine/gather_texts.h"
#include "fabric/error.h"

namespace weft {
namespace {

// What ranks tell each other first; equal digests mean equal intents.
struct Note {
  uint64_t digest = 0;
  uint64_t failed = 0;
  uint64_t extra = 0;
};
constexpr size_t kNoteWords = sizeof(Note) / sizeof(uint64_t);

uint64_t digest_of(const Intent& intent) {
  uint64_t digest = hash_of(intent.call);
  for (const std::string& leaf : intent.leaves) digest = mix(digest, hash_of(leaf));
  return digest;
}

// One line each: "f CODE" and the message of a rank that cannot, or the call and its leaves.
std::string text_of(const Intent& intent) {
  if (!intent.own.ok())
    return concat("f", static_cast<int>(intent.own.code()), "\n", intent.own.message());
  std::string text = concat("i", intent.call);
  for (const std::string& leaf : intent.leaves) text.append("\n").append(leaf);
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// A long text's beginning, and where it is about `place`.
std::string shortened(const std::string& text, size_t place = 0) {
  constexpr size_t kLongest = 160, kHead = 60, kBefore = 20, kWindow = 80;
  if (text.size() <= kLongest) return text;
  const size_t begin = std::max(kHead, std::min(std::max(place, kBefore) - kBefore, text.size()));
  return concat(text.substr(0, kHead), begin > kHead ? "..." : "", text.substr(begin, kWindow),
                begin + kWindow < text.size() ? "..." : "");
}

// Where texts begin to differ.
size_t difference_of(const std::vector<std::string>& texts) {
  size_t same = texts[0].size();
  for (const std::string& text : texts)
    same = static_cast<size_t>(
        std::mismatch(text.begin(), text.begin() + static_cast<long>(std::min(same, text.size())),
                      texts[0].begin())
            .first -
        text.begin());
  return same;
}

// "float32[2] on ranks 0 and 1; float32[3] on rank 2"
std::string who_gave_what(const std::vector<std::string>& given) {
  const size_t place = difference_of(given);
  std::string text;
  for (size_t r = 0; r < given.size(); ++r) {
    if (std::find(given.begin(), given.begin() + static_cast<long>(r), given[r]) !=
        given.begin() + static_cast<long>(r))
      continue;
    std::vector<Rank> ranks;
    for (size_t s = r; s < given.size(); ++s)
      if (given[s] == given[r]) ranks.push_back(static_cast<Rank>(s));
    text.append(
        concat(text.empty() ? "" : "; ", shortened(given[r], place), " on ", rank_list(ranks)));
  }
  return text;
}

// The failures, where there are any. `texts` by rank.
std::optional<Status> failure_in(const std::vector<std::vector<std::string>>& texts) {
  std::vector<std::string> messages;
  std::vector<Rank> ranks;
  Code code = Code::ok;
  for (size_t r = 0; r < texts.size(); ++r) {
    if (!texts[r][0].starts_with('f')) continue;
    std::string message;
    for (size_t i = 1; i < texts[r].size(); ++i)
      message.append(i > 1 ? "\n" : "").append(texts[r][i]);
    if (!messages.empty() && message != messages[0]) continue;  // the first is enough
    messages.push_back(message);
    ranks.push_back(static_cast<Rank>(r));
    if (code == Code::ok) code = static_cast<Code>(std::stoi(texts[r][0].substr(1)));
  }
  if (ranks.empty()) return std::nullopt;
  if (ranks.size() == texts.size()) return Status(code, messages[0]);
  return Status(code, concat(rank_list(ranks), ": ", messages[0]), ranks[0]);
}

Status difference_in(const std::vector<std::vector<std::string>>& texts) {
  for (size_t line = 0;; ++line) {
    std::vector<std::string> given;
    Rank other = -1;
    for (size_t r = 0; r < texts.size(); ++r) {
      given.push_back(line < texts[r].size() ? texts[r][line].substr(line == 0 ? 1 : 0)
                                             : "nothing more");
      if (other < 0 && given[r] != given[0]) other = static_cast<Rank>(r);
    }
    if (other < 0 && given[0] == "nothing more")
      return internal_error("ranks' calls differ in their digests only");
    if (other < 0) continue;
    if (line == 0)
      return Status(Code::mismatch,
                    concat("ranks make different calls: ", who_gave_what(given),
                           ". All ranks of a group must make the same calls in the same order."),
                    other);
    return Status(Code::mismatch,
                  concat(shortened(texts[0][0].substr(1)), ": ranks differ: ", who_gave_what(given),
                         ". Keys, dtypes and shapes must be the same on all ranks."),
                  other);
  }
}

constexpr double kLongestS = 1e9;

// Not a number is none, either.
bool is_timeout(double seconds) { return seconds >= 0 && seconds <= kLongestS; }

// Whether a list of ranks has this one.
bool names_rank(std::string_view list, Rank rank) {
  for (size_t at = 0; at < list.size();) {
    const size_t begin = std::min(list.find_first_of("0123456789", at), list.size());
    at = std::min(list.find_first_not_of("0123456789", begin), list.size());
    if (begin < at && list.substr(begin, at - begin) == std::to_string(rank)) return true;
  }
  return false;
}

// Where a deadline of the caller's own has passed, what matters: whom nobody heard of. Of a rank
// that comes too late others say so; it gets their words.
Status told_briefly(const Status& status, const std::string& call, double timeout_s, Rank me) {
  const std::string_view message = status.message();
  const size_t silent = message.rfind("no word from rank");
  if (status.code() != Code::timeout || timeout_s == 0 || silent == std::string_view::npos)
    return status.within(shortened(call));
  const bool is_own = message.find(" reported: ") == std::string_view::npos;
  const std::string_view who = message.substr(silent, message.find(':', silent) - silent);
  if (!is_own && names_rank(who, me)) return status.within(shortened(call));
  return Status(Code::timeout,
                concat(shortened(call), " timed out",
                       is_own ? concat(" after ", number_text(timeout_s), " s") : "", ": ", who,
                       ", which may be late, stuck, or in another call"),
                status.peer());
}

}  // namespace

Status check_rank(const char* what, int rank, const Communicator& communicator) {
  if (rank >= 0 && rank < communicator.size()) return {};
  return invalid_argument(concat(what, " is ", rank, "; the group's ranks go from 0 to ",
                                 communicator.size() - 1, "."));
}

Status prepared(const Status& own, std::string_view call, const std::function<void()>& prepare) {
  if (!own.ok()) return own;
  try {
    prepare();
    return {};
  } catch (...) {
    return caught().within(call);
  }
}

void agree_on_arguments(Communicator& communicator, const std::string& call,
                        const std::function<void()>& check) {
  (void)agree(communicator, {.call = call, .leaves = {}, .own = prepared({}, call, check)});
}

std::vector<uint64_t> agree(Communicator& communicator, const Intent& intent, double timeout_s) {
  if (!is_timeout(timeout_s)) {
    Intent wrong = intent;
    wrong.own = invalid_argument(concat(
        shortened(intent.call), ": timeout_s is ", number_text(timeout_s), "; give seconds, ",
        number_text(kLongestS), " at most, or 0 for what WEFT_TIMEOUT says."));
    return agree(communicator, wrong);
  }
  const Note mine{digest_of(intent), intent.own.ok() ? 0u : 1u, intent.extra};
  std::vector<Note> notes(static_cast<size_t>(communicator.size()));
  // Of that, told_briefly() would say that this call's time has passed.
  if (const Status before = communicator.health(); !before.ok())
    throw Error(before.within("the group failed earlier").within(shortened(intent.call)));
  const Status met = communicator.run({.kind = Kind::all_gather,
                                       .input = &mine,
                                       .output = notes.data(),
                                       .count = kNoteWords,
                                       .type = DataType::uint64,
                                       .timeout_s = timeout_s});
  throw_if_failed(told_briefly(met, intent.call, timeout_s, communicator.rank()));
  const bool agreed = std::all_of(notes.begin(), notes.end(), [&](const Note& note) {
    return note.failed == 0 && note.digest == mine.digest;
  });
  if (!agreed) {
    std::vector<std::vector<std::string>> texts;
    const auto run = [&](const Call& call) { return communicator.run(call); };
    for (const std::string& text :
         value_or_throw(gather_texts(communicator.size(), run, text_of(intent))))
      texts.push_back(lines_of(text));
    const auto failure = failure_in(texts);
    throw Error(failure ? *failure : difference_in(texts), failure && intent.own.ok());
  }
  std::vector<uint64_t> extras;
  for (const Note& note : notes) extras.push_back(note.extra);
  return extras;
}

}  // namespace weft
