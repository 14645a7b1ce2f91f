/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of the control frames 16..255 of messages.def, and the record that a rank publishes when
 * it joins. Pure and freestanding. An encoder writes at most the given number of bytes and returns
 * how many; a decoder takes any bytes, returns false for anything an encoder cannot have written,
 * and leaves texts terminated and printable, because they end up in errors and logs. */
#ifndef SHOALI_WIRE_CONTROL_H
#define SHOALI_WIRE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/status.h"

enum {
    SHOALI_ABORT_TEXT_BYTES = 384,
    SHOALI_RECORD_ADDRESS_BYTES = 512, /* of transport.h */
    SHOALI_SPEC_BYTES = 160,           /* of a collective, canonical */
    SHOALI_PLACE_BYTES = 512           /* of a meeting point */
};
#define SHOALI_NOBODY UINT32_MAX /* no endpoint */

/** The four words of shoal_op_id, without the public header. */
typedef struct shoali_wire_id {
    uint64_t group, sequence;
    uint32_t round;
} shoali_wire_id;

/** ready: the sender has entered this operation; the receiver may send it data for slot. */
typedef struct shoali_ready {
    shoali_wire_id id;
    uint64_t epoch, count, hash; /* hash: of everything on which members must agree */
    uint32_t dtype, slot;        /* dtype 0: float32, the only one yet */
    char text[SHOALI_OP_TEXT_BYTES];
} shoali_ready;
enum { SHOALI_READY_BYTES = 24 + 24 + 8 + SHOALI_OP_TEXT_BYTES };

/** abort: this operation has failed on the sender. */
typedef struct shoali_abort {
    shoali_wire_id id;
    uint32_t status;  /* shoal_status; never OK or PENDING */
    uint32_t culprit; /* endpoint that the error is about, or SHOALI_NOBODY */
    char text[SHOALI_ABORT_TEXT_BYTES];
} shoali_abort;
enum { SHOALI_ABORT_BYTES = 24 + 8 + SHOALI_ABORT_TEXT_BYTES };

/** ask: have you entered this operation? */
typedef shoali_wire_id shoali_ask;
enum { SHOALI_ASK_BYTES = 24 };

enum { SHOALI_UNENTERED, SHOALI_ENTERED, SHOALI_FINISHED, SHOALI_FAILED, SHOALI_ANSWER_STATES };

/** answer to ask. */
typedef struct shoali_answer {
    shoali_wire_id id;
    uint32_t state;    /* SHOALI_UNENTERED ... */
    uint64_t since_us; /* how long ago it entered (ENTERED) or ended (FINISHED, FAILED) */
} shoali_answer;
enum { SHOALI_ANSWER_BYTES = 24 + 12 };

/** flow: control bytes of an event-driven collective follow this head. */
typedef struct shoali_flow_head {
    shoali_wire_id id;
    uint16_t kind;
} shoali_flow_head;
enum { SHOALI_FLOW_HEAD_BYTES = 26 };

/** datagram: where the sender takes packets (wire/packet.h), and how large. */
typedef struct shoali_datagram_place {
    uint16_t port;
    uint32_t len_bytes;
    char ip[64]; /* numeric */
} shoali_datagram_place;
enum { SHOALI_DATAGRAM_BYTES = 8 + 64 };

/** serve: contributors ask an aggregator to enter an operation, which it could not know of. Members
 * follow as u32 each, contributors first; none: all endpoints in order. */
typedef struct shoali_serve {
    shoali_wire_id id;
    uint64_t count, hash; /* as in ready */
    uint64_t timeout_us;
    uint32_t contributors, member_count;
    char collective[SHOALI_SPEC_BYTES];
} shoali_serve;
enum { SHOALI_SERVE_BYTES = 24 + 24 + 8 + SHOALI_SPEC_BYTES };

/** invite: the job that an aggregator daemon is asked to join as endpoint ranks + index. */
typedef struct shoali_invite {
    uint32_t ranks, workers, aggregators, index, chunk_elems;
    uint64_t seed, join_timeout_us, peer_timeout_us;
    char job[64], place[SHOALI_PLACE_BYTES];
    char transport[SHOALI_SPEC_BYTES]; /* the ranks' spec: both ends must agree on TLS */
} shoali_invite;
enum { SHOALI_INVITE_BYTES = 20 + 24 + 64 + SHOALI_PLACE_BYTES + SHOALI_SPEC_BYTES };

/** What a rank tells all others when it joins; the address texts are the transports'. */
typedef struct shoali_record {
    uint32_t wire_version, rank, world_size, workers, chunk_elems;
    uint64_t features; /* hash of the tables of codecs and collectives */
    uint64_t seed, incarnation;
    char software[24], job[64], host[SHOALI_RECORD_HOST_BYTES];
    char address[SHOALI_RECORD_ADDRESS_BYTES];      /* of the control transport */
    char near_address[SHOALI_RECORD_ADDRESS_BYTES]; /* of the same-host transport, or "" */
} shoali_record;
enum {
    SHOALI_RECORD_BYTES = 20 + 24 + 24 + 64 + SHOALI_RECORD_HOST_BYTES +
                          2 * SHOALI_RECORD_ADDRESS_BYTES
};

size_t shoali_ready_encode(const shoali_ready *message, uint8_t out[SHOALI_READY_BYTES]);
bool shoali_ready_decode(const uint8_t *bytes, size_t len_bytes, shoali_ready *message_out);
size_t shoali_abort_encode(const shoali_abort *message, uint8_t out[SHOALI_ABORT_BYTES]);
bool shoali_abort_decode(const uint8_t *bytes, size_t len_bytes, shoali_abort *message_out);
size_t shoali_ask_encode(const shoali_ask *message, uint8_t out[SHOALI_ASK_BYTES]);
bool shoali_ask_decode(const uint8_t *bytes, size_t len_bytes, shoali_ask *message_out);
size_t shoali_answer_encode(const shoali_answer *message, uint8_t out[SHOALI_ANSWER_BYTES]);
bool shoali_answer_decode(const uint8_t *bytes, size_t len_bytes, shoali_answer *message_out);
size_t shoali_flow_head_encode(const shoali_flow_head *message,
                               uint8_t out[SHOALI_FLOW_HEAD_BYTES]);
/** The flow's own bytes start at bytes + SHOALI_FLOW_HEAD_BYTES. */
bool shoali_flow_head_decode(const uint8_t *bytes, size_t len_bytes, shoali_flow_head *message_out);
/** Writes the head; the caller puts the members behind it (wire/bytes.h). */
size_t shoali_datagram_encode(const shoali_datagram_place *message,
                              uint8_t out[SHOALI_DATAGRAM_BYTES]);
bool shoali_datagram_decode(const uint8_t *bytes, size_t len_bytes,
                            shoali_datagram_place *message_out);
size_t shoali_serve_encode(const shoali_serve *message, uint8_t out[SHOALI_SERVE_BYTES]);
/** True: behind the head there is nothing, or member_count members. */
bool shoali_serve_decode(const uint8_t *bytes, size_t len_bytes, shoali_serve *message_out);
size_t shoali_invite_encode(const shoali_invite *message, uint8_t out[SHOALI_INVITE_BYTES]);
bool shoali_invite_decode(const uint8_t *bytes, size_t len_bytes, shoali_invite *message_out);
size_t shoali_record_encode(const shoali_record *message, uint8_t out[SHOALI_RECORD_BYTES]);
bool shoali_record_decode(const uint8_t *bytes, size_t len_bytes, shoali_record *message_out);

#endif
