/* SPDX-License-Identifier: Apache-2.0 */
/* Real ranks as forked processes, with a deadline over all. A rank's function checks with rank_*: a
 * failure prints and ends that process, which fails the test. Nothing survives: whoever is left is
 * killed. */
#ifndef SHOALI_TESTS_SUPPORT_RANKS_H
#define SHOALI_TESTS_SUPPORT_RANKS_H

#include <stdatomic.h>
#include <sys/types.h>

#include "shoal/shoal.h"
#include "support/check.h"

enum { RANKS_MAX = 8 };

/** Shared by all ranks and the test. */
typedef struct ranks_board {
    atomic_uint ready;    /* how many ranks have reached the point that the test waits for */
    atomic_uint go;       /* set by the test */
    atomic_uint reformed; /* how often a rank has entered another epoch */
    atomic_ullong at_us;  /* when the test did what it does to a rank */
    struct {
        atomic_uint steps; /* how far it got */
        uint64_t took_us;
        shoal_error error; /* the last error of the call that the test is about */
    } rank[RANKS_MAX];
} ranks_board;

typedef struct rank_env {
    uint32_t rank, size;
    shoal_comm_desc desc; /* rank, world size, place, token and transport are set */
    ranks_board *board;
    const void *arg;
} rank_env;

typedef struct ranks {
    uint32_t size;
    char place[256];
    int place_fd;
    pid_t pids[RANKS_MAX];
    int ends[RANKS_MAX];  /* a pipe that closes when the rank ends */
    int codes[RANKS_MAX]; /* exit code, or -signal */
    bool over[RANKS_MAX];
    ranks_board *board;
} ranks;

/** Start size ranks that run fn and exit with 0. scheme: "tcp" | "file"; transport: spec or
 * NULL. */
void ranks_start(ranks *r, uint32_t size, const char *scheme, const char *transport,
                 void (*fn)(const rank_env *env), const void *arg);
/** Until count ranks have added themselves to board->ready; fails the test after timeout_us, but a
 * minute at least, as all limits here do: they end what hangs. */
void ranks_wait_ready(ranks *r, uint32_t count, int64_t timeout_us);
void ranks_kill(ranks *r, uint32_t rank, int signal);
/** Wait for all ranks but `except` (RANKS_MAX: none), then kill what is left and free. Fails the
 * test if one of those
 *  waited for does not exit with 0, or not in time. */
void ranks_finish(ranks *r, uint32_t except, int64_t timeout_us);
/** The same for one rank alone; all others are killed. */
void ranks_finish_one(ranks *r, uint32_t rank, int64_t timeout_us);
/** All of it: every rank must return from fn. */
void ranks_run(uint32_t size, const char *scheme, const char *transport,
               void (*fn)(const rank_env *env), const void *arg, int64_t timeout_us);

/** Inside of a rank: create with env->desc. */
shoal_comm *rank_join(const rank_env *env);
/** Until count ranks have added themselves to board->ready; fails after 10 s. */
void rank_wait_ready(const rank_env *env, uint32_t count);
/** Add this one and wait for count: nobody leaves before all have seen what they should. */
void rank_meet(const rank_env *env, uint32_t count);
/** Take the last error to the board. */
void rank_note_error(const rank_env *env);

void rank_fail(const char *what, const char *file, int line);
#define rank_check(condition) ((condition) ? (void)0 : rank_fail(#condition, __FILE__, __LINE__))
#define rank_status(call, wanted) rank_got((call), (wanted), #call, __FILE__, __LINE__)
#define rank_ok(call) rank_status(call, SHOAL_OK)
void rank_got(shoal_status got, shoal_status wanted, const char *call, const char *file, int line);
/** The last error's text contains part. */
void rank_error_has(const char *part);

#endif
