#include "transport/tcp/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstdint>

namespace weft::tcp {

Status Poller::open() {
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return system_error("epoll_create1");
  wake_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_.valid()) return system_error("eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0)
    return system_error("epoll_ctl");
  return {};
}

Status WatchedFd::watch(Fd fd, Pollable& pollable) {
  reset();
  fd_ = std::move(fd);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &pollable;
  if (::epoll_ctl(poller_.epoll_.get(), EPOLL_CTL_ADD, fd_.get(), &event) == 0) return {};
  return system_error("epoll_ctl");
}

Fd WatchedFd::take() {
  // An error says that it was never watched.
  if (valid()) (void)::epoll_ctl(poller_.epoll_.get(), EPOLL_CTL_DEL, fd_.get(), nullptr);
  return std::move(fd_);
}

void Poller::run(int timeout_ms) {
  graveyard_.clear();
  std::array<epoll_event, 64> events;
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    if (event.data.ptr) {
      static_cast<Pollable*>(event.data.ptr)->ready(event.events);
    } else {
      uint64_t wakes = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &wakes, sizeof wakes);
    }
  }
}

void Poller::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = ::write(wake_.get(), &one, sizeof one);
}

}  // namespace weft::tcp
