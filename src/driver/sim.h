/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the simulator; only sim*.c and tests include it. sim.c: descriptor, run, results.
 * sim_host.c: one machine per endpoint, its actions and the worker's loop around it. sim_ops.c:
 * operations, from the first member that enters to the last that is told; sim_places.c: where they
 * are kept. sim_volume.c: what an operation puts on the links. sim_flow.c: its numbers.
 * sim_numbers.c: parameters and gradients of the endpoints. sim_epoch.c: the lost come back. */
#ifndef SHOALI_DRIVER_SIM_H
#define SHOALI_DRIVER_SIM_H

#include "driver/sim_types.h"

struct shoal_sim {
    /* what is simulated */
    shoali_protocol protocol;
    shoali_sync_choice choice; /* --sync auto */
    shoal_codec *codec, *identity;
    char collective[SHOALI_COLLECTIVE_SPEC];
    char among[SHOALI_COLLECTIVE_SPEC]; /* instead, among fewer than all: of the last such group */
    struct {
        shoali_sim_compute compute;
        shoali_sim_network network;
        shoali_sim_faults faults;
        bool cluster_lent;    /* it is the caller's */
        const double *pass_s; /* [workers], while it is set up; NULL: compute says it */
    } asked;
    struct {
        shoali_sim_rate *lines; /* of network's trace, by time */
        uint32_t count, room;
        double *now; /* [2 * hosts] bits per second, by link; NULL: they do not change */
    } rate;
    struct {
        shoali_sim_pace *lines; /* by time */
        uint32_t count, room;
    } pace;
    shoali_cluster *cluster; /* NULL: network says it all */
    shoali_problem *problem; /* NULL: a task, or cost only */
    shoali_task task;        /* without ctx: none */
    bool numbers;            /* one of both */
    shoal_tensor *tensors;
    uint32_t tensor_count, workers, size; /* size: workers and dedicated servers */
    size_t count;
    uint64_t iterations, seed;
    uint32_t chunk_elems;
    struct {                      /* for one operation */
        shoal_tensor *tensors;    /* its table: [tensor_count] */
        float **residual_of;      /* the same for its residuals: [size * tensor_count] */
        float *const **residuals; /* [size] */
    } room;
    /* the world */
    uint64_t now_ns, latency_ns, progress_ns;
    shoali_sim_queue queue;
    shoali_links *net;
    struct {
        uint32_t *endpoint_ids, *hosts;
        uint32_t worker_hosts, pair_links, own_links; /* sim_world.c: firsts of their kind */
        uint32_t link_count, *link_place;             /* sim_volume.c */
    } world;
    struct {
        uint64_t *last_arrival; /* [size * size] of messages, from and to; NULL: none overtakes */
        uint64_t *sent_messages;
        shoali_sim_break_up *cuts;
        uint32_t cut_count;
    } wire;
    shoali_sim_node *nodes;
    struct {
        uint32_t ended, gone;
        bool turning;     /* it ends: all stop between two iterations and begin anew */
        uint64_t turn_at; /* turning: not before this iteration */
        uint32_t *live_ids, *live_hosts; /* of a world without its lost: [size] */
    } epoch;
    struct {
        shoali_sim_op *places;
        uint32_t count, capacity, free; /* free: a free place + 1 */
        uint32_t *table;                /* [4 * capacity] place + 1 by the hash of its id */
    } ops;
    struct {
        shoali_sim_collective collectives[SHOALI_SIM_COLLECTIVES];
        uint32_t collective_count;
        shoali_volume *volumes[SHOALI_SIM_VOLUMES]; /* NULL: free */
        shoali_scratch *scratch;
        shoal_arena *arena; /* schedules, while they are counted */
    } kept;
    struct { /* what came out */
        shoal_sim_results results;
        uint64_t until_ns; /* the end of the run, 0: none */
        double inflate;
        uint64_t *waits;   /* [workers * size] */
        uint32_t cause;    /* who brought the event that is being fed; NO_CAUSE */
        uint64_t cause_ns; /* and when it came to what all waited for */
        shoal_sim_point *curve;
        uint32_t curve_count;
        uint64_t steps, steps_to_point; /* worker-iterations: all; from one point to the next */
        uint64_t stood_ns, stood_steps; /* how many of them ended at one moment, the newest */
    } report;
    struct {
        shoali_sim_files files;
        shoali_sim_keeper keeper;
        shoali_sim_onlookers onlookers;
    } told;
    shoal_status status; /* of the simulator itself */
    shoal_error error;
    struct {
        void (*on_event)(void *ctx, shoal_sim *sim, uint32_t endpoint, const shoali_event *event);
        void (*on_send)(void *ctx, uint32_t from, uint32_t to); /* to: SHOALI_EVERYBODY, too */
        void *ctx;                                              /* of both */
        uint64_t inject_at; /* event number, UINT64_MAX: never */
        uint32_t inject_fault, inject_endpoint;
    } test;
};

/** Take a row that is not in the table, and be called before every event that a machine is fed. */
SHOAL_MUST_USE shoal_status shoali_sim_create_row(const shoal_sim_desc *desc,
                                                  const shoali_sync_row *row, shoal_sim **sim_out);

/* sim_host.c */
SHOAL_MUST_USE shoal_status shoali_sim_start(shoal_sim *sim);
/** Handle everything but MOVE. Failures of the simulator itself end in sim->status. */
void shoali_sim_handle(shoal_sim *sim, const shoali_sim_event *event);
/** Free an event's message, if it is one on its way; and those of all. */
void shoali_sim_message_free(const shoali_sim_event *event);
void shoali_sim_messages_fini(shoal_sim *sim);
/** A machine hears that its operation ended. */
void shoali_sim_op_done(shoal_sim *sim, uint32_t endpoint, uint64_t id, shoal_status status,
                        const char *text);
/** Remember the first failure of the simulator itself. */
void shoali_sim_break(shoal_sim *sim, shoal_status status);
void shoali_sim_at(shoal_sim *sim, uint64_t at_ns, uint32_t kind, uint32_t endpoint, uint64_t a,
                   uint64_t b);

/* sim_epoch.c */
/** An endpoint that was gone is back: knock, or wait until the others know that it was gone. */
void shoali_sim_rejoin(shoal_sim *sim, uint32_t endpoint);
/** The others hear of it: the epoch ends, unless the job does. */
void shoali_sim_knock(shoal_sim *sim, uint32_t endpoint);
/** The others know that an endpoint is lost. */
void shoali_sim_lost(shoal_sim *sim);
/** Iterations of a worker in this epoch. */
uint64_t shoali_sim_limit(const shoal_sim *sim);
/** Note that an endpoint ended with its epoch, and not for good; status: as its machine ended. */
bool shoali_sim_rests(shoal_sim *sim, uint32_t endpoint, shoal_status status);
/** All endpoints have ended; false: for good. */
bool shoali_sim_turn(shoal_sim *sim);
/** The next epoch: machines, operations, messages and timers are new. */
void shoali_sim_begin_epoch(shoal_sim *sim);

/* sim_host.c for sim_epoch.c */
void shoali_sim_begin_endpoint(shoal_sim *sim, uint32_t endpoint);
void shoali_sim_tell_lost(shoal_sim *sim, uint32_t endpoint, uint32_t lost);

#endif
