// Collectives, sends and receives: arguments checked and handed on to submit().
#include <cstring>
#include <optional>

#include "base/text.h"
#include "nccl/api.h"
#include "nccl/group.h"
#include "nccl/memory.h"
#include "nccl/types.h"

namespace weft::nccl {
namespace {

// A collective as it is called.
struct Request {
  Kind kind = Kind::all_reduce;
  const void* input = nullptr;
  void* output = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int root = 0;
  bool is_bcast = false;  // whose one buffer is both
};

Status take_op(const Request& request, Item& item) {
  if (static_cast<unsigned>(request.op) < ncclNumOps) {
    item.call.op = op_of(request.op);
    return {};
  }
  Result<PreMulSum> made = item.comm->find(request.op);
  if (!made.ok()) return made.status();
  if (made->type != request.type)
    return invalid_argument(concat("datatype is ", static_cast<int>(request.type), ", but op ",
                                   static_cast<int>(request.op), " was made for ",
                                   static_cast<int>(made->type), "; they must be the same"));
  item.call.op = ReduceOp::premulsum;
  item.scalar = made->value;
  item.call.scalar = made->value ? made->value->data() : made->at;
  return {};
}

// What is read or written must be there, by the names of this interface.
Status check_buffers(const Call& call, Rank me, const Request& request) {
  const auto null = [&](const char* buffer, const char* does) {
    return invalid_argument(concat(request.is_bcast ? "buff" : buffer, " is null; ", describe(call),
                                   " ", does, " elements there on this rank"));
  };
  const bool at_root = me == call.root;
  const bool reads = at_root || (call.kind != Kind::broadcast && call.kind != Kind::scatter);
  const bool writes = at_root || (call.kind != Kind::reduce && call.kind != Kind::gather);
  if (call.count == 0) return {};
  if (reads && !call.input) return null("sendbuff", "reads");
  return writes && !call.output ? null("recvbuff", "writes") : Status();
}

// Memory that kernels reach is theirs to work on, in the stream's order.
template <class What>
Status take_way(const What& what, cudaStream_t stream, Item& item) {
  const Result<bool> streamed = item.engine->is_for_stream(what);
  if (!streamed.ok()) return streamed.status();
  item.on_device = *streamed;
  item.stream = stream;
  return {};
}

// Of a communicator that has no GPU: ok, or that this memory is a GPU's, and why it has none.
Status check_on_host(const char* name, const void* memory, const Item& item) {
  if (item.on_device || !is_of_gpu(memory)) return {};
  const Status why = item.engine->device().status();
  return why.ok() ? why : invalid_usage(concat(name, " is memory of a GPU, but ", why.message()));
}

Answer run(ncclComm_t handle, const Request& request, cudaStream_t stream) {
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  auto engine = (*comm)->callable();
  if (!engine.ok()) return engine.status();
  Item item;
  item.comm = comm.take();
  item.engine = engine.take();
  item.call = {.kind = request.kind,
               .input = request.input,
               .output = request.output,
               .count = request.count,
               .root = request.root};
  const auto type = type_of(request.type);
  if (!type.ok()) return type.status();
  item.call.type = *type;
  if (reduces(request.kind)) WEFT_TRY(take_op(request, item));
  WEFT_TRY(check_buffers(item.call, item.engine->rank(), request));
  WEFT_TRY(validate(item.call, item.engine->size(), item.engine->rank()));
  WEFT_TRY(take_way(item.call, stream, item));
  WEFT_TRY(check_on_host("sendbuff", request.input, item));
  WEFT_TRY(check_on_host("recvbuff", request.output, item));
  if (request.count > 0 && !item.on_device && !item.scalar && is_of_gpu(item.call.scalar))
    return invalid_argument("op's scalar is memory of a GPU, and what it multiplies is the host's");
  return submit(std::move(item));
}

Answer transfer(ncclComm_t handle, Transfer::Direction direction, void* memory, size_t count,
                ncclDataType_t datatype, int peer, cudaStream_t stream) {
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  auto engine = (*comm)->callable();
  if (!engine.ok()) return engine.status();
  const auto type = type_of(datatype);
  if (!type.ok()) return type.status();
  Item item;
  item.comm = comm.take();
  item.engine = engine.take();
  item.is_transfer = true;
  item.transfer = {direction, peer, memory, count, *type};
  const char* const name = direction == Transfer::Direction::send ? "sendbuff" : "recvbuff";
  if (count > 0 && !memory) return invalid_argument(concat(name, " is null, but count is ", count));
  WEFT_TRY(validate(std::span(&item.transfer, 1), item.engine->size()));
  WEFT_TRY(take_way(std::span<const Transfer>(&item.transfer, 1), stream, item));
  WEFT_TRY(check_on_host(name, memory, item));
  return submit(std::move(item));
}

ncclResult_t collective(const char* call, ncclComm_t comm, cudaStream_t stream,
                        const Request& request) noexcept {
  return answer_in_group(call, [&] { return run(comm, request, stream); });
}

}  // namespace
}  // namespace weft::nccl

using weft::Kind;
using weft::nccl::collective;

ncclResult_t pncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                            cudaStream_t stream) {
  return collective("ncclAllReduce", comm, stream,
                    {Kind::all_reduce, sendbuff, recvbuff, count, datatype, op});
}
WEFT_NCCL_TWIN(ncclAllReduce);

ncclResult_t pncclReduce(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                         cudaStream_t stream) {
  return collective("ncclReduce", comm, stream,
                    {Kind::reduce, sendbuff, recvbuff, count, datatype, op, root});
}
WEFT_NCCL_TWIN(ncclReduce);

ncclResult_t pncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                            ncclDataType_t datatype, int root, ncclComm_t comm,
                            cudaStream_t stream) {
  return collective("ncclBroadcast", comm, stream,
                    {Kind::broadcast, sendbuff, recvbuff, count, datatype, ncclSum, root});
}
WEFT_NCCL_TWIN(ncclBroadcast);

ncclResult_t pncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclBcast", comm, stream,
                    {Kind::broadcast, buff, buff, count, datatype, ncclSum, root, true});
}
WEFT_NCCL_TWIN(ncclBcast);

ncclResult_t pncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                cudaStream_t stream) {
  return collective("ncclReduceScatter", comm, stream,
                    {Kind::reduce_scatter, sendbuff, recvbuff, recvcount, datatype, op});
}
WEFT_NCCL_TWIN(ncclReduceScatter);

ncclResult_t pncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclAllGather", comm, stream,
                    {Kind::all_gather, sendbuff, recvbuff, sendcount, datatype});
}
WEFT_NCCL_TWIN(ncclAllGather);

ncclResult_t pncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclAlltoAll", comm, stream,
                    {Kind::all_to_all, sendbuff, recvbuff, count, datatype});
}
WEFT_NCCL_TWIN(ncclAlltoAll);

ncclResult_t pncclGather(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclGather", comm, stream,
                    {Kind::gather, sendbuff, recvbuff, count, datatype, ncclSum, root});
}
WEFT_NCCL_TWIN(ncclGather);

ncclResult_t pncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclScatter", comm, stream,
                    {Kind::scatter, sendbuff, recvbuff, count, datatype, ncclSum, root});
}
WEFT_NCCL_TWIN(ncclScatter);

ncclResult_t pncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                       ncclComm_t comm, cudaStream_t stream) {
  return weft::nccl::answer_in_group("ncclSend", [&] {
    return weft::nccl::transfer(comm, weft::Transfer::Direction::send, const_cast<void*>(sendbuff),
                                count, datatype, peer, stream);
  });
}
WEFT_NCCL_TWIN(ncclSend);

ncclResult_t pncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                       ncclComm_t comm, cudaStream_t stream) {
  return weft::nccl::answer_in_group("ncclRecv", [&] {
    return weft::nccl::transfer(comm, weft::Transfer::Direction::receive, recvbuff, count, datatype,
                                peer, stream);
  });
}
WEFT_NCCL_TWIN(ncclRecv);
