// The calls of libibverbs that weft makes, as a table that tests fill with a fabric of their own.
// What each does, and its errors, is libibverbs' documentation; all of them set errno, but for
// query_gid_table(), which gives it negated.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

#include "base/status.h"

namespace weft::verbs {

class Verbs {
 public:
  virtual ~Verbs() = default;

  virtual ibv_device** get_device_list(int* count) = 0;
  virtual void free_device_list(ibv_device** list) = 0;
  virtual const char* get_device_name(ibv_device* device) = 0;
  // Whether pages that a device reads and writes stay the parent's when it forks. True where the
  // library is too old to say. Asked once there is a device.
  virtual bool copies_on_fork() = 0;
  virtual ibv_context* open_device(ibv_device* device) = 0;
  virtual int close_device(ibv_context* context) = 0;
  virtual int query_device(ibv_context* context, ibv_device_attr* attributes) = 0;
  virtual int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes) = 0;
  virtual ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t most) = 0;
  virtual int get_async_event(ibv_context* context, ibv_async_event* event) = 0;
  virtual void ack_async_event(ibv_async_event* event) = 0;

  virtual ibv_pd* alloc_pd(ibv_context* context) = 0;
  virtual int dealloc_pd(ibv_pd* pd) = 0;
  virtual ibv_mr* reg_mr(ibv_pd* pd, void* memory, size_t bytes, int access) = 0;
  // EOPNOTSUPP where the library is too old for it.
  virtual ibv_mr* reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t address,
                                int dma_buf, int access) = 0;
  virtual int dereg_mr(ibv_mr* mr) = 0;

  virtual ibv_comp_channel* create_comp_channel(ibv_context* context) = 0;
  virtual int destroy_comp_channel(ibv_comp_channel* channel) = 0;
  virtual ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) = 0;
  virtual int destroy_cq(ibv_cq* cq) = 0;
  virtual int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq) = 0;
  virtual void ack_cq_events(ibv_cq* cq, unsigned count) = 0;
  virtual int req_notify_cq(ibv_cq* cq) = 0;
  virtual int poll_cq(ibv_cq* cq, int most, ibv_wc* completions) = 0;

  virtual ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) = 0;
  virtual int destroy_qp(ibv_qp* qp) = 0;
  virtual int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) = 0;
  virtual int post_send(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad) = 0;
  virtual int post_recv(ibv_qp* qp, ibv_recv_wr* first, ibv_recv_wr** bad) = 0;
};

// The machine's own, looked up at run time; an error says what is missing.
Result<std::shared_ptr<Verbs>> load_library(const char* file = "libibverbs.so.1");

}  // namespace weft::verbs
