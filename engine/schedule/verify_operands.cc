// The symbolic run's reads and writes of memory.
#include "engine/schedule/verify_run.h"

namespace weft::symbolic {

int Run::cell_of(const CallState& call, const LaneState& lane, const Place& place) const {
  switch (place.buffer) {
    case Buffer::scratch: return call.scratch_cells[place.rank] + place.at;
    case Buffer::window:
      return window_cells_ + place.rank * window_capacity_ + call.lease_at + place.at +
             lane.round % call.plan->halves;
    default: return user_cell(lane.call, place.rank, round_of(lane), place.at);
  }
}

std::string Run::name_of(const CallState& call, const LaneState& lane, const Place& place,
                         int chunk) const {
  const std::string owner = " of rank " + std::to_string(place.rank);
  const std::string buffer(name(place.buffer));
  if (place.buffer == Buffer::scratch) return buffer + " slot " + std::to_string(place.at) + owner;
  if (place.buffer == Buffer::window)
    return buffer + " slot " + std::to_string(place.at / call.plan->halves) + " (half " +
           std::to_string(lane.round % call.plan->halves) + ")" + owner;
  return buffer + " chunk " + std::to_string(chunk) + owner;
}

Status Run::gather(int lane, CallState& call, const Op& op) {
  operands_.clear();
  if (op.from >= 0) {
    const Message& message = incoming(call, op);
    int& part = lanes_[lane].part;
    if (part == int(message.parts.size()))
      return bad(lane, "the message received has no more than " + std::to_string(part) +
                           (part == 1 ? " chunk" : " chunks"));
    const auto& [value, clock] = message.parts[part++];
    clocks_.merge(lane, clock);
    if (expressions_.datum(value).chunk != op.chunk ||
        expressions_.datum(value).round != round_of(lanes_[lane]))
      return check_datum(lane, op, value, "the message received");
    operands_.push_back(value);
  }
  for (int s = op.sources.begin; s < op.sources.end; ++s)
    WEFT_TRY(load(lane, op, call.plan->places[s]));
  return {};
}

Status Run::load(int lane, const Op& op, const Place& place) {
  const LaneState& state = lanes_[lane];
  const CallState& call = calls_[state.call];
  const int cell = cell_of(call, state, place);
  const auto what = [&] { return name_of(call, state, place, op.chunk); };
  if (const Access race = memory_.read(cell, lane); race.lane >= 0)
    return bad(lane, "it reads " + what() + " in a race with " + describe(race));
  Value value = memory_.value(cell);
  const Datum datum{op.chunk, round_of(state), state.call};
  const bool reducing = reduces(call.plan->schedule->collective.kind);
  const bool user = place.buffer == Buffer::input || place.buffer == Buffer::output;
  const bool raw = user && value == kNothing && call.plan->input_at[place.rank][place.at] >= 0;
  if (raw && place.buffer == Buffer::output && reducing)
    return bad(lane, "it reads " + what() + ", where nobody has written a result yet");
  if (raw) {
    const Datum there{call.plan->input_at[place.rank][place.at], datum.round, datum.call};
    value = expressions_.leaf(place.rank, there);
  }
  if (value == kNothing)
    return bad(lane, "it reads " + what() + ", which nobody has written before");
  if (expressions_.datum(value) != datum) return check_datum(lane, op, value, what());
  // What lies there now may be the very input, but no longer as the caller gave it (not yet
  // scaled).
  const bool changed = reducing || value != expressions_.leaf(place.rank, datum);
  if (place.buffer == Buffer::input && !raw && changed)
    return bad(lane, "it reads " + what() + ", which was overwritten by " +
                         describe(memory_.author(cell)));
  operands_.push_back(value);
  return {};
}

Status Run::check_datum(int lane, const Op& op, Value value, const std::string& what) const {
  const Datum& is = expressions_.datum(value);
  const LaneState& state = lanes_[lane];
  if (is.call != state.call)
    return bad(lane, what + " holds data of an earlier call: it was never written in this one");
  return bad(lane, what + " holds chunk " + std::to_string(is.chunk) + " of round " +
                       std::to_string(is.round) + ", not chunk " + std::to_string(op.chunk) +
                       " of round " + std::to_string(round_of(state)));
}

Status Run::store(int lane, CallState& call, const Op& op, Value value) {
  const LaneState& state = lanes_[lane];
  for (int t = op.targets.begin; t < op.targets.end; ++t) {
    const Place& place = call.plan->places[t];
    const Access race = memory_.write(cell_of(call, state, place), lane, value);
    if (race.lane >= 0)
      return bad(lane, "it writes " + name_of(call, state, place, op.chunk) + " in a race with " +
                           describe(race));
  }
  return {};
}

}  // namespace weft::symbolic
