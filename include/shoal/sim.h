/* SPDX-License-Identifier: Apache-2.0 */
/* Simulation: a whole job in one process and in virtual time. The protocols are those that run on
 * real processes; operations cost what their schedules move over links of a given rate, and carry
 * real gradients of a small problem if asked to. The same descriptor gives the same run, bit for
 * bit, on every machine.
 *
 *     shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
 *     desc.workers = 16;
 *     desc.compute = "fixed:ms=200,jitter=0.05,slow=3:5x";
 *     desc.network = "links:rate=120mbit,hosts=4";
 *     shoal_sim_create(&desc, &sim); shoal_sim_run(sim); shoal_sim_results(sim, &results);
 *
 * Not thread-safe: one thread per simulation. */
#ifndef SHOAL_SIM_H
#define SHOAL_SIM_H
/* Of libshoal_train: pkg-config shoal_train. */

#include "shoal/sync.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_sim shoal_sim;

/** What to simulate. Zero and NULL mean the default in brackets; start from SHOAL_SIM_DESC_INIT. */
typedef struct shoal_sim_desc {
    size_t size;            /* sizeof(shoal_sim_desc) */
    uint32_t workers;       /* [4, or the cluster's] 1 .. 4096; dedicated servers come on top */
    uint64_t iterations;    /* [10] of every worker */
    const char *sync;       /* spec ["all_reduce"] */
    const char *collective; /* spec ["ring"] */
    const char *codec;      /* spec ["identity"] */
    /** ["fixed"] Time of a forward and backward pass: "fixed:ms=100,backward=0.667,jitter=0.05,
     *  update_ms=1,slow=2:5x/3:2x,random=6x:0.1,trace=FILE". Gradients become ready back to front
     * in
     *  the backward part; with random any iteration of any worker takes so many times as long, one
     *  in `workers` of them if no probability is given. "model:batch=32,gflops=50,...": from the
     *  model's operations and a rate; without gflops the cluster's accelerators say it. */
    const char *compute;
    /** ["links"] One link up and one down per host: "links:rate=1gbit,latency_us=50,hosts=4,
     *  slow=3:10x,jitter_us=0,loss=0". Endpoints on one host do not use its link among each other.
     */
    const char *network;
    /** [none] A cluster file (docs/cluster.md) in place of `network`: its hosts with their links,
     *  what its accelerators do, stragglers, partitions. */
    const char *cluster;
    /** [none] Spec of a model (shoal/model.h) whose operations count, and whose tensors if
     * `tensors`
     *  are not given. */
    const char *model;
    /** [none] What goes wrong: "plan:die=1@2.5,stop=2@4,leave=0@1,rejoin=1@6,nan=3@7,cut=2@1-1.5,
     *  detect_ms=2500,reform": endpoint @ second, host @ seconds; a NaN comes at an iteration, and
     *  only with real numbers. A cut is a pause; one longer than detect_ms ends the host's
     *  endpoints. A worker that is gone may rejoin where the others go on without it: all begin a
     *  new epoch, and it takes the state of one of them. With reform all_reduce goes on, too. */
    const char *faults;
    /** ["cost"] "cost": no numbers, only time. "quadratic:lr=0.1,momentum=0,noise=0.1,spread=1,
     *  condition=4": every worker minimises its own quadratic, all together their mean. "mixing":
     *  random gradients in the first iteration, then none: how fast do workers agree? */
    const char *problem;
    const shoal_tensor
        *tensors; /* [one of 2^20 elements] the model, as in shoal_sync_desc; copied */
    uint32_t tensor_count;
    size_t bucket_bytes;       /* [4 MiB] */
    shoal_nonfinite nonfinite; /* [stop] */
    uint64_t seed;             /* [1] of everything random */
    uint32_t chunk_elems;      /* [65536] unit of coding, with real numbers */
    /** [none] End the run at this virtual second, wherever workers are then, and take `iterations`
     *  for endless: rates without the tail in which fast workers wait for slow ones. */
    double until_s;
    /** [1] Every byte of an operation counts so often: few numbers that take as long as many. */
    double inflate;
    /** [none] File for a timeline in Chrome's trace format (Perfetto, chrome://tracing): compute,
     *  waits, operations. */
    const char *timeline;
    /** [none] File with a line for every event that a machine was fed. */
    const char *log;
} shoal_sim_desc;
/** A descriptor with every default. */
#define SHOAL_SIM_DESC_INIT                                                                       \
    {                                                                                             \
        sizeof(shoal_sim_desc), 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
            0, 0, SHOAL_NONFINITE_STOP, 0, 0, 0, 0, NULL, NULL                                    \
    }

/** What came out, over all endpoints. Times are virtual. */
typedef struct shoal_sim_results {
    size_t size;
    uint64_t duration_ns;  /* until the last worker was through */
    uint64_t iteration_ns; /* mean over workers of their time per finished iteration */
    uint64_t iterations_min, iterations_max; /* finished, over workers */
    uint64_t gradients;     /* computed, by all workers: fewer where a protocol skips iterations */
    uint64_t gap_max;       /* largest difference of iterations between two workers at any time */
    uint64_t staleness_max; /* largest difference of iterations inside one operation */
    uint64_t compute_ns, idle_ns; /* summed over workers; idle: inside the two waits */
    uint64_t sent_bytes;          /* payload of all endpoints, coded */
    uint64_t busiest_link_bytes;
    uint64_t operations;
    uint64_t skipped;  /* steps that a worker skipped because of a value not finite */
    uint64_t events;   /* that protocol machines were fed */
    uint64_t log_hash; /* of all of them with their times: equal runs, equal hash */
    uint64_t params;   /* elements of the model */
    uint64_t epochs;   /* begun after the first, as workers came back or (reform) were lost */
    double excess;     /* quadratic: loss of the mean model above its minimum */
    /** Of networks (shoal_train_simulate), else NaN: mean loss of the samples of the last part of
     *  the curve; of the workers' mean model, and how many percent of the test split it gets right.
     */
    double train_loss, test_loss, test_accuracy;
} shoal_sim_results;

typedef enum shoal_sim_end {
    SHOAL_SIM_RUNNING, /* not through yet: before or after a run that came to a stop */
    SHOAL_SIM_DONE,    /* all its iterations, or a server that was no longer needed */
    SHOAL_SIM_STOPPED, /* the protocol ended early, because a peer left */
    SHOAL_SIM_FAILED,  /* with status and text */
    SHOAL_SIM_DEAD     /* by the fault plan */
} shoal_sim_end;

/** One endpoint's share. */
typedef struct shoal_sim_endpoint_results {
    size_t size;
    shoal_sim_end end;
    shoal_status status; /* of FAILED, else SHOAL_OK */
    char text[256];      /* why it failed */
    uint64_t iterations, gradients, compute_ns, idle_ns;
    uint64_t sent_bytes, received_bytes;
    /** Of a network whose replicas differ: percent, before the final average; else NaN. */
    double test_accuracy;
    uint64_t refused; /* of its updates, by the others: diloco:trust=median */
} shoal_sim_endpoint_results;

/**
 * Set a job up; nothing runs yet.
 * @param sim_out owned by the caller; shoal_sim_destroy.
 * @return SHOAL_OK | EINVAL (a spec, or parts that do not fit each other) | ENOTSUP | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sim_create(const shoal_sim_desc *desc,
                                                       shoal_sim **sim_out);
/** NULL is allowed. */
SHOAL_API void shoal_sim_destroy(shoal_sim *sim);

/** With sync "auto": what was chosen, with the numbers that it was chosen by, in a line; NULL with
 * any other. Valid as long as the simulation. */
SHOAL_API const char *shoal_sim_chosen(const shoal_sim *sim);

/** How far a run is. */
typedef struct shoal_sim_progress {
    size_t size;
    /** Iterations that all workers together have finished, and have to finish; with until_s the
     *  virtual second, and until_s. Where workers are lost or come back, more or fewer are done. */
    double done, total;
    double virtual_s;
} shoal_sim_progress;

/**
 * Be told how far a run is: on the thread that runs it, each time that a worker has finished an
 * iteration. Before shoal_sim_run; the results are the same. tell NULL: no longer.
 * @return SHOAL_OK | EINVAL: sim is NULL
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sim_watch(
    shoal_sim *sim, void (*tell)(void *ctx, const shoal_sim_progress *progress), void *ctx);

/**
 * End the run early, from any thread, a signal's handler or what shoal_sim_watch calls: at the next
 * event shoal_sim_run returns ECANCELLED, and none of its files is there after shoal_sim_destroy.
 * A run that is over by then stays as it is. NULL is allowed.
 */
SHOAL_API void shoal_sim_stop(shoal_sim *sim);

/**
 * Be a job that can be asked while it runs, as a real one: shoal_watch_ask (shoal/watch.h), `shoal
 * status`, `shoal watch`. Times in the answers are virtual, and so is the window over which it is
 * judged who is slow. Answers come from the thread that runs it, between two events: where a
 * gradient takes long, so does an answer. Before shoal_sim_run, and once; over when that returns.
 * Without a folder for sockets it runs all the same, and the results are the same.
 * @param job its name; NULL: SHOAL_JOB, else sim-PID
 * @return SHOAL_OK | EINVAL | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sim_serve(shoal_sim *sim, const char *job);

/** Files that a run leaves, in the form of a real run's; NULL: none. Times in them are virtual,
 * from 0 on, which events write as 1970. The same simulation writes the same bytes. */
typedef struct shoal_sim_files {
    size_t size;
    const char *out;   /* a run folder (docs/run-folders.md), without checkpoints */
    const char *trace; /* who did what when (docs/trace.md) */
    /** A JSON object: what run.json says the run was started with, by the names of `shoal sim
     * --help`; over them what the simulation makes of them. */
    const char *options;
} shoal_sim_files;
/** Nothing is written. */
#define SHOAL_SIM_FILES_INIT                      \
    {                                             \
        sizeof(shoal_sim_files), NULL, NULL, NULL \
    }
/**
 * Have files written: before shoal_sim_run, and once. The folder is the simulation's until it is
 * destroyed. Where there are no numbers, no losses are told.
 * @return SHOAL_OK | EINVAL: another run has the folder, or it holds one | EIO | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sim_keep(shoal_sim *sim, const shoal_sim_files *files);

/**
 * Run until every endpoint has ended. Results can be read after a failure, too.
 * @return SHOAL_OK: all workers did all iterations | the status of the first endpoint that failed |
 *         ECANCELLED: a worker ended early, and nobody failed | ETIMEDOUT: a deadlock, or an hour
 *         of virtual time without progress; the text names an endpoint that waits and where
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sim_run(shoal_sim *sim);

/** Set results_out->size first. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sim_results_get(const shoal_sim *sim,
                                                            shoal_sim_results *results_out);
/** The same for one endpoint: workers first, then dedicated servers. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sim_endpoint_get(
    const shoal_sim *sim, uint32_t endpoint, shoal_sim_endpoint_results *results_out);
/** Time that a worker spent waiting, by whom it waited for: array[endpoints] in ns. An operation's
 * time before its last member came is that member's; a message's is its sender's; at the worker's
 * own place stands what is left: transfers, latencies. Valid until destroy; NULL: no such worker.
 */
SHOAL_API const uint64_t *shoal_sim_waits(const shoal_sim *sim, uint32_t worker);

/** The job at one moment. With numbers: of a quadratic the loss of the mean model above its
 * minimum, of a network the mean loss of the samples that workers took since the point before, and
 * the mean squared distance of workers from their mean; else NaN. */
typedef struct shoal_sim_point {
    double time_s, iterations; /* iterations: mean over workers */
    double loss, consensus;
    uint64_t iterations_min, iterations_max; /* of the worker that has done least, and most */
} shoal_sim_point;
/** A few hundred points over the whole run; the first is its start. Valid until destroy. */
SHOAL_API const shoal_sim_point *shoal_sim_curve(const shoal_sim *sim, uint32_t *count_out);

/** Parameters of an endpoint with real numbers, valid until destroy; NULL with problem = cost. */
SHOAL_API const float *shoal_sim_params(const shoal_sim *sim, uint32_t endpoint, size_t *count_out);

#ifdef __cplusplus
}
#endif
#endif
