// Encryption of a connection: TLS 1.3 by OpenSSL, with a pre-shared key instead of certificates.
// Who gets so far has proven to have the job's key, of which this one is another child.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>

#include "base/key.h"
#include "base/status.h"

struct bio_method_st;
struct ssl_ctx_st;
struct ssl_st;

namespace weft::tcp {

// How many records are sent with one key: RFC 8446 (5.5) allows AES-GCM 2^24.5.
inline constexpr uint64_t kRecordsPerKey = uint64_t{1} << 22;

// One connection's. It reads and writes the socket, which is the caller's to watch and to close.
class Tls {
 public:
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // As sendmsg(2) and readv(2) on a non-blocking socket: how many bytes were taken or came, 0 at
  // the end, -1 with errno; EBADMSG where what came was not encrypted with the key, or was changed
  // on its way. EAGAIN may mean that bytes of the other kind have to go or come first: try both
  // again whenever the socket is ready for either. After EAGAIN a send begins with the same bytes
  // again. Where a send has failed, as the other end is gone, what came from there is still
  // received.
  ssize_t send(const iovec* parts, size_t count);
  ssize_t receive(const iovec* parts, size_t count);

 private:
  friend class TlsContext;
  Tls(ssl_st* ssl, const Key& key, uint64_t records_per_key);
  bool begin();
  bool renew_key();
  ssize_t write(const void* bytes, size_t size);
  ssize_t read(void* bytes, size_t size);
  ssize_t result(int returned, int& failure);
  ssize_t written(int returned);

  ssl_st* const ssl_;
  const Key key_;
  const uint64_t records_per_key_;
  uint64_t records_ = 0;                 // sent with this key
  int broken_ = 0;                       // errno of the failure, if there was one
  int unsendable_ = 0;                   // the same of one that is of sending alone
  std::unique_ptr<std::byte[]> record_;  // small parts are gathered in it
};

// What the connections of a transport share.
class TlsContext {
 public:
  static Result<std::unique_ptr<TlsContext>> make(const Key& key,
                                                  uint64_t records_per_key = kRecordsPerKey);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // The end of who called, or of who was called. The handshake is made by the sends and receives;
  // it fails where the two ends differ in `binding`, which is to tell this connection from all
  // others: else somebody between the ranks could join the halves of two connections.
  Result<std::unique_ptr<Tls>> wrap(int socket, bool calling, const KeyProof& binding) const;

 private:
  TlsContext(const Key& key, uint64_t records_per_key, ssl_ctx_st* context, bio_method_st* method)
      : key_(key), records_per_key_(records_per_key), context_(context), method_(method) {}

  const Key key_;
  const uint64_t records_per_key_;
  ssl_ctx_st* const context_;
  bio_method_st* const method_;
};

}  // namespace weft::tcp
