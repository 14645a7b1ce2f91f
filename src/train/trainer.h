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

/** Sums over the steps of this process, for the summary; times in microseconds. */
typedef struct shoali_totals {
    uint64_t steps, skipped;
    double step_us, compute_us, wait_us, comm_us, encode_us, decode_us, update_us;
    double payload_bytes, raw_bytes;
} shoali_totals;

/** Slows the computation down on purpose: a slow machine, or a compute time of its own (pace.c). */
typedef struct shoali_pace {
    double slow, deadline_us, total_flops;
    double done_flops, slept_us;
    uint64_t start_us;
} shoali_pace;

typedef struct shoali_simulated shoali_simulated;

/** --batch auto (uneven.c). */
typedef struct shoali_uneven {
    uint64_t from;     /* step at which this process began */
    double best;       /* samples per second in the steps of this round; 0: none yet */
    float *rates;      /* [workers] */
    uint32_t *batches; /* [workers] */
} shoali_uneven;
typedef struct shoali_codec_choice shoali_codec_choice;

struct shoal_train {
    shoal_train_desc desc; /* strings copied into the arena, defaults filled in */
    shoal_arena *arena;
    shoal_comm *comm; /* NULL: alone */
    uint32_t rank, workers;
    bool server;                  /* dedicated: contributes nothing */
    uint32_t *members;            /* workers' ranks, for the trainer's own small operations */
    uint32_t member_count, place; /* all of them until some are lost; this one's index */
    bool loose;                   /* replicas differ until the end */

    shoal_model *model;
    shoal_model_info info;
    const shoal_tensor *tensors;
    uint32_t tensor_count;
    shoali_net *net;              /* NULL by a plan */
    struct shoali_hybrid *hybrid; /* NULL unless by a plan: then stages instead of a net */
    shoali_simulated *simulated;  /* NULL: one worker per process; simulated.h */
    shoali_codec_choice *choice;  /* NULL unless the codec is "auto"; codec_choice.h */
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
    bool torn;       /* taking over another's state broke off: this one's is of no use */
    uint64_t membership;            /* epoch of the communicator */
    uint64_t state_bytes, state_us; /* of the last time that state was taken over */
    uint32_t test_batch;
    struct {
        size_t offset, count;
        uint64_t ready_us;
    } * ranges; /* without overlap: what is ready, in backward order */
    uint32_t range_count;

    double epoch_loss, epoch_us;
    uint64_t epoch_samples, epoch_total_samples;
    double train_loss, test_loss, test_accuracy, symbol_error_rate, last_epoch_s;
    bool epoch_over;        /* the next step begins another */
    float *worker_accuracy; /* [workers] loose: of each replica on its own, percent */
    shoali_totals totals;
    shoali_pace pace;
    shoali_uneven uneven;
    FILE *metrics;

    float *recent_us;        /* straggler.c: compute time of the last steps; NULL: nobody else */
    shoal_train_rank *ranks; /* [workers] what they measured, once judged */
    bool judged;

    int folder_lock;          /* folder.c: descriptor + 1; 0: none */
    uint64_t began_us;        /* this process's part of the run */
    shoal_train_loss *losses; /* losses.c */
    uint32_t loss_count;
};

/* pace.c */
void shoali_pace_start(shoali_pace *pace);
/** A layer's share of the step is done: sleep as long as it should still take. */
void shoali_pace_layer(shoali_pace *pace, double flops_done);

/* batch.c */
SHOAL_MUST_USE shoal_status shoali_train_fit_sequences(const shoal_train *train);
SHOAL_MUST_USE shoal_status shoali_train_make_batch(shoal_train *train);
/** Samples into x, labels and lengths; crop and first_serial are for images. */
void shoali_train_fill(shoal_train *train, const shoali_split *split, const uint32_t *indices,
                       uint32_t count, uint64_t first_serial, const shoali_crop *crop);

/** Forward and backward pass on a share of the training split; gradients go to train->grads. */
SHOAL_MUST_USE shoal_status shoali_train_pass(shoal_train *train, const shoali_share *share,
                                              shoali_grads_ready ready, void *ctx,
                                              shoali_loss *loss_out);

/* setup.c */
/** Model, data and optimiser as one of so many workers has them, and nobody to exchange with. */
SHOAL_MUST_USE shoal_status shoali_train_open_alone(const shoal_train_desc *desc, uint32_t workers,
                                                    shoal_train **train_out);

/* uneven.c */
SHOAL_MUST_USE shoal_status shoali_uneven_create(shoal_train *train);
/** A step from `before` to train->step is done; at some of the first ones all workers meet here. */
SHOAL_MUST_USE shoal_status shoali_uneven_step(shoal_train *train, const shoali_share *share,
                                               double compute_us, uint64_t before);

/* folder.c */
/** Rank 0: OUT is this run's until the end. EINVAL: another process has it, or it holds another
 *  run; the advice says how to go on. */
SHOAL_MUST_USE shoal_status shoali_folder_hold(shoal_train *train);
void shoali_folder_release(shoal_train *train);
/** Cut a metrics file back to whole lines of steps up to `step`. None there is fine. */
SHOAL_MUST_USE shoal_status shoali_folder_trim(const char *path, uint64_t step);

/* losses.c */
/** Remember who is lost by now: workers that the communicator has lost, or that are no members. */
SHOAL_MUST_USE shoal_status shoali_losses_note(shoal_train *train);

/* collect.c: the trainer's own small exchanges among workers; without a comm they do nothing */
SHOAL_MUST_USE shoal_status shoali_train_reduce(shoal_train *train, float *values, size_t count,
                                                shoal_reduce how, const char *label);
/** Doubles, split into three floats each so that sums keep more digits than a gradient's. */
SHOAL_MUST_USE shoal_status shoali_train_sum(shoal_train *train, double *values, size_t count,
                                             const char *label);
SHOAL_MUST_USE shoal_status shoali_train_check_replicas(shoal_train *train);
/** Losses of the epoch over all workers and, if test is set, of the test split. */
SHOAL_MUST_USE shoal_status shoali_train_evaluate(shoal_train *train, bool test);
/** This worker's replica on the whole test split; percent. */
SHOAL_MUST_USE shoal_status shoali_train_evaluate_alone(shoal_train *train, float *accuracy_out);
/** After shoal_sync_finish: members are those whose parameters made up the result. */
SHOAL_MUST_USE shoal_status shoali_train_drop_lost(shoal_train *train);

/* checkpoint.c */
SHOAL_MUST_USE shoal_status shoali_checkpoint_save(shoal_train *train);
/** A dedicated server's own file, before it takes up the step after a checkpoint. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_save_owner(shoal_train *train, uint64_t steps_done);
SHOAL_MUST_USE shoal_status shoali_checkpoint_load(shoal_train *train);
bool shoali_checkpoint_due(const shoal_train *train, uint64_t steps_done);
/** Weights of the newest checkpoint below desc.start, projected where this model is block-circulant
 * and that one not. */
SHOAL_MUST_USE shoal_status shoali_checkpoint_start(shoal_train *train);

/* gradients.c */
bool shoali_gradients_due(const shoal_train *train);
/** Write rank 0's gradients of the step under way. */
SHOAL_MUST_USE shoal_status shoali_gradients_dump(const shoal_train *train);

/* straggler.c */
SHOAL_MUST_USE shoal_status shoali_straggler_open(shoal_train *train);
void shoali_straggler_step(shoal_train *train, uint64_t step, double compute_us);
/** Collective, after the last step. */
SHOAL_MUST_USE shoal_status shoali_straggler_collect(shoal_train *train);

/* reform.c */
/** Where a step lies: epoch, and step of it (since these workers began). */
void shoali_train_place(const shoal_train *train, uint64_t step, uint64_t *epoch_out,
                        uint64_t *in_epoch_out);
/** How long the run is for these workers. */
void shoali_train_plan_steps(shoal_train *train);
/** A process that entered a running job takes over its state, with all members. */
SHOAL_MUST_USE shoal_status shoali_train_take_state(shoal_train *train);
/** setup.c: start the protocol, from train->step on. */
SHOAL_MUST_USE shoal_status shoali_train_start_sync(shoal_train *train);

/* metrics.c */
typedef struct shoali_step_times {
    double step_us, compute_us, update_us, loss, lr;
    uint32_t samples;
    uint64_t first, step_first; /* serials of the first sample of this worker, of all of them */
    uint32_t total;             /* samples of all workers */
    bool skipped;
    shoal_sync_stats sync;
} shoali_step_times;
SHOAL_MUST_USE shoal_status shoali_metrics_open(shoal_train *train);
SHOAL_MUST_USE shoal_status shoali_metrics_step(shoal_train *train, const shoali_step_times *times);
/** What codec = "auto" measured and chose; probe_us: how long that took. */
SHOAL_MUST_USE shoal_status shoali_metrics_choice(shoal_train *train, double probe_us);
/** What this worker's weights hash to after this step, before the others' are compared with it. */
SHOAL_MUST_USE shoal_status shoali_metrics_replica(shoal_train *train, uint64_t hash);
/** These workers have begun; took_us: since the last step. */
SHOAL_MUST_USE shoal_status shoali_metrics_reform(shoal_train *train, uint64_t took_us);
SHOAL_MUST_USE shoal_status shoali_metrics_epoch(shoal_train *train, uint32_t epoch);

#endif
