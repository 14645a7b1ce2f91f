/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker of a training keeps of parts of its work. */
#ifndef SHOALI_WORKER_PARTS_H
#define SHOALI_WORKER_PARTS_H

#include <stdio.h>

#include "data/loader.h"
#include "data/sampler.h"
#include "files/checkpoint_folder.h"
#include "files/digest.h"
#include "nn/nn.h"
#include "nn/optim.h"
#include "shoal/train.h"

/** Sums over the steps of this process, for the summary; times in microseconds. */
typedef struct shoali_totals {
    uint64_t steps, skipped;
    double step_us, compute_us, wait_us, comm_us, encode_us, decode_us, update_us;
    double data_us, forward_us, backward_us; /* of compute_us */
    double disk_us, paused_us, own_samples;  /* for straggler.c */
    double payload_bytes, received_bytes, raw_bytes;
    uint64_t samples;  /* of all workers */
    uint64_t began_us; /* this process's part of the run */
} shoali_totals;

/** Slows the computation down on purpose: a slow machine, or a compute time of its own (pace.c). */
typedef struct shoali_pace {
    double slow, deadline_us, total_flops;
    double usual, chance_slow,
        chance; /* slow without chance; --lab random: by, in so many of one */
    double done_flops, slept_us;
    uint64_t start_us;
} shoali_pace;

/** One pass over a batch: when it went over to the next part. */
typedef struct shoali_pass_times {
    uint64_t began_us, made_us, turned_us; /* making the batch; forward; backward */
} shoali_pass_times;

typedef struct shoali_simulated shoali_simulated;

/** --batch auto (uneven.c). */
typedef struct shoali_uneven {
    uint64_t from;     /* step at which this process began */
    double best;       /* samples per second in the steps of this round; 0: none yet */
    float *rates;      /* [workers] */
    uint32_t *batches; /* [workers] */
} shoali_uneven;
typedef struct shoali_codec_choice shoali_codec_choice;
typedef struct shoali_trace shoali_trace;

/** How long a metrics file was, and what it held; bytes 0: not known. */
typedef struct shoali_metrics_at {
    char file[64]; /* its name in OUT */
    uint64_t bytes;
    char sha256[SHOALI_DIGEST_CHARS + 1];
} shoali_metrics_at;

/** A rank's metrics on the disk, and what its checkpoint says of them (metrics_cut.c). */
typedef struct shoali_metrics_marks {
    int file;   /* descriptor + 1; 0: none */
    char *text; /* [bytes] lines that are not in the file yet */
    size_t bytes;
    bool behind, lost;   /* it finds no room: lines wait, or have been given up */
    uint64_t flushed_us; /* when lines were last written, or were to be */
    shoal_error *missed; /* why the last checkpoint is not there; NULL: it is, or is to come */
    const char *path;
    bool common;          /* it is rank 0's, which also has what concerns all */
    shoali_digest digest; /* of its first `hashed` bytes */
    uint64_t hashed;
    shoali_metrics_at at; /* of the newest checkpoint, or of the one that this goes on from */
} shoali_metrics_marks;

typedef struct shoali_step_times {
    double step_us, compute_us, update_us, loss, lr;
    double data_us, forward_us, backward_us; /* of compute_us; 0: not told apart (by a plan) */
    uint32_t samples, epoch;                 /* epoch: from 0 */
    uint64_t first, step_first; /* serials of the first sample of this worker, of all of them */
    uint32_t total;             /* samples of all workers */
    bool skipped;
    bool untold; /* there is no loss: a simulation of times alone */
    shoal_sync_stats sync;
} shoali_step_times;

/** Checkpoints of replicas that differ (folder/apart.c). */
typedef struct shoali_apart {
    bool able;     /* the protocol's workers may each write their own, at their own time */
    bool given_up; /* somebody was lost: none before the end */
    struct shoali_apart_written {
        uint64_t step, at_us;
    } * written; /* [count, room for more] of place 0: not known to be whole, ascending */
    uint32_t count, room;
    uint32_t seen; /* workers whose files of written[0] are there */
} shoali_apart;

#endif
