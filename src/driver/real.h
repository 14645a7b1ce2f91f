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

#include "collective/schedule.h"
#include "driver/real_auto.h"
#include "driver/real_host.h"
#include "driver/real_ops.h"
#include "driver/tensors.h"
#include "sync/sync.h"

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

/** Notes on their way. Under the lock but for capacity. */
typedef struct shoali_real_notes {
    shoali_real_note *ring;
    uint32_t first, count, capacity;
    bool posted; /* drain, which takes them, is on its way */
} shoali_real_notes;

/** shoal_sync_set_sgd; velocity NULL: not called. */
typedef struct shoali_real_sgd {
    float *velocity;
    float lr, momentum;
} shoali_real_sgd;

struct shoal_sync {
    /* constant */
    shoal_comm *comm;
    shoali_protocol protocol;
    shoali_world world;
    shoali_tensors tensors;
    shoal_tensor *table; /* of the caller */
    uint32_t *endpoints, *hosts;
    char collective[SHOALI_COLLECTIVE_SPEC], codec[160];
    bool sends_rows; /* the collective does, where they are known */
    uint8_t tos;
    uint64_t instance; /* of protocols on this comm: tells their operations and messages apart */
    int64_t wait_limit_us;
    int32_t pid;
    shoali_owner owner; /* before the first step */
    void *owner_user;
    void (*watcher)(void *user, const shoali_sync_bucket *bucket); /* NULL: none */
    void *watcher_user;
    shoali_real_sgd sgd;

    /* the caller's thread */
    struct shoali_task *drain; /* the progress thread's, while it is posted */
    size_t low;                /* everything from here up was announced */
    uint64_t wait_us;          /* inside the two waits of this step */
    bool serving;              /* a server's machine has started */
    uint32_t samples, batch;   /* shoali_sync_set_samples; batch 0: never called */

    /* lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    shoali_real_notes notes;
    bool answered; /* verdict is the answer to the last BEFORE or AFTER */
    bool over;     /* FAIL or GO(stop): the machine has ended */
    bool idle;     /* no operation and no job refers to us */
    shoal_verdict verdict;
    shoal_error error; /* status OK: ended by GO(stop) */
    shoal_sync_stats stats, last_stats;

    /* progress; of ops and density what they say is so */
    shoali_real_ops ops;
    shoali_real_density density;
    shoali_real_machine machine;
    shoali_real_rows *rows; /* [tensors] */
};

#endif
