// What a launch costs through NCCL's interface, by whichever library is given: weft's or another
// one. An all_reduce of 8 bytes again and again, eagerly and from a graph, by ranks that are
// threads and share the first GPU.
//   weft-micro-nccl LIBRARY [--ranks N] [--calls N] [--rounds N] [-J FILE]
// LIBRARY is a libnccl.so.2; "" is what this program is linked with. A figure is the median of
// rounds, each of so many calls one behind the other: by the GPU's clock, and how long the host
// took to put them there. That a library refuses several ranks on a GPU is a result. Exit status: 0
// measured or refused, 1 failed or wrong, 2 usage, 77 no GPU.
#include <dlfcn.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "bench/gpu_memory.h"
#include "engine/device/cuda.h"
#include "nccl/nccl.h"

namespace weft {
namespace {

constexpr int kSkipped = 77;
constexpr int kWarmups = 3;   // rounds
constexpr size_t kCount = 2;  // of float32

struct Arguments {
  std::string library, json;
  int ranks = 1, calls = 100, rounds = 21;
};

// What is called of a library.
struct Library {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetErrorString) get_error_string = nullptr;
  decltype(&ncclGetLastError) get_last_error = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRank) comm_init_rank = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;

  static Result<Library> load(const std::string& path) {
    void* const handle = ::dlopen(path.empty() ? nullptr : path.c_str(), RTLD_NOW);
    if (handle == nullptr) return invalid_argument(::dlerror());
    Library library;
    Status status;
    const auto find = [&](auto& function, const char* name) {
      void* const found = ::dlsym(handle, name);
      if (found == nullptr) status = invalid_argument(concat(path, " has no ", name));
      function = reinterpret_cast<std::decay_t<decltype(function)>>(found);
    };
    find(library.get_version, "ncclGetVersion");
    find(library.get_error_string, "ncclGetErrorString");
    find(library.get_last_error, "ncclGetLastError");
    find(library.get_unique_id, "ncclGetUniqueId");
    find(library.comm_init_rank, "ncclCommInitRank");
    find(library.comm_destroy, "ncclCommDestroy");
    find(library.all_reduce, "ncclAllReduce");
    if (!status.ok()) return status;
    return library;
  }

  Status told(ncclResult_t result, std::string_view call) const {
    if (result == ncclSuccess) return {};
    const char* const last = get_last_error(nullptr);
    return Status(Code::system, concat(call, ": ", get_error_string(result),
                                       last && *last ? concat(": ", last) : ""));
  }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

struct Figure {
  double gpu_us = 0, host_us = 0;  // of a call
};

// Of all ranks.
struct Job {
  const Library& library;
  const Arguments& arguments;
  ncclUniqueId id{};
  std::barrier<> meeting;
  std::atomic<bool> refused{false};
};

// A rank. Its memory, stream and events are there before any kernel waits, and as long as any may.
class MicroRank {
 public:
  MicroRank(Job& job, int me) : job_(job), me_(me) {}

  Status run() {
    const Status status = run_all();
    if (status.ok()) job_.meeting.arrive_and_wait();
    job_.meeting.arrive_and_drop();  // others do not wait for one that failed
    return status;
  }
  const Figure& eager() const { return eager_; }
  const Figure& graph() const { return graph_; }

 private:
  Status run_all() {
    WEFT_TRY(prepare());
    const Library& nccl = job_.library;
    const Status made = nccl.told(nccl.comm_init_rank(&comm_, job_.arguments.ranks, job_.id, me_),
                                  "ncclCommInitRank");
    if (!made.ok()) job_.refused = true;
    job_.meeting.arrive_and_wait();
    if (!made.ok() || job_.refused) return made;
    WEFT_TRY(measure(eager_, [this] { return put_calls(); }));
    WEFT_TRY(gpu_->begin_capture(stream_.get()));
    const Status captured = put_calls();
    const Result<Gpu::Graph> graph = gpu_->end_capture(stream_.get());
    WEFT_TRY(captured);
    if (!graph.ok()) return graph.status();
    kept_ = bench::own_graph(gpu_, *graph);
    WEFT_TRY(measure(graph_, [this] { return gpu_->launch_graph(kept_.get(), stream_.get()); }));
    return nccl.told(nccl.comm_destroy(comm_), "ncclCommDestroy");
  }

  Status prepare() {
    auto gpu = open_cuda_device(0);
    if (!gpu.ok()) return gpu.status();
    gpu_ = gpu.take();
    auto stream = bench::stream_of(gpu_);
    if (!stream.ok()) return stream.status();
    stream_ = stream.take();
    for (bench::OwnedTimer* timer : {&begin_, &end_}) {
      auto made = bench::timer_of(gpu_);
      if (!made.ok()) return made.status();
      *timer = made.take();
    }
    for (auto* memory : {&in_, &out_}) {
      *memory = bench::memory_of(gpu_, sizeof(Values));
      if (!*memory) return Status(Code::system, "the GPU has no memory");
    }
    const Values mine{static_cast<float>(me_ + 1), static_cast<float>(me_ + 1)};
    return copy(in_.get(), mine.data());
  }

  // Rounds of all ranks at once, and whether the last one's result is right.
  Status measure(Figure& figure, const std::function<Status()>& put) {
    const Values none{};
    WEFT_TRY(copy(out_.get(), none.data()));
    std::vector<double> gpu_us, host_us;
    for (int round = -kWarmups; round < job_.arguments.rounds; ++round) {
      job_.meeting.arrive_and_wait();
      WEFT_TRY(gpu_->record(begin_.get(), stream_.get()));
      const int64_t begin_ns = steady_clock().now_ns();
      WEFT_TRY(put());
      const int64_t end_ns = steady_clock().now_ns();
      WEFT_TRY(gpu_->record(end_.get(), stream_.get()));
      WEFT_TRY(gpu_->synchronize(stream_.get()));
      const Result<double> elapsed_us = gpu_->elapsed_us(begin_.get(), end_.get());
      if (!elapsed_us.ok()) return elapsed_us.status();
      if (round < 0) continue;
      gpu_us.push_back(*elapsed_us / job_.arguments.calls);
      host_us.push_back(static_cast<double>(end_ns - begin_ns) * 1e-3 / job_.arguments.calls);
    }
    figure = {median(gpu_us), median(host_us)};
    return check();
  }

  Status put_calls() {
    for (int i = 0; i < job_.arguments.calls; ++i)
      WEFT_TRY(job_.library.told(
          job_.library.all_reduce(in_.get(), out_.get(), kCount, ncclFloat32, ncclSum, comm_,
                                  static_cast<cudaStream_t>(stream_.get())),
          "ncclAllReduce"));
    return {};
  }

  Status check() {
    Values got{};
    WEFT_TRY(copy(got.data(), out_.get()));
    const int ranks = job_.arguments.ranks;
    const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
    for (const float value : got)
      if (value != sum)
        return Status(Code::system, concat("rank ", me_, " has ", value, ", not ", sum));
    return {};
  }

  Status copy(void* to, const void* from) {
    WEFT_TRY(gpu_->copy(to, from, sizeof(Values), stream_.get()));
    return gpu_->synchronize(stream_.get());
  }

  using Values = std::array<float, kCount>;

  Job& job_;
  const int me_;
  std::shared_ptr<Gpu> gpu_;
  bench::OwnedStream stream_;
  bench::OwnedTimer begin_, end_;
  std::shared_ptr<std::byte> in_, out_;
  bench::OwnedGraph kept_;
  ncclComm_t comm_ = nullptr;
  Figure eager_, graph_;
};

// That of the rank that took longest.
nlohmann::json row_of(const std::vector<MicroRank>& ranks, const char* way,
                      const Figure& (MicroRank::*figure)() const) {
  Figure worst;
  for (const MicroRank& rank : ranks) {
    worst.gpu_us = std::max(worst.gpu_us, (rank.*figure)().gpu_us);
    worst.host_us = std::max(worst.host_us, (rank.*figure)().host_us);
  }
  std::printf("%-6s %8.2f us by the GPU's clock, %8.2f us of the host's\n", way, worst.gpu_us,
              worst.host_us);
  return {{"way", way}, {"gpu_us", worst.gpu_us}, {"host_us", worst.host_us}};
}

Status measure(const Library& library, const Arguments& arguments, nlohmann::json& told) {
  Job job{library, arguments, {}, std::barrier<>(arguments.ranks)};
  WEFT_TRY(library.told(library.get_unique_id(&job.id), "ncclGetUniqueId"));
  std::vector<MicroRank> ranks;
  for (int r = 0; r < arguments.ranks; ++r) ranks.emplace_back(job, r);
  std::vector<Status> ended(ranks.size());
  {
    std::vector<std::jthread> threads;
    for (size_t r = 0; r < ranks.size(); ++r)
      threads.emplace_back([&, r] { ended[r] = ranks[r].run(); });
  }
  for (const Status& status : ended) {
    if (status.ok()) continue;
    if (!job.refused || arguments.ranks == 1) return status;
    told["refused"] = status.message();
    std::printf("refused: %s\n", std::string(status.message()).c_str());
    return {};
  }
  told["rows"].push_back(row_of(ranks, "eager", &MicroRank::eager));
  told["rows"].push_back(row_of(ranks, "graph", &MicroRank::graph));
  return {};
}

int fail(const Status& status, int exit_status) {
  std::fprintf(stderr, "weft-micro-nccl: %s\n", std::string(status.message()).c_str());
  return exit_status;
}

int run(const Arguments& arguments) {
  const Result<Library> library = Library::load(arguments.library);
  if (!library.ok()) return fail(library.status(), 1);
  int version = 0;
  (void)library->get_version(&version);
  const Result<std::shared_ptr<Gpu>> gpu = open_cuda_device(0);
  if (!gpu.ok()) return fail(gpu.status(), kSkipped);
  nlohmann::json told{{"library", arguments.library},   {"version", version},
                      {"gpu", (*gpu)->identity().name}, {"ranks", arguments.ranks},
                      {"calls", arguments.calls},       {"rounds", arguments.rounds},
                      {"rows", nlohmann::json::array()}};
  if (const Status status = measure(*library, arguments, told); !status.ok())
    return fail(status, 1);
  if (arguments.json.empty()) return 0;
  std::FILE* const file = std::fopen(arguments.json.c_str(), "w");
  if (file == nullptr) return fail(system_error(concat("write ", arguments.json)), 1);
  std::fputs((told.dump(1) + "\n").c_str(), file);
  return std::fclose(file) == 0 ? 0 : fail(system_error(concat("write ", arguments.json)), 1);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  weft::Arguments arguments;
  CLI::App app("What a launch costs by a library with NCCL's interface.", "weft-micro-nccl");
  app.add_option("LIBRARY", arguments.library, "libnccl.so.2; \"\": what this is linked with")
      ->required();
  app.add_option("--ranks", arguments.ranks, "that share the first GPU")->check(CLI::Range(1, 64));
  app.add_option("--calls", arguments.calls, "of a round")->check(CLI::Range(1, 500));
  app.add_option("--rounds", arguments.rounds, "that are measured")->check(CLI::Range(1, 10000));
  app.add_option("-J", arguments.json, "a file for figures as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return weft::run(arguments);
}
