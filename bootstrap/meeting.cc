// make_rendezvous and its kin: from text such as "tcp://host:port" to a store's server or client.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/parse.h"
#include "base/process_wide.h"
#include "base/text.h"
#include "bootstrap/frame.h"
#include "bootstrap/pmi.h"
#include "bootstrap/store.h"

namespace weft {
namespace {

class Alone final : public Rendezvous {
 public:
  Rank rank() const override { return 0; }
  int size() const override { return 1; }
  Result<std::vector<std::string>> all_gather(std::string mine, const Deadline&) override {
    WEFT_TRY(check_blob(mine));
    return std::vector<std::string>{std::move(mine)};
  }
};

using Made = Result<std::unique_ptr<Rendezvous>>;

// What make_rendezvous was called with, and the secret's key.
struct Wanted : RendezvousConfig {
  Key key;
};

Made client(const Wanted& config, std::unique_ptr<Announcement> announcement, Rank who_serves = 0) {
  return make_store_client({config.rank, config.size, config.job, config.key, who_serves},
                           std::move(announcement));
}
Made server(const Wanted& config, std::string job, Fd listener,
            std::unique_ptr<Announcement> announcement) {
  return make_store_server({config.rank, config.size, std::move(job), config.key},
                           std::move(listener), std::move(announcement));
}

Made meet_at(const Wanted& config, const std::string& targets, std::string_view interfaces) {
  if (targets.empty())
    return invalid_argument(
        concat("The rendezvous \"", config.where, "\" names no address; write tcp://HOST:PORT."));
  if (config.rank != 0) return client(config, known_place(targets, config.job, config.advice));
  Result<Fd> listener = listen_at(targets, interfaces);
  if (!listener.ok()) return listener.status().within("Rank 0 cannot listen");
  return server(config, config.job, listener.take(), known_place(targets, config.job));
}

// Another user may have taken one of them.
std::string local_names(std::string_view name) {
  const std::string first = concat("@weft-", ::geteuid(), "-", name);
  return concat(first, ",", first, "-2,", first, "-3");
}

Made meet_by_id(const Wanted& config) {
  const Result<Place> place = parse_id(config.where);
  if (!place.ok()) return place.status();
  if (config.rank != 0) return client(config, known_place(*place));
  std::string targets;
  for (const SocketAddress& address : place->addresses)
    targets.append(targets.empty() ? "" : ",").append(address.to_string());
  Result<Fd> listener = listen_at(targets);
  if (!listener.ok()) return listener.status().within("Rank 0 cannot listen");
  return server(config, place->job, listener.take(), known_place(*place));
}

Made meet_at_open(const Wanted& config, const std::string& text) {
  const Result<SocketAddress> address = SocketAddress::parse(text);
  if (!address.ok()) return address.status();
  if (config.rank == 0)
    return invalid_argument(concat("The rendezvous \"", config.where,
                                   "\" is for the other ranks; rank 0 has the listener, fd:N."));
  return client(config, listening_place({{*address}, config.job}));
}

// The numbers by which listeners of whoever started this process were taken over.
struct InheritedNumbers {
  std::set<int> taken;
};

// Each is there once: afterwards the number may be that of a listener of this process's own.
Result<Fd> take_inherited(int fd, const std::string& where) {
  ProcessWide<InheritedNumbers> numbers;
  if (numbers->taken.contains(fd))
    return invalid_argument(concat("This process has met the others by ", where,
                                   " already, which can be done once; a further communicator "
                                   "comes from split() of the first."));
  int listens = 0;
  socklen_t length = sizeof listens;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || !listens)
    return invalid_argument(concat("The rendezvous \"", where,
                                   "\" names a descriptor that is not a listening socket of "
                                   "this process."));
  // Those that a process makes and hands to itself are closed on exec, and each is a new one.
  const bool from_outside = (::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0;
  if (from_outside) numbers->taken.insert(fd);
  return Fd(fd);
}

Made meet_on_inherited(const Wanted& config, std::string_view number) {
  const Result<int64_t> fd = parse_int(number, 0, 1 << 30);
  if (!fd.ok() || config.rank != 0)
    return invalid_argument(concat("The rendezvous \"", config.where, "\" is not right for rank ",
                                   config.rank, "; fd:N is rank 0's, with N a descriptor."));
  Result<Fd> listener = take_inherited(static_cast<int>(*fd), config.where);
  if (!listener.ok()) return listener.status();
  ::fcntl(listener->get(), F_SETFD, FD_CLOEXEC);
  ::fcntl(listener->get(), F_SETFL, ::fcntl(listener->get(), F_GETFL) | O_NONBLOCK);
  return server(config, config.job, listener.take(), known_place(Place{}));
}

Made meet_by_file(const Wanted& config, const std::string& path, std::string_view interfaces) {
  if (!path.starts_with('/'))
    return invalid_argument(
        concat("The rendezvous \"", config.where, "\" has no absolute path; write file:///path."));
  if (config.rank != 0) return client(config, file_announcement(path, config.job, {}));
  Result<OpenPlace> open = open_place(interfaces);
  if (!open.ok()) return open.status();
  return server(config, open->place.job, std::move(open->listener),
                file_announcement(path, config.job, open->place));
}

Made meet_by_pmi(const Wanted& config, const Environment& env, std::string_view interfaces) {
  const auto fd = env.get_int("PMI_FD");
  if (!fd || *fd < 0)
    return invalid_argument(
        "The rendezvous is \"pmi\", but PMI_FD is not set to a descriptor; start "
        "the ranks with mpirun of MPICH, or set WEFT_RENDEZVOUS=tcp://HOST:PORT.");
  if (config.rank != 0)
    return client(config, pmi_announcement(static_cast<int>(*fd), std::nullopt));
  Result<OpenPlace> open = open_place(interfaces);
  if (!open.ok()) return open.status();
  return server(config, open->place.job, std::move(open->listener),
                pmi_announcement(static_cast<int>(*fd), open->place));
}

// Nobody but mpirun knows which host rank 0 is on, but all know mpirun's host. The first rank there
// serves; of several that think so, the one that gets the port.
Made meet_at_mpirun(const Wanted& config, const std::string& targets, const Environment& env,
                    std::string_view interfaces) {
  if (targets.empty())
    return invalid_argument("The rendezvous \"hnp:\" names no address; set WEFT_RENDEZVOUS.");
  constexpr double kPatience_s = 30;  // who takes itself for another host serves nobody
  auto place = known_place(targets, config.job,
                           " Where no rank runs on mpirun's host, set "
                           "WEFT_RENDEZVOUS=tcp://HOST:PORT for all ranks, HOST being rank 0's.",
                           kPatience_s);
  if (env.get_int("OMPI_COMM_WORLD_LOCAL_RANK").value_or(0) != 0)
    return client(config, std::move(place), -1);
  const auto found = place->look(Deadline::after(kPatience_s));
  // Hosts may have some of its addresses in common, as those of bridges to containers.
  const bool here = found.ok() && found->has_value() && !(**found).addresses.empty() &&
                    std::all_of((**found).addresses.begin(), (**found).addresses.end(), is_local);
  if (here) {
    const std::vector<SocketAddress>& addresses = (**found).addresses;
    Result<Fd> listener = listen_for(addresses, addresses.front().port(), interfaces);
    if (listener.ok()) return server(config, config.job, listener.take(), std::move(place));
  }
  return client(config, std::move(place), -1);
}

// What follows `scheme` in `where`; nullopt where it is another scheme.
std::optional<std::string> after(const std::string& where, std::string_view scheme) {
  if (!where.starts_with(scheme)) return std::nullopt;
  return where.substr(scheme.size());
}

}  // namespace

Result<std::unique_ptr<Rendezvous>> make_rendezvous(const RendezvousConfig& asked,
                                                    const Environment& env) {
  if (asked.size < 1 || asked.rank < 0 || asked.rank >= asked.size)
    return invalid_argument(concat("Rank ", asked.rank, " is out of range in a job of ", asked.size,
                                   " ranks; ranks count from 0 to size - 1."));
  if (asked.size == 1) return Made(std::make_unique<Alone>());
  if (asked.job.size() > wire::kJobBytes)
    return invalid_argument(
        concat("The name of the job has more than ", wire::kJobBytes, " bytes."));
  const Result<Key> key = key_of(env);
  if (!key.ok()) return key.status();
  const Wanted config{asked, *key};
  const std::string interfaces = env.get("WEFT_SOCKET_IFNAME").value_or("");
  if (const auto targets = after(config.where, "tcp://"))
    return meet_at(config, *targets, interfaces);
  if (const auto address = after(config.where, "open:")) return meet_at_open(config, *address);
  if (const auto name = after(config.where, "unix:"))
    return meet_at(config, local_names(*name), {});
  if (const auto path = after(config.where, "file://"))
    return meet_by_file(config, *path, interfaces);
  if (config.where.starts_with("id:")) return meet_by_id(config);
  if (const auto number = after(config.where, "fd:")) return meet_on_inherited(config, *number);
  if (const auto targets = after(config.where, "hnp:"))
    return meet_at_mpirun(config, *targets, env, interfaces);
  if (config.where == "pmi") return meet_by_pmi(config, env, interfaces);
  return invalid_argument(concat("\"", config.where, "\" is no rendezvous for ", config.size,
                                 " ranks; WEFT_RENDEZVOUS takes tcp://HOST:PORT, file:///PATH, "
                                 "unix:NAME or a unique id."));
}

Result<Meeting> make_meeting(std::string_view interfaces) {
  Result<std::vector<Interface>> list = list_interfaces(interfaces);
  if (!list.ok()) return list.status();
  const auto wanted = std::find_if(list->begin(), list->end(), [&](const Interface& interface) {
    return !interfaces.empty() || interface.loopback;
  });
  const SocketAddress address =
      wanted == list->end() ? *SocketAddress::parse("127.0.0.1:0") : wanted->address;
  Result<Fd> listener = listen_on(address);
  if (!listener.ok()) return listener.status();
  const Result<SocketAddress> bound = local_address(*listener);
  if (!bound.ok()) return bound.status();
  return Meeting{listener.take(), concat("tcp://", bound->to_string()), ""};
}

Result<Meeting> make_unique_id(std::string_view interfaces) {
  Result<OpenPlace> open = open_place(interfaces);
  if (!open.ok()) return open.status();
  return Meeting{std::move(open->listener), id_text(open->place), open->place.job};
}

}  // namespace weft
