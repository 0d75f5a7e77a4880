#include "transport/verbs/channel.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/text.h"
#include "transport/verbs/hub.h"

namespace weft::verbs {
namespace {

constexpr uint32_t kInlineWanted = 64;
constexpr uint32_t kRequestsLeast = 64;         // that are worth another try
constexpr uint8_t kReceiverNotReadyTimer = 12;  // 0.64 ms
constexpr uint8_t kForever = 7;                 // receiver not ready: it is alive, says its host
constexpr uint32_t kPsnMask = 0xffffff;

// A request's name: channel, queue, whether it receives, the low bits of its number.
constexpr int kChannelShift = 32, kQueueShift = 24;
constexpr uint64_t kReceive = uint64_t{1} << 23;
constexpr uint64_t kNumberMask = kReceive - 1;

std::string_view text(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_LOC_LEN_ERR: return "a message is longer than the device accepts";
    case IBV_WC_LOC_QP_OP_ERR: return "the device found a fault in the queue pair";
    case IBV_WC_LOC_PROT_ERR: return "local memory is not registered as the request needs it";
    case IBV_WC_WR_FLUSH_ERR: return "the queue pair has failed";
    case IBV_WC_BAD_RESP_ERR: return "an answer was not understood";
    case IBV_WC_REM_INV_REQ_ERR: return "the peer's device refused a request as invalid";
    case IBV_WC_REM_ACCESS_ERR: return "the peer's device refused access to its memory";
    case IBV_WC_REM_OP_ERR: return "the peer's device could not carry out a request";
    case IBV_WC_RETRY_EXC_ERR: return "nothing was acknowledged, however often it was sent";
    case IBV_WC_RNR_RETRY_EXC_ERR: return "the peer was not ready to receive, for too long";
    case IBV_WC_REM_ABORT_ERR: return "the peer's device gave a request up";
    case IBV_WC_FATAL_ERR: return "the device has failed";
    case IBV_WC_RESP_TIMEOUT_ERR: return "no answer came in time";
    default: return "the device reports an error";
  }
}

uint32_t halved(uint32_t requests) {
  return std::min(requests, std::max(requests / 2, kRequestsLeast));
}

}  // namespace

bool Hub::progress() {
  const std::span<const ibv_wc> batch = device->poll();
  for (const ibv_wc& completion : batch) {
    const auto number = static_cast<size_t>(completion.wr_id >> kChannelShift);
    if (number < channels.size() && channels[number]) channels[number]->completed(completion);
  }
  return !batch.empty();
}

Channel::Channel(Hub& hub, ChannelUser& user)
    : hub_(hub), user_(user), number_(hub.channels.size()) {
  hub_.channels.push_back(this);
}

Channel::~Channel() {
  close();
  hub_.channels[number_] = nullptr;
}

uint64_t Channel::name(size_t queue, uint64_t position, bool receive) const {
  return number_ << kChannelShift | static_cast<uint64_t>(queue) << kQueueShift |
         (receive ? kReceive : 0) | (position & kNumberMask);
}

Status Channel::open(int queues, uint32_t sends, uint32_t receives) {
  const auto most = static_cast<uint32_t>(std::max(hub_.device->limits().max_qp_wr, 1));
  depth_ = std::min(std::max(sends, 8u), most);
  receives = std::min(receives + receives / 3, most);
  offer_.queues = static_cast<uint32_t>(queues);
  offer_.psn = static_cast<uint32_t>(steady_clock().now_ns() >> 10) & kPsnMask;
  queues_.resize(static_cast<size_t>(queues));
  for (size_t i = 0; i < queues_.size(); ++i) {
    WEFT_TRY(make_queue(queues_[i], receives));
    offer_.numbers[i] = queues_[i].qp->qp_num;
  }
  return {};
}

// Some devices have no inline data, and say so by failing.
ibv_qp* Channel::create(ibv_cq* cq, uint32_t receives) {
  Device& device = *hub_.device;
  for (const uint32_t in_line : {kInlineWanted, 0u}) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = cq;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {depth_, receives, 2, 1, in_line};
    ibv_qp* const qp = device.verbs().create_qp(device.pd(), &attributes);
    if (!qp) continue;
    inline_max_ = std::min(inline_max_, attributes.cap.max_inline_data);
    return qp;
  }
  return nullptr;
}

// How many requests a device has room for depends on what each may hold, so that it may give fewer
// than it says; then links make do with those.
Status Channel::make_queue(Queue& queue, uint32_t receives) {
  Device& device = *hub_.device;
  const Result<ibv_cq*> cq = device.reserve(static_cast<int>(depth_ + receives));
  if (!cq.ok()) return cq.status();
  queue.qp = create(*cq, receives);
  while (!queue.qp && std::max(depth_, receives) > kRequestsLeast) {
    depth_ = halved(depth_);
    receives = halved(receives);
    queue.qp = create(*cq, receives);
  }
  if (!queue.qp) return device.failure(concat("ibv_create_qp for ", depth_, " requests"));
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = device.port();
  init.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  constexpr int kMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (const int error = device.verbs().modify_qp(queue.qp, &init, kMask); error != 0) {
    errno = error;
    return device.failure("ibv_modify_qp to INIT");
  }
  const uint32_t at_once = std::max(receives / 4, 1u);
  queue.receives.resize(at_once);
  for (size_t i = 0; i < at_once; ++i) {
    queue.receives[i].wr_id = name(static_cast<size_t>(&queue - queues_.data()), 0, true);
    queue.receives[i].next = i + 1 < at_once ? &queue.receives[i + 1] : nullptr;
  }
  for (uint32_t posted = 0; posted + at_once <= receives; posted += at_once)
    WEFT_TRY(post_receives(queue));
  return {};
}

Status Channel::post_receives(Queue& queue) {
  ibv_recv_wr* bad = nullptr;
  const int error = hub_.device->verbs().post_recv(queue.qp, queue.receives.data(), &bad);
  if (error == 0) return {};
  errno = error;
  return hub_.device->failure("ibv_post_recv");
}

Status Channel::connect(const Place& peer, const Offer& offer) {
  if (offer.queues != offer_.queues)
    return internal_error(
        concat("The ends of a link have ", offer_.queues, " and ", offer.queues, " queue pairs."));
  for (size_t i = 0; i < queues_.size(); ++i)
    WEFT_TRY(connect(queues_[i], peer, offer.numbers[i], offer.psn));
  connected_ = true;
  return {};
}

Status Channel::connect(Queue& queue, const Place& peer, uint32_t number, uint32_t psn) {
  const Device& device = *hub_.device;
  const auto modify = [&](ibv_qp_attr& attributes, int mask, std::string_view to) -> Status {
    const int error = device.verbs().modify_qp(queue.qp, &attributes, mask | IBV_QP_STATE);
    if (error == 0) return {};
    errno = error;
    return device.failure(concat("ibv_modify_qp to ", to, " for ", peer.port, ", from address ",
                                 to_string(device.place().gid), " to ", to_string(peer.gid),
                                 " (WEFT_IB_GID_INDEX chooses)"));
  };
  ibv_qp_attr ready{};
  ready.qp_state = IBV_QPS_RTR;
  ready.path_mtu = static_cast<ibv_mtu>(std::min(device.place().mtu, peer.mtu));
  ready.dest_qp_num = number;
  ready.rq_psn = psn;
  ready.min_rnr_timer = kReceiverNotReadyTimer;
  ready.ah_attr.port_num = device.port();
  ready.ah_attr.sl = static_cast<uint8_t>(hub_.options.service_level);
  ready.ah_attr.dlid = peer.lid;
  if (!peer.infiniband || device.always_global()) {
    ready.ah_attr.is_global = 1;
    ready.ah_attr.grh.dgid = peer.gid;
    ready.ah_attr.grh.sgid_index = static_cast<uint8_t>(device.gid_index());
    ready.ah_attr.grh.hop_limit = 255;
    ready.ah_attr.grh.traffic_class = static_cast<uint8_t>(hub_.options.traffic_class);
  }
  WEFT_TRY(modify(ready,
                  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                  "RTR"));
  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.timeout = static_cast<uint8_t>(hub_.options.timeout);
  send.retry_cnt = static_cast<uint8_t>(hub_.options.retries);
  send.rnr_retry = kForever;
  send.sq_psn = offer_.psn;
  return modify(send,
                IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                    IBV_QP_MAX_QP_RD_ATOMIC,
                "RTS");
}

void Channel::close() {
  connected_ = false;
  if (!hub_.device->here()) return;
  for (Queue& queue : queues_)
    if (queue.qp) hub_.device->verbs().destroy_qp(std::exchange(queue.qp, nullptr));
}

bool Channel::room(int queue, uint32_t requests) const {
  const Queue& q = queues_[static_cast<size_t>(queue)];
  return q.posted - q.retired + requests < depth_;
}

uint64_t Channel::post(int queue, ibv_send_wr& request, bool signal) {
  Queue& q = queues_[static_cast<size_t>(queue)];
  if (!connected_) return q.posted;
  ++q.posted;
  if (signal || q.posted - q.signalled >= (depth_ + 3) / 4) {
    request.send_flags |= IBV_SEND_SIGNALED;
    q.signalled = q.posted;
  }
  request.wr_id = name(static_cast<size_t>(queue), q.posted, false);
  ibv_send_wr* bad = nullptr;
  if (const int error = hub_.device->verbs().post_send(q.qp, &request, &bad); error != 0)
    fail(concat("ibv_post_send: ", std::strerror(error)));
  return q.posted;
}

bool Channel::retired(int queue, uint64_t number) const {
  const Queue& q = queues_[static_cast<size_t>(queue)];
  return q.retired >= number || !q.qp;
}

bool Channel::idle() const {
  return std::all_of(queues_.begin(), queues_.end(),
                     [](const Queue& q) { return !q.qp || q.retired == q.posted; });
}

void Channel::drain() {
  for (size_t i = 0; i < queues_.size() && connected_; ++i) {
    if (queues_[i].signalled == queues_[i].posted) continue;
    ibv_send_wr nothing{};
    nothing.opcode = IBV_WR_RDMA_WRITE;
    post(static_cast<int>(i), nothing, true);
  }
}

void Channel::completed(const ibv_wc& completion) {
  const size_t index = completion.wr_id >> kQueueShift & (kQueuesMax - 1);
  if (index >= queues_.size() || !queues_[index].qp) return;
  Queue& queue = queues_[index];
  if (completion.status != IBV_WC_SUCCESS) return fail(std::string(text(completion.status)));
  if (completion.wr_id & kReceive) {
    if (++queue.consumed == queue.receives.size()) {
      queue.consumed = 0;
      if (const Status status = post_receives(queue); !status.ok())
        return fail(std::string(status.message()));
    }
    return user_.received(static_cast<int>(index), be32toh(completion.imm_data),
                          completion.byte_len);
  }
  queue.retired += (completion.wr_id - queue.retired) & kNumberMask;
  user_.retired();
}

void Channel::fail(std::string why) {
  if (!connected_) return;
  connected_ = false;
  hub_.has_news();
  user_.failed(why);
}

}  // namespace weft::verbs
