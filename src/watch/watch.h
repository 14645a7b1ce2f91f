/* SPDX-License-Identifier: Apache-2.0 */
/* Who fares how, from heartbeats, and the socket that tells. One thread, but for
 * shoali_watch_slowest. What it watches, it asks and is told: it knows no communicator. */
#ifndef SHOALI_WATCH_WATCH_H
#define SHOALI_WATCH_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "shoal/shoal.h"
#include "shoal/watch.h"
#include "watch/kept.h"
#include "watch/name.h"
#include "watch/slow.h"
#include "wire/control.h"

enum {
    SHOALI_WATCH_WINDOWS = 128, /* of a second each, at least */
    SHOALI_WATCH_CLIENTS = 8,
    SHOALI_WATCH_NOTES_BYTES = 4096,
    SHOALI_WATCH_PATH_BYTES = 108 /* of sun_path */
};

/** What is kept of one rank. */
typedef struct shoali_watched {
    uint64_t ended, idle_us; /* operations, and time without one: it says so; this rank's own */
    uint64_t window_ended, window_idle_us; /* the same when the window began */
    uint64_t to_me_bytes_s;                /* it says so */
    uint64_t sends_bytes_s, receives_bytes_s;
    uint64_t acked_bytes, busy_us; /* of my connection to it, when last looked at */
    uint64_t to_it_bytes_s;
    uint64_t compute_us;                                      /* mean of the last window */
    uint64_t fares[SHOALI_FARES], window_fares[SHOALI_FARES]; /* it says so; when it began */
    shoali_progress progress;
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

/** What the watch asks its owner. */
typedef struct shoali_watch_host {
    void *ctx;
    /** Is this other rank connected and there? */
    bool (*here)(void *ctx, uint32_t rank);
    /** What this rank's connection to another one has carried. */
    void (*carried)(void *ctx, uint32_t rank, shoal_peer_stats *stats);
    /** Of a row: state, last_seen_us, host, busy, for_us, text. */
    void (*row)(void *ctx, uint32_t rank, shoali_status_row *row);
    /** Lines behind the rows. @return their bytes, fewer than SHOALI_WATCH_NOTES_BYTES */
    size_t (*notes)(void *ctx, char out[SHOALI_WATCH_NOTES_BYTES]);
} shoali_watch_host;

typedef struct shoali_watch_desc {
    uint32_t me, ranks, size; /* ranks: those of all endpoints that compute, the first ones */
    uint32_t number;          /* that all ranks of the job share, and no other job has */
    const char *job, *rendezvous;
    int epoll_fd;           /* woken by the socket and its clients, if any; -1: by nobody */
    const uint64_t *now_us; /* the owner's clock: it stands during a round */
    const uint64_t
        *callers_us; /* the callers', where the owner's time is another; NULL: the same */
    shoali_watch_host host;
} shoali_watch_desc;

typedef struct shoali_watch {
    shoali_watch_desc desc;                   /* its texts: NULL */
    shoali_watched *rank;                     /* [size] */
    float *compute_us;                        /* [WINDOWS * size], the newest last */
    float *fares[SHOALI_FARES];               /* the same each, per operation */
    shoali_slow *verdict;                     /* [size] of the last window */
    double *links;                            /* [2 * size] */
    uint64_t window_us[SHOALI_WATCH_WINDOWS]; /* when it began */
    float step_us[SHOALI_WATCH_WINDOWS];      /* mean of an operation and the computing before it */
    uint32_t steps[SHOALI_WATCH_WINDOWS];     /* operations that ended, on a mean rank */
    uint32_t windows;
    uint32_t judged; /* of them, the newest */
    uint64_t started_us, window_started_us;
    uint64_t idle_since_us; /* 0: an operation is open */
    char label[SHOALI_WATCH_LABEL_BYTES];
    int listener;
    char path[SHOALI_WATCH_PATH_BYTES];
    shoali_watch_client clients[SHOALI_WATCH_CLIENTS];
    const shoali_kept *ring;  /* events that this rank keeps; NULL: none */
    _Atomic uint32_t slowest; /* rank, or SHOALI_NOBODY */
    _Atomic uint32_t slowest_cause;
} shoali_watch;

/** Time since then; an instant taken within this round may be younger than the round's own. */
static inline uint64_t shoali_watch_since(const shoali_watch *watch, uint64_t then_us)
{
    return *watch->desc.now_us > then_us ? *watch->desc.now_us - then_us : 0;
}

/* watch.c */
SHOAL_MUST_USE shoal_status shoali_watch_open(const shoali_watch_desc *desc,
                                              shoali_watch **watch_out);
/* Of all the following: NULL is allowed, and nobody watches. */
void shoali_watch_close(shoali_watch *watch);
/** An operation begins while none is open; one has ended, and whether it was one of the caller's;
 * the last open one has ended. */
void shoali_watch_busy(shoali_watch *watch);
void shoali_watch_ended(shoali_watch *watch);
void shoali_watch_idle(shoali_watch *watch);
void shoali_watch_hear(shoali_watch *watch, uint32_t rank, const shoali_heartbeat *beat);
/** Whom all wait for now, and why; false: nobody. Any thread. */
bool shoali_watch_slowest(const shoali_watch *watch, uint32_t *rank_out, const char **cause_out);

/* There is one. */
/** What this rank says of itself, but for the receiver's own rate; its fares and progress are in it
 * already. */
void shoali_watch_say(shoali_watch *watch, shoali_heartbeat *beat);
uint64_t shoali_watch_rate_to(const shoali_watch *watch, uint32_t rank);
/** Once per beat. */
void shoali_watch_judge(shoali_watch *watch);
void shoali_watch_row(const shoali_watch *watch, uint32_t rank, shoali_status_row *row_out);

/* serve.c: the socket. Without one (no folder, no descriptors) a job runs all the same. */
void shoali_watch_serve_open(shoali_watch *watch);
/** NULL is allowed. */
void shoali_watch_serve(shoali_watch *watch);
void shoali_watch_serve_close(shoali_watch *watch);
/** In a forked child: the descriptors go, the name stays. NULL is allowed. */
void shoali_watch_forked(shoali_watch *watch);
/** The folder of this user's sockets, made if it is not there; false: there can be none. */
bool shoali_watch_folder(char *out, size_t bytes);

/* ask.c, answer.c */
struct shoal_watch {
    struct shoal_watch *next; /* another job's */
    shoali_status_head head;
    char name[SHOALI_WATCH_JOB_CHARS + 1]; /* of its sockets, and their number */
    uint32_t number;
    shoali_status_row *rows;
    char notes[SHOALI_WATCH_NOTES_BYTES];
};
/** A whole answer. @return SHOAL_OK | ECORRUPT | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_watch_read(const uint8_t *bytes, size_t len_bytes,
                                              shoal_watch **watch_out);

#endif
