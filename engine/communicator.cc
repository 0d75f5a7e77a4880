#include "engine/communicator.h"

namespace weft {

Status Communicator::all_reduce(const void* in, void* out, size_t count, DataType type,
                                ReduceOp op) {
  return run({.kind = Kind::all_reduce,
              .input = in,
              .output = out,
              .count = count,
              .type = type,
              .op = op});
}

Status Communicator::reduce(const void* in, void* out, size_t count, DataType type, ReduceOp op,
                            Rank root) {
  return run({.kind = Kind::reduce,
              .input = in,
              .output = out,
              .count = count,
              .type = type,
              .op = op,
              .root = root});
}

Status Communicator::broadcast(const void* in, void* out, size_t count, DataType type, Rank root) {
  return run({.kind = Kind::broadcast,
              .input = in,
              .output = out,
              .count = count,
              .type = type,
              .root = root});
}

Status Communicator::all_gather(const void* in, void* out, size_t count, DataType type) {
  return run({.kind = Kind::all_gather, .input = in, .output = out, .count = count, .type = type});
}

Status Communicator::reduce_scatter(const void* in, void* out, size_t count, DataType type,
                                    ReduceOp op) {
  return run({.kind = Kind::reduce_scatter,
              .input = in,
              .output = out,
              .count = count,
              .type = type,
              .op = op});
}

Status Communicator::gather(const void* in, void* out, size_t count, DataType type, Rank root) {
  return run({.kind = Kind::gather,
              .input = in,
              .output = out,
              .count = count,
              .type = type,
              .root = root});
}

Status Communicator::scatter(const void* in, void* out, size_t count, DataType type, Rank root) {
  return run({.kind = Kind::scatter,
              .input = in,
              .output = out,
              .count = count,
              .type = type,
              .root = root});
}

Status Communicator::all_to_all(const void* in, void* out, size_t count, DataType type) {
  return run({.kind = Kind::all_to_all, .input = in, .output = out, .count = count, .type = type});
}

Status Communicator::barrier() { return run(Call{.kind = Kind::barrier}); }

Status Communicator::send(Rank peer, const void* memory, size_t count, DataType type) {
  const Transfer transfer = send_to(peer, memory, count, type);
  return run(std::span(&transfer, 1));
}

Status Communicator::recv(Rank peer, void* memory, size_t count, DataType type) {
  const Transfer transfer = receive_from(peer, memory, count, type);
  return run(std::span(&transfer, 1));
}

namespace {

Status no_device() { return unsupported("this communicator takes no device memory"); }

}  // namespace

Status Communicator::enqueue(const Call&, Stream) { return no_device(); }
Status Communicator::enqueue(std::span<const Transfer>, Stream) { return no_device(); }
Result<bool> Communicator::is_for_stream(const Call&) const { return false; }
Result<bool> Communicator::is_for_stream(std::span<const Transfer>) const { return false; }
Status Communicator::put_behind(Stream, Stream) { return no_device(); }
Status Communicator::synchronize(Stream) { return {}; }
Status Communicator::synchronize() { return {}; }
size_t Communicator::on_streams() const { return 0; }
Result<std::shared_ptr<Gpu>> Communicator::device() const { return no_device(); }
size_t Communicator::device_bytes() const { return 0; }

Result<std::unique_ptr<Communicator>> Communicator::shrink(std::span<const Rank>, double) {
  return unsupported("this communicator cannot go on without some of its ranks");
}

Result<std::shared_ptr<std::byte>> Communicator::allocate(size_t) {
  return unsupported("this communicator allocates no memory");
}

Result<std::vector<std::string>> Communicator::tell_all(const std::string&) {
  return unsupported("the ranks of this communicator cannot tell each other texts");
}

Status Communicator::start_trace(size_t) {
  return unsupported("this communicator does not note down what its lanes do");
}

}  // namespace weft
