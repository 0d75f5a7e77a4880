#include "engine/recorder.h"

#include <algorithm>

namespace weft {
namespace {

uint64_t pack(const Signature& call) {
  return uint64_t{static_cast<uint8_t>(call.kind)} |
         uint64_t{static_cast<uint8_t>(call.type)} << 8 |
         uint64_t{static_cast<uint8_t>(call.op)} << 16 | uint64_t{call.varying} << 24 |
         uint64_t{static_cast<uint8_t>(call.purpose)} << 25 |
         uint64_t{static_cast<uint32_t>(call.root)} << 32;
}

Signature unpack(uint64_t what, uint64_t count, uint64_t counts) {
  return {static_cast<Kind>(what & 0xff),
          static_cast<DataType>(what >> 8 & 0xff),
          static_cast<ReduceOp>(what >> 16 & 0xff),
          (what >> 24 & 1) != 0,
          static_cast<Rank>(what >> 32),
          count,
          counts,
          static_cast<Purpose>(what >> 25 & 0x7f)};
}

}  // namespace

Recorder::What::What(const Signature& call)
    : arguments(pack(call)), count(call.count), counts(call.counts) {}

Recorder::Label Recorder::label(const std::string& algorithm) {
  const std::lock_guard lock(labels_mutex_);
  const auto found = std::find(labels_.begin(), labels_.end(), algorithm);
  if (found == labels_.end()) {
    labels_.push_back(algorithm);
    return static_cast<Label>(labels_.size() - 1);
  }
  return static_cast<Label>(found - labels_.begin());
}

void Recorder::relabel(uint64_t number, Label label) {
  Line& of = line(number);
  if (number == 0 || of.number.load(kRelaxed) != number) return;  // not begun, or overwritten
  of.state.store((of.state.load(kRelaxed) & 0xff) | static_cast<uint64_t>(label) << 8, kRelaxed);
}

std::optional<Recorder::Record> Recorder::read(const Line& line) const {
  const uint64_t number = line.number.load(kRead);
  if (number == 0) return std::nullopt;
  const uint64_t state = line.state.load(kRead), ended = line.ended.load(kRead);
  Record record{
      .number = number,
      .sequence = line.sequence.load(kRead),
      .call = unpack(line.what.load(kRead), line.count.load(kRead), line.counts.load(kRead)),
      .algorithm = {},
      .state = static_cast<State>(state & 0xff),
      .begun_ns = dial_.unix_ns(line.begun.load(kRead)),
      .ended_ns = ended == 0 ? 0 : dial_.unix_ns(ended)};
  if (line.number.load(kRelaxed) != number) return std::nullopt;
  const std::lock_guard lock(labels_mutex_);
  record.algorithm = labels_[state >> 8 & 0xffff];
  return record;
}

std::vector<Recorder::Record> Recorder::records() const {
  std::vector<Record> records;
  for (const Line& line : lines_)
    if (auto record = read(line)) records.push_back(std::move(*record));
  std::sort(records.begin(), records.end(),
            [](const Record& a, const Record& b) { return a.number < b.number; });
  return records;
}

std::optional<Signature> Recorder::call(uint64_t sequence) const {
  for (const Line& line : lines_) {
    if (line.sequence.load(kRelaxed) != sequence) continue;
    if (const auto record = read(line); record && record->sequence == sequence) return record->call;
  }
  return std::nullopt;
}

}  // namespace weft
