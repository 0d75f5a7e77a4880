#include "engine/agreement.h"

#include <charconv>

#include "base/text.h"

namespace weft {
namespace {

// "in-call SEQUENCE FINGERPRINT DESCRIPTION"
constexpr std::string_view kMark = "in-call ";
// "in-device-call SEQUENCE FINGERPRINT DESCRIPTION"
constexpr std::string_view kDeviceMark = "in-device-call ";
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

struct StatedCall {
  uint64_t sequence = 0, fingerprint = 0;
  std::string_view description;
  bool on_device = false;
};

std::optional<StatedCall> parse(std::string_view statement) {
  StatedCall call;
  call.on_device = statement.starts_with(kDeviceMark);
  if (!call.on_device && !statement.starts_with(kMark)) return std::nullopt;
  statement.remove_prefix(call.on_device ? kDeviceMark.size() : kMark.size());
  if (!take_number(statement, call.sequence) || !take_number(statement, call.fingerprint))
    return std::nullopt;
  call.description = statement;
  return call;
}

uint64_t sequence_of(std::string_view statement, bool on_device) {
  const auto call = parse(statement);
  return call && call->on_device == on_device ? call->sequence : 0;
}

}  // namespace

std::string call_statement(uint64_t sequence, const Signature& call) {
  return concat(kMark, sequence, " ", fingerprint(call), " ", describe(call));
}

std::string device_call_statement(uint64_t sequence, const Signature& call) {
  return concat(kDeviceMark, sequence, " ", fingerprint(call), " ", describe(call));
}

std::string group_statement(std::string_view description) {
  return concat(kGroupMark, description);
}

std::string stated_call(std::string_view statement) {
  if (statement.starts_with(kGroupMark)) return std::string(statement.substr(kGroupMark.size()));
  const auto call = parse(statement);
  return call ? concat(call->description, ", collective call ", call->sequence,
                       call->on_device ? " on device memory" : "")
              : std::string();
}

uint64_t stated_sequence(std::string_view statement) { return sequence_of(statement, false); }

uint64_t stated_device_sequence(std::string_view statement) { return sequence_of(statement, true); }

Status compare_calls(const std::optional<Signature>& ours, Rank peer, std::string_view statement,
                     Rank me) {
  const auto theirs = parse(statement);
  if (!theirs || !ours || fingerprint(*ours) == theirs->fingerprint) return {};
  return Status(Code::mismatch,
                concat("collective call ", theirs->sequence,
                       theirs->on_device ? " on device memory is " : " is ", describe(*ours),
                       " on rank ", me, " but ", theirs->description, " on rank ", peer,
                       "; all ranks must make the same calls in the same order"),
                peer);
}

}  // namespace weft
