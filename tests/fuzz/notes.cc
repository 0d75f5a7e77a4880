// Notes of other ranks, and addresses.
#include "engine/notes.h"

#include "base/socket.h"
#include "engine/agreement.h"
#include "tests/fuzz/target.h"
#include "transport/shm/address.h"
#include "transport/tcp/address.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto status = parse_failure_note(text); status && status->ok()) __builtin_trap();
  static Recorder* const recorder = [] {
    auto* made = new Recorder;
    made->begin(1, {.kind = Kind::barrier}, made->label("ring"));
    return made;
  }();
  (void)compare_calls(*recorder, 1, text, 0);
  (void)SocketAddress::parse(text);
  (void)shm::Address::parse(text);
  const auto address = tcp::decode_rank_address(text);
  if (address.ok() && !tcp::decode_rank_address(tcp::encode(*address)).ok()) __builtin_trap();
  return 0;
}
