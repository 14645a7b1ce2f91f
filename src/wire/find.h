/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks find each other where rank 0's address leads nowhere from here: a datagram to everybody
 * on the same cable, and the answer of a member that has a way to rank 0.
 *
 *   0 magic 4 | 4 version 2 | 6 kind 1 | 7 zero 1 | 8 endpoint 4 | 12 port 2 | 14 zero 2
 *   16 nonce 16 | 32 HMAC-SHA256 32                                                     64 bytes
 *
 * The HMAC with the job's token covers all before it and the job's name, so a stranger neither
 * learns who is there nor leads anybody astray; what is found proves itself once more when it is
 * called (handshake.h). An answer carries its question's nonce. */
#ifndef SHOALI_WIRE_FIND_H
#define SHOALI_WIRE_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHOALI_FIND_BYTES = 64, SHOALI_FIND_NONCE_BYTES = 16 };
enum { SHOALI_FIND_ASK = 1, SHOALI_FIND_TELL = 2 };

typedef struct shoali_find {
    uint8_t kind;
    uint32_t endpoint; /* the sender */
    uint16_t port;     /* TELL: where it relays */
    uint8_t nonce[SHOALI_FIND_NONCE_BYTES];
} shoali_find;

/** False: libcrypto failed. */
bool shoali_find_encode(const shoali_find *find, const char *job, const uint8_t *token,
                        size_t token_bytes, uint8_t out[SHOALI_FIND_BYTES]);
/** False: not of a member of this job, or nothing that an encoder writes. */
bool shoali_find_decode(const uint8_t *bytes, size_t len_bytes, const char *job,
                        const uint8_t *token, size_t token_bytes, shoali_find *find_out);

#endif
