/* SPDX-License-Identifier: Apache-2.0 */
/* What runs of one operation have in common: everything that follows from its descriptor, checked,
 * copied and opened once. A run adds a buffer, a name and a deadline. Plans are constant but for
 * who holds them and the runs that rest: any thread, between two calls of the owner's `plans`. */
#ifndef SHOALI_OPS_PLAN_H
#define SHOALI_OPS_PLAN_H

#include "base/arena.h"
#include "codec/codec.h"
#include "collective/schedule.h"
#include "ops/extras.h"
#include "wire/control.h"

struct shoali_ops;

/** Plans that stay though nobody holds them, and runs that rest with one. */
enum { SHOALI_PLANS_KEPT = 128, SHOALI_RUNS_KEPT = 8 };

/** What the caller gave, to recognise it: the descriptor with parts of the plan's own, without
 * buffer and rows, and the extras that matter. */
typedef struct shoali_plan_given {
    shoal_op_desc desc;
    const struct shoali_codec_row *codec_row;
    bool owned, error_feedback;
} shoali_plan_given;

/** Who has it. */
typedef struct shoali_plan_held {
    uint32_t holders; /* its runs, the table, and whoever prepared it */
    bool listed;      /* in the table */
    bool prepared;    /* by a caller: it stays until he destroys it */
    shoal_op *idle;
    uint32_t idle_count;
    shoal_op_plan *next;
    shoal_status gone; /* ops NULL: what a run of it is told */
} shoali_plan_held;

struct shoal_op_plan {
    struct shoali_ops *ops; /* NULL: its communicator is gone */
    shoal_arena *arena;
    shoali_plan_given given;
    shoali_plan_held held;

    shoal_op_kind kind;
    shoal_reduce reduce;
    uint64_t hash;  /* of everything on which the members must agree */
    uint64_t group; /* of its members */
    size_t count;
    shoal_tensor *tensors;
    uint32_t tensor_count, member_count, contributors, root, me; /* me: index among the members */
    uint32_t *members;
    uint32_t *member_of; /* [size] endpoint to member index, SHOALI_NONE: none */
    bool bits;           /* its tensors are no numbers */
    shoal_codec *push, *pull;
    shoali_collective collective;
    char tail[SHOALI_OP_TEXT_BYTES]; /* of the call's text: ", 100 elements, ring, identity" */
};

/* plan.c */
SHOAL_MUST_USE shoal_status shoali_plan_make(struct shoali_ops *ops, const shoal_op_desc *desc,
                                             const shoali_op_extras *extras,
                                             shoal_op_plan **plan_out);
void shoali_plan_free(shoal_op_plan *plan); /* nobody holds it */
/** It is what they describe. */
bool shoali_plan_is(const shoal_op_plan *plan, const shoal_op_desc *desc,
                    const shoali_op_extras *extras);
const char *shoali_kind_name(shoal_op_kind kind);

/* plans.c: those of one member, and their runs. */
/** The plan that desc describes, held by the caller once more: one that there is, or a new one. */
SHOAL_MUST_USE shoal_status shoali_plans_find(struct shoali_ops *ops, const shoal_op_desc *desc,
                                              const shoali_op_extras *extras,
                                              shoal_op_plan **plan_out);
/** A new one, which stays until it is given up. */
SHOAL_MUST_USE shoal_status shoali_plans_prepare(struct shoali_ops *ops, const shoal_op_desc *desc,
                                                 const shoali_op_extras *extras,
                                                 shoal_op_plan **plan_out);
void shoali_plans_give_up(shoal_op_plan *plan);
/** The plan gets a holder more: a run that rests, which is returned, or (NULL) a new one. */
shoal_op *shoali_plans_wake(shoal_op_plan *plan);
/** A run that has ended holds its plan no more. True: it rests; false: it is not needed again. */
bool shoali_plans_rest(shoal_op *op);
void shoali_plans_drop(shoal_op_plan *plan); /* one holder less */
/** The owner goes: runs of what was prepared are told `gone`. */
void shoali_plans_free(struct shoali_ops *ops, shoal_status gone);

#endif
