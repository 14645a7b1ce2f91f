/* SPDX-License-Identifier: Apache-2.0 */
/* Training: a model, a data set, a synchronisation protocol and an optimiser, one step per call.
 *
 *     shoal_train_create(comm, &desc, &train)
 *     do shoal_train_step(train, &progress) while (!progress.done)
 *     shoal_train_summarise(train, &summary)
 *     shoal_train_destroy(train)
 *
 * All workers of the comm call the same functions in the same order; a dedicated server (rank >=
 * workers) calls shoal_train_serve in the place of the loop. Everything random depends on (seed,
 * epoch, step, sample) only, so a resumed run goes on bit for bit as if it had not stopped,
 * optimiser state and residuals included. */
#ifndef SHOAL_TRAIN_H
#define SHOAL_TRAIN_H
/* Of libshoal_train: pkg-config shoal_train. */

#include "shoal/job.h"
#include "shoal/sim.h"
#include "shoal/sync.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_train shoal_train;

/** What to train. NULL and 0 mean the default in brackets; start from SHOAL_TRAIN_DESC_INIT. */
typedef struct shoal_train_desc {
    size_t size;
    const char *model;  /* [the plan's, the resumed run's] spec or file, as for shoal_model_open */
    const char *data;   /* [the resumed run's] directory of a data set: IDX (MNIST's files), CIFAR
                           binary, sequences (docs/sequence-models.md) */
    const char *out;    /* [none] directory for metrics and checkpoints; made if missing */
    const char *plan;   /* [none] a file of shoal_partition_save: layers divided by data or by model
                         over 2^H workers. Its batch is that of all workers together. */
    const char *resume; /* [none] an earlier run's out: go on from its newest checkpoint */
    const char *start;  /* [none] an earlier run's out: begin with the weights of its newest
                           checkpoint; or a .safetensors file, or a folder with
                           model.safetensors. Matrices that were whole there and are block-circulant
                           in this model become the nearest ones; a head that a foreign file lacks
                           begins with first weights */
    const char *admm;   /* [none] "admm:rho=1e-4,...": pull whole matrices towards block-circulant
                           ones (shoal_admm_parse); iterations are spread over the run's epochs */
    const char *admm_model; /* [none] the same model with block-circulant matrices */
    const char *sync;       /* ["all_reduce"] */
    const char *collective; /* ["ring"] */
    const char *codec;      /* ["identity"]; "auto" measures in the first steps and chooses among
                               lossless ones, "auto:allow=terngrad+eden" among these, too */
    const char *optimizer;  /* ["sgd:momentum=0.9"] */
    const char *schedule;   /* ["constant"] of the learning rate */
    double lr;              /* [0.02] base learning rate */
    double clip_norm;       /* [0: not] the gradient that a step applies gets at most this norm,
                               over all parameters: the mean's where gradients are summed, each
                               worker's own where replicas differ */
    const char *augment; /* [none] "crop=4,flip": images in training are cut out of themselves with
                               so many black pixels around, and mirrored every second time */
    double label_smoothing; /* [0] so much of a label goes to all classes alike, in training */
    uint32_t batch;         /* [64, or the plan's] samples per worker and step */
    bool batch_auto; /* batch is the mean: each worker gets as many samples as make all take equally
                        long, measured in the first 15 steps */
    uint32_t epochs; /* [1] */
    uint64_t max_steps;  /* [0: none] stop after so many steps in all */
    uint64_t seed;       /* [1] of weights, order of samples, dropout */
    size_t bucket_bytes; /* [4 MiB] */
    shoal_nonfinite nonfinite;
    uint32_t check_every; /* [100] steps between comparisons of the replicas; UINT32_MAX: never */
    /* [0: at the end of every epoch, or of the run where the protocol can have none before]
     * steps between checkpoints; shoal_job_check refuses it where it can have none */
    uint64_t checkpoint_every;
    double slow; /* [1] this rank computes so many times slower (emulated) */
    double
        compute_ms;   /* [0: as long as it takes] forward and backward pass last at least so long */
    bool no_overlap;  /* exchange starts after the whole backward pass */
    bool no_exchange; /* no communication at all: every rank trains alone (to measure compute time)
                       */
    bool no_evaluation;         /* skip the test split */
    uint32_t evaluate_every;    /* [1] epochs between two looks at the test split; the last one is
                                always looked at */
    uint32_t simulate;          /* [0: not] so many workers in this one process, without a comm:
                                   real gradients, the engine's own exchange, no time */
    const char *dump_gradients; /* [none] directory for rank 0's gradients before the exchange, one
                                   safetensors file per dumped step: what shoal_gradients_open
                                   reads. Such a step does not overlap */
    uint64_t dump_every;        /* [100] steps between dumps; the first step is dumped, too */
    uint8_t tos; /* IP ToS of the gradients' connections; 0x28 marks compressible traffic */
    bool reform; /* workers may change: shoal_train_reform; not with servers, and the comm has it */
    const char *trace; /* [none] file for a trace of all workers, written by shoal_train_summarise:
                          docs/trace.md; not with simulate, plan, no_exchange */
    uint64_t trace_last; /* [0: all that the ring holds, and the longest] newest steps in it */
    const char *options; /* [none] more options of the caller's, a JSON object of texts and of lists
                            of texts; OUT/run.json keeps them for who goes on: shoal_run_option */
    const char *slow_random; /* [none] "6x:0.1": any step of any rank takes so many times longer by
                                chance (emulated), without a chance one in N of N ranks; which ones
                                follows from seed, rank and step, as in shoal_sim */
    bool may_stop; /* shoal_train_ask_to_stop may end the run early. Workers ask each other at most
                      twice a second; they have to be in step (all_reduce), with out, and without
                      servers, plan, admm, no_exchange */
    bool keep_events; /* the newest are kept in memory for shoal_train_trace_job, also without
                         trace: 1 MB; those of the longest steps go to OUT/slowest.json at the end;
                         not with simulate, plan, no_exchange, and for one alone */
} shoal_train_desc;
#define SHOAL_TRAIN_DESC_INIT            \
    {                                    \
        .size = sizeof(shoal_train_desc) \
    }

/** The job that a description asks for, to be checked before anything starts. Texts stay the
 * description's. @param workers of the communicator; desc->simulate counts instead where it is set.
 */
SHOAL_API void shoal_train_job(const shoal_train_desc *desc, uint32_t workers, shoal_job *job_out);

/**
 * Open model and data, draw or load the weights, start the protocol. All ranks must pass the same
 * desc (but slow).
 * @param comm borrowed until shoal_train_destroy; NULL: a single worker without a network.
 * @return SHOAL_OK | EINVAL (names the field) | EIO, ECORRUPT (files: name, offset, reason) |
 * ENOMEM | what shoal_sync_create returns
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_train_create(shoal_comm *comm,
                                                         const shoal_train_desc *desc,
                                                         shoal_train **train_out);
/** Leaves politely; the files are complete. NULL is allowed. */
SHOAL_API void shoal_train_destroy(shoal_train *train);

/** Training towards block-circulant matrices with ADMM (docs/circulant.md): whole matrices are
 * trained `dense` epochs, then iterations * epochs more under a growing penalty on their distance
 * from block-circulant ones; at last they are projected and trained on. A shoal_train is the middle
 * part: `dense` is for the caller, who strings the three together by `start`. */
typedef struct shoal_admm {
    double rho, factor; /* weight of the penalty; by which it grows per iteration */
    int64_t iterations, epochs, dense;
    double lr; /* learning rate of the middle part over the run's */
} shoal_admm;
/** @param spec "admm:rho=1e-4,factor=3,iterations=7,epochs=1,dense=4,lr=0.5", all optional.
 *  @return SHOAL_OK | EINVAL (key and range named) */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_admm_parse(const char *spec, shoal_admm *admm_out);

/** Gradients of one step, as a run with dump_gradients wrote them, or any safetensors file of
 * float32 tensors. */
typedef struct shoal_gradients shoal_gradients;
/** @return SHOAL_OK | EIO | ECORRUPT (file and reason named) | ENOMEM */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_gradients_open(const char *path,
                                                           shoal_gradients **gradients_out);
/** Tensor i: its values, its name and how many there are; NULL behind the last. */
SHOAL_API const float *shoal_gradients_at(const shoal_gradients *gradients, uint32_t i,
                                          const char **name_out, size_t *count_out);
/** NULL is allowed. */
SHOAL_API void shoal_gradients_close(shoal_gradients *gradients);

/** After a step. */
typedef struct shoal_train_progress {
    size_t size;
    uint64_t step, steps;   /* done, of the whole run */
    uint32_t epoch, epochs; /* done, of the run */
    double loss;            /* mean over this rank's samples of the epoch so far, nats */
    double samples_per_s;   /* of all workers, over the epoch so far */
    bool epoch_ended; /* the fields below are of the epoch that just ended, over all workers */
    double train_loss, test_loss,
        test_accuracy;        /* accuracy in percent; NaN without an evaluation */
    double symbol_error_rate; /* of sequences: edits per symbol, between runs of the best scores and
                                 runs of the labels, percent (accuracy is of frames); else NaN */
    double bits_per_byte; /* of texts as tokens: all bits of the test split's tokens by all bytes
                             that these stand for; else NaN */
    double epoch_s;       /* without evaluation and checkpoint */
    double admm_gap; /* how far whole matrices are from block-circulant ones, as a part of their
                        norm, after the latest iteration of ADMM; else NaN */
    bool skipped;    /* a gradient was not finite: no update, on any rank */
    bool done;
    int32_t slow_rank;  /* whom all wait for in these seconds, -1: nobody */
    char slow_cause[8]; /* "compute" or "network" */
    bool reports;       /* no worker of a lower rank is there: this one should print */
    bool stopped; /* a worker was asked to stop: all have this step in a checkpoint, and make no
                     further one */
} shoal_train_progress;

/**
 * One training step; at the end of an epoch also evaluation and checkpoint.
 * @return SHOAL_OK | ENOTFINITE (rank, layer and element named) | EMISMATCH (replicas differ) |
 * EPEER, ETIMEDOUT (rank named) | EIO (gradients, or a checkpoint to stop at, could not be written)
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_train_step(shoal_train *train,
                                                       shoal_train_progress *progress_out);

/** This worker is asked to stop, by a batch system say: one of the next steps ends with a
 * checkpoint on all workers, and says so in its progress. Between two steps; only with may_stop. */
SHOAL_API void shoal_train_ask_to_stop(shoal_train *train);

/**
 * Go on with other workers, after shoal_train_step, _reform or _summarise has failed with EPEER,
 * EEPOCH, ETIMEDOUT or ECANCELLED, on all workers: shoal_comm_reform, then who is behind takes over
 * weights, optimiser, batch norm and place from the first that is furthest, and the rest of the
 * epoch's samples is divided anew: none is lost or taken twice. A failing call may be repeated. A
 * process that enters the running job does all this in shoal_train_create.
 * @param comm the run's; out: the next epoch's, also on failure
 * @return SHOAL_OK | EINVAL (not created with reform) | what shoal_comm_reform returns | EPEER: one
 *         more worker is lost, or all that had the state
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_train_reform(shoal_train *train, shoal_comm **comm,
                                                         int64_t timeout_us);

/** The model's spec, of the desc or of the run that is resumed; borrowed from the train. */
SHOAL_API const char *shoal_train_model(const shoal_train *train);

/** With codec = "auto": a codec that was measured, and what became of it. The same on all ranks;
 * times are the slowest rank's. */
typedef struct shoal_train_candidate {
    size_t size;
    const char *codec; /* borrowed from the train */
    bool lossless, chosen;
    bool barred;  /* its error is beyond the bound: it is not chosen */
    double error; /* relative squared error of a sample's sum; 0: lossless; NAN: not measured */
    double
        exchange_ms; /* all gradients of a step, nothing else running; infinity: not measurable */
    double code_ms;  /* encode and decode of it */
    double sent_bytes;
    double step_ms; /* predicted */
} shoal_train_candidate;
/** Candidate i; false behind the last one, and before the choice, which falls in the third step.
 * The first is "off": identity. A resumed run goes on with its checkpoint's choice, unmeasured. */
SHOAL_API bool shoal_train_choice(const shoal_train *train, uint32_t i,
                                  shoal_train_candidate *candidate_out);
/** With codec = "auto:error=E": the bound, and how it is held (docs/codecs.md). */
typedef struct shoal_train_codec_check {
    size_t size;
    double most;     /* E: relative squared error of the mean gradient */
    uint64_t every;  /* steps from one check to the next */
    uint64_t checks; /* that this process has made */
    double last;     /* error of the newest; NAN: there was none */
} shoal_train_codec_check;
/** False: there is no bound, or nobody to exchange with. */
SHOAL_API bool shoal_train_codec_bound(const shoal_train *train,
                                       shoal_train_codec_check *check_out);
/** A codec that broke the bound; the same on all ranks, specs borrowed from the train. */
typedef struct shoal_train_codec_fall {
    size_t size;
    const char *from, *to; /* to: in use from the step behind `step` on */
    uint64_t step;         /* in which it was found; its update was exact */
    double error;          /* of that step; infinity: not a number */
} shoal_train_codec_fall;
/** Fall i of this process, the oldest first; false behind the last one. */
SHOAL_API bool shoal_train_codec_fell(const shoal_train *train, uint32_t i,
                                      shoal_train_codec_fall *fall_out);
/** The codec in use now: spec, borrowed from the train until the next step. */
SHOAL_API const char *shoal_train_codec(const shoal_train *train);

/** Train in virtual time: the networks, samples and optimisers of desc in the world of a simulation
 * (shoal/sim.h), up to as many workers as memory holds models. What desc says of both (sync,
 * collective, codec, model, buckets, seed) is taken from it; of world the workers, iterations
 * [desc's epochs], links, compute times, faults and files. The same gradients, exchanges and steps
 * as with real workers; only when they happen is a model.
 * @param sim_out owned by the caller, as from shoal_sim_create: shoal_sim_run, ..._destroy.
 * @return as shoal_train_create and shoal_sim_create; EINVAL: a plan, resume, batch_auto, simulate
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_train_in_virtual_time(const shoal_train_desc *desc,
                                                                  const shoal_sim_desc *world,
                                                                  shoal_sim **sim_out);

/** A dedicated server's part: serve until the workers are done. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_train_serve(shoal_train *train);

/** What this process has counted since it began to train, for who watches it; seconds and bytes are
 * this worker's. */
typedef struct shoal_train_totals {
    size_t size;
    uint64_t steps, skipped;
    uint64_t samples; /* of all workers */
    /** A step is computing, waiting for what is exchanged, updating, and a rest. Exchange, encoding
     * and decoding go on beside it. */
    double step_s, compute_s, wait_s, update_s, exchange_s, encode_s, decode_s;
    double sent_bytes, received_bytes; /* coded gradients and weights */
    double dense_bytes;                /* the same exchange of dense float32 would have sent */
    uint64_t checkpoint_step; /* of the newest that all have written, or went on from; 0: none */
    uint64_t membership;      /* epoch of the members */
    uint32_t workers, lost;   /* that are there, and that were lost since this process began */
    /** Parts of compute_s: making batches, forward and backward passes; 0 by a plan. */
    double data_s, forward_s, backward_s;
} shoal_train_totals;
/** Between two steps, on the thread that makes them. */
SHOAL_API void shoal_train_count(const shoal_train *train, shoal_train_totals *totals_out);

/** The run as a whole, over all workers; the same on every rank. Times are means per step, in
 * milliseconds. */
typedef struct shoal_train_summary {
    size_t size;
    uint32_t workers; /* that are there at the end */
    uint64_t steps, params;
    double test_loss, test_accuracy, train_loss; /* of the last epoch */
    double symbol_error_rate, bits_per_byte;     /* as in shoal_train_progress */
    double seconds, epoch_s; /* training only: without evaluation and checkpoints */
    double step_ms, compute_ms, wait_ms, comm_ms, encode_ms, decode_ms, update_ms;
    double slowest_step_ms; /* mean of the slowest rank */
    double payload_bytes;   /* coded gradients (and weights) sent by all ranks, per step */
    double raw_bytes;       /* the same exchange of dense float32 */
    uint64_t skipped;       /* steps */
    /** Replicas that differ: accuracy of the worst and the best of them before the final average;
     *  NaN where replicas are equal or nothing is evaluated. */
    double worker_accuracy_min, worker_accuracy_max;
    uint32_t ranks; /* of shoal_train_rank_of: the workers, and those that were lost at the end */
    uint32_t reporter; /* the lowest rank that is there: it should print what concerns all */
    /** Of the reporter: within so much every rank's clock is known, the reporter's being right, in
     *  the trace that it has written; NaN where it has not. */
    double trace_error_us;
} shoal_train_summary;
/** Collective: every worker calls it once, after the last step.
 * @return SHOAL_OK | EIO (desc.trace, the last checkpoint, metrics or the end of events.jsonl could
 * not be written: summary_out is there all the same) | EPEER, ETIMEDOUT */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_train_summarise(shoal_train *train,
                                                            shoal_train_summary *summary_out);

/** A worker that the run has gone on without. */
typedef struct shoal_train_loss {
    size_t size;
    uint32_t rank;  /* its rank in */
    uint64_t epoch; /* this epoch of the membership: 0 until the first reform */
    double after_s; /* seconds of this process's training when it was given up */
    uint64_t step;  /* of this worker, when it went on without */
    char host[64];
    char why[256]; /* a sentence */
} shoal_train_loss;
/** Loss i in the order in which they were noticed here; false behind the last. Complete after
 * shoal_train_summarise. */
SHOAL_API bool shoal_train_loss_of(const shoal_train *train, uint32_t i,
                                   shoal_train_loss *loss_out);

/** What shoal_train_trace_job has written. */
typedef struct shoal_train_traced {
    size_t size;
    uint32_t ranks, told; /* of the job; of those that are in the file */
    uint64_t events;
    double seconds; /* from the first event in it until now */
} shoal_train_traced;
/**
 * What the ranks of a running job on this host did in the last seconds, as a file like that of
 * desc.trace: docs/trace.md. Who waits for whom is said where all ranks of the job are here.
 * @param place as of shoal_watch_ask
 * @param traced_out on success
 * @return as shoal_watch_ask; EINVAL, too: the job keeps no events; EIO: the file
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_train_trace_job(const char *place, double last_s,
                                                            int64_t timeout_us, const char *path,
                                                            shoal_train_traced *traced_out);

/** One worker's part in how long a step took; times are means per step. */
typedef struct shoal_train_rank {
    size_t size;
    char host[64];
    double compute_ms, wait_ms; /* computing, and waiting for others */
    /** The wait that it caused: by how much steps would be shorter if it computed as fast as the
     * next slowest; and in which share of steps it arrived last. Over the last 256 steps. */
    double caused_ms, last_share;
    uint64_t since_step; /* from which step on it was last in nearly every one */
    /** Of its best connection each way while there was something to send; 0: not known (shm). */
    double sends_bytes_s, receives_bytes_s;
    /** "compute", "network", "input", "load", "disk", "pause": it is a straggler, for this reason,
     *  and the only one; "": it is none, or not surely: docs/status.md. */
    char cause[16];
    /** Means per step over the run: making batches (part of compute_ms), writing its own part of
     * checkpoints, not running at all (pauses of 0.2 s and more); samples. */
    double data_ms, disk_ms, paused_ms, samples;
} shoal_train_rank;
/** After shoal_train_summarise; equal on every rank. @return SHOAL_OK | EINVAL (no such worker, or
 *  nothing to compare: a single worker, a plan, no exchange) */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_train_rank_of(const shoal_train *train, uint32_t rank,
                                                          shoal_train_rank *rank_out);

#ifdef __cplusplus
}
#endif
#endif
