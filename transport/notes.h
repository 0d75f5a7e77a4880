// What of the notes to one peer is under way and what waits, for transports to keep the promise of
// Transport::tell() with.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "transport/transport.h"

namespace weft {

class NotesOut {
 public:
  // To be sent when its turn comes, instead of one of this kind that waits for that.
  void add(NoteKind kind, std::string_view text);  // cut at kNoteBytesMax
  // One whose turn it is, which is under way from now on. Its text stays until heard(kind).
  struct Ready {
    NoteKind kind{};
    std::string_view text{};
  };
  std::optional<Ready> next();
  // The peer has heard the one under way; false where none was.
  bool heard(NoteKind kind);

 private:
  struct Slot {
    bool under_way = false;
    std::string sent;
    std::optional<std::string> waiting;
  };
  std::array<Slot, kNoteKinds> slots_;  // by kind
};

}  // namespace weft
