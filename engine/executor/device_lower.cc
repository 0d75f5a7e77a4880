#include "engine/executor/device_lower.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "engine/schedule/lines.h"
#include "kernels/cuda/operands.h"

namespace weft {

// Makes one image.
class DeviceLowering {
 public:
  DeviceLowering(const PlanRequest& request, const Program& program, const Layout& layout,
                 const DeviceMap& map, uint32_t digest)
      : request_(request),
        program_(program),
        layout_(layout),
        map_(map),
        group_(request.collective.kind == Kind::exchange),
        packets_(request.protocol == Protocol::ll),
        chunks_(blocks(request.collective) * program.pieces),
        out_(image_.program_) {
    out_.digest = group_ ? 0 : digest;
  }

  Result<DeviceImage> run() {
    set_constants();
    WEFT_TRY(packets_ ? set_one_round() : set_rounds());
    set_windows();
    if (request_.registered) set_told();
    for (const Lane& lane : program_.lanes) WEFT_TRY(add_lane(lane));
    WEFT_TRY(set_threads());
    return std::move(image_);
  }

 private:
  void set_constants() {
    const Arithmetic arithmetic = arithmetic_of(request_);
    const DeviceShape& shape = map_.layout.shape();
    scales_ = arithmetic.scales;
    out_.reduces = arithmetic.folds;
    out_.type = arithmetic.folds ? request_.type : DataType::uint8;
    out_.op = arithmetic.op;
    out_.divisor = arithmetic.divisor;
    out_.element_bytes = static_cast<uint32_t>(size_of(request_.type));
    out_.copies = static_cast<uint32_t>(program_.copies);
    out_.slots = shape.slots;
    out_.slot_bytes = shape.slot_bytes;
    out_.rank = map_.me;
    out_.ranks = request_.collective.ranks;
    out_.state = map_.at<device::State>(map_.me, map_.layout.state(group_));
    out_.failed = map_.at<uint32_t>(map_.me, map_.layout.failed());
    out_.collective = !group_;
    out_.each_step_whole = group_;
    // Chunks of a message lie at places that do not depend on their sizes.
    chunk_room_ = round_down(shape.slot_bytes / static_cast<size_t>(program_.message_chunks), 16);
  }

  // Each looks after one thing that a step waits for, or one rank. Those without work cost the
  // others time.
  Status set_threads() {
    constexpr size_t kLeast = 128, kWarp = 32, kVector = 16;
    size_t wanted = out_.windowed ? static_cast<size_t>(out_.ranks) : 0;
    for (const device::Step& step : image_.steps_)
      wanted = std::max<size_t>(wanted, step.waits + 2u);
    if (wanted > device::kMostThreads)
      return unsupported(concat("algorithm ", request_.algorithm, " waits for ", wanted,
                                " things at once, and blocks on devices have ",
                                device::kMostThreads,
                                " threads for that; use an algorithm of links, or fewer ranks"));
    for (const device::Place& place : image_.places_)
      wanted = std::max(wanted, std::min(place.size, out_.segment) * out_.element_bytes / kVector);
    out_.threads = static_cast<uint32_t>(
        std::clamp<size_t>(round_up(wanted, kWarp), kLeast, device::kMostThreads));
    return {};
  }

  // -- rounds --

  Status set_rounds() {
    const size_t bytes = out_.element_bytes;
    const size_t granule = std::max<size_t>(1, 64 / bytes);
    const bool links = has_links(program_);
    const bool windows = program_.window_slots > 0;
    const size_t largest =
        largest_chunk(program_, layout_, chunks_, windows || has_signals(program_));
    size_t segment = cut(group_ ? chunk_room_ : request_.segment_bytes / bytes, largest, granule);
    if (links || windows) segment = std::min(segment, whole_granules(chunk_room_ / bytes, granule));
    if (windows) segment = std::min(segment, window_room(granule));
    if (segment == 0)
      return unsupported(
          concat("algorithm ", request_.algorithm, " needs ", program_.message_chunks,
                 " chunks in a message and ", program_.window_slots * program_.window_halves,
                 " slots in a window, for which links of ", out_.slot_bytes,
                 " bytes and windows of ", map_.layout.lease_bytes(),
                 " bytes per call are too small; use larger ones, fewer lanes, or another "
                 "algorithm"));
    out_.segment = segment;
    rounds_ = (largest + segment - 1) / segment;
    if (rounds_ / out_.copies < device::kMostTurns) return {};
    return unsupported(concat("algorithm ", request_.algorithm, " would take ", rounds_,
                              " rounds for this call; use larger segments"));
  }

  // Packets come in one round.
  Status set_one_round() {
    if (!can_push_lines(program_, map_.me))
      return unsupported(
          concat("algorithm ", request_.algorithm,
                 " does not write its own window and wait for whom it reads from, as packets (ll) "
                 "want it on devices; use protocol simple"));
    const size_t largest = largest_chunk(program_, layout_, chunks_, true);
    out_.segment = std::max<size_t>(1, largest);
    rounds_ = largest > 0 ? 1 : 0;
    const size_t needed = boxes_of(out_.ranks), there = map_.layout.packet_lease_bytes();
    if (needed <= there) return {};
    return unsupported(concat("algorithm ", request_.algorithm, " needs ", needed,
                              " bytes of packets for this call, and there are ", there,
                              "; use protocol simple"));
  }

  // Bytes of the boxes of so many writers.
  size_t boxes_of(Rank writers) const {
    return box_bytes() * static_cast<size_t>(program_.window_slots) * static_cast<size_t>(writers);
  }
  size_t box_bytes() const {
    constexpr size_t kTimes = device::kPacketBytes / device::kPayloadOfPacket;
    return device::kBoxHead + kTimes * slot_bytes();
  }
  // That for a slot of a writer's window, in the memory of a reader.
  device::Operand box(Rank reader, Rank writer, int slot, Rank peer) const {
    const size_t before = boxes_of(writer) + box_bytes() * static_cast<size_t>(slot);
    device::Operand out{};
    out.memory = map_.at<std::byte>(reader, map_.layout.packets() + before + device::kBoxHead);
    out.index = peer;
    out.space = device::Space::box;
    return out;
  }

  // Elements of a window's slot.
  size_t window_room(size_t granule) const {
    const auto slots = static_cast<size_t>(program_.window_slots) * program_.window_halves;
    return whole_granules(round_down(map_.layout.lease_bytes() / slots, 64) / out_.element_bytes,
                          granule);
  }

  size_t slot_bytes() const { return round_up(out_.segment * out_.element_bytes, 64); }

  void set_windows() {
    out_.halves = static_cast<uint32_t>(program_.window_halves);
    out_.half_bytes = slot_bytes() * static_cast<size_t>(program_.window_slots);
    out_.lease_bytes = packets_ ? map_.layout.packet_lease_bytes() : map_.layout.lease_bytes();
    out_.windowed = program_.window_slots > 0;
    image_.scratch_bytes_ = slot_bytes() * static_cast<size_t>(program_.scratch_slots);
    if (!out_.windowed) return;
    for (Rank peer = 0; peer < out_.ranks; ++peer) {
      const bool self = peer == map_.me;
      const size_t mine = map_.layout.begun(peer), theirs = map_.layout.begun(map_.me);
      image_.begun_.push_back(self ? nullptr : map_.at<uint64_t>(map_.me, mine));
      image_.publish_begun_.push_back(self ? nullptr : map_.at<uint64_t>(peer, theirs));
    }
  }

  // Who is touched need not touch others: all tell all.
  void set_told() {
    out_.told = map_.at<const device::Told>(map_.me, map_.layout.told(0));
    for (Rank peer = 0; peer < out_.ranks; ++peer)
      image_.tell_.push_back(
          peer == map_.me ? nullptr : map_.at<device::Told>(peer, map_.layout.told(map_.me)));
  }

  // -- lanes and steps --

  // Where there are signals all lanes count all rounds, for a signal says which.
  size_t rounds_of(const Lane& lane) const {
    if (program_.window_slots > 0 || has_signals(program_)) return rounds_;
    return (largest_chunk(lane, layout_, chunks_) + out_.segment - 1) / out_.segment;
  }

  Status add_lane(const Lane& lane) {
    const size_t rounds = rounds_of(lane);
    if (lane.steps.empty() || rounds <= static_cast<size_t>(lane.copy)) return {};
    image_.lane_numbers_.push_back(static_cast<uint32_t>(&lane - program_.lanes.data()));
    image_.lanes_.push_back({.rounds = rounds,
                             .first_step = next(image_.steps_),
                             .steps = static_cast<uint32_t>(lane.steps.size()),
                             .copy = static_cast<uint32_t>(lane.copy)});
    for (size_t i = 0; i < lane.steps.size();) {
      size_t end = i + 1;  // of the steps that share their messages
      while (lane.steps[end - 1].more) ++end;
      WEFT_TRY(add_run({lane.steps.begin() + static_cast<ptrdiff_t>(i), end - i}));
      i = end;
    }
    return {};
  }

  Status add_run(std::span<const Step> run) {
    size_t message = 0;
    for (const Step& step : run) message = std::max(message, layout_.size(step.chunk));
    for (size_t i = 0; i < run.size(); ++i) {
      device::Step out{};
      out.slot_offset = static_cast<uint32_t>(i * chunk_room_);
      out.begins = i == 0;
      out.ends = i + 1 == run.size();
      WEFT_TRY(add_step(run[i], message, out));
    }
    return {};
  }

  Status add_step(const Step& step, size_t message, device::Step& out) {
    WEFT_TRY(check_room(step));
    add_places(step, message, out);
    out.finish = step.finish;
    out.streaming = request_.streaming && !step.to.used() &&
                    std::all_of(step.targets.begin(), step.targets.end(),
                                [](const Operand& o) { return o.buffer == Buffer::output; });
    for (size_t i = 0; i < step.sources.size(); ++i)
      if (scales_ && step.sources[i].buffer == Buffer::input) out.scaled |= uint64_t{1} << i;
    for (size_t i = 0; i < step.sources.size(); ++i)
      if (packets_ && step.sources[i].buffer == Buffer::window) out.boxed |= uint64_t{1} << i;
    WEFT_TRY(add_operands(step, step.sources, out.first_source, out.sources));
    WEFT_TRY(add_operands(step, step.targets, out.first_target, out.targets));
    if (packets_) add_boxes(step, out);
    WEFT_TRY(add_signals(step, out));
    WEFT_TRY(add_ends(step, out));
    image_.steps_.push_back(out);
    return {};
  }

  // Kernels have room for so many operands of a step.
  Status check_room(const Step& step) const {
    constexpr size_t kSources = device::kMostSources - 1;  // and the message
    const size_t boxes = packets_ ? pushed_lines(step) : 0;
    const size_t targets =
        step.targets.size() - (packets_ ? window_targets(step) : 0) + (step.to.used() ? 1 : 0);
    if (step.sources.size() <= kSources && targets <= device::kMostTargets &&
        boxes <= device::kMostBoxes)
      return {};
    return unsupported(concat("algorithm ", request_.algorithm, " has a step of ",
                              step.sources.size(), " sources, ", targets, " targets and ", boxes,
                              " boxes of packets, and kernels on devices take ", kSources, ", ",
                              device::kMostTargets, " and ", device::kMostBoxes,
                              "; use another algorithm, or fewer ranks"));
  }

  void add_places(const Step& step, size_t message, device::Step& out) {
    out.first_place = next(image_.places_);
    out.times = static_cast<uint32_t>(step.times);
    for (int i = 0; i < step.times; ++i) {
      const int chunk = chunk_at(step, i, chunks_);
      const size_t size = layout_.size(chunk);
      image_.places_.push_back({.size = size,
                                .input = layout_.input_offset(chunk),
                                .output = layout_.output_offset(chunk),
                                .message = step.times == 1 ? message : size});
    }
  }

  Status add_operands(const Step& step, const std::vector<Operand>& operands, uint32_t& first,
                      uint16_t& count) {
    first = next(image_.operands_);
    for (const Operand& operand : operands) {
      const bool boxed = packets_ && operand.buffer == Buffer::window;
      if (boxed && &operands == &step.targets) continue;  // add_boxes()
      device::Operand out{};
      if (boxed)
        out = box(map_.me, operand.rank, operand.slot, operand.rank);
      else
        WEFT_TRY(set_operand(step, operand, out));
      image_.operands_.push_back(out);
    }
    count = static_cast<uint16_t>(image_.operands_.size() - first);
    return {};
  }

  // What goes into this rank's window, to all that the step posts to.
  void add_boxes(const Step& step, device::Step& out) {
    for (const Operand& target : step.targets)
      for (const Signal& post : step.posts)
        if (target.buffer == Buffer::window) {
          image_.operands_.push_back(box(post.peer, map_.me, target.slot, post.peer));
          ++out.boxes;
        }
    out.targets += out.boxes;
  }

  Status set_operand(const Step& step, const Operand& operand, device::Operand& out) {
    const bool input = operand.buffer == Buffer::input;
    if (is_peers_buffer(operand, map_.me)) return set_peers_operand(step, operand, out);
    if (is_own_buffer(operand, map_.me)) {
      out.space = input ? device::Space::input : device::Space::output;
      if (!group_) return {};
      out.space = device::Space::transfer;
      out.index = layout_.transfer(
          step.chunk, input ? Transfer::Direction::send : Transfer::Direction::receive);
      return {};
    }
    const size_t offset = slot_bytes() * static_cast<size_t>(operand.slot);
    if (operand.buffer == Buffer::scratch) {
      out.space = device::Space::scratch;
      out.offset = offset;  // in bytes; place() adds it to where scratch lies
      return {};
    }
    out.space = device::Space::window;
    out.memory = map_.at<std::byte>(operand.rank < 0 ? map_.me : operand.rank,
                                    map_.layout.window() + offset);
    return {};
  }

  Status set_peers_operand(const Step& step, const Operand& operand, device::Operand& out) {
    if (request_.readable)
      return unsupported(concat("algorithm ", request_.algorithm,
                                " reads memory through the kernel, which devices do not"));
    WEFT_CHECK(request_.registered);
    WEFT_TRY(check_peers_buffer(request_, operand, layout_, map_.shares_buffers));
    if (step.times > 1)
      return unsupported(concat("algorithm ", request_.algorithm,
                                " repeats a step that reads or writes a peer's memory; write the "
                                "steps one by one"));
    const auto waits_for = [&](const Signal& wait) {
      return wait.peer == operand.rank && wait.lag == 0;
    };
    if (std::ranges::none_of(step.waits, waits_for))
      return unsupported(concat("algorithm ", request_.algorithm, " touches rank ", operand.rank,
                                "'s memory in a step that does not wait for that rank itself, as "
                                "devices want it; let it wait for a signal of it"));
    const bool input = operand.buffer == Buffer::input;
    out.space = input ? device::Space::peer_input : device::Space::peer_output;
    out.index = operand.rank;
    out.offset = input ? layout_.input_offset(step.chunk, operand.rank)
                       : layout_.output_offset(step.chunk, operand.rank);
    return {};
  }

  // -- signals and links --

  Status add_signals(const Step& step, device::Step& out) {
    out.first_wait = next(image_.waits_);
    out.first_post = next(image_.posts_);
    for (const Signal& wait : step.waits) {
      if (packets_ && carried_by_lines(step, wait)) continue;
      WEFT_TRY(check(wait));
      image_.waits_.push_back(
          {.cell = map_.at<uint64_t>(map_.me, map_.layout.cell(wait.peer, wait.cell)),
           .lag = static_cast<uint32_t>(wait.lag),
           .peer = wait.peer});
    }
    for (const Signal& post : step.posts) {
      if (packets_ && posts_by_lines(step)) break;
      WEFT_TRY(check(post));
      image_.posts_.push_back(
          {.cell = map_.at<uint64_t>(post.peer, map_.layout.cell(map_.me, post.cell)),
           .peer = post.peer});
    }
    out.waits = static_cast<uint16_t>(image_.waits_.size() - out.first_wait);
    out.posts = static_cast<uint16_t>(image_.posts_.size() - out.first_post);
    return {};
  }

  Status check(const Signal& signal) const {
    const int cells = map_.layout.shape().cells;
    if (!map_.is_mapped(signal.peer))
      return unsupported(concat("algorithm ", request_.algorithm, " signals to rank ", signal.peer,
                                ", whose memory cannot be mapped; use an algorithm of links"));
    if (signal.cell < cells) return {};
    return unsupported(concat("algorithm ", request_.algorithm, " uses signal cell ", signal.cell,
                              "; on devices there are ", cells,
                              " per peer; use fewer lanes, or an algorithm without signals"));
  }

  Status add_ends(const Step& step, device::Step& out) {
    out.from = out.to = -1;
    if (step.from.used()) WEFT_TRY(add_receive(step.from, out.from));
    if (step.to.used()) WEFT_TRY(add_send(step.to, out.to));
    return {};
  }

  Result<int> link_of(const LinkEnd& end) const {
    const int links = map_.layout.shape().links;
    if (end.id < (group_ ? 1 : links)) return group_ ? links + end.id : end.id;
    return unsupported(concat("algorithm ", request_.algorithm, " uses link ", end.id,
                              " with rank ", end.peer, "; on devices there are ", links,
                              " between two ranks; use fewer lanes, or another algorithm"));
  }

  Status add_receive(const LinkEnd& end, int32_t& index) {
    const Result<int> link = link_of(end);
    if (!link.ok()) return link.status();
    index = known_or_new(image_.receives_, map_.receive_end(end.peer, *link));
    return {};
  }

  Status add_send(const LinkEnd& end, int32_t& index) {
    const Result<int> link = link_of(end);
    if (!link.ok()) return link.status();
    index = known_or_new(image_.sends_, map_.send_end(end.peer, *link));
    return {};
  }

  // An end is known by its position.
  template <class End>
  static int32_t known_or_new(std::vector<End>& ends, const End& end) {
    const auto same = [&](const End& other) { return other.position == end.position; };
    const auto found = std::find_if(ends.begin(), ends.end(), same);
    const auto index = static_cast<int32_t>(found - ends.begin());
    if (found == ends.end()) ends.push_back(end);
    return index;
  }

  template <class T>
  static uint32_t next(const std::vector<T>& table) {
    return static_cast<uint32_t>(table.size());
  }

  const PlanRequest& request_;
  const Program& program_;
  const Layout& layout_;
  const DeviceMap& map_;
  const bool group_, packets_;
  const int chunks_;
  bool scales_ = false;
  size_t chunk_room_ = 0;  // bytes of a link's slot for one chunk of a message
  size_t rounds_ = 0;
  DeviceImage image_;
  device::Program& out_;
};

namespace {

constexpr size_t kAlignment = 16;

template <class T>
size_t bytes_of(const std::vector<T>& table) {
  return round_up(table.size() * sizeof(T), kAlignment);
}

// Copies tables one behind the other.
class Packer {
 public:
  Packer(Bytes memory, const std::byte* device) : memory_(memory), device_(device) {}

  // Gives where the table lies for the device.
  template <class T>
  const T* add(const std::vector<T>& table) {
    WEFT_CHECK(used_ + bytes_of(table) <= memory_.size());
    if (!table.empty()) std::memcpy(memory_.data() + used_, table.data(), table.size() * sizeof(T));
    return reinterpret_cast<const T*>(device_ + std::exchange(used_, used_ + bytes_of(table)));
  }

 private:
  Bytes memory_;
  const std::byte* device_;
  size_t used_ = 0;
};

}  // namespace

size_t DeviceImage::table_bytes() const {
  return bytes_of(lanes_) + bytes_of(steps_) + bytes_of(places_) + bytes_of(operands_) +
         bytes_of(waits_) + bytes_of(posts_) + bytes_of(receives_) + bytes_of(sends_) +
         bytes_of(begun_) + bytes_of(publish_begun_) + bytes_of(tell_);
}

device::Program DeviceImage::place(Bytes memory, const std::byte* device,
                                   std::byte* scratch) const {
  std::vector<device::Operand> operands = operands_;
  for (device::Operand& operand : operands)
    if (operand.space == device::Space::scratch)
      operand.memory = scratch + std::exchange(operand.offset, 0);
  Packer pack(memory, device);
  device::Program placed = program_;
  placed.tables = device;
  placed.table_bytes = static_cast<uint32_t>(table_bytes());
  placed.lanes = pack.add(lanes_);
  placed.steps = pack.add(steps_);
  placed.places = pack.add(places_);
  placed.operands = pack.add(operands);
  placed.waits = pack.add(waits_);
  placed.posts = pack.add(posts_);
  placed.receives = pack.add(receives_);
  placed.sends = pack.add(sends_);
  placed.begun = pack.add(begun_);
  placed.publish_begun = pack.add(publish_begun_);
  placed.tell = tell_.empty() ? nullptr : pack.add(tell_);
  placed.lane_count = lanes();
  return placed;
}

Result<DeviceImage> lower(const PlanRequest& request, const Program& program, const Layout& layout,
                          const DeviceMap& map, uint32_t digest) {
  return DeviceLowering(request, program, layout, map, digest).run();
}

}  // namespace weft
