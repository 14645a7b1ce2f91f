/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the simulator; only sim*.c and tests include it. sim.c: descriptor, run, results.
 * sim_host.c: one machine per endpoint, its actions and the worker's loop around it. sim_ops.c:
 * operations, from the first member that enters to the last that is told; sim_places.c: where they
 * are kept. sim_volume.c: what an operation puts on the links. sim_flow.c: its numbers.
 * sim_numbers.c: parameters and gradients of the endpoints. sim_epoch.c: the lost come back. */
#ifndef SHOALI_DRIVER_SIM_H
#define SHOALI_DRIVER_SIM_H

#include <stdio.h>

#include "collective/flow.h"
#include "driver/sim_files.h"
#include "driver/sim_net.h"
#include "driver/sim_problem.h"
#include "driver/sim_queue.h"
#include "driver/sim_spec.h"
#include "driver/sim_task.h"
#include "driver/tensors.h"
#include "model/cluster.h"
#include "shoal/model.h"
#include "shoal/sim.h"
#include "sync/choose.h"
#include "sync/sync.h"

/** Kinds of shoali_sim_event, with the use of endpoint, a, b, c. */
enum {
    SHOALI_SIM_READY,   /* endpoint: tensor a becomes ready */
    SHOALI_SIM_BEFORE,  /* endpoint: backward pass over */
    SHOALI_SIM_AFTER,   /* endpoint: update over */
    SHOALI_SIM_FINISH,  /* endpoint: all its iterations are done */
    SHOALI_SIM_STOP,    /* endpoint: its caller has had enough */
    SHOALI_SIM_MESSAGE, /* endpoint (UINT32_MAX: all but the sender) gets parcel a */
    SHOALI_SIM_TIMER,   /* endpoint: timer a of generation b */
    SHOALI_SIM_MOVE,    /* operation a (generation b) starts to move */
    SHOALI_SIM_TELL,    /* endpoint learns the end of operation a (generation b) */
    SHOALI_SIM_FAULT,   /* endpoint meets fault a */
    SHOALI_SIM_NOTICE,  /* everybody notices that endpoint is gone */
    SHOALI_SIM_GOODBYE, /* everybody's connection to endpoint ends, after its last message */
    SHOALI_SIM_CUT,     /* a cut begins or ends */
    SHOALI_SIM_RATE,    /* a host's link has the rates of line a of the trace */
    SHOALI_SIM_KNOCK,   /* the others hear that endpoint wants to come back */
    SHOALI_SIM_EPOCH    /* those who rest and those who came back begin anew */
};
enum { SHOALI_SIM_DIE, SHOALI_SIM_FREEZE, SHOALI_SIM_LEAVE, SHOALI_SIM_REJOIN };

/** What an operation moves. Shared by operations that move the same. */
typedef struct shoali_volume {
    uint64_t key; /* 0: of one operation only */
    uint32_t users;
    shoali_load *loads;
    uint32_t load_count, rounds;
    uint64_t idle_ns;          /* until the first chunk is where it is needed */
    uint64_t *sent, *received; /* bytes by member */
    uint64_t *dense;           /* what sent would be as float32 */
    uint32_t size;
} shoali_volume;

enum { SHOALI_SIM_VOLUMES = 4096, SHOALI_SIM_COLLECTIVES = 16 }; /* kept for reuse */

enum { SHOALI_MEMBER_ABSENT, SHOALI_MEMBER_ENTERED, SHOALI_MEMBER_TOLD };
typedef enum shoali_sim_op_state {
    SHOALI_SIM_OP_FREE,
    SHOALI_SIM_OP_GATHERING, /* members are missing */
    SHOALI_SIM_OP_LATENCY,   /* all are there, first bytes are on their way */
    SHOALI_SIM_OP_MOVING,    /* a coflow of the net */
    SHOALI_SIM_OP_HUNG,      /* a member died and nobody knows yet */
    SHOALI_SIM_OP_FAILED     /* members are told; stays for those who enter later */
} shoali_sim_op_state;

typedef struct shoali_sim_op {
    shoali_sim_op_state state;
    uint32_t generation; /* counts uses of this place */
    uint32_t next_free;  /* of a free place: the next one + 1, 0: none */
    shoali_sync_op op;   /* of the first member to enter; members and collective: NULL */
    uint32_t size, contributors, entered, told;
    uint32_t capacity; /* of the arrays by member */
    uint32_t *members; /* endpoint of each */
    uint8_t *phase;    /* SHOALI_MEMBER_* */
    float **bufs;
    uint64_t *entered_ns;                  /* when each did */
    bool paused;                           /* MOVING across a cut */
    uint64_t iteration_min, iteration_max; /* of the members when they entered */
    uint32_t last;                         /* the member's endpoint that completed it */
    uint64_t began_ns;                     /* when it did */
    shoali_collective *collective;
    shoali_volume *volume;
    shoal_status status;
    char text[224];
} shoali_sim_op;

/** A line of a trace of slowness. */
typedef struct shoali_sim_pace {
    uint64_t from_ns;
    uint32_t worker;
    double factor;
} shoali_sim_pace;

/** A host cut off; hosts of one group still reach each other. */
typedef struct shoali_sim_break_up {
    uint32_t host, group;
    uint64_t from_ns, until_ns;
} shoali_sim_break_up;

/** A collective that protocols named. */
typedef struct shoali_sim_collective {
    char spec[160];
    shoali_collective opened;
} shoali_sim_collective;

typedef struct shoali_sim_timer {
    uint64_t id, generation;
} shoali_sim_timer;

typedef enum shoali_sim_phase {
    SHOALI_SIM_COMPUTING,
    SHOALI_SIM_IN_BEFORE,
    SHOALI_SIM_UPDATING,
    SHOALI_SIM_IN_AFTER,
    SHOALI_SIM_FINISHING,
    SHOALI_SIM_STOPPING,
    SHOALI_SIM_SERVING,
    SHOALI_SIM_RESTING, /* between two epochs: its machine has ended */
    SHOALI_SIM_ENDED
} shoali_sim_phase;

/** What a transform codec keeps of the operations over elements [offset, +count). */
typedef struct shoali_sim_transform {
    size_t offset, count, bytes;
    void *state;
} shoali_sim_transform;

/** One machine and what surrounds it: a worker's loop, its tensors, its account. */
typedef struct shoali_sim_node {
    void *state;
    shoali_actions actions;
    shoali_world world;
    shoali_tensors tensors;
    float *velocity;
    float *residual; /* of error feedback, one per element */
    shoali_sim_transform *transforms;
    size_t transform_count;
    shoali_sim_phase phase;
    shoal_sim_end end;
    bool gone;      /* others know */
    bool leaves;    /* by the plan */
    bool rests;     /* through with its epoch, and there for the next one */
    bool back;      /* was gone, and wants to come in again */
    double base_ns; /* an iteration when nothing slows it down */
    uint64_t iteration, asked_ns, began_ns, compute_ns, idle_ns, total_compute_ns;
    uint64_t sent_bytes, received_bytes, dense_bytes;
    uint64_t updated_ns;      /* when its newest update began */
    bool skipped;             /* that was left out */
    shoali_task_made made;    /* its newest gradient, of a task */
    double accuracy;          /* before the final average, percent; NaN: not tested */
    uint64_t done, gradients; /* iterations gone through; those that it computed a gradient for */
    shoali_sim_timer *timers;
    uint32_t timer_count, timer_capacity;
    shoal_status status;
    char text[256];
} shoali_sim_node;

/** An iteration that a worker has gone through: compute, wait, update, wait. */
typedef struct shoali_sim_iteration {
    uint64_t began_ns, computed_ns, updates_ns, updated_ns, ended_ns;
    uint64_t next; /* the one that comes now */
    bool skipped;  /* the update was left out, because of a value that is not finite */
} shoali_sim_iteration;

/** Who keeps what happens, worker by worker: shoal_sim_keep. Any but end and close may be NULL. */
typedef struct shoali_sim_keeper {
    void *ctx; /* NULL: nobody */
    void (*iteration)(void *ctx, uint32_t worker, const shoali_sim_iteration *it);
    /** A member hears that its operation is through. */
    void (*operation)(void *ctx, const shoali_sim_op *op, uint32_t member);
    void (*lost)(void *ctx, uint32_t endpoint, const char *why);
    /** A new epoch has begun; who is in it has not ended. */
    void (*members)(void *ctx);
    /** The run is over; returns how it ended, or that not all could be kept. */
    shoal_status (*end)(void *ctx, shoal_status status);
    void (*close)(void *ctx);
} shoali_sim_keeper;

struct shoal_sim {
    /* what is simulated */
    shoali_protocol protocol;
    shoali_sync_choice choice; /* --sync auto */
    shoal_codec *codec, *identity;
    char collective[SHOALI_COLLECTIVE_SPEC];
    char among[SHOALI_COLLECTIVE_SPEC]; /* instead, among fewer than all: of the last such group */
    shoali_sim_compute compute;
    shoali_sim_network network;
    shoali_sim_faults faults;
    shoali_sim_rate *rates; /* of network's trace, by time */
    uint32_t rate_count, rate_room;
    double *rate_now;        /* [2 * hosts] bits per second, by link; NULL: they do not change */
    shoali_cluster *cluster; /* NULL: network says it all */
    bool cluster_lent;       /* it is the caller's */
    const double *pass_s;    /* [workers], while it is set up; NULL: compute says it */
    shoali_sim_pace *paces;  /* by time */
    uint32_t pace_count, pace_room;
    shoali_problem *problem; /* NULL: a task, or cost only */
    shoali_task task;        /* without ctx: none */
    bool numbers;            /* one of both */
    shoal_tensor *tensors;
    uint32_t tensor_count, workers, size; /* size: workers and dedicated servers */
    size_t count;
    uint64_t iterations, seed;
    uint32_t chunk_elems;
    uint32_t *endpoint_ids, *hosts;
    shoal_tensor *op_tensors; /* room for one operation's table: [tensor_count] */
    float **residual_of;      /* the same for its residuals: [size * tensor_count] */
    float *const **residuals; /* [size] */
    /* the world */
    uint64_t now_ns, latency_ns, progress_ns;
    shoali_sim_queue queue;
    shoali_links *net;
    uint32_t worker_hosts, pair_links, own_links; /* sim_world.c: firsts of their kind */
    uint32_t link_count, *link_place;             /* sim_volume.c */
    uint64_t *last_arrival; /* [size * size] of messages, from and to; NULL: none can overtake */
    uint64_t *sent_messages;
    shoali_sim_break_up *cuts;
    uint32_t cut_count;
    shoali_sim_node *nodes;
    uint32_t ended, gone;
    bool turning;     /* an epoch ends: all stop between two iterations and begin anew */
    uint64_t turn_at; /* turning: not before this iteration */
    uint32_t *live_ids, *live_hosts; /* of a world without its lost: [size] */
    shoali_sim_op *ops;
    uint32_t op_count, op_capacity, op_free; /* op_free: a free place + 1 */
    uint32_t *op_table;                      /* [4 * op_capacity] place + 1 by the hash of its id */
    shoali_sim_collective collectives[SHOALI_SIM_COLLECTIVES];
    uint32_t collective_count;
    shoali_volume *volumes[SHOALI_SIM_VOLUMES]; /* NULL: free */
    shoali_scratch *scratch;
    shoal_arena *arena; /* schedules, while they are counted */
    /* what came out */
    shoal_sim_results results;
    uint64_t until_ns; /* the end of the run, 0: none */
    double inflate;
    uint64_t *waits;   /* [workers * size] */
    uint32_t cause;    /* who brought the event that is being fed; NO_CAUSE */
    uint64_t cause_ns; /* and when it came to what all waited for */
    shoal_sim_point *curve;
    uint32_t curve_count;
    uint64_t steps, steps_to_point; /* worker-iterations: all, and from one point to the next */
    uint64_t stood_ns, stood_steps; /* how many of them ended at one moment, the newest */
    shoali_sim_files files;
    shoali_sim_keeper keeper;
    shoali_sim_onlookers onlookers;
    shoal_status status; /* of the simulator itself */
    shoal_error error;
    /* tests */
    void (*on_event)(void *ctx, shoal_sim *sim, uint32_t endpoint, const shoali_event *event);
    void (*on_send)(void *ctx, uint32_t from, uint32_t to); /* to: SHOALI_EVERYBODY, too */
    void *on_event_ctx;                                     /* of both */
    uint64_t inject_at;                                     /* event number, UINT64_MAX: never */
    uint32_t inject_fault, inject_endpoint;
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

/* sim_ops.c */
/** Forget them all. */
void shoali_sim_ops_clear(shoal_sim *sim);
void shoali_sim_op_enter(shoal_sim *sim, uint32_t endpoint, const shoali_sync_op *op);
void shoali_sim_op_cancel(shoal_sim *sim, uint32_t endpoint, uint64_t id);
void shoali_sim_op_move(shoal_sim *sim, uint32_t index, uint32_t generation);
void shoali_sim_op_moved(shoal_sim *sim, uint32_t index);
/** A cut began or ended: what crosses it stands still, the rest moves. */
void shoali_sim_ops_recut(shoal_sim *sim);
void shoali_sim_op_tell(shoal_sim *sim, uint32_t endpoint, uint32_t index, uint32_t generation);
/** What becomes of an endpoint's operations when it gives up, stands still, is known to be gone. */
void shoali_sim_ops_abandon(shoal_sim *sim, uint32_t endpoint, const char *why);
void shoali_sim_ops_hang(shoal_sim *sim, uint32_t endpoint);
void shoali_sim_ops_fail(shoal_sim *sim, uint32_t endpoint, const char *why);

/* sim_numbers.c; what changes numbers does nothing if there are none */
/** Parameters, gradients and slots of an endpoint. */
SHOAL_MUST_USE shoal_status shoali_sim_numbers_open(shoal_sim *sim, uint32_t endpoint);
/** An endpoint's state of a transform for operations over elements [offset, +count), zero at first;
 * NULL: ENOMEM. */
void *shoali_sim_transform_state(shoali_sim_node *node, size_t offset, size_t count, size_t bytes);
/** They begin anew. */
void shoali_sim_transforms_clear(shoali_sim_node *node);
void shoali_sim_transforms_fini(shoali_sim_node *node);
/** An endpoint begins an operation: if it is one that lies, so do its numbers. */
void shoali_sim_lie(shoal_sim *sim, uint32_t endpoint, const shoali_sync_op *op);
/** A tensor's gradient is there. */
void shoali_sim_gradient(shoal_sim *sim, uint32_t endpoint, uint32_t tensor);
/** The optimiser of an endpoint on a range; grads at its beginning. */
void shoali_sim_optimise(shoal_sim *sim, uint32_t endpoint, uint64_t iteration, size_t offset,
                         size_t count, const float *grads, float scale, float *params_out);
/** A worker is through; an average over all comes next. */
void shoali_sim_test_worker(shoal_sim *sim, uint32_t worker);
/** The run is over: results of numbers. */
SHOAL_MUST_USE shoal_status shoali_sim_test(shoal_sim *sim);
/** Loss and distance from the mean now. */
void shoali_sim_measure(shoal_sim *sim, shoal_sim_point *point);

/* sim_world.c */
SHOAL_MUST_USE shoal_status shoali_sim_world_links(shoal_sim *sim);
/** How fast workers are; model: NULL, or what sim->compute is about. */
SHOAL_MUST_USE shoal_status shoali_sim_world_pace(shoal_sim *sim, const shoal_model *model);
/** One iteration's compute time if it begins at this moment. */
uint64_t shoali_sim_iteration_ns(const shoal_sim *sim, uint32_t worker, uint64_t iteration,
                                 uint64_t at_ns);
uint64_t shoali_sim_latency_ns(const shoal_sim *sim, uint32_t from, uint32_t to);
/** Bytes per ns of link 2 host (up) or 2 host + 1 (down). */
double shoali_sim_link_rate(const shoal_sim *sim, uint32_t link);
double shoali_sim_loss(const shoal_sim *sim, uint32_t from, uint32_t to);
/** The two links that endpoints send each other by: of their own where the cluster has such, or one
 *  that it names between their hosts (twice the same), or their hosts'. false: none. */
bool shoali_sim_links(const shoal_sim *sim, uint32_t from, uint32_t to, uint32_t links_out[2]);

/* sim_choose.c */
/** Choose protocol and codec by links, compute times and size: sim->choice. */
SHOAL_MUST_USE shoal_status shoali_sim_choose(shoal_sim *sim, const shoal_sim_desc *desc);

/* sim_rates.c */
/** Read network's trace, if it has one. */
SHOAL_MUST_USE shoal_status shoali_sim_rates_read(shoal_sim *sim);
void shoali_sim_rates_plan(shoal_sim *sim);
void shoali_sim_rates_change(shoal_sim *sim, uint32_t line);

/* sim_wire.c */
SHOAL_MUST_USE shoal_status shoali_sim_wire_open(shoal_sim *sim);
/** All messages take sim->latency_ns, whoever gets them. */
bool shoali_sim_wire_plain(const shoal_sim *sim);
/** When a message that is sent now arrives. Draws from the seed. */
uint64_t shoali_sim_arrival_ns(shoal_sim *sim, uint32_t from, uint32_t to);
/** When everything has arrived that an endpoint ever sent; a latency from now, if that is later. */
uint64_t shoali_sim_last_word_ns(const shoal_sim *sim, uint32_t endpoint);
/** Some members cannot reach each other now. */
bool shoali_sim_op_cut(const shoal_sim *sim, const shoali_sim_op *op);
void shoali_sim_plan_cuts(shoal_sim *sim);

/* sim_report.c */
enum { SHOALI_SIM_POINTS = 512 };
#define SHOALI_SIM_NO_CAUSE UINT32_MAX
SHOAL_MUST_USE shoal_status shoali_sim_report_open(shoal_sim *sim, const shoal_sim_desc *desc);
void shoali_sim_report_fini(shoal_sim *sim);
/** A worker's wait is over; it began at asked_ns. */
void shoali_sim_report_wait(shoal_sim *sim, uint32_t endpoint);
/** A worker has finished an iteration; at_start: nobody has. */
void shoali_sim_report_step(shoal_sim *sim, bool at_start);
void shoali_sim_report_compute(shoal_sim *sim, uint32_t endpoint);
void shoali_sim_report_op(shoal_sim *sim, const shoali_sim_op *op);
void shoali_sim_report_event(shoal_sim *sim, uint32_t endpoint, const shoali_event *event);

/* sim_places.c */
#define SHOALI_SIM_NO_PLACE UINT32_MAX
/** The place of an operation, or SHOALI_SIM_NO_PLACE. */
uint32_t shoali_sim_place_find(const shoal_sim *sim, uint64_t id);
/** A place for an operation that has none, with room for its members; SHOALI_SIM_NO_PLACE: no
 * memory. Moves sim->ops. The caller sets a state other than FREE. */
uint32_t shoali_sim_place_take(shoal_sim *sim, uint64_t id, uint32_t size);
void shoali_sim_place_drop(shoal_sim *sim, uint32_t index);
/** The opened collective of a spec, kept by name; NULL with sim->status. */
shoali_collective *shoali_sim_collective_of(shoal_sim *sim, const char *spec);
void shoali_sim_ops_fini(shoal_sim *sim);

/* sim_volume.c */
/** What an operation of these members moves, counted from its schedule; NULL with sim->status. */
shoali_volume *shoali_sim_volume(shoal_sim *sim, const shoali_sim_op *op);
/** The same, empty, for bytes that are measured; rounds still come from the schedule. */
shoali_volume *shoali_sim_volume_measured(shoal_sim *sim, const shoali_sim_op *op);
void shoali_sim_volume_add(shoal_sim *sim, shoali_volume *volume, const shoali_sim_op *op,
                           uint32_t from, uint32_t to, uint64_t bytes);
void shoali_sim_volume_drop(shoali_volume *volume);
void shoali_sim_volumes_fini(shoal_sim *sim);

#endif
