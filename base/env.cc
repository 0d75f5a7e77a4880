#include "base/env.h"

#include <unistd.h>

#include <charconv>

extern char** environ;

namespace weft {

Environment Environment::of_process() {
  Environment env;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view line(*entry);
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      env.set(std::string(line.substr(0, equals)), std::string(line.substr(equals + 1)));
  }
  return env;
}

std::optional<std::string> Environment::get(std::string_view name) const {
  const auto it = values_.find(name);
  if (it == values_.end() || it->second.empty()) return std::nullopt;
  return it->second;
}

std::optional<long> Environment::get_int(std::string_view name) const {
  const auto text = get(name);
  if (!text) return std::nullopt;
  long value = 0;
  const char* end = text->data() + text->size();
  const auto [ptr, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || ptr != end) return std::nullopt;
  return value;
}

}  // namespace weft
