#include "engine/agreement.h"

#include <charconv>

namespace weft {
namespace {

// "in-call SEQUENCE FINGERPRINT DESCRIPTION"
constexpr std::string_view kMark = "in-call ";

// Takes the number in front of a space off `text`; false where there is none.
bool take_number(std::string_view& text, uint64_t& value) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + space, value);
  if (error != std::errc() || end != text.data() + space) return false;
  text.remove_prefix(space + 1);
  return true;
}

}  // namespace

void Agreement::record(uint64_t sequence, const Signature& call) {
  sequence_ = sequence;
  entries_[sequence % kRemembered] = {sequence, call};
}

std::string Agreement::statement() const {
  const Entry& entry = entries_[sequence_ % kRemembered];
  return std::string(kMark) + std::to_string(sequence_) + " " +
         std::to_string(fingerprint(entry.call)) + " " + describe(entry.call);
}

Status Agreement::compare(Rank peer, std::string_view statement, Rank me) const {
  if (!statement.starts_with(kMark)) return {};
  statement.remove_prefix(kMark.size());
  uint64_t sequence = 0, theirs = 0;
  if (!take_number(statement, sequence) || !take_number(statement, theirs)) return {};
  const Entry& entry = entries_[sequence % kRemembered];
  if (entry.sequence != sequence || fingerprint(entry.call) == theirs) return {};
  return Status(Code::mismatch,
                "collective call " + std::to_string(sequence) + " is " + describe(entry.call) +
                    " on rank " + std::to_string(me) + " but " + std::string(statement) +
                    " on rank " + std::to_string(peer) +
                    "; all ranks must make the same calls in the same order",
                peer);
}

}  // namespace weft
