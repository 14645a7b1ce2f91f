/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulator is made of: operations, endpoints, what keeps them. */
#ifndef SHOALI_DRIVER_SIM_TYPES_H
#define SHOALI_DRIVER_SIM_TYPES_H

#include <stdio.h>

#include "collective/flow.h"
#include "collective/lost.h"
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
    SHOALI_SIM_MOVED,   /* its last packets were lost, and have come at last */
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
    uint64_t idle_ns;          /* until the first chunk is where it is needed, and in rounds until
                                  lost packets have come again */
    double loss, latency_s;    /* of its ways, the largest */
    uint32_t *tails;           /* [rounds] messages whose way the next round does not go; NULL: no
                                  packet gets lost */
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
    bool awaits;                           /* MOVING: all but last packets that were lost */
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

#endif
