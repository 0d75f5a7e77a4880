#include "base/thread.h"

#include <future>
#include <memory>
#include <new>
#include <system_error>

#include "base/text.h"

namespace weft {
namespace {

Status no_memory() {
  return Status(Code::system,
                "A thread cannot be started: there is no memory for it; let the process have more "
                "(ulimit -v, or the limit of its container)");
}

}  // namespace

Result<std::thread> start_thread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::bad_alloc&) {
    return no_memory();
  } catch (const std::system_error& error) {
    return Status(Code::system,
                  concat("A thread cannot be started: ", error.code().message(),
                         "; raise the limit on processes and threads (ulimit -u, or pids.max of "
                         "the container), or start fewer."));
  }
}

Result<std::vector<std::thread>> start_threads(size_t count,
                                               const std::function<void(size_t)>& body) {
  const auto shared = std::make_shared<const std::function<void(size_t)>>(body);
  std::promise<bool> all_there;
  const std::shared_future<bool> go = all_there.get_future().share();
  std::vector<std::thread> threads;
  threads.reserve(count);
  Status status;
  try {  // those that have started must not be left waiting
    while (threads.size() < count && status.ok()) {
      Result<std::thread> thread = start_thread([go, shared, i = threads.size()] {
        if (go.get()) (*shared)(i);
      });
      status = thread.status();
      if (thread.ok()) threads.push_back(thread.take());
    }
  } catch (const std::bad_alloc&) {
    status = no_memory();
  }
  all_there.set_value(status.ok());
  if (status.ok()) return threads;
  for (std::thread& thread : threads) thread.join();
  return status;
}

}  // namespace weft
