/* SPDX-License-Identifier: Apache-2.0 */
/* One worker of a training: its parts share this struct; users see include/shoal/train.h only. */
#ifndef SHOALI_WORKER_WORKER_H
#define SHOALI_WORKER_WORKER_H

#include "worker/parts.h"

struct shoal_train {
    shoal_train_desc desc; /* strings copied into the arena, defaults filled in */
    shoal_arena *arena;
    shoal_comm *comm; /* NULL: alone */
    uint32_t rank, workers;
    bool server; /* dedicated: contributes nothing */
    bool loose;  /* replicas differ until the end, or until others come */
    struct {
        uint32_t *ranks;       /* workers' ranks, for the trainer's own small operations */
        uint32_t count, place; /* all of them until some are lost; this one's index */
        uint64_t epoch;        /* of the communicator */
    } members;

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
    shoal_sync *sync; /* NULL: no exchange */
    struct {
        shoali_dataset *set;
        shoali_sampler *sampler;
        shoali_crop crop, test_crop;
        float *x; /* one batch */
        uint32_t *labels, *order;
        uint32_t *lengths; /* frames of a batch's sequences; NULL: no sequences */
        uint32_t test_batch;
    } data;
    struct {
        shoali_optim *optim;
        shoali_lr *lr;
        bool owner_used; /* the optimiser runs at owners: its state differs by rank */
        uint64_t owner_iteration;
        uint64_t owner_saved; /* steps of the last file that the owner wrote (dedicated servers) */
    } update;

    uint64_t step, steps, steps_per_epoch; /* done; of the whole run; of one epoch */
    struct { /* these workers began at this step, in this epoch, behind so many of its samples */
        uint64_t step, epoch;
        uint32_t sample;
    } from; /* reform.c */
    struct {
        bool asked, agreed; /* this worker was asked; all know that one was */
        uint64_t next;      /* step after which they ask each other, the same on all */
    } stop;                 /* stop.c */
    struct {
        bool unconcluded;   /* the step is done, but not what follows it: checks, evaluation,
                               checkpoint */
        bool torn;          /* taking over another's broke off: this one's is of no use */
        uint64_t bytes, us; /* of the last time that it was taken over */
        /* batch norm as it was before a test at the run's end, within an epoch: a run that goes on
         * has made no such test, which averages it; NULL: none yet */
        float *own;
        uint64_t own_step; /* of own */
        bool carries;      /* loose: its protocol carries something on, which lies in carried */
        float *carried;    /* [param_count], of the arena; NULL: nothing yet */
        uint64_t left_out; /* loose: samples that nobody takes, as those who should were behind */
    } state;               /* reform.c */

    struct {
        shoali_pass_times times; /* of the newest */
        struct {
            size_t offset, count;
            uint64_t ready_us;
        } * ranges; /* without overlap: what is ready, in backward order */
        uint32_t range_count;
    } pass;
    struct {
        double loss, us; /* of the one under way */
        uint64_t samples, total_samples;
        bool over; /* the next step begins another */
        double train_loss, test_loss, test_accuracy, symbol_error_rate, bits_per_byte, last_s;
        float *worker_accuracy; /* [workers] loose: of each replica on its own, percent */
    } epoch;
    shoali_totals totals;
    shoali_pace pace;
    shoali_uneven uneven;
    struct {
        float *recent;           /* what is judged of the last steps; NULL: alone */
        double disk_us;          /* writing its part of checkpoints, since the last step */
        uint64_t paused_us;      /* of the communicator, at the end of the last step */
        shoal_train_rank *ranks; /* [workers] what they measured, once judged */
        bool judged;
    } slow; /* straggler.c */

    struct {
        FILE *metrics; /* their lines, in memory: marks.text */
        shoali_metrics_marks marks;
        shoali_apart apart;
        const char *model_json;  /* of the run or checkpoint that this goes on from; NULL: its
                                    spec's */
        char data_sha256[65];    /* rank 0 of a run with a folder; else empty */
        shoali_checkpoint saved; /* the newest that all have written, or that this goes on from */
        int events;              /* events.c: descriptor + 1; 0: none */
        int lock;                /* folder.c: descriptor + 1; 0: none */
        bool fresh;              /* folder.c: it was not there, and nothing has been trained yet */
        int dump_lock;           /* gradients.c: the same of the folder that they go to */
    } folder;
    struct {
        shoal_train_loss *them;
        uint32_t count;
    } lost; /* losses.c */
};

#endif
