// The calls of one host of a Fabric.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "tests/transport/verbs/fabric_parts.h"

namespace weft::verbs::test {
namespace {

void read_off(const Fd& event) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(event.get(), &count, sizeof count);
}

Fd make_event() { return Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }

ibv_gid_entry usual_gid(int host, int port) {
  ibv_gid_entry entry{};
  entry.gid.raw[10] = entry.gid.raw[11] = 0xff;
  entry.gid.raw[12] = 10;
  entry.gid.raw[15] = static_cast<uint8_t>(host + 1);
  entry.gid_index = 1;
  entry.port_num = static_cast<uint32_t>(port);
  entry.gid_type = IBV_GID_TYPE_ROCE_V2;
  return entry;
}

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kReadyMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kSendMask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

}  // namespace

class HostVerbs final : public Verbs {
 public:
  HostVerbs(std::shared_ptr<Fabric> fabric, Fabric::Host& host)
      : fabric_(std::move(fabric)), f_(*fabric_), host_(host) {}

  ibv_device** get_device_list(int* count) override {
    const std::lock_guard lock(f_.mutex_);
    *count = 0;
    if (f_.should_fail("get_device_list")) return nullptr;
    *count = 1;
    return new ibv_device* [2] { &host_.device, nullptr };
  }
  void free_device_list(ibv_device** list) override { delete[] list; }
  const char* get_device_name(ibv_device*) override { return host_.name.c_str(); }

  bool copies_on_fork() override { return f_.options_.copies_on_fork; }
  ibv_context* open_device(ibv_device* device) override {
    const std::lock_guard lock(f_.mutex_);
    if (f_.should_fail("open_device")) return nullptr;
    auto* const context = new Fabric::Context;
    context->ibv_context::device = device;
    context->host = &host_;
    context->events = make_event();
    context->async_fd = context->events.get();
    host_.contexts.push_back(context);
    return context;
  }
  int close_device(ibv_context* context) override {
    const std::lock_guard lock(f_.mutex_);
    std::erase(host_.contexts, static_cast<Fabric::Context*>(context));
    delete static_cast<Fabric::Context*>(context);
    return 0;
  }
  int query_device(ibv_context*, ibv_device_attr* limits) override {
    const std::lock_guard lock(f_.mutex_);
    if (f_.should_fail("query_device")) return errno;
    *limits = {};
    limits->phys_port_cnt = static_cast<uint8_t>(f_.options_.ports);
    limits->max_qp_wr = f_.options_.max_requests;
    limits->max_cqe = f_.options_.max_completions;
    limits->max_qp = f_.options_.max_queue_pairs;
    limits->max_mr = f_.options_.max_regions;
    limits->max_sge = 2;
    return 0;
  }
  int query_port(ibv_context*, uint8_t port, ibv_port_attr* attributes) override {
    const std::lock_guard lock(f_.mutex_);
    if (f_.should_fail("query_port")) return errno;
    *attributes = {};
    attributes->state = host_.states[port - 1u];
    attributes->active_mtu = f_.options_.mtu;
    attributes->max_mtu = IBV_MTU_4096;
    attributes->gid_tbl_len =
        f_.options_.gid_tables.empty() ? 8 : f_.options_.gid_tables[port - 1u];
    attributes->max_msg_sz = f_.options_.max_message_bytes;
    attributes->lid = static_cast<uint16_t>(host_.number + 1);
    attributes->link_layer = f_.options_.link_layer;
    attributes->flags = f_.options_.port_flags;
    return 0;
  }
  ssize_t query_gid_table(ibv_context*, ibv_gid_entry* entries, size_t most) override {
    const std::lock_guard lock(f_.mutex_);
    if (f_.should_fail("query_gid_table")) return -std::exchange(errno, 0);
    std::vector<ibv_gid_entry> gids = f_.options_.gids;
    for (int port = 1; f_.options_.gids.empty() && port <= f_.options_.ports; ++port)
      gids.push_back(usual_gid(host_.number, port));
    if (gids.size() > most) return -EINVAL;
    std::copy(gids.begin(), gids.end(), entries);
    return static_cast<ssize_t>(gids.size());
  }
  int get_async_event(ibv_context* base, ibv_async_event* event) override {
    const std::lock_guard lock(f_.mutex_);
    auto& context = static_cast<Fabric::Context&>(*base);
    read_off(context.events);
    if (context.told.empty()) return errno = EAGAIN, -1;
    *event = context.told.front();
    context.told.pop_front();
    return 0;
  }
  void ack_async_event(ibv_async_event*) override {}

  ibv_pd* alloc_pd(ibv_context* context) override {
    const std::lock_guard lock(f_.mutex_);
    if (f_.should_fail("alloc_pd")) return nullptr;
    return new ibv_pd{context, 0};
  }
  int dealloc_pd(ibv_pd* pd) override { return delete pd, 0; }

  ibv_mr* reg_mr(ibv_pd* pd, void* memory, size_t bytes, int access) override {
    const std::lock_guard lock(f_.mutex_);
    if (f_.should_fail("reg_mr")) return nullptr;
    return enter(pd, memory, reinterpret_cast<uint64_t>(memory), bytes, access);
  }
  ibv_mr* reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t address, int dma_buf,
                        int access) override {
    const std::lock_guard lock(f_.mutex_);
    if (f_.should_fail("reg_dmabuf_mr")) return nullptr;
    void* const here = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, dma_buf,
                              static_cast<off_t>(offset));
    if (here == MAP_FAILED) return nullptr;
    // As libibverbs does it: an offset in the place of the address.
    auto* const region = enter(pd, reinterpret_cast<void*>(offset), address, bytes, access);
    if (!region) return ::munmap(here, bytes), nullptr;
    region->device = static_cast<std::byte*>(here);
    return region;
  }
  int dereg_mr(ibv_mr* mr) override {
    const std::lock_guard lock(f_.mutex_);
    for (const auto& [number, qp] : f_.pairs_)
      if (qp->reads(mr->lkey)) f_.violated("memory was deregistered under a request");
    f_.keys_.erase(mr->lkey);
    auto* const region = static_cast<Fabric::Region*>(mr);
    if (region->device) ::munmap(region->device, region->length);
    delete region;
    return 0;
  }

  ibv_comp_channel* create_comp_channel(ibv_context* context) override {
    const std::lock_guard lock(f_.mutex_);
    if (f_.should_fail("create_comp_channel")) return nullptr;
    auto* const channel = new Fabric::EventChannel;
    channel->context = context;
    channel->events = make_event();
    channel->fd = channel->events.get();
    return channel;
  }
  int destroy_comp_channel(ibv_comp_channel* channel) override {
    return delete static_cast<Fabric::EventChannel*>(channel), 0;
  }
  ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) override {
    const std::lock_guard lock(f_.mutex_);
    if (f_.should_fail("create_cq")) return nullptr;
    if (entries > f_.options_.max_completions) return errno = EINVAL, nullptr;
    auto* const cq = new Fabric::CompletionQueue;
    cq->context = context;
    cq->channel = channel;
    cq->cqe = entries;
    return cq;
  }
  int destroy_cq(ibv_cq* cq) override {
    const std::lock_guard lock(f_.mutex_);
    for (const auto& [number, qp] : f_.pairs_)
      if (qp->send_cq == cq) f_.violated("a completion queue was destroyed before its queue pairs");
    return delete static_cast<Fabric::CompletionQueue*>(cq), 0;
  }
  int get_cq_event(ibv_comp_channel* base, ibv_cq** cq) override {
    const std::lock_guard lock(f_.mutex_);
    auto& channel = static_cast<Fabric::EventChannel&>(*base);
    read_off(channel.events);
    if (channel.told.empty()) return errno = EAGAIN, -1;
    *cq = channel.told.front();
    channel.told.pop_front();
    return 0;
  }
  void ack_cq_events(ibv_cq*, unsigned) override {}
  int req_notify_cq(ibv_cq* cq) override {
    const std::lock_guard lock(f_.mutex_);
    if (f_.should_fail("req_notify_cq")) return errno;
    static_cast<Fabric::CompletionQueue*>(cq)->armed = true;
    return 0;
  }
  int poll_cq(ibv_cq* base, int most, ibv_wc* completions) override {
    const std::lock_guard lock(f_.mutex_);
    if (f_.should_fail("poll_cq")) return -1;
    for (int i = 0; i < 8; ++i) f_.step_once();
    auto& cq = static_cast<Fabric::CompletionQueue&>(*base);
    int count = 0;
    for (; count < most && !cq.entries.empty(); ++count) {
      const auto& entry = cq.entries.front();
      completions[count] = entry.completion;
      const auto qp = f_.pairs_.find(entry.pair);
      if (entry.retires > 0 && qp != f_.pairs_.end()) qp->second->retired = entry.retires;
      cq.entries.pop_front();
    }
    return count;
  }

  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) override;
  int destroy_qp(ibv_qp* qp) override;
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) override;
  int post_send(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad) override;
  int post_recv(ibv_qp* qp, ibv_recv_wr* first, ibv_recv_wr** bad) override;

 private:
  Fabric::Region* enter(ibv_pd* pd, void* named, uint64_t begin, size_t bytes, int access) {
    if (f_.keys_.size() >= static_cast<size_t>(f_.options_.max_regions))
      return errno = ENOMEM, nullptr;
    auto* const region = new Fabric::Region;
    region->context = pd->context;
    region->pd = pd;
    region->addr = named;
    region->begin = begin;
    region->length = bytes;
    region->lkey = region->rkey = f_.next_key_++;
    region->access = access;
    f_.keys_[region->lkey] = region;
    return region;
  }

  const std::shared_ptr<Fabric> fabric_;
  Fabric& f_;
  Fabric::Host& host_;
};

std::shared_ptr<Verbs> Fabric::host(int number) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Host>& host = hosts_[number];
  if (!host) {
    host = std::make_unique<Host>();
    host->number = number;
    host->device.transport_type = options_.transport;
    host->name = concat("fake", number);
    host->states.assign(static_cast<size_t>(options_.ports), IBV_PORT_ACTIVE);
  }
  return std::make_shared<HostVerbs>(shared_from_this(), *host);
}

void Fabric::set_port_state(int number, int port, ibv_port_state state) {
  host(number);
  const std::lock_guard lock(mutex_);
  hosts_[number]->states[static_cast<size_t>(port - 1)] = state;
}

bool Fabric::QueuePair::reads(uint32_t key) const {
  return std::ranges::any_of(sends, [key](const Send& send) {
    return send.in_line.empty() && std::ranges::any_of(send.parts, [key](const ibv_sge& part) {
             return part.length > 0 && part.lkey == key;
           });
  });
}

ibv_qp* HostVerbs::create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  const std::lock_guard lock(f_.mutex_);
  if (f_.should_fail("create_qp")) return nullptr;
  const ibv_qp_cap& cap = attributes->cap;
  const auto most =
      static_cast<uint32_t>(std::min(f_.options_.max_requests, f_.options_.real_requests));
  if (cap.max_send_wr > most || cap.max_recv_wr > most || cap.max_send_sge > 2 ||
      cap.max_inline_data > f_.options_.inline_bytes)
    return errno = EINVAL, nullptr;
  if (f_.pairs_.size() >= static_cast<size_t>(f_.options_.max_queue_pairs))
    return errno = ENOMEM, nullptr;
  auto* const qp = new Fabric::QueuePair;
  qp->context = pd->context;
  qp->pd = pd;
  qp->send_cq = attributes->send_cq;
  qp->recv_cq = attributes->recv_cq;
  qp->state = IBV_QPS_RESET;
  qp->qp_type = attributes->qp_type;
  qp->qp_num = f_.next_number_++;
  qp->host = &host_;
  qp->cap = attributes->cap = cap;
  f_.pairs_[qp->qp_num] = qp;
  return qp;
}

int HostVerbs::destroy_qp(ibv_qp* base) {
  const std::lock_guard lock(f_.mutex_);
  auto* const qp = static_cast<Fabric::QueuePair*>(base);
  std::erase(f_.active_, qp);
  f_.pairs_.erase(qp->qp_num);
  delete qp;
  return 0;
}

int HostVerbs::modify_qp(ibv_qp* base, ibv_qp_attr* attributes, int mask) {
  const std::lock_guard lock(f_.mutex_);
  auto& qp = static_cast<Fabric::QueuePair&>(*base);
  const auto is_step = [&](ibv_qp_state from, ibv_qp_state to, int wanted) {
    return qp.state == from && attributes->qp_state == to && mask == wanted;
  };
  if (is_step(IBV_QPS_RESET, IBV_QPS_INIT, kInitMask)) {
    if (f_.should_fail("modify_qp INIT")) return errno;
  } else if (is_step(IBV_QPS_INIT, IBV_QPS_RTR, kReadyMask)) {
    if (f_.should_fail("modify_qp RTR")) return errno;
    if (f_.options_.needs_global_header() && !attributes->ah_attr.is_global)
      f_.violated("a queue pair was connected without the global header that its port needs");
    qp.peer = attributes->dest_qp_num;
    qp.receive_psn = attributes->rq_psn;
  } else if (is_step(IBV_QPS_RTR, IBV_QPS_RTS, kSendMask)) {
    if (f_.should_fail("modify_qp RTS")) return errno;
    qp.send_psn = attributes->sq_psn;
  } else {
    f_.violated("a queue pair was modified in a way that its state does not allow");
    return EINVAL;
  }
  qp.state = attributes->qp_state;
  return 0;
}

int HostVerbs::post_send(ibv_qp* base, ibv_send_wr* first, ibv_send_wr** bad) {
  const std::lock_guard lock(f_.mutex_);
  auto& qp = static_cast<Fabric::QueuePair&>(*base);
  *bad = first;
  if (f_.should_fail("post_send")) return errno;
  if (qp.state != IBV_QPS_RTS && qp.state != IBV_QPS_ERR) {
    f_.violated("a request was posted to a queue pair that is not ready");
    return EINVAL;
  }
  if (qp.posted - qp.retired >= qp.cap.max_send_wr) {
    f_.violated("a send queue has overflown");
    return ENOMEM;
  }
  Posted note{host_.number, first->opcode, 0, {}, first->wr.rdma.remote_addr, false, false};
  Fabric::Send send;
  send.request = *first;
  send.position = ++qp.posted;
  send.parts.assign(first->sg_list, first->sg_list + first->num_sge);
  for (const ibv_sge& part : send.parts) {
    note.bytes += part.length;
    note.from.push_back(part.addr);
    const auto* const from = reinterpret_cast<const std::byte*>(part.addr);
    if (first->send_flags & IBV_SEND_INLINE)
      send.in_line.insert(send.in_line.end(), from, from + part.length);
  }
  note.in_line = first->send_flags & IBV_SEND_INLINE;
  note.signalled = first->send_flags & IBV_SEND_SIGNALED;
  if (send.parts.size() > 2 || send.in_line.size() > qp.cap.max_inline_data) {
    f_.violated("a request is longer than the queue pair allows");
    return EINVAL;
  }
  f_.posted_.push_back(note);
  qp.sends.push_back(std::move(send));
  if (qp.state == IBV_QPS_ERR) f_.fail_pair(qp);
  f_.activate(qp);
  return 0;
}

int HostVerbs::post_recv(ibv_qp* base, ibv_recv_wr* first, ibv_recv_wr** bad) {
  const std::lock_guard lock(f_.mutex_);
  auto& qp = static_cast<Fabric::QueuePair&>(*base);
  for (ibv_recv_wr* request = first; request; request = request->next) {
    *bad = request;
    if (f_.should_fail("post_recv")) return errno;
    if (qp.state == IBV_QPS_RESET || qp.receives.size() >= qp.cap.max_recv_wr) {
      f_.violated("a receive was posted too early, or one too many");
      return EINVAL;
    }
    qp.receives.push_back(request->wr_id);
  }
  if (qp.state == IBV_QPS_ERR) f_.fail_pair(qp);
  return 0;
}

}  // namespace weft::verbs::test
