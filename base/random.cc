#include "base/random.h"

#include <sys/random.h>

#include "base/status.h"

namespace weft {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

uint64_t random_number() {
  uint64_t number = 0;
  WEFT_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);  // never less for so few
  return number;
}

std::string random_name() {
  std::string name;
  for (const uint64_t half : {random_number(), random_number()})
    for (int shift = 60; shift >= 0; shift -= 4) name.push_back(kDigits[half >> shift & 15]);
  return name;
}

bool is_random_name(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of(kDigits) == std::string_view::npos;
}

}  // namespace weft
