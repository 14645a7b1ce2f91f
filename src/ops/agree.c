/* SPDX-License-Identifier: Apache-2.0 */
/* What members tell each other about an operation: READY when one enters, ABORT when it fails, ASK
 * and ANSWER shortly before a deadline. A message may come before its operation is started here (it
 * waits as a note), or after it has ended (the list of finished ones answers).
 *
 *   member a                          member b
 *   enters, READY(slot) ------------> not entered: a note
 *                                     enters, takes the note: may send into a's slot
 *                       <------------ READY(slot)
 *   hash differs: EMISMATCH, ABORT -> the same error, both calls named */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "ops/inner.h"
#include "wire/messages.h"

bool shoali_agree_is_over(const shoali_ops *ops, const shoali_wire_id *id)
{
    return shoali_recent_find(&ops->recent, id) != NULL;
}

void shoali_agree_remember(shoal_op *op)
{
    shoali_ops *ops = op->ops;
    shoali_finished f = {.id = op->id,
                         .hash = op->hash,
                         .ended_us = *ops->now_us,
                         .status = op->status,
                         .culprit = SHOALI_NOBODY};
    memcpy(f.text, op->text, sizeof f.text);
    if (op->status != SHOAL_OK) {
        snprintf(f.why, sizeof f.why, "%.*s", (int)sizeof f.why - 1, op->error.text);
        if (op->error.rank >= 0)
            f.culprit = (uint32_t)op->error.rank;
    }
    shoali_recent_add(&ops->recent, &f);
}

/* Exactly one of ready and abort. Whoever has too many is lost for it. */
static void keep(shoali_ops *ops, uint32_t endpoint, const shoali_ready *ready,
                 const shoali_abort *abort)
{
    if (shoali_notes_add(&ops->notes, endpoint, ready, abort) != SHOAL_OK)
        ops->host.gone(ops->host.ctx, endpoint, shoal_last_error()->text);
}

/* ------------------------------------------------------------------ READY and ABORT */

static void send_abort(shoali_ops *ops, uint32_t endpoint, const shoali_abort *abort)
{
    uint8_t body[SHOALI_ABORT_BYTES];
    ops->host.control(ops->host.ctx, endpoint, SHOALI_MESSAGE_abort, body,
                      shoali_abort_encode(abort, body));
}

void shoali_agree_spread(shoal_op *op)
{
    shoali_ops *ops = op->ops;
    if (op->told_all)
        return;
    op->told_all = true;
    shoali_abort abort = {.id = op->id,
                          .status = (uint32_t)op->error.status,
                          .culprit = op->error.rank >= 0 ? (uint32_t)op->error.rank
                                                         : SHOALI_NOBODY};
    snprintf(abort.text, sizeof abort.text, "%.*s", (int)sizeof abort.text - 1, op->error.text);
    for (uint32_t m = 0; m < op->plan->member_count; m++)
        if (m != op->plan->me)
            send_abort(ops, op->plan->members[m], &abort);
}

/* Who started what; the same sentence whoever finds out. */
static void mismatch(const shoali_ops *ops, const char *mine, uint32_t endpoint, const char *theirs)
{
    uint32_t a = ops->me < endpoint ? ops->me : endpoint,
             b = ops->me < endpoint ? endpoint : ops->me;
    (void)shoali_fail(
        SHOAL_EMISMATCH, "rank %u (host %.40s) started %s; rank %u (host %.40s) started %s%s", a,
        ops->peers[a].host, a == ops->me ? mine : theirs, b, ops->peers[b].host,
        b == ops->me ? mine : theirs,
        strcmp(mine, theirs) == 0 ? "; they differ in tensors, members or details of the codec"
                                  : "");
    shoali_error_about((int32_t)endpoint, ops->peers[endpoint].host, NULL, -1);
}

static void match(shoal_op *op, uint32_t endpoint, const shoali_ready *ready)
{
    uint32_t member = shoali_member_of(op, endpoint);
    if (ready->hash != op->hash || ready->count != op->plan->count || ready->dtype != 0 ||
        member == SHOALI_NONE) {
        mismatch(op->ops, op->text, endpoint, ready->text);
        shoali_run_fail(op, true);
        return;
    }
    if (op->granted[member] || op->state != SHOALI_OP_RUNNING || op->failing)
        return;
    op->granted[member] = 1;
    op->row->on_granted(op->flow, member, ready->slot);
}

static void take_abort(shoal_op *op, uint32_t endpoint, const shoali_abort *abort)
{
    (void)shoali_fail((shoal_status)abort->status, "%s", abort->text);
    shoali_error_about(
        abort->culprit < op->ops->size ? (int32_t)abort->culprit : (int32_t)endpoint,
        op->ops->peers[abort->culprit < op->ops->size ? abort->culprit : endpoint].host, NULL, -1);
    shoali_run_fail(op, false);
}

/* Late news for somebody who starts what has ended here. */
static void answer_late(shoali_ops *ops, const shoali_finished *f, uint32_t endpoint,
                        const shoali_ready *ready)
{
    shoali_abort abort = {.id = f->id, .status = (uint32_t)f->status, .culprit = f->culprit};
    if (f->status == SHOAL_OK && f->hash == ready->hash)
        return;
    memcpy(abort.text, f->why, sizeof abort.text);
    if (f->status == SHOAL_OK) {
        mismatch(ops, f->text, endpoint, ready->text);
        abort.status = SHOAL_EMISMATCH;
        abort.culprit = ops->me;
        snprintf(abort.text, sizeof abort.text, "%.*s", (int)sizeof abort.text - 1,
                 shoal_last_error()->text);
    }
    send_abort(ops, endpoint, &abort);
}

void shoali_agree_on_ready(shoali_ops *ops, uint32_t endpoint, const shoali_ready *ready)
{
    shoal_op *op = shoali_run_find(ops, &ready->id);
    if (op != NULL && (op->state == SHOALI_OP_RUNNING || ready->hash != op->hash)) {
        match(op, endpoint, ready);
        return;
    }
    const shoali_finished *f = op == NULL ? shoali_recent_find(&ops->recent, &ready->id) : NULL;
    if (f != NULL) {
        answer_late(ops, f, endpoint, ready);
        return;
    }
    keep(ops, endpoint, ready, NULL);
}

void shoali_agree_on_abort(shoali_ops *ops, uint32_t endpoint, const shoali_abort *abort)
{
    shoal_op *op = shoali_run_find(ops, &abort->id);
    if (op != NULL) {
        take_abort(op, endpoint, abort);
        return;
    }
    if (shoali_recent_find(&ops->recent, &abort->id) != NULL)
        return;
    keep(ops, endpoint, NULL, abort);
}

bool shoali_agree_aborted(shoal_op *op)
{
    shoali_abort abort;
    uint32_t endpoint;
    if (!shoali_notes_take_abort(&op->ops->notes, &op->id, &endpoint, &abort))
        return false;
    take_abort(op, endpoint, &abort);
    return true;
}

void shoali_agree_enter(shoal_op *op)
{
    shoali_ops *ops = op->ops;
    shoali_ready ready = {
        .id = op->id, .count = op->plan->count, .hash = op->hash, .slot = op->slot};
    uint8_t body[SHOALI_READY_BYTES];
    shoali_serve_ask(op);
    memcpy(ready.text, op->text, sizeof ready.text);
    shoali_ready_encode(&ready, body);
    for (uint32_t m = 0; m < op->plan->member_count; m++)
        if (m != op->plan->me && op->row->receives_from(op->flow, m))
            ops->host.control(ops->host.ctx, op->plan->members[m], SHOALI_MESSAGE_ready, body,
                              sizeof body);
    shoali_note **at = NULL;
    uint32_t endpoint;
    while (!op->failing && shoali_notes_take_ready(&ops->notes, &at, &op->id, &endpoint, &ready))
        match(op, endpoint, &ready);
}

/* ------------------------------------------------------------------ ASK and ANSWER */

void shoali_agree_ask(shoal_op *op)
{
    shoali_ops *ops = op->ops;
    uint8_t body[SHOALI_ASK_BYTES];
    shoali_ask_encode(&op->id, body);
    op->asked = true;
    op->answers = shoali_arena_array(op->arena, op->plan->member_count, sizeof *op->answers);
    if (op->answers == NULL)
        return; /* then the error will say less */
    for (uint32_t m = 0; m < op->plan->member_count; m++) {
        op->answers[m].state = SHOALI_ANSWER_STATES;
        if (m != op->plan->me)
            ops->host.control(ops->host.ctx, op->plan->members[m], SHOALI_MESSAGE_ask, body,
                              sizeof body);
    }
}

void shoali_agree_on_ask(shoali_ops *ops, uint32_t endpoint, const shoali_ask *ask)
{
    shoali_answer answer = {.id = *ask, .state = SHOALI_UNENTERED};
    uint8_t body[SHOALI_ANSWER_BYTES];
    const shoal_op *op = shoali_run_find(ops, ask);
    const shoali_finished *f = op == NULL ? shoali_recent_find(&ops->recent, ask) : NULL;
    if (op != NULL) {
        answer.state = SHOALI_ENTERED;
        answer.since_us = shoali_ops_since(ops, op->started_us);
    } else if (f != NULL) {
        answer.state = f->status == SHOAL_OK ? SHOALI_FINISHED : SHOALI_FAILED;
        answer.since_us = shoali_ops_since(ops, f->ended_us);
    }
    ops->host.control(ops->host.ctx, endpoint, SHOALI_MESSAGE_answer, body,
                      shoali_answer_encode(&answer, body));
}

void shoali_agree_on_answer(shoali_ops *ops, uint32_t endpoint, const shoali_answer *answer)
{
    shoal_op *op = shoali_run_find(ops, &answer->id);
    if (op == NULL || op->answers == NULL)
        return;
    uint32_t member = shoali_member_of(op, endpoint);
    if (member != SHOALI_NONE)
        op->answers[member] = *answer;
}

/* "rank 3 (host b)" or "ranks 3, 5": members whose answer has this state. *first_out: the first of
 * them. */
static uint32_t list_members(const shoal_op *op, uint32_t state, char *text, size_t text_bytes,
                             uint32_t *first_out)
{
    uint32_t found = 0;
    size_t used = 0;
    char names[160] = "";
    for (uint32_t m = 0; m < op->plan->member_count; m++) {
        if (m == op->plan->me || op->answers[m].state != state)
            continue;
        if (found++ == 0)
            *first_out = op->plan->members[m];
        if (used < sizeof names - 16)
            used += (size_t)snprintf(names + used, sizeof names - used, used == 0 ? "%u" : ", %u",
                                     op->plan->members[m]);
    }
    if (found == 1)
        snprintf(text, text_bytes, "rank %s (host %.40s)", names, op->ops->peers[*first_out].host);
    else
        snprintf(text, text_bytes, "ranks %s", names);
    return found;
}

void shoali_agree_timed_out(shoal_op *op)
{
    shoali_ops *ops = op->ops;
    char who[240], more[200] = "";
    uint32_t culprit = SHOALI_NONE, count = 0;
    uint64_t waited_us = shoali_ops_since(ops, op->started_us), others_us = waited_us;
    if (op->answers != NULL)
        count = list_members(op, SHOALI_UNENTERED, who, sizeof who, &culprit);
    for (uint32_t m = 0; m < op->plan->member_count && op->answers != NULL; m++)
        if (op->answers[m].state == SHOALI_ENTERED && op->answers[m].since_us < others_us)
            others_us = op->answers[m].since_us;
    if (count > 0) {
        if (count == 1)
            ops->host.doing(ops->host.ctx, culprit, more, sizeof more);
        (void)shoali_fail(SHOAL_ETIMEDOUT, "%s %s not entered %s, %.1f s after the others%s", who,
                          count == 1 ? "has" : "have", op->name, (double)others_us * 1e-6, more);
    } else {
        uint32_t peer = UINT32_MAX;
        snprintf(more, sizeof more, "it is being prepared");
        if (op->state == SHOALI_OP_RUNNING)
            op->row->describe(op->flow, more, sizeof more, &peer);
        if (peer < op->plan->member_count && peer != op->plan->me)
            culprit = op->plan->members[peer];
        (void)shoali_fail(SHOAL_ETIMEDOUT, "%s did not end within %.3g s on rank %u: %s", op->name,
                          (double)waited_us * 1e-6, ops->me, more);
    }
    shoali_error_about(culprit == SHOALI_NONE ? -1 : (int32_t)culprit,
                       culprit == SHOALI_NONE ? NULL : ops->peers[culprit].host, op->name,
                       (int64_t)waited_us);
}

void shoali_agree_forget(shoali_ops *ops, uint32_t endpoint)
{
    shoali_notes_forget(&ops->notes, endpoint);
}
