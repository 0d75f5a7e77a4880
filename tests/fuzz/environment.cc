// Environments of launchers, and options in them: one "NAME=value" per line.
#include <algorithm>

#include "base/env.h"
#include "base/options.h"
#include "bootstrap/rendezvous.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  std::string_view text = fuzz::text_of(data, size);
  Environment env;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      env.set(std::string(line.substr(0, equals)), std::string(line.substr(equals + 1)));
  }
  const auto member = membership_from(env);
  if (member.ok() && (member->rank < 0 || member->rank >= member->size)) __builtin_trap();
  Status of_place;
  const auto met = membership_from(env, &of_place);
  if (member.ok() != (met.ok() && of_place.ok())) __builtin_trap();
  const auto options = options_from(env);
  if (options.ok()) (void)validate(*options);
  return 0;
}
