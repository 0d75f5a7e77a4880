// What ranks and strangers say while a job starts: frames of the store, places, PMI lines.
#include "bootstrap/frame.h"
#include "bootstrap/place.h"
#include "bootstrap/pmi.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  std::string_view bytes = fuzz::text_of(data, size);
  const wire::Door door{"rank 0", "the job", wire::meeting_key(Key(), "the job")};
  (void)parse_id(bytes);
  (void)parse_pmi(bytes);
  (void)wire::printable(bytes);
  while (!bytes.empty()) {
    size_t used = 0;
    const auto frame = wire::parse_frame(bytes, wire::kOfferBytes, &used);
    if (!frame.ok() || !*frame) break;
    if (used == 0 || used > bytes.size()) __builtin_trap();
    bytes.remove_prefix(used);
    const auto offer = wire::parse_offer((*frame)->payload);
    if (offer && wire::encode(*offer).substr(wire::kHeaderBytes) != (*frame)->payload)
      __builtin_trap();
    if (offer && !wire::refusal_at(door, **frame, *offer, Nonce(), "anywhere")) __builtin_trap();
    (void)wire::parse_challenge((*frame)->payload);
    (void)wire::parse_refusal((*frame)->payload);
    (void)wire::parse_table((*frame)->payload, 3);
  }
  return 0;
}
