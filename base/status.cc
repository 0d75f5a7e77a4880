#include "base/status.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace weft {

std::string_view name(Code code) {
  switch (code) {
    case Code::ok: return "ok";
    case Code::invalid_argument: return "invalid argument";
    case Code::mismatch: return "mismatch between ranks";
    case Code::unsupported: return "unsupported";
    case Code::timeout: return "timeout";
    case Code::peer_lost: return "peer lost";
    case Code::aborted: return "aborted";
    case Code::system: return "system error";
    case Code::internal: return "internal error";
  }
  return "unknown";
}

Status::Status(Code code, std::string message, int peer) {
  if (code != Code::ok) rep_ = std::make_shared<const Rep>(Rep{code, std::move(message), peer});
}

Status Status::within(std::string_view where) const {
  if (ok()) return *this;
  return Status(code(), std::string(where) + ": " + std::string(message()), peer());
}

std::string Status::to_string() const {
  if (ok()) return "ok";
  return std::string(name(code())) + ": " + std::string(message());
}

Status invalid_argument(std::string message) {
  return Status(Code::invalid_argument, std::move(message));
}
Status unsupported(std::string message) { return Status(Code::unsupported, std::move(message)); }
Status internal_error(std::string message) { return Status(Code::internal, std::move(message)); }
Status system_error(std::string_view what) {
  const int error = errno;
  const char* const remedy = error == EMFILE   ? "; raise the limit with ulimit -n"
                             : error == ENFILE ? "; raise the system's limit, fs.file-max"
                                               : "";
  return Status(Code::system, std::string(what) + ": " + std::strerror(error) + remedy);
}

void check_failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "weft: %s:%d: invariant broken: %s\n", file, line, what);
  std::abort();
}

}  // namespace weft
