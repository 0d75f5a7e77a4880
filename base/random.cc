#include "base/random.h"

#include <sys/random.h>

#include "base/status.h"

namespace weft {

uint64_t random_number() {
  uint64_t number = 0;
  WEFT_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);  // never less for so few
  return number;
}

std::string random_name() {
  std::string name;
  for (const uint64_t half : {random_number(), random_number()})
    for (int shift = 60; shift >= 0; shift -= 4)
      name.push_back("0123456789abcdef"[half >> shift & 15]);
  return name;
}

}  // namespace weft
