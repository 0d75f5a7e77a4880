#include "tests/support/emulated_device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "kernels/cuda/kernels.h"

namespace weft::test {
namespace {

constexpr int kThreads = 32;

// By words, each whole, as a GPU's copies are: cells are copied that kernels write meanwhile.
void copy_words(void* to, const void* from, size_t bytes) {
  const auto bits = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes;
  if (bits % sizeof(uint64_t) != 0) return void(std::memcpy(to, from, bytes));
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i)
    __atomic_store_n(static_cast<uint64_t*>(to) + i,
                     __atomic_load_n(static_cast<const uint64_t*>(from) + i, __ATOMIC_RELAXED),
                     __ATOMIC_RELAXED);
}

struct Line;

// What was captured, of however many streams. When it is launched those but the first one have
// streams of the graph's own, and wait for each other only where they were made to.
struct Captured {
  struct Piece {
    Line* line;
    std::function<void(emulator::Stream&)>
        run;  // null: the line comes to the event, or waits for it
    size_t event = 0;
    bool waits = false;
  };
  using Come = std::vector<std::atomic<bool>>;  // by event

  uint64_t number;
  Line* origin;
  std::vector<Piece> pieces{};
  size_t events = 0;
  std::map<Line*, bool> joined{};  // other streams: whether the first one waits for all they did
  std::map<Line*, std::unique_ptr<emulator::Stream>> streams{};
  std::vector<std::shared_ptr<const void>> kept{};

  void launch(emulator::Stream& first) const {
    const auto come = std::make_shared<Come>(events);
    for (const Piece& piece : pieces) {
      emulator::Stream& on = piece.line == origin ? first : *streams.at(piece.line);
      if (piece.run)
        piece.run(on);
      else if (piece.waits)
        on.wait([come, at = piece.event] { return (*come)[at].load(); });
      else
        on.launch(1, 1, [come, at = piece.event] { (*come)[at] = true; });
    }
  }
};

// Of a GPU: held by all who put something on a stream; alone while memory is given back, and by who
// waits for room on a stream that has much to do.
std::shared_mutex& streams_of(const emulator::Device& gpu) {
  static std::mutex mutex;
  static std::map<const emulator::Device*, std::shared_mutex> all;
  const std::lock_guard lock(mutex);
  return all[&gpu];
}

// A stream.
struct Line {
  explicit Line(emulator::Device& gpu)
      : stream(gpu), streams(streams_of(gpu)), number(next_number()) {}
  static uint64_t next_number() {
    static std::atomic<uint64_t> made{0};
    return ++made;
  }
  // How much room there is: a graph takes as good as none.
  bool is_full() const {
    constexpr int64_t kQueue = 1024;
    return static_cast<int64_t>(stream.pending()) - *of_graphs >= kQueue;
  }

  emulator::Stream stream;  // first: tests take a Line for one
  const std::shared_ptr<std::atomic<int64_t>> of_graphs = std::make_shared<std::atomic<int64_t>>(0);
  std::shared_mutex& streams;
  const uint64_t number;
  std::shared_ptr<Captured> capture{};  // into which it is captured
};

// How often it was recorded, and how many of these the stream has come to; or where it was
// captured.
struct Recorded {
  std::atomic<uint64_t> asked{0}, come{0};
  std::atomic<int64_t> time_ns{0};  // when a stream came to it last
  std::shared_ptr<Captured> capture{};
  Line* line = nullptr;
  size_t number = 0;  // in that graph
};

void capture(Line& line, Captured::Piece piece) {
  line.capture->pieces.push_back(std::move(piece));
  if (&line != line.capture->origin) line.capture->joined[&line] = false;
}

// Runs it on the stream, or adds it to what that is captured into.
void put(Line& line, std::function<void(emulator::Stream&)> what) {
  if (!line.capture) return what(line.stream);
  capture(line, {&line, std::move(what)});
}

// What any device of the process has given: as with unified addressing, all know it.
struct Given {
  size_t bytes = 0;
  MemoryKind kind{};
  int ordinal = 0;  // of the GPU
  int file = -1;    // -1: none
};
struct Addresses {
  std::mutex mutex;
  std::map<const std::byte*, Given> given;
};
Addresses& addresses() {
  static Addresses all;
  return all;
}

std::shared_lock<std::shared_mutex> hold(const Line& line) {
  if (!line.capture && line.is_full()) {
    const std::unique_lock lock(line.streams);
    while (line.is_full()) std::this_thread::yield();
  }
  return std::shared_lock(line.streams);
}

class EmulatedDevice final : public Gpu {
 public:
  EmulatedDevice(emulator::Device& gpu, int resident_blocks, int ordinal)
      : gpu_(gpu),
        resident_blocks_(resident_blocks),
        identity_{"emulated", concat("emulated-", ordinal), ordinal} {}

  const DeviceIdentity& identity() const override { return identity_; }

  Result<MemoryKind> kind_of(const void* memory) const override {
    const Given given = given_at(memory);
    if (given.kind == MemoryKind::device && given.ordinal != identity_.ordinal)
      return memory_of_another(given.ordinal, identity_.ordinal);
    return given.kind;
  }

  Result<Bytes> allocate(size_t bytes, Content) override { return give(bytes, MemoryKind::device); }
  // Nobody else puts anything on a stream meanwhile, as with CUDA: whoever waits for what another
  // thread puts there next, waits for ever.
  void release(Bytes memory) override {
    const std::unique_lock lock(streams_of(gpu_));
    gpu_.synchronize();
    forget(memory.data());
  }
  Result<Bytes> allocate_host(size_t bytes) override { return give(bytes, MemoryKind::pinned); }
  void release_host(Bytes memory) override { release(memory); }

  // The file that it lies in, as other processes find it.
  Result<std::string> share(Bytes memory) override {
    const std::lock_guard lock(addresses().mutex);
    const auto found = addresses().given.find(memory.data());
    if (found == addresses().given.end() || found->second.file < 0)
      return Status(Code::system, "this memory cannot be shared");
    return concat("/proc/", ::getpid(), "/fd/", found->second.file);
  }
  Result<std::byte*> map(std::string_view shared) override {
    const int file = ::open(std::string(shared).c_str(), O_RDWR | O_CLOEXEC);
    struct stat about {};
    if (file < 0 || ::fstat(file, &about) != 0) return system_error(concat("open ", shared));
    const auto bytes = static_cast<size_t>(about.st_size);
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (memory == MAP_FAILED) return system_error(concat("map ", shared));
    const std::lock_guard lock(addresses().mutex);
    auto* const at = static_cast<std::byte*>(memory);
    addresses().given[at] = {bytes, MemoryKind::device, identity_.ordinal};
    return at;
  }
  void unmap(std::byte* memory) override { forget(memory); }
  Status reach(std::byte*) override { return {}; }
  // The file that it lies in; the part has to begin where that does.
  Result<Fd> dma_buf(Bytes memory) override {
    const std::lock_guard lock(addresses().mutex);
    const auto found = addresses().given.find(memory.data());
    if (found == addresses().given.end() || found->second.file < 0)
      return Status(Code::system, "this memory gives no dma-buf");
    return Fd(::fcntl(found->second.file, F_DUPFD_CLOEXEC, 0));
  }
  Status flush_remote_writes() override { return {}; }

  Result<Stream> make_stream() override { return Stream{new Line(gpu_)}; }
  void destroy_stream(Stream stream) override { delete &line_of(stream); }
  uint64_t number_of(Stream stream) const override { return line_of(stream).number; }
  Status copy(void* to, const void* from, size_t bytes, Stream stream) override {
    Line& line = line_of(stream);
    const MemoryKind kinds[] = {given_at(from).kind, given_at(to).kind};
    const bool pageable = kinds[0] == MemoryKind::host || kinds[1] == MemoryKind::host;
    if (pageable && !line.capture) line.stream.synchronize();  // as CUDA may
    {
      const auto lock = hold(line);
      if (bytes > 0)
        put(line,
            [=](emulator::Stream& on) { on.launch(1, 1, [=] { copy_words(to, from, bytes); }); });
    }
    const bool within_host = kinds[0] == MemoryKind::pinned && kinds[1] == MemoryKind::pinned;
    if (within_host && !line.capture) line.stream.synchronize();  // as CUDA does
    return {};
  }

  Result<uint32_t> prepare(ReduceOp op, DataType type) override {
    if (!device::interpret_kernel(op, type)) return unsupported("no such kernel");
    return static_cast<uint32_t>(resident_blocks_);
  }
  Status launch(const device::Program& program, const device::Call& call,
                const device::Limits& limits, uint32_t blocks, Stream stream) override {
    WEFT_CHECK(program.ranks + 2 <= kThreads);  // each thread waits for one thing
    const auto lock = hold(line_of(stream));
    put(line_of(stream), [=](emulator::Stream& on) {
      on.launch(static_cast<int>(blocks), kThreads,
                device::interpret_kernel(program.op, program.type), program, call, limits);
    });
    return {};
  }

  Status launch(ReduceOp op, DataType type, const device::Operands& operands,
                const device::Tail& tail, const device::Limits& limits, uint32_t blocks,
                Stream stream) override {
    const auto lock = hold(line_of(stream));
    put(line_of(stream), [=](emulator::Stream& on) {
      on.launch(static_cast<int>(blocks), kThreads, device::step_kernel(op, type), operands, tail,
                limits);
    });
    return {};
  }
  Status wait(Stream stream, std::span<const device::CellWait> cells) override {
    const auto lock = hold(line_of(stream));
    for (const device::CellWait& wait : cells)
      put(line_of(stream), [=](emulator::Stream& on) {
        on.wait([=] {
          return device::reached(__atomic_load_n(wait.cell, __ATOMIC_ACQUIRE), wait.value);
        });
      });
    return {};
  }
  bool waits_for_cells() const override { return true; }

  Result<Event> make_event() override { return Event{new Recorded}; }
  void destroy_event(Event event) override { delete &recorded(event); }
  Status record(Event event, Stream stream) override {
    Recorded& r = recorded(event);
    Line& line = line_of(stream);
    const auto lock = hold(line);
    r.capture = line.capture;
    r.line = &line;
    if (r.capture) return capture(line, {&line, {}, r.number = r.capture->events++}), Status();
    line.stream.launch(1, 1, [&r, number = ++r.asked] {
      r.time_ns = steady_clock().now_ns();
      uint64_t come = r.come;  // a later record may be over already, on another stream
      while (come < number && !r.come.compare_exchange_weak(come, number)) {
      }
    });
    return {};
  }
  Status wait(Stream stream, Event event) override {
    Recorded& r = recorded(event);
    Line& line = line_of(stream);
    const auto lock = hold(line);
    if (r.capture || line.capture) return join(line, r);
    line.stream.wait([&r, number = r.asked.load()] { return r.come >= number; });
    return {};
  }
  Result<bool> is_done(Event event) override {
    if (recorded(event).capture) return Status(Code::system, "the event is in a graph");
    return recorded(event).come == recorded(event).asked;
  }
  Result<Event> make_timer() override { return make_event(); }
  Result<double> elapsed_us(Event begin, Event end) override {
    for (const Event event : {begin, end})
      if (recorded(event).capture || recorded(event).asked == 0 || !*is_done(event))
        return Status(Code::system, "an event has no time yet");
    return 1e-3 * static_cast<double>(recorded(end).time_ns - recorded(begin).time_ns);
  }
  Status synchronize(Stream stream) override {
    if (line_of(stream).capture) return Status(Code::system, "the stream is captured");
    line_of(stream).stream.synchronize();
    return {};
  }

  Result<uint64_t> capture_of(Stream stream) override {
    const Line& line = line_of(stream);
    return line.capture ? line.capture->number : 0;
  }
  Status begin_capture(Stream stream) override {
    static std::atomic<uint64_t> captures{0};
    Line& line = line_of(stream);
    if (line.capture) return Status(Code::system, "the stream is captured already");
    line.capture = std::make_shared<Captured>(Captured{++captures, &line});
    return {};
  }
  Result<Graph> end_capture(Stream stream) override {
    const auto graph = std::exchange(line_of(stream).capture, nullptr);
    if (!graph || graph->origin != &line_of(stream))
      return Status(Code::system, "no capture began on the stream");
    bool whole = true;
    for (const auto& [line, all] : graph->joined) {
      line->capture.reset();
      graph->streams[line] = std::make_unique<emulator::Stream>(gpu_);
      whole &= all;
    }
    if (!whole) graph->kept.clear();
    if (!whole) return Status(Code::system, "a captured stream was not waited for");
    return Graph{new std::shared_ptr<Captured>(graph)};
  }
  Status keep(Stream stream, std::shared_ptr<const void> what) override {
    line_of(stream).capture->kept.push_back(std::move(what));
    return {};
  }
  Status launch_graph(Graph graph, Stream stream) override {
    Line& line = line_of(stream);
    if (line.capture) return Status(Code::system, "graphs of graphs are not emulated");
    const auto lock = hold(line);
    const Captured& captured = **static_cast<std::shared_ptr<Captured>*>(graph);
    const auto pieces = static_cast<int64_t>(captured.pieces.size()) + 1;
    *line.of_graphs += pieces;
    captured.launch(line.stream);
    line.stream.wait([count = line.of_graphs, pieces] { return *count -= pieces, true; });
    return {};
  }
  void destroy_graph(Graph graph) override {
    auto* const captured = static_cast<std::shared_ptr<Captured>*>(graph);
    (*captured)->kept.clear();  // events may refer to it still
    delete captured;
  }

 private:
  // Pieces of some size are files, which can be shared; there may be too many small ones.
  Result<Bytes> give(size_t bytes, MemoryKind kind) {
    constexpr size_t kFile = 32 << 10;
    const int file =
        kind == MemoryKind::device && bytes >= kFile ? ::memfd_create("gpu", MFD_CLOEXEC) : -1;
    if (file >= 0 && ::ftruncate(file, static_cast<off_t>(bytes)) != 0)
      return system_error("make memory larger");
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_SHARED | (file < 0 ? MAP_ANONYMOUS : 0), file, 0);
    if (memory == MAP_FAILED) return system_error("map memory");
    const Bytes given{static_cast<std::byte*>(memory), bytes};
    const std::lock_guard lock(addresses().mutex);
    addresses().given[given.data()] = {bytes, kind, identity_.ordinal, file};
    return given;
  }
  static Given given_at(const void* memory) {
    const std::lock_guard lock(addresses().mutex);
    const auto* const at = static_cast<const std::byte*>(memory);
    for (const auto& [begin, given] : addresses().given)
      if (at >= begin && at < begin + given.bytes) return given;
    return {};
  }
  static void forget(std::byte* memory) {
    const std::lock_guard lock(addresses().mutex);
    const auto found = addresses().given.find(memory);
    if (found == addresses().given.end()) return;
    ::munmap(memory, found->second.bytes);
    if (found->second.file >= 0) ::close(found->second.file);
    addresses().given.erase(found);
  }
  static Line& line_of(Stream stream) { return *static_cast<Line*>(stream); }
  // Of waits where one or the other is captured.
  static Status join(Line& line, const Recorded& r) {
    if (!r.capture || (line.capture && line.capture != r.capture))
      return invalid_argument("a captured stream waits for what is not in its graph");
    line.capture = r.capture;
    capture(line, {&line, {}, r.number, true});
    if (&line == r.capture->origin && r.line != &line) r.capture->joined[r.line] = true;
    return {};
  }
  static Recorded& recorded(Event event) { return *static_cast<Recorded*>(event); }

  emulator::Device& gpu_;
  int resident_blocks_;
  DeviceIdentity identity_;
};

}  // namespace

std::unique_ptr<Gpu> emulated_device(emulator::Device& gpu, int resident_blocks, int ordinal) {
  return std::make_unique<EmulatedDevice>(gpu, resident_blocks, ordinal);
}

}  // namespace weft::test
