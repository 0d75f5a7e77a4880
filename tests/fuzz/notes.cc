// Notes of other ranks, and addresses.
#include "engine/notes.h"

#include <algorithm>
#include <array>

#include "base/socket.h"
#include "base/text.h"
#include "engine/agreement.h"
#include "tests/fuzz/target.h"
#include "transport/shm/address.h"
#include "transport/tcp/address.h"
#ifdef WEFT_HAVE_VERBS
#include "transport/verbs/place.h"
#endif

namespace {

void try_verbs([[maybe_unused]] std::string_view text) {
#ifdef WEFT_HAVE_VERBS
  using namespace weft::verbs;
  if (const auto place = decode_rank_place(text); place.ok()) {
    const std::string written = encode(*place);
    const auto again = decode_rank_place(written);
    if (!again.ok() || encode(*again) != written) __builtin_trap();
  }
  if (const auto control = decode_control(weft::bytes_of(text))) {
    std::array<std::byte, kControlBytes> written{};
    encode(*control, written);
    if (!std::equal(written.begin(), written.end(), weft::bytes_of(text).begin())) __builtin_trap();
  }
#endif
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto word = parse_failure_note(text); word && word->status.ok()) __builtin_trap();
  static Recorder* const recorder = [] {
    auto* made = new Recorder;
    made->begin(1, Signature{.kind = Kind::barrier}, made->label("ring"));
    return made;
  }();
  (void)compare_calls(recorder->call(stated_sequence(text)), 1, text, 0);
  (void)stated_call(text);
  (void)SocketAddress::parse(text);
  (void)shm::Address::parse(text);
  const auto address = tcp::decode_rank_address(text);
  if (address.ok() && !tcp::decode_rank_address(tcp::encode(*address)).ok()) __builtin_trap();
  try_verbs(text);
  return 0;
}
