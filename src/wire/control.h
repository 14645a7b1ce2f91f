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

enum {
    SHOALI_OP_TEXT_BYTES = 64,
    SHOALI_ABORT_TEXT_BYTES = 384,
    SHOALI_RECORD_HOST_BYTES = 64,
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

/** What a rank has measured of itself, totals since its communicator began. */
enum {
    SHOALI_FARE_DATA_US,   /* making its batches */
    SHOALI_FARE_DISK_US,   /* writing its part of checkpoints, without an operation */
    SHOALI_FARE_PAUSED_US, /* its process did not run */
    SHOALI_FARE_PAUSES,    /* so often */
    SHOALI_FARE_SAMPLES,   /* taken */
    SHOALI_FARES
};

/** How far a rank's training is. */
typedef struct shoali_progress {
    uint64_t step;        /* made by all, of the run; 0: it does not train, or none yet */
    uint32_t epoch;       /* in which the last step was, from 1 */
    float loss, accuracy; /* of its own samples in the last step; when last tested, percent. NaN:
                             not known */
} shoali_progress;
enum { SHOALI_PROGRESS_BYTES = 20 };

/** heartbeat: what the sender does now, for how long, and how it has fared. */
typedef struct shoali_heartbeat {
    uint32_t
        busy; /* 1: text is an operation under way; 0: it is the last one that ended, "" for none */
    uint64_t for_us;
    char text[SHOALI_OP_TEXT_BYTES];
    uint64_t ended;   /* operations that have ended on the sender */
    uint64_t idle_us; /* time without an operation so far: what it spent computing */
    uint64_t sends_bytes_s, receives_bytes_s; /* of its best connection each way; 0: not known */
    uint64_t to_you_bytes_s;                  /* of its connection to the receiver of this frame */
    uint64_t fares[SHOALI_FARES];
    shoali_progress progress;
} shoali_heartbeat;
enum {
    SHOALI_HEARTBEAT_BYTES = 12 + SHOALI_OP_TEXT_BYTES + 40 + 8 * SHOALI_FARES +
                             SHOALI_PROGRESS_BYTES
};

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

/** The status socket of a rank (watch/serve.c) speaks no frames: a question of 8 bytes, then
 * one head and a row for each rank. */
enum { SHOALI_STATUS_VERSION = 2, SHOALI_STATUS_ASK_BYTES = 8, SHOALI_STATUS_MAX_RANKS = 65536 };

typedef struct shoali_status_head {
    uint32_t rank, ranks; /* who answers, of how many */
    uint64_t epoch, age_us;
    char job[64];
} shoali_status_head;
enum { SHOALI_STATUS_HEAD_BYTES = SHOALI_STATUS_ASK_BYTES + 24 + 64 };

/* As NCCL's RAS has it: missing has not come yet, unresponsive is silent, dead is given up. */
enum {
    SHOALI_RANK_RUNNING,
    SHOALI_RANK_MISSING,
    SHOALI_RANK_UNRESPONSIVE,
    SHOALI_RANK_DEAD,
    SHOALI_RANK_LEFT, /* said goodbye */
    SHOALI_RANK_STATES
};
enum { SHOALI_STATUS_CAUSES = 7 }; /* SHOALI_SLOW_* of watch/slow.h */

/** What the answering rank knows of another. */
typedef struct shoali_status_row {
    uint32_t state, cause;
    uint32_t busy;          /* text is an operation under way, for for_us; else the last one */
    uint32_t last_permille; /* of the windows in which it was last */
    uint64_t for_us, last_seen_us, ended;
    uint64_t compute_us; /* between two operations, mean of the last window */
    uint64_t caused_us;  /* mean wait that it causes, per operation */
    uint64_t slow_for_us;
    uint64_t sends_bytes_s, receives_bytes_s;
    char host[SHOALI_RECORD_HOST_BYTES], text[SHOALI_OP_TEXT_BYTES];
    uint64_t data_us, disk_us, paused_us; /* per operation, mean of the windows that are judged */
    uint64_t samples_milli;               /* the same, in thousandths of a sample */
    shoali_progress progress;
} shoali_status_row;
enum {
    SHOALI_STATUS_ROW_BYTES = 16 + 64 + SHOALI_RECORD_HOST_BYTES + SHOALI_OP_TEXT_BYTES + 32 +
                              SHOALI_PROGRESS_BYTES
};

size_t shoali_status_ask_encode(uint8_t out[SHOALI_STATUS_ASK_BYTES]);
bool shoali_status_ask_decode(const uint8_t *bytes, size_t len_bytes);
size_t shoali_status_head_encode(const shoali_status_head *head,
                                 uint8_t out[SHOALI_STATUS_HEAD_BYTES]);
bool shoali_status_head_decode(const uint8_t *bytes, size_t len_bytes,
                               shoali_status_head *head_out);
size_t shoali_status_row_encode(const shoali_status_row *row, uint8_t out[SHOALI_STATUS_ROW_BYTES]);
bool shoali_status_row_decode(const uint8_t *bytes, size_t len_bytes, shoali_status_row *row_out);

size_t shoali_ready_encode(const shoali_ready *message, uint8_t out[SHOALI_READY_BYTES]);
bool shoali_ready_decode(const uint8_t *bytes, size_t len_bytes, shoali_ready *message_out);
size_t shoali_abort_encode(const shoali_abort *message, uint8_t out[SHOALI_ABORT_BYTES]);
bool shoali_abort_decode(const uint8_t *bytes, size_t len_bytes, shoali_abort *message_out);
size_t shoali_ask_encode(const shoali_ask *message, uint8_t out[SHOALI_ASK_BYTES]);
bool shoali_ask_decode(const uint8_t *bytes, size_t len_bytes, shoali_ask *message_out);
size_t shoali_answer_encode(const shoali_answer *message, uint8_t out[SHOALI_ANSWER_BYTES]);
bool shoali_answer_decode(const uint8_t *bytes, size_t len_bytes, shoali_answer *message_out);
size_t shoali_heartbeat_encode(const shoali_heartbeat *message,
                               uint8_t out[SHOALI_HEARTBEAT_BYTES]);
bool shoali_heartbeat_decode(const uint8_t *bytes, size_t len_bytes, shoali_heartbeat *message_out);
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
