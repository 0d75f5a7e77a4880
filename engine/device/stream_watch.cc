#include "engine/device/stream_watch.h"

#include <algorithm>
#include <cstring>

namespace weft {
namespace {

constexpr size_t kPage = 256;  // of the words
constexpr int kMore = 0x3f;    // each byte of a cell that is written over

}  // namespace

Result<std::unique_ptr<StreamWatch>> StreamWatch::make(Gpu& device, const DeviceMap& map,
                                                       Leavings& leavings, uint32_t* abort) {
  std::unique_ptr<StreamWatch> watch(new StreamWatch(device, map, leavings, abort));
  WEFT_TRY(watch->prepare());
  return watch;
}

Status StreamWatch::prepare() {
  const size_t own = map_.layout.cells_bytes();
  const size_t relayed = map_.relay_memory ? map_.relay.cells_bytes() : 0;
  const size_t most = std::max(own, relayed);
  auto words = device_.allocate_host(2 * kPage + own + relayed + most);
  if (!words.ok()) return words.status();
  words_ = *words;
  new (words_.data()) device::Pace{};
  const uint64_t set = 1;
  std::memcpy(words_.data() + kPage, &set, sizeof set);
  std::byte* const was = words_.data() + 2 * kPage;
  cells_ = {{{map_.at<std::byte>(map_.me, map_.layout.cells_begin()), own, was},
             {map_.relay_memory, relayed, was + own}}};
  more_ = was + own + relayed;
  std::memset(more_, kMore, most);
  auto watched = device_.allocate(sizeof(device::Watched));
  if (!watched.ok()) return watched.status();
  watched_ = *watched;
  auto stream = device_.make_stream();
  if (!stream.ok()) return stream.status();
  stream_ = *stream;
  auto event = device_.make_event();
  if (!event.ok()) return event.status();
  written_ = *event;
  return {};
}

StreamWatch::~StreamWatch() {
  if (stream_) (void)device_.synchronize(stream_);
  if (written_) device_.destroy_event(written_);
  if (stream_) device_.destroy_stream(stream_);
  leavings_.add(watched_);
  leavings_.add_host(words_);
}

void StreamWatch::complete(device::Tail& tail) const {
  tail.pace = &pace();
  for (size_t i = 0; i < cells_.size(); ++i)
    tail.saved[i] = {cells_[i].begin, cells_[i].bytes, cells_[i].was};
  tail.watched = &watched();
}

uint64_t StreamWatch::steps() const {
  return std::atomic_ref(pace().steps).load(std::memory_order_acquire);
}

void StreamWatch::look() {
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || abort_.load(std::memory_order_acquire) != 0) return;
    const auto word = [](uint64_t& at) {
      return std::atomic_ref(at).load(std::memory_order_acquire);
    };
    const uint64_t timeout_ns = word(pace().timeout_ns);  // before the steps, see there
    const uint64_t steps = word(pace().steps);
    const auto now = std::chrono::steady_clock::now();
    if (timeout_ns == 0 || steps != steps_) {
      steps_ = steps;
      since_ = now;
      return;
    }
    if (now - since_ <= std::chrono::nanoseconds(timeout_ns)) return;
  }
  uint32_t none = 0;
  abort_.compare_exchange_strong(none, static_cast<uint32_t>(device::Cause::timed_out));
  end_waits();
}

void StreamWatch::end_waits() {
  const std::lock_guard lock(mutex_);
  if (abort_.load(std::memory_order_acquire) == 0) return;
  const Result<bool> written = device_.is_done(written_);
  if (written.ok() && *written) (void)write_over();  // a device that is broken runs nothing
}

Status StreamWatch::write_over() {
  if (!saved_) {
    for (const Cells& cells : cells_)
      if (cells.bytes > 0) WEFT_TRY(device_.copy(cells.was, cells.begin, cells.bytes, stream_));
    WEFT_TRY(device_.copy(&watched().ended, words_.data() + kPage, sizeof(uint64_t), stream_));
    saved_ = true;
  }
  for (const Cells& cells : cells_)
    if (cells.bytes > 0) WEFT_TRY(device_.copy(cells.begin, more_, cells.bytes, stream_));
  return device_.record(written_, stream_);
}

}  // namespace weft
