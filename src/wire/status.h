/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank tells of itself in each heartbeat, and of all ranks to who asks its status socket.
 * The rules of control.h hold; control.c has the code. */
#ifndef SHOALI_WIRE_STATUS_H
#define SHOALI_WIRE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHOALI_OP_TEXT_BYTES = 64, SHOALI_RECORD_HOST_BYTES = 64 };

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

size_t shoali_heartbeat_encode(const shoali_heartbeat *message,
                               uint8_t out[SHOALI_HEARTBEAT_BYTES]);
bool shoali_heartbeat_decode(const uint8_t *bytes, size_t len_bytes, shoali_heartbeat *message_out);

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

#endif
