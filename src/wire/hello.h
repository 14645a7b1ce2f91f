/* SPDX-License-Identifier: Apache-2.0 */
/* The three messages that open a connection, before any frame. Little-endian; all start with the
 * same 8 bytes.
 *
 *   prefix   0 magic 4 | 4 version 2 | 6 type 1 | 7 zero 1
 *   HELLO    8 features 4 | 12 purpose 1 | 13 tos 1 | 14 lane 2 | 16 endpoint 4 | 20 target 4
 *            24 incarnation 8 | 32 nonce 32 | 64 job, NUL padded 64                    128 bytes
 *   PROOF    8 HMAC-SHA256 32                                                           40 bytes
 *   REFUSAL  8 status 2 | 10 text, NUL padded 118                                      128 bytes
 *
 * Prefix and REFUSAL keep this layout in every version, so that two versions can tell each other
 * so. */
#ifndef SHOALI_WIRE_HELLO_H
#define SHOALI_WIRE_HELLO_H

#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

enum {
    SHOALI_HELLO_VERSION = 1,
    SHOALI_HELLO_FEATURES =
        0, /* bits that this build knows; a peer that needs another one is refused */
    SHOALI_PREFIX_BYTES = 8,
    SHOALI_HELLO_BYTES = 128,
    SHOALI_PROOF_BYTES = 40,
    SHOALI_REFUSAL_BYTES = 128,
    SHOALI_NONCE_BYTES = 32,
    SHOALI_MAC_BYTES = 32,
    SHOALI_JOB_BYTES = 64, /* with the final NUL */
    SHOALI_REFUSAL_TEXT_BYTES = 118
};

typedef enum {
    SHOALI_TYPE_HELLO = 1,
    SHOALI_TYPE_PROOF = 2,
    SHOALI_TYPE_REFUSAL = 3
} shoali_hello_type;
typedef enum {
    SHOALI_PURPOSE_CONTROL = 0,
    SHOALI_PURPOSE_DATA = 1,
    SHOALI_PURPOSE_MEMORY = 2,
    SHOALI_PURPOSE_JOIN = 3, /* of a rendezvous, before there are peers */
    SHOALI_PURPOSE_RELAY = 4 /* to endpoint `lane` by way of the target; tos: relays before it */
} shoali_purpose;

typedef struct shoali_hello {
    uint32_t features; /* that the sender needs */
    uint8_t purpose;   /* SHOALI_PURPOSE_*; the listener repeats what the dialler asked for */
    uint8_t tos;
    uint16_t lane;
    uint32_t endpoint; /* the sender */
    uint32_t target;   /* whom it means to talk to */
    uint64_t incarnation;
    uint8_t nonce[SHOALI_NONCE_BYTES];
    char job[SHOALI_JOB_BYTES];
} shoali_hello;

void shoali_hello_encode(const shoali_hello *hello, uint8_t out[SHOALI_HELLO_BYTES]);
/** Fields behind a checked prefix. @return SHOAL_OK | ECORRUPT (purpose, job without end) */
SHOAL_MUST_USE shoal_status shoali_hello_decode(const uint8_t in[SHOALI_HELLO_BYTES],
                                                shoali_hello *hello_out);

/** Magic, version (not of a REFUSAL) and type; *bytes_out: length of the whole message. @return OK
 * | ECORRUPT | EVERSION */
SHOAL_MUST_USE shoal_status shoali_prefix_decode(const uint8_t in[SHOALI_PREFIX_BYTES],
                                                 shoali_hello_type *type_out, size_t *bytes_out);

/** HMAC over the role and both hellos as sent, hence over both nonces: no recording can be
 * replayed, and neither side's proof can be sent back as the other's. @return SHOAL_OK | ESYSTEM
 * (libcrypto failed) */
SHOAL_MUST_USE shoal_status shoali_proof(const uint8_t *token, size_t token_bytes, int from_dialler,
                                         const uint8_t dialler_hello[SHOALI_HELLO_BYTES],
                                         const uint8_t listener_hello[SHOALI_HELLO_BYTES],
                                         uint8_t mac_out[SHOALI_MAC_BYTES]);
void shoali_proof_encode(const uint8_t mac[SHOALI_MAC_BYTES], uint8_t out[SHOALI_PROOF_BYTES]);

void shoali_refusal_encode(shoal_status status, const char *text,
                           uint8_t out[SHOALI_REFUSAL_BYTES]);
/** Any text becomes printable; any status that is no refusal becomes EAUTH. */
shoal_status shoali_refusal_decode(const uint8_t in[SHOALI_REFUSAL_BYTES],
                                   char text_out[SHOALI_REFUSAL_TEXT_BYTES]);

#endif
