#include "bench/invocation.h"

#include <algorithm>

namespace weft::bench {
namespace {

std::vector<Transfer> make_group(const Case& what, const Layout& layout, Bytes input,
                                 Bytes output) {
  const size_t size = size_of(what.type);
  std::vector<Transfer> group;
  for (const Move& move : layout.moves) {
    const Bytes side = move.sends ? input : output;
    std::byte* memory = move.count > 0 ? side.data() + move.at * size : nullptr;
    group.push_back(move.sends ? send_to(move.peer, memory, move.count, what.type)
                               : receive_from(move.peer, memory, move.count, what.type));
  }
  return group;
}

std::string likely_transports(const Communicator& communicator) {
  const std::vector<int>& hosts = communicator.host_of_rank();
  const bool one_host = std::all_of(hosts.begin(), hosts.end(), [](int host) { return host == 0; });
  const std::string& asked = communicator.options().transport;
  if (asked == "tcp" || asked == "verbs") return asked;
  return one_host ? "shm" : "shm+tcp";
}

}  // namespace

Invocation::Invocation(const Case& what, const Layout& layout, Bytes input, Bytes output,
                       std::vector<std::byte> scalar)
    : grouped_(info(what.operation).kind == Kind::exchange), scalar_(std::move(scalar)) {
  if (grouped_) {
    group_ = make_group(what, layout, input, output);
    return;
  }
  call_.kind = info(what.operation).kind;
  call_.input = input.data();
  call_.output = output.data();
  call_.count = layout.count;
  call_.type = what.type;
  call_.op = what.op.value_or(ReduceOp::sum);
  call_.root = what.root_or_0();
  call_.scalar = scalar_.empty() ? nullptr : scalar_.data();
  call_.varying = info(what.operation).varying;
  call_.counts = layout.counts;
  call_.offsets = layout.offsets;
  call_.recv_counts = layout.recv_counts;
  call_.recv_offsets = layout.recv_offsets;
}

Status Invocation::run(Communicator& communicator) const {
  return grouped_ ? communicator.run(group_) : communicator.run(call_);
}

Work Invocation::start(Communicator& communicator) const {
  return grouped_ ? communicator.start(group_) : communicator.start(call_);
}

Status Invocation::enqueue(Communicator& communicator, Stream stream) const {
  return grouped_ ? communicator.enqueue(group_, stream) : communicator.enqueue(call_, stream);
}

Result<CallInfo> Invocation::explain(Communicator& communicator) const {
  if (!grouped_) return communicator.explain(call_);
  CallInfo info;
  info.algorithm = "exchange";
  info.transports = likely_transports(communicator);
  return info;
}

}  // namespace weft::bench
