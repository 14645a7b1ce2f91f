/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tls.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/ktls.h"
#include "transport/stream.h"

#if OPENSSL_VERSION_NUMBER < \
    0x30000000L /* Debian 11: tools/manylinux.sh; there `ended` tells alone */
#define EVP_MD_get_type EVP_MD_type
#define SSL_R_UNEXPECTED_EOF_WHILE_READING (-1)
#endif

enum {
    KEY_BYTES = 32,
    RECORD_BYTES = 16384,
    FIRST_BUFFER_BYTES = 17 << 10,
    MAX_IN_BYTES = 8 * FIRST_BUFFER_BYTES,
    MAX_OUT_BYTES = 256 << 10 /* encrypted and not sent: then the caller waits */
};

static const char identity[] = "shoal";
static const char label[] = "shoal tls 1.3 psk, 1";

struct shoali_tls_keys {
    SSL_CTX *context;
    BIO_METHOD *method;
    uint8_t key[KEY_BYTES];
    bool kernel; /* use it */
};

typedef struct buffer {
    uint8_t *bytes;
    size_t begin, end, capacity;
} buffer;

struct shoali_tls {
    SSL *ssl;
    int fd;
    buffer in, out; /* records */
    uint8_t stage[RECORD_BYTES];
    size_t taken;           /* bytes of the caller's that are encrypted, but not all sent */
    bool open, ended, hold; /* hold: the socket is not to be read now */
    int os_error;
    bool to_kernel;         /* wanted: nothing may be taken from the socket ahead */
    bool kernel[2];         /* it sends, it receives */
    uint8_t secrets[2][32]; /* of what this side sends, and receives; until the kernel has them */
};

enum { SENDS, RECEIVES };

/* ------------------------------------------------------------- between OpenSSL and the socket */

static bool room_for(buffer *b, size_t more, size_t limit)
{
    if (b->begin == b->end)
        b->begin = b->end = 0;
    if (b->end + more <= b->capacity)
        return true;
    if (b->begin > 0) {
        memmove(b->bytes, b->bytes + b->begin, b->end - b->begin);
        b->end -= b->begin;
        b->begin = 0;
        if (b->end + more <= b->capacity)
            return true;
    }
    size_t bigger = b->capacity == 0 ? FIRST_BUFFER_BYTES : 2 * b->capacity;
    while (bigger < b->end + more)
        bigger *= 2;
    if (bigger > limit)
        return false;
    uint8_t *bytes = shoali_realloc(b->bytes, b->capacity, bigger);
    if (bytes == NULL)
        return false;
    b->bytes = bytes;
    b->capacity = bigger;
    return true;
}

/* The buffer is empty: fill it, and make it larger if that was too little. */
static void fill(shoali_tls *tls)
{
    bool small = tls->in.end == tls->in.capacity;
    tls->in.begin = tls->in.end = 0;
    bool grown = small && room_for(&tls->in, tls->in.capacity + 1, MAX_IN_BYTES);
    if (!grown && tls->in.capacity == 0) {
        tls->os_error = ENOMEM;
        return;
    }
    struct iovec part = {tls->in.bytes, tls->in.capacity};
    ssize_t got = shoali_stream_read(tls->fd, &part, 1);
    if (got > 0)
        tls->in.end = (size_t)got;
    tls->ended = got == SHOALI_STREAM_END;
    tls->os_error = got == SHOALI_STREAM_FAILED ? errno : 0;
}

/* As much as OpenSSL wants, a record's head or the rest of it: what follows stays in the socket. */
static int read_exactly(shoali_tls *tls, BIO *bio, char *out, size_t size)
{
    struct iovec part = {out, size};
    ssize_t got = shoali_stream_read(tls->fd, &part, 1);
    tls->ended = got == SHOALI_STREAM_END;
    tls->os_error = got == SHOALI_STREAM_FAILED ? errno : 0;
    if (got == SHOALI_STREAM_LATER)
        BIO_set_retry_read(bio);
    return got > 0 ? (int)got : tls->ended ? 0 : -1;
}

static int bio_read(BIO *bio, char *out, int size)
{
    shoali_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (tls->to_kernel && size > 0)
        return read_exactly(tls, bio, out, (size_t)size);
    if (tls->in.begin == tls->in.end && !tls->hold && !tls->ended)
        fill(tls);
    size_t there = tls->in.end - tls->in.begin, take = size > 0 ? (size_t)size : 0;
    take = take < there ? take : there;
    if (take == 0) {
        if (!tls->ended && tls->os_error == 0)
            BIO_set_retry_read(bio);
        return tls->ended ? 0 : -1;
    }
    memcpy(out, tls->in.bytes + tls->in.begin, take);
    tls->in.begin += take;
    return (int)take;
}

/* Never refuses for want of space: shoali_tls_write stops in time. */
static int bio_write(BIO *bio, const char *bytes, int size)
{
    shoali_tls *tls = BIO_get_data(bio);
    size_t length = size > 0 ? (size_t)size : 0;
    BIO_clear_retry_flags(bio);
    if (!room_for(&tls->out, length, SIZE_MAX / 4)) {
        tls->os_error = ENOMEM;
        return -1;
    }
    memcpy(tls->out.bytes + tls->out.end, bytes, length);
    tls->out.end += length;
    return size;
}

static long bio_control(BIO *bio, int what, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return what == BIO_CTRL_FLUSH ? 1 : 0;
}

/* OK | a stream's FAILED; what does not fit stays. */
static ssize_t flush(shoali_tls *tls)
{
    while (tls->out.begin < tls->out.end) {
        struct iovec part = {tls->out.bytes + tls->out.begin, tls->out.end - tls->out.begin};
        ssize_t sent = shoali_stream_write(tls->fd, &part, 1);
        if (sent == SHOALI_STREAM_FAILED)
            return SHOALI_STREAM_FAILED;
        if (sent == SHOALI_STREAM_LATER)
            break;
        tls->out.begin += (size_t)sent;
    }
    return 0;
}

/* ---------------------------------------------------------------- keys */

static const uint8_t cipher_id[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */

static SSL_SESSION *session_of(SSL *ssl)
{
    const shoali_tls_keys *keys = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_id);
    SSL_SESSION *session = SSL_SESSION_new();
    if (session != NULL && cipher != NULL &&
        SSL_SESSION_set1_master_key(session, keys->key, sizeof keys->key) == 1 &&
        SSL_SESSION_set_cipher(session, cipher) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1 &&
        SSL_SESSION_set1_id_context(session, (const unsigned char *)identity,
                                    sizeof identity - 1) == 1)
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int use_session(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_bytes,
                       SSL_SESSION **session)
{
    *session = md == NULL || EVP_MD_get_type(md) == NID_sha256 ? session_of(ssl) : NULL;
    *id = (const unsigned char *)identity;
    *id_bytes = *session != NULL ? sizeof identity - 1 : 0;
    return 1;
}

static int find_session(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **session)
{
    bool ours = id_bytes == sizeof identity - 1 && memcmp(id, identity, id_bytes) == 0;
    *session = ours ? session_of(ssl) : NULL;
    return 1;
}

/* A line of a key log: "SERVER_TRAFFIC_SECRET_0 random secret", both in hex. */
static void note_secret(const SSL *ssl, const char *line)
{
    shoali_tls *tls = SSL_get_app_data(ssl);
    const char *hex = strrchr(line, ' ');
    bool client = strncmp(line, "CLIENT_TRAFFIC_SECRET_0 ", 24) == 0;
    if (!client && strncmp(line, "SERVER_TRAFFIC_SECRET_0 ", 24) != 0)
        return;
    if (!tls->to_kernel || hex == NULL || strlen(hex + 1) != 2 * sizeof tls->secrets[0])
        return;
    uint8_t *secret = tls->secrets[client != SSL_is_server(ssl) ? SENDS : RECEIVES];
    for (size_t i = 0; i < sizeof tls->secrets[0]; i++) {
        const char digits[3] = {hex[1 + 2 * i], hex[2 + 2 * i], '\0'};
        secret[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
}

/* Whoever does not take the pre-shared key would have to show a certificate; none is trusted. */
static bool set_up(shoali_tls_keys *keys)
{
    SSL_CTX *context = keys->context = SSL_CTX_new(TLS_method());
    keys->method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "shoal");
    if (context == NULL || keys->method == NULL)
        return false;
    SSL_CTX_set_app_data(context, keys);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_psk_use_session_callback(context, use_session);
    SSL_CTX_set_psk_find_session_callback(context, find_session);
    return SSL_CTX_set_session_id_context(context, (const unsigned char *)identity,
                                          sizeof identity - 1) == 1 &&
           SSL_CTX_set_num_tickets(context, 0) == 1 &&
           SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
           BIO_meth_set_read(keys->method, bio_read) == 1 &&
           BIO_meth_set_write(keys->method, bio_write) == 1 &&
           BIO_meth_set_ctrl(keys->method, bio_control) == 1;
}

shoal_status shoali_tls_keys_create(const uint8_t *token, size_t token_bytes,
                                    shoali_tls_keys **keys_out)
{
    unsigned bytes = KEY_BYTES;
    shoali_tls_keys *keys = shoali_alloc(sizeof *keys);
    if (keys == NULL)
        return SHOAL_ENOMEM;
    if (set_up(keys) && token_bytes <= INT32_MAX &&
        HMAC(EVP_sha256(), token, (int)token_bytes, (const unsigned char *)label, sizeof label - 1,
             keys->key, &bytes) != NULL) {
        *keys_out = keys;
        return SHOAL_OK;
    }
    shoali_tls_keys_destroy(keys);
    ERR_clear_error();
    return shoali_fail(SHOAL_ESYSTEM, "OpenSSL cannot be set up for TLS 1.3");
}

void shoali_tls_keys_use_kernel(shoali_tls_keys *keys)
{
    keys->kernel = true;
    SSL_CTX_set_keylog_callback(keys->context, note_secret);
}

void shoali_tls_keys_destroy(shoali_tls_keys *keys)
{
    if (keys == NULL)
        return;
    SSL_CTX_free(keys->context);
    BIO_meth_free(keys->method);
    explicit_bzero(keys->key, sizeof keys->key);
    shoali_free(keys);
}

/* ---------------------------------------------------------------- a connection */

static bool join_socket(shoali_tls *tls, const shoali_tls_keys *keys)
{
    BIO *bio = BIO_new(keys->method);
    if (bio == NULL)
        return false;
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    return true;
}

shoal_status shoali_tls_create(shoali_tls_keys *keys, int fd, bool dialler, shoali_tls **tls_out)
{
    shoali_tls *tls = shoali_alloc(sizeof *tls);
    if (tls == NULL)
        return SHOAL_ENOMEM;
    tls->fd = fd;
    tls->to_kernel = keys->kernel;
    tls->ssl = SSL_new(keys->context);
    if (tls->ssl == NULL || !join_socket(tls, keys)) {
        shoali_tls_destroy(tls);
        ERR_clear_error();
        return shoali_fail(SHOAL_ESYSTEM, "OpenSSL has no memory for a connection");
    }
    SSL_set_app_data(tls->ssl, tls);
    if (dialler)
        SSL_set_connect_state(tls->ssl);
    else
        SSL_set_accept_state(tls->ssl);
    *tls_out = tls;
    return SHOAL_OK;
}

void shoali_tls_destroy(shoali_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_free(tls->ssl);
    OPENSSL_cleanse(tls->secrets, sizeof tls->secrets);
    shoali_free(tls->in.bytes);
    shoali_free(tls->out.bytes);
    shoali_free(tls);
}

static shoal_status refused(const shoali_tls *tls)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    bool ended = tls->ended ||
                 ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    ERR_clear_error();
    if (ended)
        return shoali_fail(SHOAL_EIO,
                           "the other side closed the connection while TLS was being agreed upon");
    if (tls->os_error != 0)
        return shoali_fail_os(SHOAL_EIO, tls->os_error,
                              "connection failed while TLS was being agreed upon");
    (void)shoali_fail(SHOAL_EAUTH, "the other side does not hold this job's token (TLS: %.80s)",
                      reason != NULL ? reason : "no pre-shared key");
    shoali_error_advice("Give every process of the job the same token (SHOAL_TOKEN_FILE).");
    return SHOAL_EAUTH;
}

/* The handshake is done, all of it is sent, and nothing behind it has been read: from its first
 * record on the connection can be the kernel's, each direction by itself. */
static void hand_over(shoali_tls *tls)
{
    if (tls->out.begin == tls->out.end && SSL_has_pending(tls->ssl) == 0 &&
        shoali_ktls_attach(tls->fd)) {
        tls->kernel[SENDS] = shoali_ktls_use(tls->fd, TLS_TX, tls->secrets[SENDS]);
        tls->kernel[RECEIVES] = shoali_ktls_use(tls->fd, TLS_RX, tls->secrets[RECEIVES]);
    }
    shoali_log(DEBUG, "TLS in the kernel: sending %s, receiving %s",
               tls->kernel[SENDS] ? "yes" : "no", tls->kernel[RECEIVES] ? "yes" : "no");
    OPENSSL_cleanse(tls->secrets, sizeof tls->secrets);
    tls->to_kernel = false;
}

shoal_status shoali_tls_handshake(shoali_tls *tls)
{
    ERR_clear_error();
    int done = SSL_do_handshake(tls->ssl), error = SSL_get_error(tls->ssl, done);
    if (flush(tls) == SHOALI_STREAM_FAILED && done == 1)
        return shoali_fail_os(SHOAL_EIO, errno, "connection failed while TLS was agreed upon");
    if (done != 1)
        return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? SHOAL_PENDING
                                                                             : refused(tls);
    if (SSL_session_reused(tls->ssl) != 1) /* the key was not used: not from one of us */
        return refused(tls);
    tls->open = true;
    if (tls->to_kernel)
        hand_over(tls);
    return SHOAL_OK;
}

bool shoali_tls_kernel_sends(const shoali_tls *tls)
{
    return tls->kernel[SENDS];
}

bool shoali_tls_kernel_receives(const shoali_tls *tls)
{
    return tls->kernel[RECEIVES];
}

bool shoali_tls_is_open(const shoali_tls *tls)
{
    return tls->open;
}

bool shoali_tls_unread(const shoali_tls *tls)
{
    return !tls->kernel[RECEIVES] && (tls->in.begin != tls->in.end || SSL_pending(tls->ssl) > 0);
}

/* What a read or write that did not work means to a stream. */
static ssize_t outcome(shoali_tls *tls, int result)
{
    int error = SSL_get_error(tls->ssl, result), os_error = errno;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return SHOALI_STREAM_LATER;
    bool torn = ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    ERR_clear_error();
    if (tls->ended || error == SSL_ERROR_ZERO_RETURN || torn)
        return SHOALI_STREAM_END;
    errno = tls->os_error != 0 ? tls->os_error : error == SSL_ERROR_SYSCALL ? os_error : EBADMSG;
    return SHOALI_STREAM_FAILED;
}

ssize_t shoali_tls_read(shoali_tls *tls, struct iovec *parts, int count, bool more)
{
    ssize_t total = 0;
    if (tls->kernel[RECEIVES])
        return more ? shoali_stream_read(tls->fd, parts, count) : SHOALI_STREAM_LATER;
    tls->hold = !more;
    for (int i = 0; i < count; i++) {
        uint8_t *at = parts[i].iov_base;
        for (size_t rest = parts[i].iov_len; rest > 0;) {
            int want = rest < RECORD_BYTES ? (int)rest : RECORD_BYTES;
            ERR_clear_error();
            int got = SSL_read(tls->ssl, at, want);
            if (got <= 0) {
                ssize_t why = outcome(tls, got);
                return total > 0 ? total : why; /* an end says so again */
            }
            at += got;
            rest -= (size_t)got;
            total += got;
        }
    }
    return total;
}

/* Up to a record's worth from the parts, behind `skip` bytes: where it lies, without a copy if it
 * lies together. */
static const uint8_t *next_record(shoali_tls *tls, const struct iovec *parts, size_t count,
                                  size_t skip, size_t *bytes_out)
{
    size_t i = 0, staged = 0;
    while (i < count && skip >= parts[i].iov_len)
        skip -= parts[i++].iov_len;
    *bytes_out = 0;
    if (i == count)
        return NULL;
    if (parts[i].iov_len - skip >= RECORD_BYTES || i + 1 == count) {
        size_t rest = parts[i].iov_len - skip;
        *bytes_out = rest < RECORD_BYTES ? rest : RECORD_BYTES;
        return (const uint8_t *)parts[i].iov_base + skip;
    }
    for (; i < count && staged < RECORD_BYTES; i++, skip = 0) {
        size_t rest = parts[i].iov_len - skip, room = RECORD_BYTES - staged;
        size_t take = rest < room ? rest : room;
        memcpy(tls->stage + staged, (const uint8_t *)parts[i].iov_base + skip, take);
        staged += take;
    }
    *bytes_out = staged;
    return tls->stage;
}

/* What is encrypted stays the caller's to offer again until the kernel has it: a connection that is
 * closed afterwards still delivers it. */
ssize_t shoali_tls_write(shoali_tls *tls, struct iovec *parts, size_t count)
{
    size_t bytes;
    if (tls->kernel[SENDS])
        return shoali_stream_write(tls->fd, parts, count);
    if (flush(tls) == SHOALI_STREAM_FAILED)
        return SHOALI_STREAM_FAILED;
    while (tls->out.end - tls->out.begin < MAX_OUT_BYTES) {
        const uint8_t *at = next_record(tls, parts, count, tls->taken, &bytes);
        if (bytes == 0)
            break;
        ERR_clear_error();
        int done = SSL_write(tls->ssl, at, (int)bytes);
        if (done <= 0) {
            ssize_t why = outcome(tls, done);
            if (why == SHOALI_STREAM_LATER)
                break;
            return why == SHOALI_STREAM_END ? SHOALI_STREAM_FAILED : why;
        }
        tls->taken += (size_t)done;
    }
    if (flush(tls) == SHOALI_STREAM_FAILED)
        return SHOALI_STREAM_FAILED;
    if (tls->out.begin != tls->out.end)
        return SHOALI_STREAM_LATER;
    size_t sent = tls->taken;
    tls->taken = 0;
    return (ssize_t)sent;
}
