/* SPDX-License-Identifier: Apache-2.0 */
/* Who opens a connection and who accepts it prove to each other that they hold the job's token.
 * Bytes in, bytes out: no socket, no clock, no randomness (nonces come from the caller).
 *
 *   dialler                              listener
 *   HELLO                      ->        checks version, job, target
 *   checks version, proof      <-        HELLO, PROOF
 *   PROOF (and frames)         ->        checks proof
 *
 * Either side sends REFUSAL instead of its next message when a check fails, and closes. */
#ifndef SHOALI_WIRE_HANDSHAKE_H
#define SHOALI_WIRE_HANDSHAKE_H

#include <stdbool.h>

#include "wire/hello.h"

enum { SHOALI_MAX_TOKEN_BYTES = 256 };

typedef struct shoali_handshake {
    shoali_hello self;
    shoali_hello peer; /* valid once greeted; trusted only once done */
    bool dialler, greeted, done;
    const uint8_t *token; /* borrowed */
    size_t token_bytes;
    uint8_t hello_sent[SHOALI_HELLO_BYTES], hello_got[SHOALI_HELLO_BYTES];
    shoali_hello_type in_type;
    size_t in_len, in_want; /* of the message being received; want grows once its prefix is there */
    uint8_t in[SHOALI_HELLO_BYTES];
    size_t out_len; /* the caller takes out and sets this to 0 */
    uint8_t out[SHOALI_HELLO_BYTES + SHOALI_PROOF_BYTES];
} shoali_handshake;

/** self: complete with a fresh random nonce; the listener's target, purpose, tos and lane follow
 * from what it gets. */
void shoali_handshake_start(shoali_handshake *handshake, bool dialler, const shoali_hello *self,
                            const uint8_t *token, size_t token_bytes);

/** How many bytes may be fed now: never more than the current message, so frames behind it stay
 * with the caller. */
size_t shoali_handshake_want(const shoali_handshake *handshake);

/**
 * Take len_bytes <= want. Send what out holds even after a failure: it may be a REFUSAL.
 * @return SHOAL_OK (done) | PENDING (go on) | EAUTH, EVERSION, EPEER, ECORRUPT with text: close.
 */
SHOAL_MUST_USE shoal_status shoali_handshake_feed(shoali_handshake *handshake, const uint8_t *bytes,
                                                  size_t len_bytes);

/** Refuse for a reason of the caller's own: out becomes a REFUSAL. text goes over the wire: no
 * secrets. */
void shoali_handshake_refuse(shoali_handshake *handshake, shoal_status status, const char *text);

#endif
