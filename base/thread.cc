#include "base/thread.h"

#include <future>
#include <system_error>

#include "base/text.h"

namespace weft {

Result<std::thread> start_thread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return Status(Code::system,
                  concat("A thread cannot be started: ", error.code().message(),
                         "; raise the limit on processes and threads (ulimit -u, or pids.max of "
                         "the container), or start fewer."));
  }
}

Result<std::vector<std::thread>> start_threads(size_t count,
                                               const std::function<void(size_t)>& body) {
  std::promise<bool> all_there;
  const std::shared_future<bool> go = all_there.get_future().share();
  std::vector<std::thread> threads;
  threads.reserve(count);
  Status status;
  while (threads.size() < count && status.ok()) {
    Result<std::thread> thread = start_thread([go, body, i = threads.size()] {
      if (go.get()) body(i);
    });
    status = thread.status();
    if (thread.ok()) threads.push_back(thread.take());
  }
  all_there.set_value(status.ok());
  if (status.ok()) return threads;
  for (std::thread& thread : threads) thread.join();
  return status;
}

}  // namespace weft
