#include "transport/notes.h"

#include <utility>

namespace weft {

void NotesOut::add(NoteKind kind, std::string_view text) {
  slots_[static_cast<size_t>(kind)].waiting = text.substr(0, kNoteBytesMax);
}

std::optional<NotesOut::Ready> NotesOut::next() {
  for (size_t kind = 0; kind < kNoteKinds; ++kind) {
    Slot& slot = slots_[kind];
    if (slot.under_way || !slot.waiting) continue;
    slot.sent = *std::exchange(slot.waiting, std::nullopt);
    slot.under_way = true;
    return Ready{static_cast<NoteKind>(kind), slot.sent};
  }
  return std::nullopt;
}

bool NotesOut::heard(NoteKind kind) {
  return std::exchange(slots_[static_cast<size_t>(kind)].under_way, false);
}

}  // namespace weft
