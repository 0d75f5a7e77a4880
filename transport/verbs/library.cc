#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/text.h"
#include "transport/verbs/api.h"

namespace weft::verbs {
namespace {

// What passes through the driver's own table (ibv_post_send() and others are inline in the header)
// is called there; everything else by its symbol.
struct Table {
  ibv_device** (*get_device_list)(int*);
  void (*free_device_list)(ibv_device**);
  const char* (*get_device_name)(ibv_device*);
  int (*is_fork_initialized)();  // null in rdma-core before 35
  ibv_context* (*open_device)(ibv_device*);
  int (*close_device)(ibv_context*);
  int (*query_device)(ibv_context*, ibv_device_attr*);
  int (*query_port)(ibv_context*, uint8_t, ibv_port_attr*);
  ssize_t (*query_gid_table)(ibv_context*, ibv_gid_entry*, size_t, uint32_t, size_t);
  int (*get_async_event)(ibv_context*, ibv_async_event*);
  void (*ack_async_event)(ibv_async_event*);
  ibv_pd* (*alloc_pd)(ibv_context*);
  int (*dealloc_pd)(ibv_pd*);
  ibv_mr* (*reg_mr)(ibv_pd*, void*, size_t, int);
  // Null in rdma-core before 34.
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd*, uint64_t, size_t, uint64_t, int, int);
  int (*dereg_mr)(ibv_mr*);
  ibv_comp_channel* (*create_comp_channel)(ibv_context*);
  int (*destroy_comp_channel)(ibv_comp_channel*);
  ibv_cq* (*create_cq)(ibv_context*, int, void*, ibv_comp_channel*, int);
  int (*destroy_cq)(ibv_cq*);
  int (*get_cq_event)(ibv_comp_channel*, ibv_cq**, void**);
  void (*ack_cq_events)(ibv_cq*, unsigned);
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*);
  int (*destroy_qp)(ibv_qp*);
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int);
};

// IBV_FORK_DISABLED, which older headers do not have. The others: the kernel copies, or the user
// has had the library keep children from registered pages (RDMAV_FORK_SAFE).
constexpr int kForkDisabled = 0;

class Library final : public Verbs {
 public:
  Library(void* handle, const Table& table) : handle_(handle), table_(table) {}
  ~Library() override { ::dlclose(handle_); }

  ibv_device** get_device_list(int* count) override { return table_.get_device_list(count); }
  void free_device_list(ibv_device** list) override { table_.free_device_list(list); }
  const char* get_device_name(ibv_device* device) override {
    return table_.get_device_name(device);
  }
  bool copies_on_fork() override {
    return !table_.is_fork_initialized || table_.is_fork_initialized() != kForkDisabled;
  }
  ibv_context* open_device(ibv_device* device) override { return table_.open_device(device); }
  int close_device(ibv_context* context) override { return table_.close_device(context); }
  int query_device(ibv_context* context, ibv_device_attr* attributes) override {
    return table_.query_device(context, attributes);
  }
  int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes) override {
    *attributes = {};  // the symbol fills the part that old callers know
    return table_.query_port(context, port, attributes);
  }
  ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t most) override {
    return table_.query_gid_table(context, entries, most, 0, sizeof *entries);
  }
  int get_async_event(ibv_context* context, ibv_async_event* event) override {
    return table_.get_async_event(context, event);
  }
  void ack_async_event(ibv_async_event* event) override { table_.ack_async_event(event); }

  ibv_pd* alloc_pd(ibv_context* context) override { return table_.alloc_pd(context); }
  int dealloc_pd(ibv_pd* pd) override { return table_.dealloc_pd(pd); }
  ibv_mr* reg_mr(ibv_pd* pd, void* memory, size_t bytes, int access) override {
    return table_.reg_mr(pd, memory, bytes, access);
  }
  ibv_mr* reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t address, int dma_buf,
                        int access) override {
    if (!table_.reg_dmabuf_mr) return errno = EOPNOTSUPP, nullptr;
    return table_.reg_dmabuf_mr(pd, offset, bytes, address, dma_buf, access);
  }
  int dereg_mr(ibv_mr* mr) override { return table_.dereg_mr(mr); }

  ibv_comp_channel* create_comp_channel(ibv_context* context) override {
    return table_.create_comp_channel(context);
  }
  int destroy_comp_channel(ibv_comp_channel* channel) override {
    return table_.destroy_comp_channel(channel);
  }
  ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) override {
    return table_.create_cq(context, entries, nullptr, channel, 0);
  }
  int destroy_cq(ibv_cq* cq) override { return table_.destroy_cq(cq); }
  int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq) override {
    void* ignored = nullptr;
    return table_.get_cq_event(channel, cq, &ignored);
  }
  void ack_cq_events(ibv_cq* cq, unsigned count) override { table_.ack_cq_events(cq, count); }
  int req_notify_cq(ibv_cq* cq) override { return cq->context->ops.req_notify_cq(cq, 0); }
  int poll_cq(ibv_cq* cq, int most, ibv_wc* completions) override {
    return cq->context->ops.poll_cq(cq, most, completions);
  }

  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) override {
    return table_.create_qp(pd, attributes);
  }
  int destroy_qp(ibv_qp* qp) override { return table_.destroy_qp(qp); }
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) override {
    return table_.modify_qp(qp, attributes, mask);
  }
  int post_send(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad) override {
    return qp->context->ops.post_send(qp, first, bad);
  }
  int post_recv(ibv_qp* qp, ibv_recv_wr* first, ibv_recv_wr** bad) override {
    return qp->context->ops.post_recv(qp, first, bad);
  }

 private:
  void* const handle_;
  const Table table_;
};

// Fills one entry; keeps the name of the first symbol that is not there.
class Symbols {
 public:
  explicit Symbols(void* handle) : handle_(handle) {}
  template <class Function>
  void find(Function*& function, const char* name) {
    find_if_there(function, name);
    if (!function && missing.empty()) missing = name;
  }
  template <class Function>
  void find_if_there(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
  }
  std::string missing;

 private:
  void* const handle_;
};

std::string fill(void* handle, Table& t) {
  Symbols symbols(handle);
  symbols.find(t.get_device_list, "ibv_get_device_list");
  symbols.find(t.free_device_list, "ibv_free_device_list");
  symbols.find(t.get_device_name, "ibv_get_device_name");
  symbols.find_if_there(t.is_fork_initialized, "ibv_is_fork_initialized");
  symbols.find(t.open_device, "ibv_open_device");
  symbols.find(t.close_device, "ibv_close_device");
  symbols.find(t.query_device, "ibv_query_device");
  symbols.find(t.query_port, "ibv_query_port");
  symbols.find(t.query_gid_table, "_ibv_query_gid_table");
  symbols.find(t.get_async_event, "ibv_get_async_event");
  symbols.find(t.ack_async_event, "ibv_ack_async_event");
  symbols.find(t.alloc_pd, "ibv_alloc_pd");
  symbols.find(t.dealloc_pd, "ibv_dealloc_pd");
  symbols.find(t.reg_mr, "ibv_reg_mr");
  symbols.find_if_there(t.reg_dmabuf_mr, "ibv_reg_dmabuf_mr");
  symbols.find(t.dereg_mr, "ibv_dereg_mr");
  symbols.find(t.create_comp_channel, "ibv_create_comp_channel");
  symbols.find(t.destroy_comp_channel, "ibv_destroy_comp_channel");
  symbols.find(t.create_cq, "ibv_create_cq");
  symbols.find(t.destroy_cq, "ibv_destroy_cq");
  symbols.find(t.get_cq_event, "ibv_get_cq_event");
  symbols.find(t.ack_cq_events, "ibv_ack_cq_events");
  symbols.find(t.create_qp, "ibv_create_qp");
  symbols.find(t.destroy_qp, "ibv_destroy_qp");
  symbols.find(t.modify_qp, "ibv_modify_qp");
  return symbols.missing;
}

}  // namespace

Result<std::shared_ptr<Verbs>> load_library(const char* file) {
  void* const handle = ::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) {
    const char* why = ::dlerror();
    return unsupported(concat("libibverbs cannot be loaded (", why ? why : "no reason given",
                              "); install it (Debian: libibverbs1 and ibverbs-providers)."));
  }
  Table table{};
  if (const std::string missing = fill(handle, table); !missing.empty()) {
    ::dlclose(handle);
    return unsupported(concat(file, " has no function ", missing,
                              "; install rdma-core 32 or newer, of the year 2020."));
  }
  return std::shared_ptr<Verbs>(std::make_shared<Library>(handle, table));
}

}  // namespace weft::verbs
