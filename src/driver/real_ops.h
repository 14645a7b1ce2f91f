/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of a real worker. */
#ifndef SHOALI_DRIVER_REAL_OPS_H
#define SHOALI_DRIVER_REAL_OPS_H

#include "collective/schedule.h"
#include "driver/real_auto.h"
#include "shoal/sync.h"
#include "sync/sync.h"

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

/** The progress thread's. */
typedef struct shoali_real_ops {
    shoali_real_op *open, *unstarted, *spare;
    bool telling;                       /* of operations that did not start */
    shoal_tensor *table;                /* room for one operation's */
    char among[SHOALI_COLLECTIVE_SPEC]; /* instead of the collective, among among_count members:
                                           fewer than all */
    uint32_t among_count;               /* 0: there was no such group yet */
    shoal_error culprit;     /* of the latest operation that failed by somebody's doing */
    uint32_t *final_members; /* of the last average at an end; read after the GO on FINISH */
    uint32_t final_count;
    uint64_t first_start_us; /* of this step's operations; 0: none yet */
    uint64_t counted_us;     /* until when operations' time is in the statistics */
} shoali_real_ops;

struct shoali_real_note;
/** A range is ready: what is known of its rows, for the operation that carries it. */
void shoali_real_keep_rows(shoal_sync *sync, const struct shoali_real_note *note);
/** Start an operation. One that cannot start ends like any other, only sooner: put to unstarted. */
void shoali_real_op_start(shoal_sync *sync, const shoali_sync_op *from);
/** Its within_us is over. */
void shoali_real_op_hurry(shoal_sync *sync, uint64_t id);
void shoali_real_op_cancel(shoal_sync *sync, uint64_t id);
void shoali_real_ops_cancel(shoal_sync *sync);
/** Tell the machine of operations that did not start. */
void shoali_real_ops_unstarted(shoal_sync *sync);
void shoali_real_ops_fini(shoal_sync *sync);
/** A part of an operation has ended; with the last one the machine hears of it. */
void shoali_real_op_part(shoali_real_op *op, shoal_status status, const shoal_error *error);

#endif
