#include "tests/transport/verbs/fabric.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "tests/transport/verbs/fabric_parts.h"

namespace weft::verbs::test {
namespace {

using std::chrono::steady_clock;

void signal(const Fd& event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = ::write(event.get(), &one, sizeof one);
}

}  // namespace

Fabric::Fabric(const FabricOptions& options) : options_(options), random_(options.seed) {
  if (options_.thread) thread_ = std::thread([this] { run(); });
}

Fabric::~Fabric() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

void Fabric::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (active_.empty()) {
      moved_.wait(lock);
      continue;
    }
    for (int i = 0; i < 64 && !active_.empty(); ++i) step_once();
    moved_.wait_for(lock, std::chrono::microseconds(30));
  }
}

void Fabric::step(int steps) {
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < steps; ++i) step_once();
}

bool Fabric::chance(double probability) {
  return std::uniform_real_distribution<>(0, 1)(random_) < probability;
}

void Fabric::activate(QueuePair& qp) {
  if (!qp.active) active_.push_back(&qp);
  qp.active = true;
  wake();
}

// One thing that happens at one queue pair; false where nothing did.
bool Fabric::step_once() {
  if (active_.empty()) return false;
  const size_t index = random_() % active_.size();
  QueuePair& qp = *active_[index];
  if (chance(options_.late)) return true;
  const bool moved = random_() % 2 == 0 ? execute(qp) || announce(qp) : announce(qp) || execute(qp);
  if (qp.sends.empty() && qp.late_sends.empty() && qp.late_receives.empty()) {
    qp.active = false;
    active_[index] = active_.back();
    active_.pop_back();
  }
  return moved;
}

// Tries the oldest request.
bool Fabric::execute(QueuePair& qp) {
  if (qp.sends.empty() || qp.state != IBV_QPS_RTS) return false;
  Send& send = qp.sends.front();
  const auto found = pairs_.find(qp.peer);
  QueuePair* const peer = found == pairs_.end() ? nullptr : found->second;
  const bool ready = peer && (peer->state == IBV_QPS_RTR || peer->state == IBV_QPS_RTS) &&
                     peer->peer == qp.qp_num && peer->receive_psn == qp.send_psn;
  if (!ready || qp.host->pulled || peer->host->pulled) return unreachable(qp, send), true;
  return carry_out(qp, *peer, send);
}

void Fabric::unreachable(QueuePair& qp, Send& send) {
  const auto now = steady_clock::now();
  if (send.first_try == steady_clock::time_point()) send.first_try = now;
  if (std::chrono::duration<double>(now - send.first_try).count() < options_.retry_s) return;
  finish(qp, IBV_WC_RETRY_EXC_ERR);
}

bool Fabric::carry_out(QueuePair& qp, QueuePair& peer, Send& send) {
  const bool immediate = send.request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (immediate && peer.receives.empty()) return false;  // receiver not ready: tried again
  if (fail_request_after_ > 0 && --fail_request_after_ == 0)
    return finish(qp, request_status_), true;
  const ibv_wc_status status = transfer(qp, peer, send);
  if (status == IBV_WC_REM_ACCESS_ERR) fail_pair(peer);
  if (status == IBV_WC_SUCCESS && immediate) {
    ibv_wc wc{};
    wc.wr_id = peer.receives.front();
    wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    wc.imm_data = send.request.imm_data;
    wc.wc_flags = IBV_WC_WITH_IMM;
    for (const ibv_sge& part : send.parts) wc.byte_len += part.length;
    peer.receives.pop_front();
    Late late{{wc, peer.qp_num, 0}, false, std::move(peer.landings)};
    peer.landings.clear();
    const bool lost = lose_after_ > 0 && --lose_after_ == 0;
    if (!lost) peer.late_receives.push_back(std::move(late));
    activate(peer);
  }
  finish(qp, status);
  return true;
}

// Moves the data; with an immediate it lands when that is announced, else behind it.
ibv_wc_status Fabric::transfer(QueuePair& qp, QueuePair& peer, Send& send) {
  std::vector<std::byte> data = send.in_line;
  for (const ibv_sge& part : send.parts) {
    if (!send.in_line.empty() || part.length == 0) continue;
    const Region* const source = region(part.lkey, part.addr, part.length);
    if (!source) return IBV_WC_LOC_PROT_ERR;
    const std::byte* const from = source->at(part.addr);
    data.insert(data.end(), from, from + part.length);
  }
  if (data.empty()) return IBV_WC_SUCCESS;
  if (const auto change = changes_.extract(qp.host->number)) change.mapped()(data);
  const uint64_t to = send.request.wr.rdma.remote_addr;
  const Region* const target = region(send.request.wr.rdma.rkey, to, data.size());
  if (!target || !(target->access & IBV_ACCESS_REMOTE_WRITE) || target->context != peer.context)
    return IBV_WC_REM_ACCESS_ERR;
  peer.landings.push_back({to, send.request.wr.rdma.rkey, std::move(data)});
  return IBV_WC_SUCCESS;
}

Fabric::Region* Fabric::region(uint32_t key, uint64_t address, size_t bytes) {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return nullptr;
  const uint64_t begin = found->second->begin;
  const bool inside = address >= begin && address + bytes <= begin + found->second->length;
  return inside ? found->second : nullptr;
}

// The oldest request has ended so.
void Fabric::finish(QueuePair& qp, ibv_wc_status status) {
  const Send& send = qp.sends.front();
  ibv_wc wc{};
  wc.wr_id = send.request.wr_id;
  wc.status = status;
  wc.opcode = IBV_WC_RDMA_WRITE;
  if (status != IBV_WC_SUCCESS || send.request.send_flags & IBV_SEND_SIGNALED)
    qp.late_sends.push_back({{wc, qp.qp_num, send.position}, true, {}});
  qp.sends.pop_front();
  if (status != IBV_WC_SUCCESS) fail_pair(qp);
}

void Fabric::fail_pair(QueuePair& qp) {
  qp.state = IBV_QPS_ERR;
  qp.landings.clear();
  ibv_wc wc{};
  wc.status = IBV_WC_WR_FLUSH_ERR;
  for (const Send& send : qp.sends) {
    wc.wr_id = send.request.wr_id;
    qp.late_sends.push_back({{wc, qp.qp_num, send.position}, true, {}});
  }
  for (const uint64_t name : qp.receives) {
    wc.wr_id = name;
    qp.late_receives.push_back({{wc, qp.qp_num, 0}, false, {}});
  }
  qp.sends.clear();
  qp.receives.clear();
  activate(qp);
}

// The oldest completion of one direction becomes visible.
bool Fabric::announce(QueuePair& qp) {
  const bool receives = qp.late_sends.empty() || (!qp.late_receives.empty() && random_() % 2);
  std::deque<Late>& queue = receives ? qp.late_receives : qp.late_sends;
  if (queue.empty()) return false;
  // What has been acknowledged is there.
  const auto peer = pairs_.find(qp.peer);
  while (!receives && peer != pairs_.end() && !peer->second->late_receives.empty())
    announce(*peer->second, peer->second->late_receives);
  announce(qp, queue);
  return true;
}

void Fabric::announce(QueuePair& qp, std::deque<Late>& queue) {
  Late late = std::move(queue.front());
  queue.pop_front();
  for (const Landing& landing : late.landings) land(landing);
  auto& cq = static_cast<CompletionQueue&>(*(late.send ? qp.send_cq : qp.recv_cq));
  late.entry.completion.qp_num = qp.qp_num;
  cq.entries.push_back(late.entry);
  if (cq.entries.size() > static_cast<size_t>(cq.cqe)) violated("a completion queue has overflown");
  if (!std::exchange(cq.armed, false)) return;
  auto& channel = static_cast<EventChannel&>(*cq.channel);
  channel.told.push_back(&cq);
  signal(channel.events);
}

// What was deregistered meanwhile the device does not touch any more.
void Fabric::land(const Landing& landing) {
  const Region* const to = region(landing.key, landing.to, landing.data.size());
  if (!to) return;
  if (to->device)
    unflushed_.push_back(landing);
  else
    std::memcpy(to->at(landing.to), landing.data.data(), landing.data.size());
}

void Fabric::flush_device_writes() {
  const std::lock_guard lock(mutex_);
  for (const Landing& landing : unflushed_)
    if (const Region* const to = region(landing.key, landing.to, landing.data.size()))
      std::memcpy(to->at(landing.to), landing.data.data(), landing.data.size());
  unflushed_.clear();
}

void Fabric::fail_call(const std::string& call, int error, int after, int times) {
  const std::lock_guard lock(mutex_);
  failures_[call] = {error, after, times};
}

bool Fabric::should_fail(const std::string& call) {
  const auto found = failures_.find(call);
  if (found == failures_.end()) return false;
  Failure& failure = found->second;
  if (failure.after > 1) return --failure.after, false;
  errno = failure.error;
  const bool last = --failure.times == 0;
  const int error = failure.error;
  if (last) failures_.erase(found);
  errno = error;
  return true;
}

void Fabric::fail_request(ibv_wc_status status, int after) {
  const std::lock_guard lock(mutex_);
  request_status_ = status;
  fail_request_after_ = after;
}

void Fabric::lose_immediate(int after) {
  const std::lock_guard lock(mutex_);
  lose_after_ = after;
}

void Fabric::change_next(int host, std::function<void(std::vector<std::byte>&)> change) {
  const std::lock_guard lock(mutex_);
  changes_[host] = std::move(change);
}

void Fabric::tell(Host& host, ibv_event_type type, int port) {
  for (Context* const context : host.contexts) {
    ibv_async_event event{};
    event.event_type = type;
    event.element.port_num = port;
    context->told.push_back(event);
    signal(context->events);
  }
}

void Fabric::pull(int number, bool event) {
  const std::lock_guard lock(mutex_);
  Host& host = *hosts_.at(number);
  host.pulled = true;
  if (event) tell(host, IBV_EVENT_PORT_ERR, 1);
}

void Fabric::plug(int number) {
  const std::lock_guard lock(mutex_);
  Host& host = *hosts_.at(number);
  host.pulled = false;
  tell(host, IBV_EVENT_PORT_ACTIVE, 1);
}

void Fabric::break_device(int number) {
  const std::lock_guard lock(mutex_);
  Host& host = *hosts_.at(number);
  host.broken = host.pulled = true;
  tell(host, IBV_EVENT_DEVICE_FATAL, 1);
}

std::vector<std::string> Fabric::violations() {
  const std::lock_guard lock(mutex_);
  return violations_;
}

std::vector<Posted> Fabric::posted() {
  const std::lock_guard lock(mutex_);
  return posted_;
}

void Fabric::forget_posted() {
  const std::lock_guard lock(mutex_);
  posted_.clear();
}

size_t Fabric::regions() {
  const std::lock_guard lock(mutex_);
  return keys_.size();
}

size_t Fabric::device_regions() {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::ranges::count_if(keys_, [](const auto& at) { return at.second->device != nullptr; }));
}

bool Fabric::reaches_device(ConstBytes memory) {
  const std::lock_guard lock(mutex_);
  const auto begin = reinterpret_cast<uint64_t>(memory.data());
  return std::ranges::any_of(keys_, [&](const auto& at) {
    const Region& region = *at.second;
    return region.device && region.begin < begin + memory.size() &&
           begin < region.begin + region.length;
  });
}

size_t Fabric::queue_pairs() {
  const std::lock_guard lock(mutex_);
  return pairs_.size();
}

}  // namespace weft::verbs::test
