#include "bootstrap/place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>

#include "base/files.h"
#include "base/origin_process.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/text.h"
#include "bootstrap/frame.h"

namespace weft {
namespace {

constexpr std::string_view kIdScheme = "id:";
// At names that could not be resolved: all of them, and some.
constexpr int64_t kLookAgainNs = 500'000'000, kLookForMoreNs = 10'000'000'000;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) parts.emplace_back(take_word(text, separator));
  return parts;
}

struct HostPort {
  std::string host;
  int port = 0;
};

Result<HostPort> split_port(const std::string& target) {
  const size_t colon = target.rfind(':');
  const auto port = parse_int(colon == std::string::npos ? "" : target.substr(colon + 1), 1, 65535);
  if (!port.ok() || colon == 0)
    return invalid_argument(
        concat("\"", target, "\" is not host:port with a port from 1 to 65535."));
  std::string host = target.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return HostPort{std::move(host), static_cast<int>(*port)};
}

using Addresses = std::vector<SocketAddress>;

class KnownPlace final : public Announcement {
 public:
  KnownPlace(std::string targets, std::string job, std::string advice, double patience_s)
      : targets_(std::move(targets)), advice_(std::move(advice)), patience_s_(patience_s) {
    place_.job = std::move(job);
  }
  KnownPlace(Place place, bool listens) : place_(std::move(place)), listens_(listens) {}

  std::string advice() const override { return advice_; }
  bool certain() const override {
    return targets_.empty() ? place_.addresses.size() == 1 : split(targets_, ',').size() == 1;
  }
  bool listens() const override { return listens_; }

  // Of several names those that are not known are looked up again; the others serve meanwhile.
  Result<std::optional<Place>> look(const Deadline& deadline) override {
    if (!targets_.empty() && steady_clock().now_ns() >= look_again_ns_) {
      const Status unknown = resolve(deadline);
      const bool any = !place_.addresses.empty();
      const int64_t pause_ns = any ? kLookForMoreNs : kLookAgainNs;
      look_again_ns_ = unknown.ok() ? kNever : steady_clock().now_ns() + pause_ns;
      if (!any) return unknown;
    }
    if (place_.addresses.empty()) return std::optional<Place>();
    return std::optional<Place>(place_);
  }

 private:
  // Not ok: why the first of those is not known that are not; Code::system: it may be later.
  Status resolve(const Deadline& deadline) {
    std::erase_if(hosts_, [](const auto& host) { return !host.second.ok(); });
    Status unknown;
    Addresses found;
    bool slow = false;
    for (const std::string& target : split(targets_, ',')) {
      const Result<Addresses> addresses = addresses_of(target, deadline);
      slow = slow || addresses.status().code() == Code::timeout;
      if (addresses.ok())
        found.insert(found.end(), addresses->begin(), addresses->end());
      else if (unknown.ok())
        unknown = addresses.status();
    }
    if (slow && found.empty()) patience_s_ *= 2;  // else the others wait to be tried
    if (!found.empty()) place_.addresses = std::move(found);
    if (unknown.code() != Code::timeout || deadline.expired()) return unknown;
    return Status(Code::system, std::string(unknown.message()));
  }

  Result<Addresses> addresses_of(const std::string& target, const Deadline& deadline) {
    if (target.starts_with('@')) {
      const Result<SocketAddress> name = SocketAddress::parse(target);
      return name.ok() ? Result<Addresses>(Addresses{*name}) : name.status();
    }
    const Result<HostPort> parts = split_port(target);
    if (!parts.ok()) return parts.status();
    Result<Addresses> addresses = look_up(parts->host, deadline);
    for (size_t i = 0; addresses.ok() && i < addresses->size(); ++i)
      (*addresses)[i].set_port(parts->port);
    return addresses;
  }

  // With port 0. All targets at a host share what is found, or that nothing is.
  Result<Addresses> look_up(const std::string& host, const Deadline& deadline) {
    const auto known = hosts_.find(host);
    if (known != hosts_.end()) return known->second;
    const auto found = SocketAddress::resolve(host, 0, deadline.at_most(patience_s_));
    return hosts_.emplace(host, found).first->second;
  }

  std::string targets_;
  std::string advice_;
  Place place_;  // addresses are empty until the names could be resolved
  std::map<std::string, Result<Addresses>> hosts_;  // as last looked up
  double patience_s_ = kResolve_s;                  // with each of them
  bool listens_ = false;
  int64_t look_again_ns_ = 0;
};

// Why a file cannot be opened, from errno as it is now.
std::string cannot_open(const std::string& path) {
  if (errno != ENOENT) return std::string(system_error(path).message());
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  if (::access(folder.c_str(), F_OK) != 0)
    return concat("there is no folder ", folder, " on this host");
  return concat("there is no file ", path, " on this host");
}

// Empty where there is none yet, with the reason. Whatever else may lie there in a folder that
// others use, too, is not waited for.
Result<std::string> read_announcement(const std::string& path, std::string& reason) {
  constexpr size_t kMost = 64 << 10;
  const Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (!file.valid()) {
    reason = cannot_open(path);
    return std::string();
  }
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return system_error(path);
  if (!S_ISREG(about.st_mode))
    return invalid_argument(concat("The rendezvous file ", path, " is not a file; name another."));
  std::string text(kMost, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) return system_error(path);
  text.resize(static_cast<size_t>(got));
  return text;
}

class FileAnnouncement final : public Announcement {
 public:
  FileAnnouncement(std::string path, std::string job, Place place)
      : path_(std::move(path)), job_(std::move(job)), place_(std::move(place)) {}
  ~FileAnnouncement() override {
    if (process_.here()) withdraw();
  }

  // Written aside and renamed, so that nobody reads half of it.
  Status announce(const Deadline&) override {
    const std::string aside = concat(path_, ".", place_.job);
    const std::string text = concat(id_text(place_), "\n", job_, "\n");
    if (const Status size = check_file_size(text.size()); !size.ok())
      return size.within(concat("The rendezvous file ", aside, " cannot be written"));
    std::ofstream file(aside);
    file << text;
    file.close();
    Status status;
    if (!file)
      status = system_error(concat("The rendezvous file ", aside, " cannot be written"));
    else if (::rename(aside.c_str(), path_.c_str()) != 0)
      status = system_error(concat("rename ", aside, " to ", path_));
    announced_ = status.ok();
    if (!announced_) ::unlink(aside.c_str());
    return status;
  }

  void withdraw() override {
    if (!announced_) return;
    announced_ = false;
    std::ifstream file(path_);
    std::string line;
    if (std::getline(file, line) && line == id_text(place_)) ::unlink(path_.c_str());
  }

  bool certain() const override { return false; }
  Result<std::optional<Place>> look(const Deadline&) override {
    reason_.clear();
    const Result<std::string> text = read_announcement(path_, reason_);
    if (!text.ok()) return text.status();
    return reason_.empty() ? place_in(*text) : std::nullopt;
  }
  std::string reason() const override { return reason_; }

 private:
  std::optional<Place> place_in(std::string_view text) {
    std::string_view rest = text;
    const std::string_view id = take_word(rest, '\n');
    const std::string_view job = take_word(rest, '\n');
    const Result<Place> place = parse_id(id);
    if (!text.ends_with('\n') || !place.ok()) {
      reason_ = concat("the file ", path_, " is not one that rank 0 of a job has written");
    } else if (job != job_) {
      reason_ = concat("the file ", path_, " is of the job \"", job.substr(0, wire::kJobBytes),
                       "\", this rank's is \"", job_, "\"");
    } else {
      return *place;
    }
    return std::nullopt;
  }

  const std::string path_;
  const std::string job_;
  const Place place_;
  const OriginProcess process_;
  bool announced_ = false;
  std::string reason_;
};

// On every address of this host, IPv4 and IPv6; where there is no IPv6, on every IPv4 one.
Result<Fd> listen_on_all(int port) {
  Result<Fd> listener = listen_on(*SocketAddress::parse(concat("[::]:", port)));
  return listener.ok() ? std::move(listener)
                       : listen_on(*SocketAddress::parse(concat("0.0.0.0:", port)));
}

Result<Fd> listen_at_one(const std::string& target, std::string_view interfaces) {
  if (target.starts_with('@')) {
    const Result<SocketAddress> name = SocketAddress::parse(target);
    return name.ok() ? listen_on(*name) : Result<Fd>(name.status());
  }
  const Result<HostPort> parts = split_port(target);
  if (!parts.ok()) return parts.status();
  const bool six = parts->host.find(':') != std::string::npos;
  const std::string number = six ? concat("[", parts->host, "]:", parts->port) : target;
  if (parts->host == "localhost" || SocketAddress::parse(number).ok()) {
    const auto addresses =
        SocketAddress::resolve(parts->host, parts->port, Deadline::after(kResolve_s));
    for (size_t i = 0; addresses.ok() && i < addresses->size(); ++i)
      if (is_local((*addresses)[i])) return listen_on((*addresses)[i]);
  }
  if (interfaces.empty()) return listen_on_all(parts->port);
  const auto sought = SocketAddress::resolve(parts->host, parts->port, Deadline::after(kResolve_s));
  if (sought.status().code() == Code::timeout) return listen_on_all(parts->port);  // wherever it is
  return listen_for(sought.ok() ? *sought : Addresses(), parts->port, interfaces);
}

}  // namespace

std::string id_text(const Place& place) {
  std::string text(kIdScheme);
  for (const SocketAddress& address : place.addresses)
    text.append(text.size() > kIdScheme.size() ? "," : "").append(address.to_string());
  return text.append("/").append(place.job);
}

Result<Place> parse_id(std::string_view text) {
  const size_t slash = text.rfind('/');
  if (!text.starts_with(kIdScheme) || slash == std::string_view::npos || slash + 1 == text.size())
    return invalid_argument(
        concat("\"", text, "\" is not a unique id; it reads id:ADDRESS,ADDRESS.../KEY."));
  Place place{{}, std::string(text.substr(slash + 1))};
  for (const std::string& part :
       split(text.substr(kIdScheme.size(), slash - kIdScheme.size()), ',')) {
    const Result<SocketAddress> address = SocketAddress::parse(part);
    if (!address.ok()) return address.status();
    place.addresses.push_back(*address);
  }
  if (place.addresses.empty())
    return invalid_argument(concat("The unique id \"", text, "\" has no address."));
  return place;
}

std::unique_ptr<Announcement> known_place(std::string targets, std::string job, std::string advice,
                                          double patience_s) {
  return std::make_unique<KnownPlace>(std::move(targets), std::move(job), std::move(advice),
                                      patience_s);
}
std::unique_ptr<Announcement> known_place(Place place) {
  return std::make_unique<KnownPlace>(std::move(place), false);
}
std::unique_ptr<Announcement> listening_place(Place place) {
  return std::make_unique<KnownPlace>(std::move(place), true);
}

Status check_targets(std::string_view targets) {
  for (const std::string& target : split(targets, ','))
    WEFT_TRY(target.starts_with('@') ? SocketAddress::parse(target).status()
                                     : split_port(target).status());
  return {};
}

std::unique_ptr<Announcement> file_announcement(std::string path, std::string job, Place place) {
  return std::make_unique<FileAnnouncement>(std::move(path), std::move(job), std::move(place));
}

bool is_local(const SocketAddress& address) {
  SocketAddress any_port = address;
  any_port.set_port(0);
  const std::string text = any_port.to_string();
  if (address.is_loopback() || text == "0.0.0.0:0" || text == "[::]:0") return true;
  const Result<std::vector<Interface>> list = list_interfaces({});
  return list.ok() && std::any_of(list->begin(), list->end(), [&](const Interface& interface) {
           return interface.address.to_string() == text;
         });
}

Result<Fd> listen_for(const std::vector<SocketAddress>& sought, int port,
                      std::string_view interfaces) {
  if (interfaces.empty()) return listen_on_all(port);
  const Result<std::vector<Interface>> list = list_interfaces(interfaces);
  if (!list.ok()) return list.status();
  SocketAddress first = list->front().address;
  first.set_port(port);
  const bool found = std::any_of(sought.begin(), sought.end(), [&](const SocketAddress& address) {
    return address.to_string() == first.to_string();
  });
  const bool elsewhere =
      !found && std::any_of(sought.begin(), sought.end(), [](const SocketAddress& address) {
        return !address.is_loopback() && is_local(address);
      });
  return elsewhere ? listen_on_all(port) : listen_on(first);
}

Result<Fd> listen_at(std::string_view targets, std::string_view interfaces) {
  Result<Fd> listener = invalid_argument("There is no address to listen at.");
  for (const std::string& target : split(targets, ',')) {
    listener = listen_at_one(target, interfaces);
    if (listener.ok()) break;
  }
  return listener;
}

Result<OpenPlace> open_place(std::string_view interfaces) {
  Result<std::vector<Interface>> list = list_interfaces(interfaces);
  if (!list.ok()) return list.status();
  if (!interfaces.empty()) list->resize(1);
  if (list->empty()) return unsupported("This host has no network interface that is up.");
  Result<Fd> listener = interfaces.empty() ? listen_on_all(0) : listen_on(list->front().address);
  if (!listener.ok()) return listener.status();
  const Result<SocketAddress> bound = local_address(*listener);
  if (!bound.ok()) return bound.status();

  OpenPlace open{listener.take(), {{}, random_name()}};
  for (const Interface& interface : *list) {
    // Loopback and link-local addresses mean nothing to other hosts: only where there is no other.
    const bool private_to_host = interface.loopback || interface.address.is_link_local();
    if (private_to_host && !open.place.addresses.empty()) continue;
    if (bound->family() == AF_INET && interface.address.family() != AF_INET) continue;
    open.place.addresses.push_back(interface.address);
    open.place.addresses.back().set_port(bound->port());
  }
  return open;
}

}  // namespace weft
