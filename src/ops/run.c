/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on the owner's thread:
 *
 *   NEW --start--> ROUNDS (measures, transforms: rounds.c) --> RUNNING (its flow) --> ENDED
 *
 * A failure may come at any time; the operation still goes to ENDED only when nothing refers to its
 * buffer. */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "ops/inner.h"

enum { ASK_BEFORE_US = 250 * 1000 };

/* ------------------------------------------------------------------ finding */

shoal_op *shoali_run_find(const shoali_ops *ops, const shoali_wire_id *id)
{
    for (shoal_op *op = ops->open; op != NULL; op = op->next_open)
        if (op->id.sequence == id->sequence && op->id.group == id->group &&
            op->id.round == id->round && !op->ended)
            return op;
    return NULL;
}

/* Whether this rank's part of a running operation has to do with a member's. */
static bool needs(const shoal_op *op, uint32_t member)
{
    return op->row->receives_from(op->flow, member) || op->row->sends_to(op->flow, member);
}

bool shoali_run_involves(const shoali_ops *ops, uint32_t endpoint)
{
    for (const shoal_op *op = ops->open; op != NULL; op = op->next_open) {
        const uint32_t member = shoali_member_of(op, endpoint);
        if (member != SHOALI_NONE && (op->state != SHOALI_OP_RUNNING || needs(op, member)))
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------ start */

static bool cannot_start(const shoal_op *op, uint32_t member, const char *why)
{
    const uint32_t endpoint = op->plan->members[member];
    (void)shoali_fail(SHOAL_EPEER, "%s cannot start: %s", op->name, why);
    shoali_error_about((int32_t)endpoint, op->ops->peers[endpoint].host, NULL, -1);
    return true;
}

/* In a broadcast who is near the root may be done, and gone, before others begin: they get it from
 * somebody else. Of every other kind all need all. */
static bool lacks_member(shoal_op *op)
{
    const shoali_ops *ops = op->ops;
    const char *why;
    for (uint32_t m = 0; m < op->plan->member_count; m++)
        switch (ops->host.there(ops->host.ctx, op->plan->members[m], &why)) {
        case SHOALI_THERE:
            break;
        case SHOALI_THERE_CHANGES:
            (void)shoali_fail(SHOAL_EEPOCH, "%s cannot start: the members are about to change",
                              op->name);
            return true;
        case SHOALI_THERE_LEFT:
            if (op->plan->kind == SHOAL_BROADCAST)
                break;
            return cannot_start(op, m, why);
        default:
            return cannot_start(op, m, why);
        }
    return false;
}

/* Of those that have left: with whom this rank would have to do. */
static bool lacks_neighbour(shoal_op *op)
{
    const shoali_ops *ops = op->ops;
    const char *why;
    for (uint32_t m = 0; m < op->plan->member_count; m++)
        if (needs(op, m) &&
            ops->host.there(ops->host.ctx, op->plan->members[m], &why) == SHOALI_THERE_LEFT)
            return cannot_start(op, m, why);
    return false;
}

void shoali_run_flow(shoal_op *op)
{
    if (shoali_run_open_flow(op) != SHOAL_OK) {
        shoali_run_fail(op, true); /* it ends at once */
        return;
    }
    op->state = SHOALI_OP_RUNNING;
    if (op->plan->kind == SHOAL_BROADCAST && lacks_neighbour(op)) {
        shoali_run_fail(op, true);
        return;
    }
    shoali_agree_enter(op);
    if (!op->ended)
        op->row->on_timer(op->flow, *op->ops->now_us); /* start leaves its work to the first call */
}

void shoali_run_go_on(shoal_op *op)
{
    if (!shoali_rounds_begin(op))
        shoali_run_flow(op);
}

void shoali_run_start(shoal_op *op)
{
    shoali_ops *ops = op->ops;
    op->age = ops->next_age++;
    op->started_us = ops->host.now_ns() / 1000; /* exact: it is measured from here */
    op->deadline_us = op->started_us + (uint64_t)op->timeout_us;
    op->ask_us = op->deadline_us - (uint64_t)(op->timeout_us / 4 < ASK_BEFORE_US
                                                  ? op->timeout_us / 4
                                                  : ASK_BEFORE_US);
    op->extras.pace_us += op->extras.pace_us > 0 ? op->started_us : 0;
    op->state = SHOALI_OP_ROUNDS;
    *ops->open_last = op;
    ops->open_last = &op->next_open;
    shoali_log(DEBUG, "starts %s", op->text);
    if (shoali_agree_aborted(op))
        return;
    if (lacks_member(op))
        shoali_run_fail(op, true);
    else
        shoali_run_go_on(op);
}

shoal_status shoali_run_start_own(shoal_op *op)
{
    if (!op->ops->host.begins(op->ops->host.ctx)) {
        shoali_op_free(op);
        return shoali_fail(SHOAL_ECANCELLED, "it is being ended");
    }
    shoali_run_start(op);
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ failure and end */

void shoali_run_fail(shoal_op *op, bool spread)
{
    if (op->failing || op->ended)
        return;
    op->failing = true;
    shoali_run_keep_error(op);
    shoal_status status = op->error.status;
    if (spread)
        shoali_agree_spread(op);
    if (op->state == SHOALI_OP_RUNNING) {
        op->row->fail(op->flow, status, op->error.text);
        op->ops->host.recall(op->ops->host.ctx, op);
    } else if (op->rounds.job_open || op->rounds.child_open) {
        shoali_rounds_fail(op);
    } else {
        shoali_run_end(op, status);
    }
}

void shoali_run_hurry(shoal_op *op)
{
    for (; op != NULL; op = op->rounds.child_open ? op->rounds.child : NULL) {
        op->extras.pace_us = 0;
        *op->ops->busy = true;
    }
}

void shoali_run_end(shoal_op *op, shoal_status status)
{
    if (op->ended)
        return;
    op->ended = true;
    op->status = op->failing ? op->error.status : status;
    op->next_ended = op->ops->ended;
    op->ops->ended = op;
    *op->ops->busy = true;
}

static void unlink_open(shoal_op *op)
{
    shoali_ops *ops = op->ops;
    shoal_op **link = &ops->open;
    while (*link != op)
        link = &(*link)->next_open;
    *link = op->next_open;
    if (ops->open_last == &op->next_open)
        ops->open_last = link;
}

static void reap(shoal_op *op)
{
    shoali_ops *ops = op->ops;
    unlink_open(op);
    shoali_run_add_stats(op);
    if (op->keep_rows && op->status == SHOAL_OK && op->flow != NULL)
        shoali_hosts_take_rows(op);
    shoali_run_close_flow(op);
    shoali_keep_release(op);
    shoali_serve_release(op);
    if (op->failing && op->rounds.transform != NULL)
        shoali_keep_reset(op);
    op->state = SHOALI_OP_ENDED;
    shoali_agree_remember(op);
    memcpy(ops->last_name, op->name, sizeof ops->last_name);
    ops->last_us = *ops->now_us;
    if (op->status != SHOAL_OK)
        shoali_log(DEBUG, "%s ends %s: %s", op->name, shoal_status_name(op->status),
                   op->error.text);
    ops->host.over(ops->host.ctx, op);
}

void shoali_run_reap(shoali_ops *ops)
{
    while (ops->ended != NULL) {
        shoal_op *ended = ops->ended, *oldest = NULL;
        ops->ended = NULL;
        while (ended != NULL) { /* the list is last in, first out; completions go in order */
            shoal_op *next = ended->next_ended;
            ended->next_ended = oldest;
            oldest = ended;
            ended = next;
        }
        while (oldest != NULL) {
            shoal_op *next = oldest->next_ended;
            reap(oldest);
            oldest = next;
        }
    }
}

/* ------------------------------------------------------------------ time */

static bool wants_now(const shoal_op *op, uint64_t now_us)
{
    return op->state == SHOALI_OP_RUNNING && !op->ended &&
           op->row->next_wake_us(op->flow) <= now_us;
}

void shoali_run_timers(shoali_ops *ops, bool unread)
{
    for (shoal_op *op = ops->open; op != NULL; op = op->next_open) {
        if (wants_now(op, *ops->now_us) && (op->row->on_datagram == NULL || !unread)) {
            op->row->on_timer(op->flow, *ops->now_us);
            *ops->busy |= wants_now(op, *ops->now_us);
        }
        if (op->ended || op->failing)
            continue;
        if (!op->asked && *ops->now_us >= op->ask_us && op->rounds.parent == NULL)
            shoali_agree_ask(op);
        if (*ops->now_us >= op->deadline_us) {
            shoali_agree_timed_out(op);
            shoali_run_fail(op, true);
        }
    }
}

uint64_t shoali_run_next_us(const shoali_ops *ops)
{
    uint64_t at = UINT64_MAX;
    for (const shoal_op *op = ops->open; op != NULL; op = op->next_open) {
        const bool asks = !op->asked && op->rounds.parent == NULL;
        uint64_t due = asks ? op->ask_us : op->deadline_us;
        if (!op->failing && due < at)
            at = due;
        if (op->state == SHOALI_OP_RUNNING && !op->ended) {
            due = op->row->next_wake_us(op->flow);
            at = due < at ? due : at;
        }
    }
    return at;
}
