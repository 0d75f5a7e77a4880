// Where the store of a job is, and how the ranks that do not run it learn that.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/socket.h"
#include "base/status.h"

namespace weft {

// The store listens at one of `addresses`; whoever answers for another job is somebody else.
struct Place {
  std::vector<SocketAddress> addresses;
  std::string job;
};

// "id:10.0.0.1:4000,[fd00::1]:4000/8e1f...": a place as text; the job is a random key.
std::string id_text(const Place& place);
Result<Place> parse_id(std::string_view text);

// One end of a way to announce a place. The store's rank announces and withdraws, the others look.
class Announcement {
 public:
  virtual ~Announcement() = default;
  virtual Status announce(const Deadline&) { return {}; }
  virtual void withdraw() {}
  // nullopt where nothing is announced yet; called again and again until the store has answered.
  virtual Result<std::optional<Place>> look(const Deadline&) = 0;
  // Whether the place is certain, and all its addresses one host's: who answers there with another
  // job's name is then a mistake to report at once. False where an announcement may be stale or one
  // of several.
  virtual bool certain() const { return true; }
  // Whether somebody listened there before it was announced: where all addresses refuse, nobody is
  // going to.
  virtual bool listens() const { return false; }
  // Why the last look() found nothing; no sentence, and empty where that says it all.
  virtual std::string reason() const { return {}; }
  // What to tell a user where the store was not found; a sentence, or empty.
  virtual std::string advice() const { return {}; }
};

inline constexpr double kResolve_s = 5;  // that a name may take before others have their turn

// Known to everybody: "host:port" or "@name", several separated by commas, of which any may be it.
// `advice` is what to do where nobody is there. A name that takes longer than `patience_s` is
// looked up again by a later look(), and given twice the time where no other is known.
std::unique_ptr<Announcement> known_place(std::string targets, std::string job,
                                          std::string advice = {}, double patience_s = kResolve_s);
std::unique_ptr<Announcement> known_place(Place place);
// Where somebody listened before the place was known.
std::unique_ptr<Announcement> listening_place(Place place);

// Whether each of them can be read so.
Status check_targets(std::string_view targets);

// By a file that all ranks see. Its first line is the place, its second the name of the job, which
// must be equal; a file left by an earlier run leads to nobody, and is read again until it changes.
// withdraw() removes the file unless it is somebody else's by then.
std::unique_ptr<Announcement> file_announcement(std::string path, std::string job, Place place);

// Listens where others will look for it: on the first target that can be had; a target that is a
// number of this host (or "localhost") on that address alone, any other as listen_for() does.
Result<Fd> listen_at(std::string_view targets, std::string_view interfaces = {});
// On the first of the chosen interfaces (Options::interfaces). On all addresses where none is
// chosen, or where others, who look at `sought`, would not find it: that is this host, but not that
// address.
Result<Fd> listen_for(const std::vector<SocketAddress>& sought, int port,
                      std::string_view interfaces);
// Whether `address` belongs to this host, or stands for all that do.
bool is_local(const SocketAddress& address);

// A listener that other hosts can reach and the place that tells them how: all addresses of this
// host, or, with a filter as in Options::interfaces, the first one that it allows. The key is new.
struct OpenPlace {
  Fd listener;
  Place place;
};
Result<OpenPlace> open_place(std::string_view interfaces);

}  // namespace weft
