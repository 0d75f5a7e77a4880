// Waiting in a test for what others do, without taking the core that they need for it.
#pragma once

#include <chrono>
#include <thread>

namespace weft::test {

template <class Condition>
void sleep_while(Condition holds) {
  while (holds()) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

}  // namespace weft::test
