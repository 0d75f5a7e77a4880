#include "bootstrap/pmi.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/parse.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr size_t kLineBytes = 64 << 10;
constexpr std::string_view kKey = "weft-place";

using Words = std::map<std::string, std::string, std::less<>>;

std::string word(const Words& words, std::string_view name) {
  const auto it = words.find(name);
  return it == words.end() ? "" : it->second;
}

Status used_before() {
  return Status(
      Code::system,
      "The process manager closed PMI_FD. A process can meet the others by PMI once, and MPI in "
      "the same process counts; set WEFT_RENDEZVOUS=tcp://HOST:PORT for all ranks instead.");
}

class Pmi {
 public:
  Pmi(int fd, const Deadline& deadline) : fd_(fd), deadline_(deadline) {}

  // Sends one request and gives the words of its answer, which must be `expected`, with rc 0 if
  // any.
  Result<Words> ask(std::string request, std::string_view expected) {
    WEFT_TRY(send(request.append("\n")));
    const Result<std::string> line = read_line();
    if (!line.ok()) return line.status();
    Words words = parse_pmi(*line);
    const std::string rc = word(words, "rc");
    if (word(words, "cmd") != expected || (!rc.empty() && rc != "0"))
      return Status(Code::system, concat("The process manager answered \"", *line, "\" to \"",
                                         request.substr(0, request.size() - 1), "\" (PMI_FD)."));
    return words;
  }

 private:
  Status wait(short events) {
    while (true) {
      pollfd entry{fd_, events, 0};
      const int ready = ::poll(&entry, 1, deadline_.left_ms(1000));
      if (ready > 0 && (entry.revents & POLLNVAL)) return used_before();
      if (ready > 0) return {};
      if (ready < 0 && errno != EINTR) return system_error("poll PMI_FD");
      if (deadline_.expired())
        return Status(
            Code::timeout,
            "The process manager did not answer within the time given (PMI_FD); a rank of the "
            "job did not come, or allow more time with WEFT_TIMEOUT.");
    }
  }

  Status send(std::string_view bytes) {
    while (!bytes.empty()) {
      WEFT_TRY(wait(POLLOUT));
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
      if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return used_before();
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return system_error("send to PMI_FD");
    }
    return {};
  }

  Result<std::string> read_line() {
    char chunk[1024];
    while (received_.find('\n') == std::string::npos) {
      WEFT_TRY(wait(POLLIN));
      const ssize_t got = ::recv(fd_, chunk, sizeof chunk, MSG_DONTWAIT);
      if (got > 0) received_.append(chunk, static_cast<size_t>(got));
      if (got == 0 || (got < 0 && errno == ECONNRESET)) return used_before();
      if (got < 0 && errno != EAGAIN && errno != EINTR) return system_error("receive from PMI_FD");
      if (received_.size() > kLineBytes)
        return Status(Code::system, "The process manager sent a line without end (PMI_FD).");
    }
    const size_t end = received_.find('\n');
    std::string line = received_.substr(0, end);
    received_.erase(0, end + 1);
    return line;
  }

  const int fd_;
  const Deadline& deadline_;
  std::string received_;
};

// A store's client looks again after a system error; what went wrong here stays wrong.
Status final_form(const Status& status) {
  if (status.code() != Code::system) return status;
  return unsupported(std::string(status.message()));
}

class PmiAnnouncement final : public Announcement {
 public:
  PmiAnnouncement(int fd, std::optional<Place> place) : fd_(fd), place_(std::move(place)) {}

  Status announce(const Deadline& deadline) override {
    return exchange_by_pmi(fd_, id_text(*place_), deadline).status();
  }

  bool listens() const override { return true; }
  Result<std::optional<Place>> look(const Deadline& deadline) override {
    if (!place_) {
      const Result<std::string> text = exchange_by_pmi(fd_, std::nullopt, deadline);
      if (!text.ok()) return final_form(text.status());
      const Result<Place> place = parse_id(*text);
      if (!place.ok()) return place.status();
      place_ = *place;
    }
    return place_;
  }

 private:
  const int fd_;
  std::optional<Place> place_;
};

// The longest list of whole addresses that fits into a value.
std::string shortened(const std::string& text, size_t limit) {
  Result<Place> place = parse_id(text);
  if (!place.ok()) return text;
  std::string result = text;
  while (result.size() > limit && place->addresses.size() > 1) {
    place->addresses.pop_back();
    result = id_text(*place);
  }
  return result;
}

}  // namespace

std::map<std::string, std::string, std::less<>> parse_pmi(std::string_view line) {
  Words words;
  std::string* value = nullptr;
  while (!line.empty()) {
    const std::string_view part = take_word(line, ' ');
    const size_t equals = part.find('=');
    if (equals != std::string_view::npos) {
      value = &words[std::string(part.substr(0, equals))];
      *value = part.substr(equals + 1);
    } else if (value) {
      value->append(" ").append(part);
    }
  }
  return words;
}

Result<std::string> exchange_by_pmi(int fd, const std::optional<std::string>& text,
                                    const Deadline& deadline) {
  Pmi pmi(fd, deadline);
  const auto init = pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
  if (!init.ok()) return init.status();
  const auto maxes = pmi.ask("cmd=get_maxes", "maxes");
  if (!maxes.ok()) return maxes.status();
  const auto space = pmi.ask("cmd=get_my_kvsname", "my_kvsname");
  if (!space.ok()) return space.status();
  const std::string where = concat(" kvsname=", word(*space, "kvsname"), " key=", kKey);
  if (text) {
    const Result<size_t> limit = parse_size(word(*maxes, "vallen_max"));
    const std::string value = shortened(*text, limit.ok() && *limit > 1 ? *limit - 1 : 255);
    const auto put = pmi.ask(concat("cmd=put", where, " value=", value), "put_result");
    if (!put.ok()) return put.status();
  }
  const auto barrier = pmi.ask("cmd=barrier_in", "barrier_out");
  if (!barrier.ok()) return barrier.status();
  std::string result = text.value_or("");
  if (!text) {
    const auto got = pmi.ask(concat("cmd=get", where), "get_result");
    if (!got.ok()) return got.status();
    result = word(*got, "value");
  }
  const auto end = pmi.ask("cmd=finalize", "finalize_ack");
  if (!end.ok()) return end.status();
  return result;
}

std::unique_ptr<Announcement> pmi_announcement(int fd, std::optional<Place> place) {
  return std::make_unique<PmiAnnouncement>(fd, std::move(place));
}

}  // namespace weft
