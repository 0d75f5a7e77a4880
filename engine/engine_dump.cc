// What an engine tells of itself when it fails or is asked.
#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/log.h"
#include "base/text.h"
#include "engine/dump.h"
#include "engine/engine.h"

namespace weft {
namespace {

std::string_view name(Recorder::State state) {
  switch (state) {
    case Recorder::State::running: return "running";
    case Recorder::State::done: return "done";
    case Recorder::State::failed: return "failed";
  }
  return "running";
}

// Calls on the device have numbers of their own, which those of the host are not compared with.
void add_device_calls(const std::vector<Recorder::Record>& records,
                      std::vector<Dump::Operation>& operations) {
  for (const Recorder::Record& r : records) {
    const std::string where = r.sequence > 0
                                  ? concat(", collective call ", r.sequence, " on the device")
                                  : " on the device";
    operations.push_back({r.number, 0, concat(describe(r.call), where), r.algorithm,
                          std::string(name(r.state)), r.begun_ns, r.ended_ns});
  }
  std::ranges::stable_sort(operations, {}, &Dump::Operation::begun_ns);
}

}  // namespace

// May be called by any thread.
void Engine::dump(std::string_view why) try {
  ask_for_room();
  Dump dump;
  dump.communicator = config_.name;
  dump.rank = rank();
  dump.size = size();
  dump.host = config_.host;
  dump.program = ::program_invocation_short_name;
  dump.process = ::getpid();
  dump.why = why;
  dump.written_ns = unix_now_ns();
  const DeviceWay* device = nullptr;
  {
    const std::lock_guard lock(failure_mutex_);
    device = device_.get();
    if (!failure_.ok()) {
      dump.failure_code = weft::name(failure_.code());
      dump.failure = failure_.message();
      dump.failure_peer = failure_.peer();
    }
    dump.waiting = blocked_.text;
    dump.waiting_for = blocked_.peers;
  }
  for (const Recorder::Record& r : recorder_.records())
    dump.operations.push_back({r.number, r.sequence, describe(r.call), r.algorithm,
                               std::string(name(r.state)), r.begun_ns, r.ended_ns});
  if (device) add_device_calls(device->records(), dump.operations);
  const Status written = write_dump(dump, config_.options.dump);
  if (!written.ok())
    log_line(LogLevel::warning, rank(),
             concat("no dump could be written: ", written.message(), "; see WEFT_DUMP"));
} catch (const std::bad_alloc&) {
  // There is no dump of a rank that has no memory for one.
}

void Engine::dump_failure() {
  if (config_.options.dump.empty() || failure_dumped_.exchange(true)) return;
  dump("failure");
}

void Engine::keep_waiting(const Operation& op) try {
  if (config_.options.dump.empty()) return;
  const std::lock_guard lock(failure_mutex_);
  blocked_ = {concat(op.text(), ": ", op.executor.blocked_on()), op.executor.blocked_peers()};
} catch (const std::bad_alloc&) {
  // The dump will not say it.
}

// Who waits inside a call says for whom.
void Engine::serve_dump(const Operation& op) {
  if (!dump_asked_.exchange(false)) return;
  keep_waiting(op);
  dump("signal");
  const std::lock_guard lock(failure_mutex_);
  blocked_ = {};
}

// After a failure it would be too late to say that it cannot be written; once in a process is
// enough.
void Engine::get_ready_to_dump() {
  if (config_.options.dump.empty()) return;
  static std::atomic<bool> said{false};
  if (const Status can = can_dump(config_.options.dump); !can.ok() && !said.exchange(true))
    log_line(LogLevel::warning, rank(),
             concat("no dump can be written: ", can.message(), "; see WEFT_DUMP"));
  on_signal_ = std::make_unique<DumpOnSignal>(
      config_.options.dump_signal,
      [this] {
        dump_asked_ = true;
        media_->wake_self();
      },
      [this] {
        if (dump_asked_.exchange(false)) dump("signal");
      });
}

}  // namespace weft
