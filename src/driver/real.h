/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the real driver; only real*.c include it. real.c: the caller's side, which never runs a
 * machine. real_host.c: the progress thread's side, which feeds the machine and carries out
 * actions; real_ops.c: its operations; real_auto.c: which collective they take, if that is open.
 *
 *   constant   set before the machine starts
 *   lock       under sync->lock: what passes between the caller and the progress thread
 *   progress   the progress thread only */
#ifndef SHOALI_DRIVER_REAL_H
#define SHOALI_DRIVER_REAL_H

#include <pthread.h>

#include "collective/by_density.h"
#include "collective/schedule.h"
#include "comm/comm.h"
#include "driver/driver.h"
#include "driver/tensors.h"
#include "sync/sync.h"

typedef struct shoali_real_bucket shoali_real_bucket;

/** An operation under way. */
typedef struct shoali_real_op {
    struct shoali_real_op *next;
    shoal_sync *sync;
    shoal_op *handle;  /* NULL: it could not start, status and text say why; or it has ended */
    shoal_op *figures; /* beside it: real_auto.c */
    uint32_t parts;    /* of these two that have not ended */
    uint64_t id, iteration, started_us, ended_us;
    size_t offset;
    const float *buf;
    uint32_t contributors;
    shoali_real_bucket *bucket; /* NULL: its collective is fixed */
    bool measures;
    shoal_status status; /* the first that is not OK */
    char text[384];
} shoali_real_op;

typedef struct shoali_real_timer {
    uint64_t id, at_us;
} shoali_real_timer;

/** A message, or the loss of a peer, that came before the machine started. */
typedef struct shoali_real_early {
    struct shoali_real_early *next;
    uint32_t endpoint;
    bool down;
    shoali_down how;  /* of a loss */
    size_t len_bytes; /* of the message, or of the text with its NUL */
    uint8_t bytes[];
} shoali_real_early;

/** What the caller tells the machine. */
typedef struct shoali_real_note {
    shoali_event_kind kind; /* START, READY, BEFORE, AFTER, FINISH, STOP */
    size_t offset, count;   /* of AFTER: samples and batch */
    const uint32_t *rows;   /* READY of one tensor: those that are not zero; NULL: not known */
    size_t row_count;
} shoali_real_note;

/** Rows of a tensor's gradient that are not zero in this step; rows NULL: not known. */
typedef struct shoali_real_rows {
    const uint32_t *rows;
    size_t row_count;
} shoali_real_rows;

struct shoal_sync {
    /* constant */
    shoal_comm *comm;
    shoali_protocol protocol;
    shoali_world world;
    shoali_tensors tensors;
    shoal_tensor *table, *op_table; /* of the caller; room for one operation's */
    uint32_t *endpoints, *hosts;
    char collective[SHOALI_COLLECTIVE_SPEC], codec[160];
    char among[SHOALI_COLLECTIVE_SPEC]; /* instead, among among_count members: fewer than all */
    uint32_t among_count;               /* 0: there was no such group yet */
    bool choosing;                      /* among ways, by density: collective is "auto" */
    bool sends_rows;                    /* the collective does, where they are known */
    shoali_ways ways;
    uint8_t tos;
    uint64_t instance; /* of protocols on this comm: tells their operations and messages apart */
    int64_t wait_limit_us;
    int32_t pid;
    void *state;
    shoali_owner owner; /* before the first step */
    void *owner_user;
    void (*watcher)(void *user, const shoali_sync_bucket *bucket); /* NULL: none */
    void *watcher_user;
    float *velocity; /* of shoal_sync_set_sgd; NULL: not called */
    float lr, momentum;

    /* the caller's thread */
    struct shoali_task *drain; /* the progress thread's, while it is posted */
    size_t low;                /* everything from here up was announced */
    uint64_t wait_us;          /* inside the two waits of this step */
    bool serving;              /* a server's machine has started */
    uint32_t samples, batch;   /* shoali_sync_set_samples; batch 0: never called */

    /* lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    shoali_real_note *notes; /* ring */
    uint32_t note_first, note_count, note_capacity;
    bool posted;   /* drain, which takes the notes, is on its way */
    bool answered; /* verdict is the answer to the last BEFORE or AFTER */
    bool over;     /* FAIL or GO(stop): the machine has ended */
    bool idle;     /* no operation and no job refers to us */
    shoal_verdict verdict;
    shoal_error error; /* status OK: ended by GO(stop) */
    shoal_sync_stats stats, last_stats;

    /* progress */
    shoal_error culprit; /* of the latest operation that failed by somebody's doing */
    shoali_actions actions;
    shoali_real_op *open, *unstarted, *spare;
    shoali_real_bucket *buckets; /* choosing: those seen so far */
    shoali_real_rows *rows;      /* [tensors] */
    bool started;                /* START has been fed */
    shoali_real_early *early, **early_last;
    bool held;         /* MIX or APPLY runs on the work thread */
    bool telling;      /* of operations that did not start */
    shoali_action job; /* held: what it does */
    shoali_mix_term *job_terms;
    uint32_t job_terms_capacity;
    uint8_t *message; /* room for an outgoing one */
    size_t message_capacity;
    shoali_real_timer *timers;
    uint32_t timer_count, timer_capacity;
    uint32_t *final_members; /* of the last average at an end; read after the GO on FINISH */
    uint32_t final_count;
    uint64_t first_start_us; /* of this step's operations; 0: none yet */
    uint64_t counted_us;     /* until when operations' time is in the statistics */
};

/** Listener of the comm. ctx is the sync. */
shoali_comm_listener shoali_real_listener(shoal_sync *sync);
/** Task: hand the caller's notes to the machine. arg is the sync. */
void shoali_real_drain(void *arg);
void shoali_real_host_fini(shoal_sync *sync);

/* real_host.c for real_ops.c */
void shoali_real_feed(shoal_sync *sync, shoali_event *event);
/** End with this thread's last error. */
void shoali_real_break(shoal_sync *sync);
/** Tell the caller that something has changed. */
void shoali_real_signal(shoal_sync *sync);

/* real_ops.c */
/** A range is ready: what is known of its rows, for the operation that carries it. */
void shoali_real_keep_rows(shoal_sync *sync, const shoali_real_note *note);
/** Start an operation. One that cannot start ends like any other, only sooner: put to unstarted. */
void shoali_real_op_start(shoal_sync *sync, const shoali_sync_op *from);
void shoali_real_op_cancel(shoal_sync *sync, uint64_t id);
void shoali_real_ops_cancel(shoal_sync *sync);
/** Tell the machine of operations that did not start. */
void shoali_real_ops_unstarted(shoal_sync *sync);
void shoali_real_ops_fini(shoal_sync *sync);
/** A part of an operation has ended; with the last one the machine hears of it. */
void shoali_real_op_part(shoali_real_op *op, shoal_status status, const shoal_error *error);

/* real_auto.c for real.c and real_ops.c */
/** Choose by density; the codec and the world are known. */
SHOAL_MUST_USE shoal_status shoali_real_auto_open(shoal_sync *sync, const char *spec,
                                                  uint32_t aggregators);
void shoali_real_auto_fini(shoal_sync *sync);
/** Before an operation starts: its collective and codec; it gets a bucket if it goes by one. */
SHOAL_MUST_USE shoal_status shoali_real_auto_before(shoali_real_op *op, const shoali_sync_op *from,
                                                    shoal_op_desc *desc);
/** Elements that this rank would send of a bucket by the dense way. */
uint64_t shoali_real_auto_dense(const shoali_real_bucket *bucket);
/** op->measures: start the small operation beside the one that has just been started. */
void shoali_real_auto_share(shoali_real_op *op, const shoal_op_desc *beside);
/** All parts have ended well: sum is what the bucket holds now. */
SHOAL_MUST_USE shoal_status shoali_real_auto_behind(shoali_real_op *op, const float *sum);

#endif
