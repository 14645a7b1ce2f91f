/* SPDX-License-Identifier: Apache-2.0 */
/* TLS 1.3 over a connected, non-blocking stream socket: authenticated by the job's token as a
 * pre-shared key, with an ephemeral key exchange, so that a token that leaks later opens no
 * recording. No certificates, no session tickets, no early data.
 *
 * Bytes pass through two buffers of this side's own: many records per system call, and nothing is
 * left behind where epoll cannot see it without `unread` saying so. */
#ifndef SHOALI_TRANSPORT_TLS_H
#define SHOALI_TRANSPORT_TLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "shoal/status.h"

typedef struct shoali_tls_keys shoali_tls_keys; /* of a transport */
typedef struct shoali_tls shoali_tls;           /* of a connection */

/** The key follows from the token, which is not kept. @return SHOAL_OK | ENOMEM | ESYSTEM */
SHOAL_MUST_USE shoal_status shoali_tls_keys_create(const uint8_t *token, size_t token_bytes,
                                                   shoali_tls_keys **keys_out);
/** Connections made from now on are handed to the kernel where it can (ktls.h). */
void shoali_tls_keys_use_kernel(shoali_tls_keys *keys);
void shoali_tls_keys_destroy(shoali_tls_keys *keys); /* NULL is allowed */

/** fd stays the caller's. @return SHOAL_OK | ENOMEM | ESYSTEM */
SHOAL_MUST_USE shoal_status shoali_tls_create(shoali_tls_keys *keys, int fd, bool dialler,
                                              shoali_tls **tls_out);
void shoali_tls_destroy(shoali_tls *tls); /* NULL is allowed */

/** Go on with the handshake. @return SHOAL_OK: done | PENDING | EAUTH: the other side does not hold
 *  the token, or speaks no TLS | EIO: the connection ended */
SHOAL_MUST_USE shoal_status shoali_tls_handshake(shoali_tls *tls);
bool shoali_tls_is_open(const shoali_tls *tls);
/** Open, and what it sends (receives) is the kernel's to encrypt (decrypt). */
bool shoali_tls_kernel_sends(const shoali_tls *tls);
bool shoali_tls_kernel_receives(const shoali_tls *tls);

/** As shoali_stream_read: less than asked for means that there is no more now. more: take from the
 * socket; else only what has been taken already. A damaged record: FAILED with errno EBADMSG. */
ssize_t shoali_tls_read(shoali_tls *tls, struct iovec *parts, int count, bool more);
/** As shoali_stream_write; after less than was offered the next call offers the rest, from the same
 * byte on. */
ssize_t shoali_tls_write(shoali_tls *tls, struct iovec *parts, size_t count);
/** There may be something to read although the socket is not readable. */
bool shoali_tls_unread(const shoali_tls *tls);

#endif
