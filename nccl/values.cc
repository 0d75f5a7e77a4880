#include "nccl/values.h"

#include <algorithm>
#include <charconv>
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

std::vector<std::string_view> left_of(Names names, std::string_view value) {
  if (value.find_first_of(":;") != std::string_view::npos) return {};
  const bool without = value.starts_with('^');
  if (without) value.remove_prefix(1);
  std::vector<std::string> said;
  while (!value.empty()) said.push_back(lower(take_word(value, ',')));
  std::vector<std::string_view> left;
  for (const std::string_view name : names)
    if ((std::find(said.begin(), said.end(), name) != said.end()) != without) left.push_back(name);
  return left;
}

// "0x" and "0" in front, as in C.
int base_of(std::string_view& digits) {
  if (digits.size() > 1 && digits[0] == '0') {
    const bool hex = digits[1] == 'x' || digits[1] == 'X';
    digits.remove_prefix(hex ? 2 : 1);
    return hex ? 16 : 8;
  }
  return 10;
}

}  // namespace

std::optional<int64_t> number_in(std::string_view value) {
  const bool negative = value.starts_with('-');
  if (negative || value.starts_with('+')) value.remove_prefix(1);
  const int base = base_of(value);
  int64_t number = 0;
  const char* const end = value.data() + value.size();
  if (value.starts_with('-')) return std::nullopt;
  const auto [stop, error] = std::from_chars(value.data(), end, number, base);
  if (error != std::errc() || stop != end) return std::nullopt;
  return negative ? -number : number;
}

bool are_algorithms(std::string_view value) { return are_choices(value, kAlgorithmNames); }
bool are_protocols(std::string_view value) { return are_choices(value, kProtocolNames); }
std::vector<std::string_view> algorithms_left(std::string_view value) {
  return left_of(kAlgorithmNames, value);
}
std::vector<std::string_view> protocols_left(std::string_view value) {
  return left_of(kProtocolNames, value);
}
bool is_debug_level(std::string_view value) { return among(value, kLevels); }
bool are_subsystems(std::string_view value) { return are_among(value, kSubsystemNames); }

}  // namespace weft::nccl
