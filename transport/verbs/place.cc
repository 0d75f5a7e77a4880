#include "transport/verbs/place.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/parse.h"
#include "base/text.h"

namespace weft::verbs {
namespace {

constexpr std::string_view kWord = "weft-verbs/4";
static_assert(std::endian::native == std::endian::little);

bool unhex(std::string_view text, ibv_gid& gid) {
  if (text.size() != 2 * sizeof gid.raw) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t digit = std::string_view("0123456789abcdef").find(text[i]);
    if (digit == std::string_view::npos) return false;
    gid.raw[i / 2] = static_cast<uint8_t>(gid.raw[i / 2] << 4 | digit);
  }
  return true;
}

// The control message as it travels.
struct Wire {
  uint32_t kind, sender, link, slots, slot_bytes, rkey;
  uint32_t queues, psn;
  uint32_t numbers[kQueuesMax];
  uint64_t address, lent_bytes;
};
static_assert(sizeof(Wire) == kControlBytes);

}  // namespace

std::string encode(const RankPlace& rank) {
  const Place& p = rank.place;
  const size_t space = p.port.find(' ');
  return concat(kWord, " ", p.port.substr(0, space), " ", p.port.substr(p.port.rfind(' ') + 1), " ",
                p.infiniband ? "ib" : "roce", " ", p.gid_type, " ", p.mtu, " ", p.queues, " ",
                p.lid, " ", hex(std::as_bytes(std::span(p.gid.raw))), " ", rank.control);
}

Result<RankPlace> decode_rank_place(std::string_view text) {
  std::string_view rest = text;
  const auto word = [&rest] { return take_word(rest, ' '); };
  const bool known = word() == kWord;
  RankPlace rank;
  const std::string_view device = word(), port = word(), layer = word();
  rank.place.port = concat(device, " port ", port);
  rank.place.infiniband = layer == "ib";
  bool numbers = true;
  const auto number = [&](int64_t least, int64_t most) {
    const Result<int64_t> value = parse_int(word(), least, most);
    numbers = numbers && value.ok();
    return value.ok() ? *value : 0;
  };
  rank.place.gid_type = static_cast<int>(number(0, 255));
  rank.place.mtu = static_cast<int>(number(IBV_MTU_256, IBV_MTU_4096));
  rank.place.queues = static_cast<int>(number(1, kQueuesMax));
  rank.place.lid = static_cast<uint16_t>(number(0, 65535));
  if (!known || !numbers || !unhex(word(), rank.place.gid))
    return invalid_argument(
        concat("\"", text,
               "\" is not the address of a rank over verbs. Do all ranks use the same "
               "version of weft?"));
  rank.control = rest;
  return rank;
}

void encode(const Control& c, std::span<std::byte, kControlBytes> bytes) {
  Wire wire{static_cast<uint32_t>(c.kind),
            c.sender,
            c.link,
            c.shape.slots,
            c.shape.slot_bytes,
            c.rkey,
            c.offer.queues,
            c.offer.psn,
            {},
            c.address,
            c.lent_bytes};
  std::copy(c.offer.numbers.begin(), c.offer.numbers.end(), wire.numbers);
  std::memcpy(bytes.data(), &wire, sizeof wire);
}

std::optional<Control> decode_control(ConstBytes bytes) {
  Wire wire;
  if (bytes.size() != sizeof wire) return std::nullopt;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.kind >= kControlKinds || wire.sender > 1 || wire.queues > kQueuesMax)
    return std::nullopt;
  Control c;
  c.kind = static_cast<ControlKind>(wire.kind);
  const bool lends = c.kind == ControlKind::lent;
  if (lends != (wire.lent_bytes != 0) || (lends && wire.sender != 0)) return std::nullopt;
  c.sender = wire.sender != 0;
  c.link = wire.link;
  c.shape = {wire.slots, wire.slot_bytes};
  c.offer.queues = wire.queues;
  c.offer.psn = wire.psn;
  std::copy(wire.numbers, wire.numbers + kQueuesMax, c.offer.numbers.begin());
  c.address = wire.address;
  c.rkey = wire.rkey;
  c.lent_bytes = wire.lent_bytes;
  return c;
}

}  // namespace weft::verbs
