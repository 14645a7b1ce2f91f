/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's parts share this struct; users see include/shoal/train.h only. */
#ifndef SHOALI_TRAIN_TRAINER_H
#define SHOALI_TRAIN_TRAINER_H

#include <stdio.h>

#include "data/loader.h"
#include "data/sampler.h"
#include "nn/nn.h"
#include "nn/optim.h"
#include "shoal/train.h"
#include "train/checkpoint_folder.h"
#include "train/digest.h"
#include "train/together.h"
#include "train/written.h"

/** Sums over the steps of this process, for the summary; times in microseconds. */
typedef struct shoali_totals {
    uint64_t steps, skipped;
    double step_us, compute_us, wait_us, comm_us, encode_us, decode_us, update_us;
    double data_us, forward_us, backward_us; /* of compute_us */
    double disk_us, paused_us, own_samples;  /* for straggler.c */
    double payload_bytes, received_bytes, raw_bytes;
    uint64_t samples; /* of all workers */
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

/** Checkpoints of replicas that differ (apart.c). */
typedef struct shoali_apart {
    bool able;     /* the protocol's workers may each write their own, at their own time */
    bool given_up; /* somebody was lost: none before the end */
    struct shoali_apart_written {
        uint64_t step, at_us;
    } * written; /* [count, room for more] of place 0: not known to be whole, ascending */
    uint32_t count, room;
    uint32_t seen; /* workers whose files of written[0] are there */
} shoali_apart;

struct shoal_train {
    shoal_train_desc desc; /* strings copied into the arena, defaults filled in */
    shoal_arena *arena;
    shoal_comm *comm; /* NULL: alone */
    uint32_t rank, workers;
    bool server;                  /* dedicated: contributes nothing */
    uint32_t *members;            /* workers' ranks, for the trainer's own small operations */
    uint32_t member_count, place; /* all of them until some are lost; this one's index */
    bool loose;                   /* replicas differ until the end, or until others come */

    shoal_model *model;
    shoal_model_info info;
    const shoal_tensor *tensors;
    uint32_t tensor_count;
    shoali_net *net;              /* NULL by a plan */
    struct shoali_hybrid *hybrid; /* NULL unless by a plan: then stages instead of a net */
    shoali_simulated *simulated;  /* NULL: one worker per process; simulated.h */
    shoali_codec_choice *choice;  /* NULL unless the codec is "auto"; codec_choice.h */
    shoali_trace *trace;          /* NULL: nobody wants one; trace.h */
    struct shoali_admm *admm;     /* NULL: no constraint; admm.h */
    float *params, *grads;        /* of this worker: all, by a plan its parts */
    size_t param_count;
    shoali_dataset *dataset;
    shoali_sampler *sampler;
    shoali_optim *optim;
    shoali_lr *lr;
    shoal_sync *sync; /* NULL: no exchange */
    shoali_crop crop, test_crop;
    float *x; /* one batch */
    uint32_t *labels, *order;
    uint32_t *lengths; /* frames of a batch's sequences; NULL: no sequences */
    bool owner_used;   /* the optimiser runs at owners: its state differs by rank */
    uint64_t owner_iteration;
    uint64_t owner_saved; /* steps of the last file that the owner wrote (dedicated servers) */

    uint64_t step, steps, steps_per_epoch; /* done; of the whole run; of one epoch */
    /* reform.c: these workers began at this step, in this epoch, behind so many of its samples */
    uint64_t from_step, from_epoch;
    uint32_t from_sample;
    bool
        unconcluded; /* the step is done, but not what follows it: checks, evaluation, checkpoint */
    struct {
        bool asked, agreed; /* this worker was asked; all know that one was */
        uint64_t next;      /* step after which they ask each other, the same on all */
    } stop;                 /* stop.c */
    bool torn;              /* taking over another's state broke off: this one's is of no use */
    uint64_t membership;    /* epoch of the communicator */
    uint64_t state_bytes, state_us; /* of the last time that state was taken over */
    /* batch norm as it was before a test at the run's end, within an epoch: a run that goes on has
     * made no such test, which averages it; NULL: none yet */
    float *own_state;
    uint64_t own_step; /* of own_state */
    bool carries; /* loose: its protocol carries something on, which lies in carried between two */
    float *carried;    /* [param_count], of the arena; NULL: nothing yet */
    uint64_t left_out; /* loose: samples that nobody takes, as those who should were behind */
    uint32_t test_batch;
    struct {
        size_t offset, count;
        uint64_t ready_us;
    } * ranges; /* without overlap: what is ready, in backward order */
    uint32_t range_count;

    double epoch_loss, epoch_us;
    uint64_t epoch_samples, epoch_total_samples;
    double train_loss, test_loss, test_accuracy, symbol_error_rate, bits_per_byte, last_epoch_s;
    bool epoch_over;        /* the next step begins another */
    float *worker_accuracy; /* [workers] loose: of each replica on its own, percent */
    shoali_totals totals;
    shoali_pace pace;
    shoali_pass_times pass; /* of the newest */
    shoali_uneven uneven;
    FILE *metrics; /* their lines, in memory: marks.text */
    shoali_metrics_marks marks;
    shoali_apart apart;

    float *recent;           /* straggler.c: what is judged of the last steps; NULL: alone */
    double disk_us;          /* writing its part of checkpoints, since the last step */
    uint64_t paused_us;      /* of the communicator, at the end of the last step */
    shoal_train_rank *ranks; /* [workers] what they measured, once judged */
    bool judged;

    const char *model_json;  /* of the run or checkpoint that this goes on from; NULL: its spec's */
    char data_sha256[65];    /* rank 0 of a run with a folder; else empty */
    shoali_checkpoint saved; /* the newest that all have written, or that this goes on from */
    int events;              /* events.c: descriptor + 1; 0: none */
    int folder_lock;         /* folder.c: descriptor + 1; 0: none */
    bool folder_new;         /* it was not there, and nothing has been trained yet */
    int dump_lock;           /* gradients.c: the same of the folder that they go to */
    uint64_t began_us;       /* this process's part of the run */
    shoal_train_loss *losses; /* losses.c */
    uint32_t loss_count;
};

/* pace.c */
void shoali_pace_start(shoali_pace *pace);
/** Read desc.slow_random; NULL: none. */
SHOAL_MUST_USE shoal_status shoali_pace_chance(shoali_pace *pace, const char *text);
/** How slow this worker is in this step. */
void shoali_pace_step(shoali_pace *pace, uint64_t seed, uint32_t worker, uint32_t workers,
                      uint64_t step);
/** A layer's share of the step is done: sleep as long as it should still take. */
void shoali_pace_layer(shoali_pace *pace, double flops_done);

/* batch.c */
SHOAL_MUST_USE shoal_status shoali_train_fit_sequences(const shoal_train *train);
SHOAL_MUST_USE shoal_status shoali_train_fit_pairs(const shoal_train *train);
SHOAL_MUST_USE shoal_status shoali_train_make_batch(shoal_train *train);
/** Samples into x, labels and lengths; crop and first_serial are for images. */
void shoali_train_fill(shoal_train *train, const shoali_split *split, const uint32_t *indices,
                       uint32_t count, uint64_t first_serial, const shoali_crop *crop);

/** Forward and backward pass on a share of the training split; gradients go to train->grads, and
 * when its parts began to train->pass. */
SHOAL_MUST_USE shoal_status shoali_train_pass(shoal_train *train, const shoali_share *share,
                                              shoali_grads_ready ready, void *ctx,
                                              shoali_loss *loss_out);

/* trainer.c */
/** By how much a step multiplies these gradients of all parameters: --clip-norm. */
float shoali_train_clip(const shoal_train *train, const float *grads, float grad_scale);

/* setup.c */
/** shoal_train_create, with a model that is described here instead of opened by desc's spec. */
SHOAL_MUST_USE shoal_status shoali_train_create_as(shoal_comm *comm, const shoal_train_desc *desc,
                                                   const char *model_json, shoal_train **train_out);
/** Model, data and optimiser as one of so many workers has them, and nobody to exchange with. */
SHOAL_MUST_USE shoal_status shoali_train_open_alone(const shoal_train_desc *desc, uint32_t workers,
                                                    shoal_train **train_out);

#endif
