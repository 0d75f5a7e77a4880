#include "nccl/values.h"

#include <algorithm>
#include <limits>
#include <span>

#include "base/parse.h"
#include "base/text.h"

namespace weft::nccl {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::string_view kCalls[] = {"allgather",     "allreduce", "alltoall",
                                       "broadcast",     "gather",    "reduce",
                                       "reducescatter", "scatter",   "sendrecv"};
constexpr std::string_view kAlgorithmNames[] = {"ring",     "tree",          "pat",         "nvls",
                                                "nvlstree", "collnetdirect", "collnetchain"};
constexpr std::string_view kProtocolNames[] = {"ll", "ll128", "simple"};
constexpr std::string_view kLevels[] = {"none", "version", "warn", "info", "abort", "trace"};
constexpr std::string_view kSubsystemNames[] = {
    "init", "coll",  "p2p",  "shm",       "net", "graph",   "tuning", "env",     "alloc",
    "call", "proxy", "nvls", "bootstrap", "reg", "profile", "ras",    "destroy", "all"};

bool among(std::string_view word, Names names) {
  return std::find(names.begin(), names.end(), lower(word)) != names.end();
}

// "a,b", "^a,b".
bool are_among(std::string_view list, Names names) {
  if (list.starts_with('^')) list.remove_prefix(1);
  if (list.empty()) return false;
  while (!list.empty())
    if (!among(take_word(list, ','), names)) return false;
  return true;
}

// The same, for some calls or for all.
bool are_choices(std::string_view value, Names names) {
  while (!value.empty()) {
    std::string_view choice = take_word(value, ';');
    if (choice.find(':') != std::string_view::npos && !among(take_word(choice, ':'), kCalls))
      return false;
    if (!are_among(choice, names)) return false;
  }
  return true;
}

Result<int64_t> number(std::string_view value) {
  using Limits = std::numeric_limits<int32_t>;
  return parse_int(value, Limits::min(), Limits::max());
}

}  // namespace

bool is_whole_number(std::string_view value) { return number(value).ok(); }

bool is_count(std::string_view value) {
  const Result<int64_t> count = number(value);
  return count.ok() && *count >= 1;
}

bool is_switch(std::string_view value) { return value == "0" || value == "1"; }
bool are_algorithms(std::string_view value) { return are_choices(value, kAlgorithmNames); }
bool are_protocols(std::string_view value) { return are_choices(value, kProtocolNames); }
bool is_debug_level(std::string_view value) { return among(value, kLevels); }
bool are_subsystems(std::string_view value) { return are_among(value, kSubsystemNames); }

}  // namespace weft::nccl
