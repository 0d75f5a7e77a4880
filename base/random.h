// What no other process has, from the system; nothing here can be repeated with a seed.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

uint64_t random_number();
std::string random_name();  // 32 hexadecimal digits

}  // namespace weft
