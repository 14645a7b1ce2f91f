/* SPDX-License-Identifier: Apache-2.0 */
/* The plans of one member, and the runs that rest with them: so what repeats is opened once, and
 * its next run finds all memory that it needs. The table has what callers have prepared, and
 * SHOALI_PLANS_KEPT more, those used last. */
#include "ops/plan.h"

#include <string.h>

#include "base/error.h"
#include "ops/inner.h"

static void enter(const shoali_ops *ops)
{
    ops->host.plans(ops->host.ctx, true);
}

static void leave(const shoali_ops *ops)
{
    ops->host.plans(ops->host.ctx, false);
}

static void discard_all(shoal_op *idle)
{
    while (idle != NULL) {
        shoal_op *next = idle->kept.next_idle;
        shoali_op_discard(idle);
        idle = next;
    }
}

/* Among the plans. */
static void put_first(shoali_ops *ops, shoal_op_plan *plan)
{
    plan->held.next = ops->plans;
    ops->plans = plan;
}

/* Among the plans: out of the table; *idle_out: its runs that rested. */
static void unlist(shoal_op_plan **link, shoal_op **idle_out)
{
    shoal_op_plan *plan = *link;
    *link = plan->held.next;
    *idle_out = plan->held.idle;
    plan->held.listed = false;
    plan->held.idle = NULL;
    plan->held.idle_count = 0;
}

void shoali_plans_drop(shoal_op_plan *plan)
{
    enter(plan->ops);
    const bool last = --plan->held.holders == 0;
    leave(plan->ops);
    if (last)
        shoali_plan_free(plan);
}

/* ------------------------------------------------------------------ find and keep */

/* Held once more, and first from now on; NULL: there is none. */
static shoal_op_plan *find(shoali_ops *ops, const shoal_op_desc *desc,
                           const shoali_op_extras *extras)
{
    enter(ops);
    shoal_op_plan **link = &ops->plans, *plan;
    while ((plan = *link) != NULL && !shoali_plan_is(plan, desc, extras))
        link = &plan->held.next;
    if (plan != NULL) {
        *link = plan->held.next;
        put_first(ops, plan);
        plan->held.holders++;
    }
    leave(ops);
    return plan;
}

/* Into the table; the one that nobody has used for longest makes room. */
static void keep(shoal_op_plan *plan)
{
    shoali_ops *ops = plan->ops;
    shoal_op_plan **oldest = NULL, *old = NULL;
    shoal_op *idle = NULL;
    enter(ops);
    for (shoal_op_plan **link = &ops->plans; *link != NULL; link = &(*link)->held.next)
        if (!(*link)->held.prepared)
            oldest = link;
    if (oldest != NULL && ops->plans_kept == SHOALI_PLANS_KEPT) {
        old = *oldest;
        unlist(oldest, &idle);
    } else {
        ops->plans_kept++;
    }
    put_first(ops, plan);
    plan->held.listed = true;
    plan->held.holders++;
    leave(ops);
    discard_all(idle);
    if (old != NULL)
        shoali_plans_drop(old);
}

/* Rows differ from run to run, and some collectives go by them: such a plan is for one run. */
shoal_status shoali_plans_find(shoali_ops *ops, const shoal_op_desc *desc,
                               const shoali_op_extras *extras, shoal_op_plan **plan_out)
{
    shoal_op_plan *plan = desc->rows == NULL ? find(ops, desc, extras) : NULL;
    if (plan == NULL) {
        SHOALI_TRY(shoali_plan_make(ops, desc, extras, &plan));
        plan->held.holders = 1;
        if (desc->rows == NULL)
            keep(plan);
    }
    *plan_out = plan;
    return SHOAL_OK;
}

shoal_status shoali_plans_prepare(shoali_ops *ops, const shoal_op_desc *desc,
                                  const shoali_op_extras *extras, shoal_op_plan **plan_out)
{
    shoal_op_plan *plan;
    SHOALI_TRY(shoali_plan_make(ops, desc, extras, &plan));
    plan->held.holders = 1;
    plan->held.prepared = plan->held.listed = true;
    enter(ops);
    put_first(ops, plan);
    leave(ops);
    *plan_out = plan;
    return SHOAL_OK;
}

void shoali_plans_give_up(shoal_op_plan *plan)
{
    shoali_ops *ops = plan->ops;
    shoal_op *idle = NULL;
    if (ops == NULL) {
        shoali_plan_free(plan);
        return;
    }
    enter(ops);
    shoal_op_plan **link = &ops->plans;
    while (*link != plan)
        link = &(*link)->held.next;
    unlist(link, &idle);
    leave(ops);
    discard_all(idle);
    shoali_plans_drop(plan);
}

/* ------------------------------------------------------------------ runs */

shoal_op *shoali_plans_wake(shoal_op_plan *plan)
{
    enter(plan->ops);
    plan->held.holders++;
    shoal_op *op = plan->held.idle;
    if (op != NULL) {
        plan->held.idle = op->kept.next_idle;
        plan->held.idle_count--;
        op->kept.next_idle = NULL;
    }
    leave(plan->ops);
    return op;
}

bool shoali_plans_rest(shoal_op *op)
{
    shoal_op_plan *plan = op->plan;
    shoali_arena_reset(op->arena);
    enter(plan->ops);
    const bool stays = plan->held.listed && plan->held.idle_count < SHOALI_RUNS_KEPT;
    if (stays) {
        op->kept.next_idle = plan->held.idle;
        plan->held.idle = op;
        plan->held.idle_count++;
    }
    const bool last = --plan->held.holders == 0;
    leave(plan->ops);
    if (last)
        shoali_plan_free(plan);
    return stays;
}

void shoali_plans_free(shoali_ops *ops, shoal_status gone)
{
    while (ops->plans != NULL) {
        shoal_op_plan *plan = ops->plans;
        shoal_op *idle;
        unlist(&ops->plans, &idle);
        discard_all(idle);
        plan->ops = NULL;
        plan->held.gone = gone;
        if (!plan->held.prepared)
            shoali_plan_free(plan);
    }
    ops->plans_kept = 0;
}
