// How calls are run: the algorithm, its lanes and its protocol, lowered for the device.
#include <algorithm>

#include "base/text.h"
#include "engine/algorithms/catalog.h"
#include "engine/device/calls.h"
#include "engine/schedule/lines.h"
#include "kernels/cuda/kernels.h"

namespace weft {
namespace {

constexpr size_t kBytesPerCopy = 256 << 10;        // of a message, for every copy of its lanes
constexpr size_t kMostInPackets = 16 << 10;        // of a message, which they make twice as large
constexpr size_t kChunkBytes = 64 << 10;           // of a step over links, at most
constexpr size_t kWholeMessage = size_t{1} << 48;  // as a segment: what there is room for

// Whether kernels have room for all that its steps push.
bool fits_boxes(const Program& program) {
  return std::ranges::all_of(program.lanes, [](const Lane& lane) {
    return std::ranges::all_of(
        lane.steps, [](const Step& step) { return pushed_lines(step) <= device::kMostBoxes; });
  });
}

// The most that any rank's steps name, and one more.
struct Uses {
  int links = 0, cells = 0, lanes = 0;
};

Uses uses_of(const Program& program) {
  Uses uses{.lanes = static_cast<int>(program.lanes.size())};
  for (const Lane& lane : program.lanes)
    for (const Step& step : lane.steps) {
      for (const LinkEnd& end : {step.from, step.to})
        if (end.used()) uses.links = std::max(uses.links, end.id + 1);
      for (const std::vector<Signal>* signals : {&step.waits, &step.posts})
        for (const Signal& signal : *signals) uses.cells = std::max(uses.cells, signal.cell + 1);
    }
  return uses;
}

// Of a chunk, so that each copy of the lanes has one round of it.
size_t even_segment(const Arranged& arranged) {
  const int chunks = blocks(arranged.request.collective) * arranged.program.pieces;
  const size_t largest = largest_chunk(arranged.program, arranged.layout, chunks, true);
  const auto copies = static_cast<size_t>(arranged.program.copies);
  return round_up((largest + copies - 1) / copies * size_of(arranged.request.type), 64);
}

}  // namespace

Result<Choice> DeviceCalls::choose_for(const Call& call) const {
  const auto& layout = media_->map().layout;
  const DeviceShape& shape = layout.shape();
  // Between buffers there are no packets, which options may ask for. Of others no rank knows
  // whether they are in place; who names the algorithm answers for all.
  const bool named = options_.algorithm == "zero_copy";
  const bool wanted = named || options_.protocol != "ll";
  const Surroundings around{.ranks = size(),
                            .windows = shape.window_bytes > 0,
                            .device = true,
                            .room = {.slots = static_cast<int>(layout.lease_bytes() / 64)},
                            .registered = media_->map().shares_buffers && wanted,
                            .in_place = !named,
                            .slot_bytes = std::min<size_t>(shape.slot_bytes, kChunkBytes),
                            .slots = static_cast<int>(shape.slots)};
  return choose(call, around, options_);
}

// As many as keep all blocks busy, have enough to do, and find room in every rank's memory. A step
// by itself has all blocks anyway.
int DeviceCalls::copies_for(const Choice& choice, const Collective& collective,
                            size_t bytes) const {
  if (watch_) return 1;
  if (options_.lanes > 0 || choice.copies > 1) return choice.copies;
  const DeviceShape& shape = media_->map().layout.shape();
  Uses most{.links = 1, .cells = 1, .lanes = 1};
  for (Rank r = 0; r < size(); ++r) {
    const Program program = choice.algorithm->build(collective, r, Parameters{choice.radix});
    if (program.copies > 1) return 1;
    const Uses uses = uses_of(program);
    most = {std::max(most.links, uses.links), std::max(most.cells, uses.cells),
            std::max(most.lanes, uses.lanes)};
  }
  const int blocks = static_cast<int>(std::min<uint32_t>(media_->choice().blocks, 1u << 16));
  const size_t wanted = std::max<size_t>(1, bytes / kBytesPerCopy);
  // Between buffers there are neither links nor windows, which as many copies share as links allow.
  const int links = choice.algorithm->registered ? blocks : shape.links / most.links;
  const int room = std::min({links, shape.cells / most.cells, std::max(1, blocks / most.lanes)});
  return std::max(1, static_cast<int>(std::min<size_t>(wanted, static_cast<size_t>(room))));
}

// Whether its data comes as packets, as short data does where options do not say otherwise. What
// takes packets waits for nothing else, so there is a block for each lane.
bool DeviceCalls::takes_packets(const Choice& choice, const Collective& collective,
                                const Call& call) const {
  const Algorithm& algorithm = *choice.algorithm;
  const std::string& wish = options_.protocol;
  if (watch_ || !algorithm.windows || !algorithm.lines || call.varying || wish == "simple" ||
      (wish == "auto" && message_bytes(call) > kMostInPackets))
    return false;
  for (Rank r = 0; r < size(); ++r) {
    const Program program = algorithm.build(collective, r, Parameters{choice.radix});
    if (!can_push_lines(program, r) || !fits_boxes(program) ||
        program.lanes.size() > media_->choice().blocks)
      return false;
  }
  return true;
}

Result<DeviceImage> DeviceCalls::lowered(const Arranged& arranged, uint32_t digest) const {
  auto image = lower(arranged.request, arranged.program, arranged.layout, media_->map(), digest);
  if (!image.ok()) return image;
  const auto refused = [&](const std::string& why) {
    return unsupported(concat("algorithm ", arranged.request.algorithm, " ", why));
  };
  if (image->scratch_bytes() > scratch_.size())
    return refused(concat("needs ", image->scratch_bytes(),
                          " bytes of scratch memory, and a rank has ", scratch_.size(),
                          " on its device; set a smaller WEFT_CHUNK"));
  const size_t lanes = size_t{media_->choice().blocks} * device::kMostLanes;
  if (!watch_ && image->lanes() > lanes)
    return refused(concat("takes ", image->lanes(), " lanes, and a rank's kernel has ", lanes,
                          "; make groups smaller, or set WEFT_LANES"));
  return image;
}

Result<DeviceScript> DeviceCalls::scripted(const Arranged& arranged,
                                           const DeviceImage& image) const {
  const DeviceMap& map = media_->map();
  const PlanRequest& request = arranged.request;
  ScriptOrder order;
  if (request.collective.kind != Kind::exchange) {
    std::vector<Program> programs;
    for (Rank r = 0; r < size(); ++r)
      programs.push_back(
          r == rank()
              ? arranged.program
              : find_algorithm(request.algorithm)->build(request.collective, r, {request.radix}));
    auto found = script_order(programs, rank(), map.layout.shape().slots);
    if (!found.ok()) return found.status();
    order = found.take();
  }
  return DeviceScript::make(image, map, order, scratch_.data());
}

Result<Arranged> DeviceCalls::arranged(const Call& call, bool aliased) const {
  auto choice = choose_for(call);
  if (!choice.ok()) return choice.status();
  const Collective collective{call.kind, size(), root_of(call), false};
  choice->ll = takes_packets(*choice, collective, call);
  if (choice->ll) {
    choice->copies = 1;
    auto packets = arrange(call, aliased, *choice, size(), rank());
    if (!packets.ok() || lowered(*packets, 0).ok()) return packets;
    choice->ll = false;  // there is no room for boxes, on no rank
  }
  // Ranks that do not know the same sizes would not come to the same number.
  if (watch_ || !pair_sizes(call))
    choice->copies = copies_for(*choice, collective, message_bytes(call));
  if (watch_ && options_.chunk_bytes == 0) choice->segment_bytes = kWholeMessage;
  auto what = arrange(call, aliased, *choice, size(), rank());
  if (what.ok() && what->request.registered && options_.chunk_bytes == 0)
    what->request.segment_bytes = even_segment(*what);
  return what;
}

Result<CallInfo> DeviceCalls::would_run(const Call& call) const {
  WEFT_TRY(validate(call, size(), rank()));
  if (is_own_copy(call))
    return CallInfo{.algorithm = alone_.algorithm, .protocol = "simple", .transports = "gpu"};
  const auto what = arranged(call, in_place(call, size(), rank()));
  if (!what.ok()) return what.status();
  WEFT_TRY(lowered(*what, 0).status());
  return CallInfo{
      .algorithm = std::string(what->request.algorithm),
      .protocol = std::string(name(what->request.protocol)),
      .transports = media_->relay() ? concat("gpu+", media_->relay()->transports()) : "gpu",
      .lanes = what->program.copies,
      .radix = what->request.radix};
}

}  // namespace weft
