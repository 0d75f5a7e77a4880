// Agreement: do the ranks of a communicator make the same calls?
//
// Every message carries its call's tag, so a peer in another call is noticed when its data comes.
// Where no data comes at all, ranks that have waited for a while tell those they wait for which
// call they are in, and each compares that with its own record of that call: a disagreement becomes
// an error with both sides' arguments long before the deadline.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/recorder.h"

namespace weft {

// What to tell a peer about a collective call that waits for it.
std::string call_statement(uint64_t sequence, const Signature& call);
// The same of a collective call on device memory, which have numbers of their own.
std::string device_call_statement(uint64_t sequence, const Signature& call);
// What to tell a peer about a group of sends and receives that waits for it.
std::string group_statement(std::string_view description);
// What call a peer has stated to be in; empty where it is no statement.
std::string stated_call(std::string_view statement);
// The number of that call, where it is a collective one; else 0.
uint64_t stated_sequence(std::string_view statement);
// Likewise, of one on device memory.
uint64_t stated_device_sequence(std::string_view statement);
// A peer's statement, compared with this rank's call of that number, where it is known: mismatch
// where they differ. `me` for the message.
Status compare_calls(const std::optional<Signature>& ours, Rank peer, std::string_view statement,
                     Rank me);

}  // namespace weft
