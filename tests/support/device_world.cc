#include "tests/support/device_world.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "base/text.h"
#include "bench/random.h"
#include "engine/algorithms/catalog.h"

namespace weft::test {
namespace {

// A group: between every two ranks so many transfers, of different sizes, some of nothing.
constexpr int kTransfers = 3;

size_t bytes_of(const Shape& shape, Rank from, Rank to, int k) {
  return shape.count * static_cast<size_t>((from * 7 + to * 3 + k) % 4) / 3;
}

std::byte group_byte(Rank from, Rank to, int k, size_t i, uint64_t salt) {
  return static_cast<std::byte>(element(from, i, salt * 31 + static_cast<uint64_t>(to * 8 + k)));
}

class GroupMemory {
 public:
  GroupMemory(const Shape& shape, Rank me) : me_(me) {
    for (int k = 0; k < kTransfers; ++k)
      for (Rank peer = 0; peer < shape.ranks; ++peer)
        for (const bool send : {true, false}) {
          Part& part = parts_.emplace_back(Part{peer, k, send, {}});
          part.bytes.resize(send ? bytes_of(shape, me, peer, k) : bytes_of(shape, peer, me, k));
        }
    for (Part& part : parts_) {
      group_.push_back({part.send ? Transfer::Direction::send : Transfer::Direction::receive,
                        part.peer, part.bytes.data(), part.bytes.size(), DataType::uint8});
      memory_.push_back(part.bytes.data());
    }
  }

  std::span<const Transfer> group() const { return group_; }
  void* const* memory() const { return memory_.data(); }

  void fill(uint64_t salt) {
    salt_ = salt;
    for (Part& part : parts_)
      for (size_t i = 0; i < part.bytes.size(); ++i)
        part.bytes[i] = part.send ? group_byte(me_, part.peer, part.k, i, salt) : std::byte{0xa5};
  }
  void scribble() {
    for (Part& part : parts_) std::fill(part.bytes.begin(), part.bytes.end(), std::byte{0x3c});
  }
  std::string compare() const {
    for (const Part& part : parts_)
      for (size_t i = 0; i < part.bytes.size(); ++i) {
        const std::byte wanted = part.send ? group_byte(me_, part.peer, part.k, i, salt_)
                                           : group_byte(part.peer, me_, part.k, i, salt_);
        if (part.bytes[i] != wanted)
          return concat("rank ", me_, ", transfer ", part.k, " with rank ", part.peer, ": byte ", i,
                        " is wrong");
      }
    return {};
  }

 private:
  struct Part {
    Rank peer;
    int k;
    bool send;
    std::vector<std::byte> bytes;
  };
  Rank me_;
  uint64_t salt_ = 0;
  std::vector<Part> parts_;
  std::vector<Transfer> group_;
  std::vector<void*> memory_;
};

PlanRequest request_of(const DeviceCase& c) {
  PlanRequest request;
  request.algorithm = c.algorithm->name;
  request.radix = c.radix;
  request.registered = c.algorithm->registered;
  request.collective = {c.shape.kind, c.shape.ranks, c.shape.root, c.in_place};
  request.type =
      c.shape.kind == Kind::barrier || c.shape.kind == Kind::exchange ? DataType::uint8 : c.type;
  request.op = c.op;
  request.segment_bytes = c.segment_bytes;
  request.protocol = c.protocol;
  return request;
}

}  // namespace

std::string describe(const DeviceCase& c) {
  return concat(c.algorithm->name, " ", name(c.shape.kind), " on ", c.shape.ranks, " ranks, root ",
                c.shape.root, c.in_place ? ", in place" : "", c.shape.varying ? ", varying" : "",
                ", count ", c.shape.count, ", ", name(c.type), " ", name(c.op), ", copies ",
                c.copies, ", radix ", c.radix, ", segments of ", c.segment_bytes, " bytes, ",
                name(c.protocol));
}

// What one rank needs for one call, as long as it may be launched.
struct DeviceWorld::RankCall {
  std::string what;
  bool barrier = false;
  std::unique_ptr<CallMemory> memory;
  std::unique_ptr<GroupMemory> group;
  std::byte barrier_byte[2]{};
  std::vector<std::byte> tables, scratch;
  device::Program program{};
  device::Call call{};
  Program steps;
  DeviceImage image;
  std::optional<DeviceScript> script;
  std::vector<std::byte> script_tables;

  void place(Program lowered, DeviceImage made) {
    steps = std::move(lowered);
    image = std::move(made);
    tables.resize(image.table_bytes());
    scratch.assign(image.scratch_bytes(), std::byte{0xa5});
    program = image.place(tables, tables.data(), scratch.data());
  }
  void fill(uint64_t salt) {
    if (memory) memory->fill(salt);
    if (group) group->fill(salt);
  }
  std::string compare() const {
    return memory ? memory->compare() : group ? group->compare() : std::string();
  }
  void scribble() {
    if (memory) memory->scribble();
    if (group) group->scribble();
    std::fill(scratch.begin(), scratch.end(), std::byte{0x5a});
  }
};

DeviceWorld::DeviceWorld(const DeviceShape& shape, uint64_t seed) : shape_(shape) {
  const DeviceMemoryLayout layout(shape);
  bench::Random random(bench::mix(seed));
  for (Rank r = 0; r < shape.ranks; ++r) {
    auto& memory = memory_.emplace_back(layout.bytes());
    const size_t first = layout.slots(0, 1, 0);  // everything from there on is payload
    for (size_t i = first; i + sizeof(uint64_t) <= memory.size(); i += sizeof(uint64_t)) {
      const uint64_t garbage = random.next();
      std::memcpy(&memory[i], &garbage, sizeof garbage);
    }
  }
  std::vector<std::byte*> begins;
  for (auto& memory : memory_) begins.push_back(memory.data());
  for (Rank r = 0; r < shape.ranks; ++r) {
    maps_.push_back({r, layout, begins, true});
  }
  for (int i = 0; i < 2 * shape.ranks; ++i)
    streams_.push_back({.rank = i % shape.ranks, .launches = {}});
}

DeviceWorld::~DeviceWorld() = default;

void DeviceWorld::use_workers(uint32_t most) {
  for (DeviceStream& stream : streams_) stream.workers = most;
}

void DeviceWorld::change(const std::function<void(device::Program&)>& how) {
  for (DeviceStream& stream : streams_)
    for (DeviceLaunch& launch : stream.launches) how(launch.program);
}

Status DeviceWorld::add(const DeviceCase& c) {
  std::vector<std::unique_ptr<RankCall>> calls;
  for (Rank r = 0; r < shape_.ranks; ++r) {
    RankCall& call = *calls.emplace_back(std::make_unique<RankCall>());
    call.what = describe(c);
    call.barrier = c.shape.kind == Kind::barrier;
    WEFT_TRY(c.shape.kind == Kind::exchange ? lower_group(c, r, call) : lower(c, r, call));
  }
  if (scripts_) WEFT_TRY(add_scripts(calls, c.shape.kind == Kind::exchange));
  calls_.push_back(std::move(calls));
  replay(0);
  return {};
}

Status DeviceWorld::add_scripts(std::span<const std::unique_ptr<RankCall>> calls, bool group) {
  std::vector<Program> programs;
  for (const auto& call : calls) programs.push_back(call->steps);
  for (Rank r = 0; r < shape_.ranks; ++r) {
    RankCall& call = *calls[r];
    auto order =
        group ? Result<ScriptOrder>(ScriptOrder{}) : script_order(programs, r, shape_.slots);
    if (!order.ok()) return order.status();
    auto script = DeviceScript::make(call.image, maps_[r], *order, call.scratch.data());
    if (!script.ok()) return script.status();
    call.script = script.take();
    call.script_tables.resize(call.script->table_bytes());
    call.script->place(call.script_tables, call.script_tables.data());
  }
  return {};
}

std::string DeviceWorld::cells_left() const {
  for (Rank r = 0; r < shape_.ranks; ++r) {
    const DeviceMemoryLayout& layout = maps_[r].layout;
    for (size_t i = 0; i < layout.cells_bytes(); ++i)
      if (memory_[r][layout.cells_begin() + i] != std::byte{0})
        return concat("rank ", r, ": byte ", i, " of the cells is not zero");
  }
  return {};
}

Status DeviceWorld::lower(const DeviceCase& c, Rank rank, RankCall& call) {
  const PlanRequest request = request_of(c);
  Call asked{.kind = Kind::barrier,
             .input = &call.barrier_byte[0],
             .output = &call.barrier_byte[1],
             .count = 1};
  if (!call.barrier) {
    call.memory = std::make_unique<CallMemory>(c.shape, rank, c.in_place, c.op, c.misalign);
    asked = call.memory->call();
    asked.type = c.type;
    asked.count = asked.count * sizeof(int32_t) / size_of(c.type);
  }
  call.call.input = asked.input;
  call.call.output = asked.output;
  if (asked.scalar) std::memcpy(call.call.scalar, asked.scalar, sizeof(int32_t));
  Program program = c.algorithm->build(request.collective, rank, {c.radix});
  if (c.copies > 1) program = replicate(std::move(program), c.copies);
  const Layout layout(request.collective, rank, asked, program.pieces);
  auto image = weft::lower(request, program, layout, maps_[rank]);
  if (!image.ok()) return image.status();
  call.place(program, image.take());
  return {};
}

Status DeviceWorld::lower_group(const DeviceCase& c, Rank rank, RankCall& call) {
  const PlanRequest request = request_of(c);
  call.group = std::make_unique<GroupMemory>(c.shape, rank);
  call.call.transfers = call.group->memory();
  Transfers transfers;
  transfers.pieces = kTransfers;
  for (Rank peer = 0; peer < shape_.ranks; ++peer) {
    transfers.sends.emplace_back(peer, kTransfers);
    transfers.receives.emplace_back(peer, kTransfers);
  }
  const Program program = exchange_program(request.collective, rank, transfers);
  const Layout layout(request.collective, rank, call.group->group(), program.pieces);
  auto image = weft::lower(request, program, layout, maps_[rank]);
  if (!image.ok()) return image.status();
  call.place(program, image.take());
  return {};
}

void DeviceWorld::replay(size_t back) {
  const size_t call = back == 0 ? calls_.size() - 1
                                : launched_[launched_.size() - std::min(back, launched_.size())];
  launched_.push_back(call);
  begun_.emplace_back(0);
  for (Rank r = 0; r < shape_.ranks; ++r) launch(*calls_[call][r], r);
}

void DeviceWorld::launch(RankCall& call, Rank rank) {
  const size_t number = begun_.size() - 1;
  streams_[rank + (call.group ? shape_.ranks : 0)].launches.push_back(
      {.program = call.program,
       .call = call.call,
       .begin =
           [this, number, &call] {
             ++begun_[number];
             call.fill(number);
           },
       .end =
           [this, number, &call] {
             const std::string wrong = call.barrier && begun_[number] < shape_.ranks
                                           ? "left before all had come"
                                           : call.compare();
             call.scribble();
             return wrong.empty() ? wrong : concat(call.what, ", launch ", number, ": ", wrong);
           },
       .script = call.script ? &*call.script : nullptr});
}

std::string DeviceWorld::run(uint64_t seed) {
  const std::vector<Bytes> memory(memory_.begin(), memory_.end());
  return interpret(memory, streams_, seed);
}

std::string DeviceWorld::run_by(const Launcher& launch) {
  std::vector<std::string> wrong(streams_.size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < streams_.size(); ++i)
      threads.emplace_back([&, i] {
        for (const DeviceLaunch& it : streams_[i].launches) {
          it.begin();
          launch(i, it);
          wrong[i] += it.end();
        }
      });
  }
  for (const std::string& text : wrong)
    if (!text.empty()) return text;
  return {};
}

}  // namespace weft::test
