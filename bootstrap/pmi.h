// The address of the store by way of a process manager that speaks PMI-1 (MPICH's and Intel's
// Hydra): a text protocol on an inherited socket, one "cmd=... key=value ..." line per message.
//
// A process may use it once: the exchange ends with "finalize", because the manager takes a process
// that leaves without it for crashed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bootstrap/place.h"

namespace weft {

// "cmd=get_result rc=0 value=x y": the words of a line; a word without "=" belongs to the value
// before.
std::map<std::string, std::string, std::less<>> parse_pmi(std::string_view line);

// Puts `text` into the job's key-value space where there is one (one rank), waits for all ranks,
// and returns what was put. `fd` stays open: the manager's end is what closes.
Result<std::string> exchange_by_pmi(int fd, const std::optional<std::string>& text,
                                    const Deadline& deadline);

// `place` is announced by the store's rank; the others leave it empty. Every rank takes part once.
std::unique_ptr<Announcement> pmi_announcement(int fd, std::optional<Place> place);

}  // namespace weft
