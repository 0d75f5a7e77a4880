#include "transport/tcp/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "base/text.h"

namespace weft::tcp {
namespace {

constexpr size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr std::string_view kIdentity = "weft";
constexpr unsigned char kCipher[] = {0x13, 0x01};
constexpr const char* kCipherName = "TLS_AES_128_GCM_SHA256";

Status tls_error(std::string_view what) {
  char why[256] = "no reason given";
  if (const unsigned long code = ::ERR_get_error()) ::ERR_error_string_n(code, why, sizeof why);
  ::ERR_clear_error();
  return Status(Code::system, concat("OpenSSL cannot ", what, ": ", why));
}

// ---- the way to the socket: OpenSSL's own would raise SIGPIPE

int socket_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<intptr_t>(::BIO_get_data(bio)));
}

int bio_write(BIO* bio, const char* bytes, int count) {
  ::BIO_clear_retry_flags(bio);
  const ssize_t sent =
      ::send(socket_of(bio), bytes, static_cast<size_t>(count), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) ::BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int bio_read(BIO* bio, char* bytes, int count) {
  ::BIO_clear_retry_flags(bio);
  const ssize_t got = ::recv(socket_of(bio), bytes, static_cast<size_t>(count), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) ::BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* make_method() {
  BIO_METHOD* const method = ::BIO_meth_new(BIO_TYPE_SOURCE_SINK, "weft socket");
  if (!method) return nullptr;
  ::BIO_meth_set_write(method, bio_write);
  ::BIO_meth_set_read(method, bio_read);
  ::BIO_meth_set_ctrl(method, bio_control);
  return method;
}

// ---- the key, as the session that both ends have

SSL_SESSION* session_of(SSL* ssl) {
  const auto* key = static_cast<const Key*>(SSL_get_app_data(ssl));
  const auto* bytes = reinterpret_cast<const unsigned char*>(key->bytes().data());
  SSL_SESSION* const session = ::SSL_SESSION_new();
  if (session && ::SSL_SESSION_set1_master_key(session, bytes, key->bytes().size()) &&
      ::SSL_SESSION_set_cipher(session, ::SSL_CIPHER_find(ssl, kCipher)) &&
      ::SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
    return session;
  ::SSL_SESSION_free(session);
  return nullptr;
}

int use_session(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* length,
                SSL_SESSION** session) {
  *session = session_of(ssl);
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *length = kIdentity.size();
  return *session != nullptr;
}

int find_session(SSL* ssl, const unsigned char* identity, size_t length, SSL_SESSION** session) {
  const std::string_view said(reinterpret_cast<const char*>(identity), length);
  *session = said == kIdentity ? session_of(ssl) : nullptr;
  return said != kIdentity || *session != nullptr;
}

}  // namespace

Result<std::unique_ptr<TlsContext>> TlsContext::make(const Key& key, uint64_t records_per_key) {
  BIO_METHOD* const method = make_method();
  SSL_CTX* const context = ::SSL_CTX_new(::TLS_method());
  std::unique_ptr<TlsContext> made(new TlsContext(key, records_per_key, context, method));
  if (!method || !context || !::SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) ||
      !::SSL_CTX_set_ciphersuites(context, kCipherName) || !::SSL_CTX_set_num_tickets(context, 0))
    return tls_error("encrypt");
  ::SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  ::SSL_CTX_set_psk_use_session_callback(context, use_session);
  ::SSL_CTX_set_psk_find_session_callback(context, find_session);
  return made;
}

TlsContext::~TlsContext() {
  ::SSL_CTX_free(context_);
  ::BIO_meth_free(method_);
}

Result<std::unique_ptr<Tls>> TlsContext::wrap(int socket, bool calling,
                                              const KeyProof& binding) const {
  BIO* const bio = ::BIO_new(method_);
  SSL* const ssl = ::SSL_new(context_);
  if (!bio || !ssl) {
    ::BIO_free(bio);
    ::SSL_free(ssl);
    return tls_error("encrypt a connection");
  }
  ::BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(socket)));
  ::BIO_set_init(bio, 1);
  ::SSL_set_bio(ssl, bio, bio);
  if (calling) {
    ::SSL_set_connect_state(ssl);
    // There is no certificate that would be believed, and so it has to be the key.
    ::SSL_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
  } else {
    ::SSL_set_accept_state(ssl);
  }
  const std::string_view bound(reinterpret_cast<const char*>(binding.data()), binding.size());
  return std::unique_ptr<Tls>(new Tls(ssl, key_.derive("connection", bound), records_per_key_));
}

Tls::Tls(SSL* ssl, const Key& key, uint64_t records_per_key)
    : ssl_(ssl),
      key_(key),
      records_per_key_(records_per_key),
      record_(new std::byte[kRecordBytes]) {
  SSL_set_app_data(ssl_, const_cast<Key*>(&key_));
}

Tls::~Tls() { ::SSL_free(ssl_); }

// What OpenSSL's functions return, as read(2) would say it; a failure of the socket is kept in
// `failure`.
ssize_t Tls::result(int returned, int& failure) {
  if (returned > 0) return returned;
  const int error = errno;
  const int kind = ::SSL_get_error(ssl_, returned);
  ::ERR_clear_error();
  if (kind == SSL_ERROR_ZERO_RETURN) return 0;
  if (kind == SSL_ERROR_SYSCALL && error == 0) return 0;
  if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
    errno = EAGAIN;
  else if (kind == SSL_ERROR_SYSCALL)
    errno = failure = error;
  else
    errno = broken_ = EBADMSG;
  return -1;
}

// The same as write(2) would. Where the socket takes nothing more, OpenSSL still reads.
ssize_t Tls::written(int returned) {
  const ssize_t count = result(returned, unsendable_);
  if (count == 0) errno = EPIPE;
  return count > 0 ? count : -1;
}

// OpenSSL allows nothing more on a connection that has failed otherwise.
bool Tls::begin() {
  errno = broken_;
  ::ERR_clear_error();
  return broken_ == 0;
}

// Another key for what is sent. Only where the socket takes the message that says so: OpenSSL reads
// nothing until that has gone, and two ends could wait for each other. False where it does not.
bool Tls::renew_key() {
  pollfd asked{socket_of(::SSL_get_wbio(ssl_)), POLLOUT, 0};
  if (::poll(&asked, 1, 0) != 1) {
    errno = EAGAIN;
    return false;
  }
  if ((asked.revents & (POLLERR | POLLHUP)) != 0) {  // the message would stop reads for good
    errno = unsendable_ = EPIPE;
    return false;
  }
  records_ = 0;
  const bool asked_for = ::SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) == 1;
  return written(asked_for ? ::SSL_do_handshake(ssl_) : 0) > 0;
}

// One record.
ssize_t Tls::write(const void* bytes, size_t size) {
  if (!begin()) return -1;
  if (unsendable_ != 0) {
    errno = unsendable_;
    return -1;
  }
  if (records_ >= records_per_key_ && !renew_key()) return -1;
  const ssize_t count = written(::SSL_write(ssl_, bytes, static_cast<int>(size)));
  if (count > 0) ++records_;
  return count;
}

ssize_t Tls::read(void* bytes, size_t size) {
  if (!begin()) return -1;
  return result(::SSL_read(ssl_, bytes, static_cast<int>(std::min(size, kRecordBytes))), broken_);
}

// A record at a time: from where the bytes are if there are enough of them, else gathered.
ssize_t Tls::send(const iovec* parts, size_t count) {
  ssize_t all = 0;
  size_t skip = 0;  // of the first part
  while (count > 0) {
    const auto* bytes = static_cast<const std::byte*>(parts->iov_base) + skip;
    size_t size = std::min(parts->iov_len - skip, kRecordBytes);
    if (size < kRecordBytes && count > 1) {
      std::memcpy(record_.get(), bytes, size);
      for (size_t i = 1; i < count && size < kRecordBytes; ++i) {
        const size_t some = std::min(parts[i].iov_len, kRecordBytes - size);
        std::memcpy(&record_[size], parts[i].iov_base, some);
        size += some;
      }
      bytes = record_.get();
    }
    const ssize_t sent = write(bytes, size);
    if (sent < 0) return all > 0 ? all : -1;
    all += sent;
    skip += static_cast<size_t>(sent);
    for (; count > 0 && skip >= parts->iov_len; ++parts, --count) skip -= parts->iov_len;
  }
  return all;
}

ssize_t Tls::receive(const iovec* parts, size_t count) {
  ssize_t all = 0;
  for (size_t i = 0; i < count; ++i) {
    auto* to = static_cast<std::byte*>(parts[i].iov_base);
    for (size_t left = parts[i].iov_len; left > 0;) {
      const ssize_t got = read(to, left);
      if (got <= 0) return all > 0 ? all : got;
      all += got;
      to += got;
      left -= static_cast<size_t>(got);
    }
  }
  return all;
}

}  // namespace weft::tcp
