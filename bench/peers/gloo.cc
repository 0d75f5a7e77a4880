// weft-bench for Gloo: ranks as weft-bench starts them, but not bound, as Gloo's users start
// theirs; calls as PyTorch's process group makes them. Gloo has TCP only; on one host that is
// loopback.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/types.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstdio>
#include <filesystem>

#include "base/text.h"
#include "bench/launch.h"
#include "bench/peers/peer.h"

namespace weft::bench {
namespace {

using Fold = void (*)(void*, const void*, const void*, size_t);

template <class T>
Fold fold_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return &gloo::sum<T>;
    case ReduceOp::prod: return &gloo::product<T>;
    case ReduceOp::min: return &gloo::min<T>;
    case ReduceOp::max: return &gloo::max<T>;
    default: return nullptr;
  }
}

// Null where Gloo has none, or needs one that its users would write.
Fold fold_of(ReduceOp op, DataType type) {
  switch (type) {
    case DataType::int8: return fold_of<int8_t>(op);
    case DataType::uint8: return fold_of<uint8_t>(op);
    case DataType::int32: return fold_of<int32_t>(op);
    case DataType::int64: return fold_of<int64_t>(op);
    case DataType::uint64: return fold_of<uint64_t>(op);
    case DataType::float16: return fold_of<gloo::float16>(op);
    case DataType::float32: return fold_of<float>(op);
    case DataType::float64: return fold_of<double>(op);
    default: return nullptr;
  }
}

// Gloo reads the size of an element from a C++ type.
template <class Body>
void with_size(size_t bytes, Body body) {
  switch (bytes) {
    case 1: return body(uint8_t());
    case 2: return body(uint16_t());
    case 4: return body(uint32_t());
    case 8: return body(uint64_t());
    default: return body(std::complex<double>());
  }
}

class GlooPeer final : public Peer {
 public:
  GlooPeer(std::shared_ptr<gloo::Context> context, const Options& options)
      : Peer(context->rank, context->size, options), context_(std::move(context)) {}

  using Peer::run;
  Status run(const Call& call) override {
    try {
      ++tag_;
      with_size(size_of(call.type), [&](auto element) { make<decltype(element)>(call); });
      return {};
    } catch (const std::exception& error) {
      return Status(Code::system, error.what());
    }
  }

 protected:
  Status why_not(const Call& call) const override {
    if (call.varying) return unsupported("The v-forms of Gloo are not measured.");
    if (call.count == 0 && call.kind != Kind::barrier)
      return unsupported("Gloo divides by the number of elements.");
    if (call.kind == Kind::reduce_scatter)
      return unsupported("Gloo has no reduce_scatter but one that is bound to its buffer.");
    if (reduces(call.kind) && !fold_of(call.op, call.type))
      return unsupported(concat("Gloo has no ", name(call.op), " of ", name(call.type), "."));
    return {};
  }

 private:
  template <class T>
  void make(const Call& c) {
    const size_t ranks = static_cast<size_t>(size());
    T* input = static_cast<T*>(const_cast<void*>(c.input));
    T* output = static_cast<T*>(c.output);
    switch (c.kind) {
      case Kind::all_reduce: return all_reduce(c, input, output);
      case Kind::reduce: return reduce(c, input, output);
      case Kind::broadcast: {
        gloo::BroadcastOptions options(context_);
        options.setOutput(output, c.count);
        options.setRoot(c.root);
        options.setTag(tag_);
        return gloo::broadcast(options);
      }
      case Kind::all_gather: {
        gloo::AllgatherOptions options(context_);
        options.setInput(input, c.count);
        options.setOutput(output, c.count * ranks);
        options.setTag(tag_);
        return gloo::allgather(options);
      }
      case Kind::all_to_all: {
        gloo::AlltoallOptions options(context_);
        options.setInput(input, c.count * ranks);
        options.setOutput(output, c.count * ranks);
        options.setTag(tag_);
        return gloo::alltoall(options);
      }
      case Kind::gather: return gather(c, input, output);
      case Kind::scatter: return scatter(c, input, output);
      case Kind::barrier: {
        gloo::BarrierOptions options(context_);
        options.setTag(tag_);
        return gloo::barrier(options);
      }
      case Kind::reduce_scatter:
      case Kind::exchange: break;
    }
  }

  template <class T>
  void all_reduce(const Call& c, T* input, T* output) {
    gloo::AllreduceOptions options(context_);
    options.setInput(input, c.count);
    options.setOutput(output, c.count);
    options.setReduceFunction(fold_of(c.op, c.type));
    options.setTag(tag_);
    gloo::allreduce(options);
  }

  // Every rank has to give an output, which Gloo uses on the way.
  template <class T>
  void reduce(const Call& c, T* input, T* output) {
    if (!output) {
      scratch_.resize(std::max(scratch_.size(), c.count * sizeof(T)));
      output = reinterpret_cast<T*>(scratch_.data());
    }
    gloo::ReduceOptions options(context_);
    options.setInput(input, c.count);
    options.setOutput(output, c.count);
    options.setReduceFunction(fold_of(c.op, c.type));
    options.setRoot(c.root);
    options.setTag(tag_);
    gloo::reduce(options);
  }

  template <class T>
  void gather(const Call& c, T* input, T* output) {
    gloo::GatherOptions options(context_);
    options.setInput(input, c.count);
    if (rank() == c.root) options.setOutput(output, c.count * static_cast<size_t>(size()));
    options.setRoot(c.root);
    options.setTag(tag_);
    gloo::gather(options);
  }

  template <class T>
  void scatter(const Call& c, T* input, T* output) {
    gloo::ScatterOptions options(context_);
    std::vector<T*> blocks;
    for (int rank = 0; input && rank < size(); ++rank)
      blocks.push_back(input + static_cast<size_t>(rank) * c.count);
    if (rank() == c.root) options.setInputs(blocks, c.count);
    options.setOutput(output, c.count);
    options.setRoot(c.root);
    options.setTag(tag_);
    gloo::scatter(options);
  }

  std::shared_ptr<gloo::Context> context_;
  std::vector<std::byte> scratch_;
  uint32_t tag_ = 0;
};

// A directory in which the ranks leave their addresses, as long as this lives on rank 0.
class MeetingPlace {
 public:
  static Result<MeetingPlace> make(Rendezvous& rendezvous, const Deadline& deadline) {
    MeetingPlace place;
    if (rendezvous.rank() == 0) {
      std::string path = (std::filesystem::temp_directory_path() / "weft-gloo-XXXXXX").string();
      if (!::mkdtemp(path.data())) return system_error(concat("make the directory ", path));
      place.path_ = path;
      place.owned_ = true;
    }
    Result<std::vector<std::string>> paths = rendezvous.all_gather(place.path_, deadline);
    if (!paths.ok()) return paths.status();
    place.path_ = (*paths)[0];
    return place;
  }
  MeetingPlace(MeetingPlace&& other) noexcept
      : path_(std::move(other.path_)), owned_(std::exchange(other.owned_, false)) {}
  ~MeetingPlace() {
    std::error_code ignored;
    if (owned_) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  MeetingPlace() = default;
  std::string path_;
  bool owned_ = false;
};

Result<Team> make_gloo_team(Rendezvous& rendezvous, const BenchOptions& options) {
  const Deadline deadline = Deadline::after(options.engine.timeout_s);
  Result<MeetingPlace> place = MeetingPlace::make(rendezvous, deadline);
  if (!place.ok()) return place.status();
  try {
    gloo::transport::tcp::attr attributes("127.0.0.1");
    std::shared_ptr<gloo::transport::Device> device =
        gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(place->path());
    auto context =
        std::make_shared<gloo::rendezvous::Context>(rendezvous.rank(), rendezvous.size());
    context->setTimeout(
        std::chrono::milliseconds(static_cast<int64_t>(options.engine.timeout_s * 1000)));
    context->connectFullMesh(store, device);
    // Rank 0 takes the directory away when all have read it.
    Result<std::vector<std::string>> all = rendezvous.all_gather("", deadline);
    if (!all.ok()) return all.status();
    return Team{std::make_unique<GlooPeer>(context, options.engine), nullptr,
                "Gloo " WEFT_GLOO_VERSION};
  } catch (const std::exception& error) {
    return Status(Code::system, error.what());
  }
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  namespace bench = weft::bench;
  const weft::Environment environment = weft::Environment::of_process();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  weft::Result<bench::BenchOptions> options = bench::peer_options(arguments, environment);
  if (!options.ok()) {
    bench::complain(options.status().message());
    return bench::kExitUsage;
  }
  if (!options->help.empty()) {
    std::fputs(options->help.c_str(), stdout);
    return bench::kExitOk;
  }
  options->bind = false;
  return bench::launch(*options, environment, bench::make_gloo_team);
}
