// Sends and receives of a group. Every message is preceded by a header that says what it is, so
// that a receiver need not know, and finds out where it expected something else.
#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "fabric/agree.h"
#include "fabric/group_state.h"
#include "fabric/object.h"

namespace weft {
namespace {

constexpr uint32_t kMagic = 0x77656674;
constexpr int kDimsMax = 8;  // a tensor of more travels as an object

struct Header {
  uint32_t magic = kMagic;
  uint8_t is_object = 0;
  uint8_t dtype = 0;
  uint16_t dims = 0;
  std::array<int64_t, kDimsMax> shape{};
};

Header header_of(const Tensor& tensor, bool is_object) {
  Header header{.is_object = is_object,
                .dtype = static_cast<uint8_t>(tensor.dtype()),
                .dims = static_cast<uint16_t>(tensor.dims())};
  std::copy(tensor.shape().begin(), tensor.shape().end(), header.shape.begin());
  return header;
}

Shape shape_of(const Header& header) {
  return {header.shape.begin(), header.shape.begin() + header.dims};
}

std::string text_of(const Header& header) {
  if (header.is_object) return "a collection";
  return concat(name(static_cast<DataType>(header.dtype)), to_string(shape_of(header)));
}

// What sender and receiver pass in one group: the header, then the elements.
std::array<Transfer, 2> transfers(Transfer::Direction direction, Rank peer, Header& header,
                                  const Tensor& tensor) {
  return {Transfer{direction, peer, &header, sizeof header, DataType::uint8},
          Transfer{direction, peer, tensor.data(), static_cast<size_t>(tensor.count()),
                   tensor.dtype()}};
}

// Where what came is no header, or a receiver's memory does not fit, the stream between the two
// ranks cannot be used on.
Status check_header(const Communicator& c, const Header& header, Rank src) {
  if (header.magic == kMagic && header.dims <= kDimsMax && header.dtype < kDataTypes) return {};
  return Status(Code::mismatch,
                concat("rank ", c.rank(), " receives from rank ", src,
                       " what is no message of this kind; pair each send with one receive."),
                src);
}
Status check_room(const Communicator& c, const Header& header, const Tensor& room, Rank src) {
  WEFT_TRY(check_header(c, header, src));
  const bool fits = !header.is_object && static_cast<DataType>(header.dtype) == room.dtype() &&
                    shape_of(header) == room.shape();
  if (fits) return {};
  return Status(Code::mismatch,
                concat("rank ", src, " sends ", text_of(header), " but rank ", c.rank(),
                       " receives into ", room.type_text(), "; dtype and shape must be the same."),
                src);
}

// A call between two ranks is nobody else's: its errors are thrown here only.
void require_peer(const char* what, int peer, const Communicator& c) {
  throw_if_failed(check_rank(what, peer, c));
  if (peer == c.rank())
    throw_invalid(concat(what, " is ", peer, ", which is this rank; messages are for others."));
}

[[noreturn]] void give_up(Communicator& c, const Status& status) {
  c.abort(status.message());
  throw Error(status);
}

}  // namespace

struct PairTransfer {
  Header header;
  Tensor tensor;
  Work work;
};

void Group::State::start(const std::shared_ptr<PairTransfer>& pair, Transfer::Direction direction,
                         Rank peer) {
  pair->work = communicator->start(transfers(direction, peer, pair->header, pair->tensor));
  const std::lock_guard lock(mutex);
  std::erase_if(pairs, [](const auto& old) { return old->work.test(); });
  pairs.push_back(pair);
}

void Group::send_tree(const Collection& value, int dst) const {
  state().require_process();
  require_peer("dst", dst, communicator());
  const bool plain = value.kind() == Collection::Kind::tensor && value.tensor().dims() <= kDimsMax;
  const Tensor tensor = plain ? value.tensor().contiguous() : object_of(value);
  Header header = header_of(tensor, !plain);
  throw_if_failed(communicator()
                      .run(transfers(Transfer::Direction::send, dst, header, tensor))
                      .within(concat("send(dst=", dst, ")")));
}

Collection Group::recv_tree(int src) const {
  Communicator& c = communicator();
  const std::string text = concat("recv(src=", src, ")");
  state().require_process();
  require_peer("src", src, c);
  Header header;
  throw_if_failed(c.recv(src, &header, sizeof header, DataType::uint8).within(text));
  if (Status status = check_header(c, header, src); !status.ok()) give_up(c, status);
  const Tensor tensor = Tensor::empty(static_cast<DataType>(header.dtype), shape_of(header));
  throw_if_failed(
      c.recv(src, tensor.data(), static_cast<size_t>(tensor.count()), tensor.dtype()).within(text));
  return header.is_object ? from_object(tensor, src) : Collection(tensor);
}

std::string Group::sent_text(const Collection& value, int src) {
  return concat("recv(src=", src, "): rank ", src, " sent ", value.describe()[0]);
}

void Group::recv_into(const Tensor& out, int src) const {
  Communicator& c = communicator();
  const std::string text = concat("recv_into(src=", src, ")");
  state().require_process();
  require_peer("src", src, c);
  Header header;
  throw_if_failed(c.recv(src, &header, sizeof header, DataType::uint8).within(text));
  if (Status status = check_room(c, header, out, src); !status.ok()) give_up(c, status);
  const Tensor dense = out.is_contiguous() ? out : Tensor::empty(out.dtype(), out.shape());
  throw_if_failed(
      c.recv(src, dense.data(), static_cast<size_t>(dense.count()), dense.dtype()).within(text));
  if (dense.data() != out.data()) out.copy_from(dense);
}

// Memory that a tensor owns stays until the message has gone or come.
std::function<void()> Group::end_of_pair(const Tensor& tensor,
                                         const std::function<bool()>& done) const {
  if (tensor.is_owner()) return {};
  return [done, state = std::weak_ptr<State>(state_)] { end_transfers(state, done); };
}

Future<void> Group::isend(const Tensor& tensor, int dst) const {
  state().require_process();
  require_peer("dst", dst, communicator());
  if (tensor.dims() > kDimsMax)
    throw_invalid(concat("isend takes tensors of at most ", kDimsMax, " dimensions, not ",
                         tensor.type_text(), "; reshape it."));
  auto pair = std::make_shared<PairTransfer>();
  pair->tensor = tensor.contiguous();
  pair->header = header_of(pair->tensor, false);
  state().start(pair, Transfer::Direction::send, dst);
  const auto done = [pair] { return pair->work.test(); };
  return {
      done,
      [pair, dst] { throw_if_failed(pair->work.wait().within(concat("isend(dst=", dst, ")"))); },
      end_of_pair(pair->tensor, done)};
}

Future<void> Group::irecv_into(const Tensor& out, int src) const {
  state().require_process();
  require_peer("src", src, communicator());
  auto pair = std::make_shared<PairTransfer>();
  pair->tensor = out;
  pair->header.magic = 0;
  if (!out.is_contiguous())
    throw_invalid(concat("irecv_into needs a contiguous tensor; this ", out.type_text(),
                         " has strides ", to_string(out.strides()), "."));
  state().start(pair, Transfer::Direction::receive, src);
  const auto done = [pair] { return pair->work.test(); };
  return {done,
          [pair, src, group = *this] {
            const Status status = pair->work.wait();
            Communicator& c = group.communicator();
            const Status fits =
                pair->header.magic == 0 ? Status() : check_room(c, pair->header, pair->tensor, src);
            if (!fits.ok()) give_up(c, fits);
            throw_if_failed(status.within(concat("irecv_into(src=", src, ")")));
          },
          end_of_pair(pair->tensor, done)};
}

}  // namespace weft
