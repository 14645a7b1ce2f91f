/* SPDX-License-Identifier: Apache-2.0 */
/* One operation, as one member sees it: a run of a plan (plan.h). It is made by the caller's
 * thread, belongs to the owner's one thread from its start until it has ended, and then to the
 * caller again. */
#ifndef SHOALI_OPS_OP_H
#define SHOALI_OPS_OP_H

#include "base/arena.h"
#include "base/job.h"
#include "collective/flow.h"
#include "ops/extras.h"
#include "ops/plan.h"
#include "wire/control.h"

#define SHOALI_NONE UINT32_MAX

enum {
    SHOALI_MEASURE_ROUND = 0,
    SHOALI_MAIN_ROUND = 1,       /* a transform's rounds count from 2 */
    SHOALI_HOSTS_ROUND = 1 << 30 /* stages of an operation of round r: this | r << 2 | stage */
};

/** Where an operation stands. */
typedef enum shoali_op_state {
    SHOALI_OP_NEW,     /* not seen by the owner's thread yet */
    SHOALI_OP_ROUNDS,  /* measures, or runs a transform: a job or a child is under way */
    SHOALI_OP_RUNNING, /* its flow runs */
    SHOALI_OP_ENDED    /* nothing refers to the buffer any more */
} shoali_op_state;

/** What comes before a flow, or instead of one: rounds.c, hosts.c. */
typedef struct shoali_op_rounds {
    shoal_op *parent, *child;
    bool child_open, job_open, transforming;
    bool waits; /* for rates (gauge.c) */
    shoali_job job;
    float *shared;
    struct shoali_hosts *hosts; /* it is made of stages: hosts.c */
    void *transform;
    shoal_round round;
    uint32_t round_index;
    bool agreeing; /* on the steps that the transform counts: steps.c */
    float steps[2 * SHOALI_STEPS_VIEW];
} shoali_op_rounds;

/** The caller's side, of which nothing here knows; under the owner's lock. */
typedef struct shoali_op_handle {
    bool keeps; /* counted among those that keep something */
    bool done, in_done, cancel_queued;
    shoal_op *next_done, *prev_done, *next_all, *prev_all;
    shoali_task start_task, cancel_task;
} shoali_op_handle;

/** Memory that goes from one run of a plan to the next. */
typedef struct shoali_op_kept {
    shoal_op *next_idle; /* of its plan's; between two runs */
    void *flow;          /* room for a flow, of so many bytes */
    size_t flow_bytes;
    const shoali_flow_row *rests; /* whose flow rests there, and can run again; NULL: none */
    const shoali_rates *rates;    /* that it was built for */
} shoali_op_kept;

/** At an aggregator. */
typedef struct shoali_op_served {
    uint64_t bytes;               /* of its memory, while the flow lives */
    struct shoali_served *owners; /* NULL: nothing */
} shoali_op_served;

/** One run of a plan. */
struct shoal_op {
    struct shoali_ops *ops;
    shoal_comm *comm;    /* the owner */
    shoal_op_plan *plan; /* what it has in common with other runs */
    shoal_arena *arena;  /* of this run */
    shoali_op_kept kept;

    /* constant once started */
    shoali_wire_id id;
    uint64_t hash, age;
    float *buf, barrier_value;
    const uint32_t *rows; /* of the caller */
    size_t row_count;
    bool keep_rows; /* of a child whose parent asks for the rows of the sum */
    shoali_op_extras extras;
    int64_t timeout_us;
    uint8_t tos;
    char text[SHOALI_OP_TEXT_BYTES]; /* the call, as the others see it */
    char name[SHOALI_OP_TEXT_BYTES]; /* "all-reduce 1182" */

    /* the owner's thread */
    shoali_op_state state;
    shoal_op *next_open, *next_ended;
    uint32_t slot;
    const shoali_flow_row *row;
    void *flow;       /* kept.flow, while it runs */
    uint8_t *granted; /* by member: its READY has come */
    uint64_t started_us, deadline_us, ask_us;
    bool asked, failing, told_all, ended;
    shoali_answer *answers; /* by member, once asked; state SHOALI_ANSWER_STATES: no answer */
    float **residuals;
    shoali_op_served served;
    shoali_op_rounds rounds;

    /* the caller's, once it has ended */
    shoal_status status;
    shoal_error error;
    shoal_op_stats stats;
    shoali_op_handle handle;
};

static inline uint32_t shoali_member_of(const shoal_op *op, uint32_t endpoint)
{
    return op->plan->member_of[endpoint];
}

#endif
