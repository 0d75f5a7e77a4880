#include "engine/agreement.h"

#include <charconv>

#include "base/text.h"

namespace weft {
namespace {

// "in-call SEQUENCE FINGERPRINT DESCRIPTION"
constexpr std::string_view kMark = "in-call ";
// "in-group DESCRIPTION"
constexpr std::string_view kGroupMark = "in-group ";

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

std::string call_statement(uint64_t sequence, const Signature& call) {
  return concat(kMark, sequence, " ", fingerprint(call), " ", describe(call));
}

std::string group_statement(std::string_view description) {
  return concat(kGroupMark, description);
}

std::string stated_call(std::string_view statement) {
  if (statement.starts_with(kGroupMark)) return std::string(statement.substr(kGroupMark.size()));
  if (!statement.starts_with(kMark)) return {};
  statement.remove_prefix(kMark.size());
  uint64_t sequence = 0, fingerprint = 0;
  if (!take_number(statement, sequence) || !take_number(statement, fingerprint)) return {};
  return concat(statement, ", collective call ", sequence);
}

uint64_t stated_sequence(std::string_view statement) {
  uint64_t sequence = 0;
  if (!statement.starts_with(kMark)) return 0;
  statement.remove_prefix(kMark.size());
  return take_number(statement, sequence) ? sequence : 0;
}

Status compare_calls(const std::optional<Signature>& ours, Rank peer, std::string_view statement,
                     Rank me) {
  if (!statement.starts_with(kMark)) return {};
  statement.remove_prefix(kMark.size());
  uint64_t sequence = 0, theirs = 0;
  if (!take_number(statement, sequence) || !take_number(statement, theirs)) return {};
  if (!ours || fingerprint(*ours) == theirs) return {};
  return Status(Code::mismatch,
                concat("collective call ", sequence, " is ", describe(*ours), " on rank ", me,
                       " but ", statement, " on rank ", peer,
                       "; all ranks must make the same calls in the same order"),
                peer);
}

}  // namespace weft
