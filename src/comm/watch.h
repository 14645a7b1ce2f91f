/* SPDX-License-Identifier: Apache-2.0 */
/* Who fares how, from heartbeats, and the socket that tells. Progress thread only, but for
 * shoali_comm_slowest (comm.h). */
#ifndef SHOALI_COMM_WATCH_H
#define SHOALI_COMM_WATCH_H

#include <stdatomic.h>

#include "comm/slow.h"
#include "comm/watch_name.h"
#include "shoal/watch.h"
#include "wire/control.h"

enum {
    SHOALI_WATCH_WINDOWS = 128, /* of a second each, at least */
    SHOALI_WATCH_CLIENTS = 8,
    SHOALI_WATCH_NOTES_BYTES = 4096,
    SHOALI_WATCH_PATH_BYTES = 108 /* of sun_path */
};

/** What is kept of one rank. */
typedef struct shoali_watched {
    uint64_t window_ended, window_idle_us; /* its counters when the window began */
    uint64_t to_me_bytes_s;                /* it says so */
    uint64_t sends_bytes_s, receives_bytes_s;
    uint64_t acked_bytes, busy_us; /* of my connection to it, when last looked at */
    uint64_t to_it_bytes_s;
    uint64_t compute_us;    /* mean of the last window */
    uint64_t slow_since_us; /* 0: it is not */
} shoali_watched;

typedef struct shoali_watch_client {
    int fd; /* -1: free */
    uint8_t ask[SHOALI_STATUS_ASK_BYTES];
    size_t asked;
    uint8_t *answer; /* NULL: not asked yet */
    size_t answer_bytes, sent;
    uint64_t until_us;
} shoali_watch_client;

typedef struct shoali_watch {
    shoali_watched *rank;
    float *compute_us;                        /* [WINDOWS * size], the newest last */
    shoali_slow *verdict;                     /* [size] of the last window */
    double *links;                            /* [2 * size] */
    uint64_t window_us[SHOALI_WATCH_WINDOWS]; /* when it began */
    float step_us[SHOALI_WATCH_WINDOWS];      /* mean of an operation and the computing before it */
    uint32_t steps[SHOALI_WATCH_WINDOWS];     /* operations that ended, on a mean rank */
    uint32_t windows;
    uint64_t started_us, window_started_us;
    uint64_t ended, idle_us, idle_since_us; /* this rank's; since 0: an operation is open */
    char label[SHOALI_WATCH_LABEL_BYTES];
    uint32_t number; /* of the job: watch_name.h */
    int listener;
    char path[SHOALI_WATCH_PATH_BYTES];
    shoali_watch_client clients[SHOALI_WATCH_CLIENTS];
    _Atomic uint32_t slowest; /* rank, or SHOALI_NOBODY */
    _Atomic uint32_t slowest_cause;
} shoali_watch;

/* watch.c */
struct shoal_comm;
/** @param number that all ranks share. */
SHOAL_MUST_USE shoal_status shoali_watch_open(struct shoal_comm *comm, uint32_t number);
void shoali_watch_close_all(struct shoal_comm *comm);
/** An operation begins while none is open; the last open one has ended. */
void shoali_watch_busy(struct shoal_comm *comm);
void shoali_watch_idle(struct shoal_comm *comm);
/** What this rank says of itself, but for the receiver's own rate. */
void shoali_watch_say(struct shoal_comm *comm, shoali_heartbeat *beat);
uint64_t shoali_watch_rate_to(const struct shoal_comm *comm, uint32_t rank);
void shoali_watch_hear(struct shoal_comm *comm, uint32_t rank, const shoali_heartbeat *beat);
/** Once per beat. */
void shoali_watch_judge(struct shoal_comm *comm);
void shoali_watch_row(const struct shoal_comm *comm, uint32_t rank, shoali_status_row *row_out);

/* watch_serve.c: the socket. Without one (no folder, no descriptors) a job runs all the same. */
void shoali_watch_serve_open(struct shoal_comm *comm);
void shoali_watch_serve(struct shoal_comm *comm);
void shoali_watch_serve_close(struct shoal_comm *comm, bool forked);
/** The folder of this user's sockets, made if it is not there; false: there can be none. */
bool shoali_watch_folder(char *out, size_t bytes);

/* watch_ask.c */
struct shoal_watch {
    struct shoal_watch *next; /* another job's */
    shoali_status_head head;
    shoali_status_row *rows;
    char notes[SHOALI_WATCH_NOTES_BYTES];
};
/** A whole answer. @return SHOAL_OK | ECORRUPT | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_watch_read(const uint8_t *bytes, size_t len_bytes,
                                              shoal_watch **watch_out);

#endif
