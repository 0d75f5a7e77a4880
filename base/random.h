// What no other process has, from the system; nothing here can be repeated with a seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

uint64_t random_number();
std::string random_name();                   // 32 hexadecimal digits
bool is_random_name(std::string_view text);  // whether that may have made it

}  // namespace weft
