/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a plan, made on the caller's thread: it gets its buffer, its name and its deadline. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "ops/inner.h"

enum { ARENA_BYTES = 1024 };

static shoal_status identify(shoal_op *op, const shoal_op_id *given, uint32_t round)
{
    op->id = (shoali_wire_id){given->group, given->sequence, round};
    if (given->group != 0 || given->sequence != 0)
        return SHOAL_OK;
    op->id.group = op->plan->group;
    return op->ops->host.number(op->ops->host.ctx, op->id.group, &op->id.sequence);
}

/* Texts have 64 bytes on the wire and in errors: what does not fit is cut. */
static void describe(shoal_op *op, const char *label)
{
    char call[SHOALI_OP_TEXT_BYTES], group[SHOALI_OP_TEXT_BYTES] = "";
    if (op->id.group != 0)
        snprintf(group, sizeof group, " of group %llx", (unsigned long long)op->id.group >> 32);
    snprintf(call, sizeof call, "%s %llu%.30s", shoali_kind_name(op->plan->kind),
             (unsigned long long)op->id.sequence, group);
    const bool labelled = label != NULL;
    snprintf(op->name, sizeof op->name, "%s%s%.63s%s", call, labelled ? " (" : "",
             labelled ? label : "", labelled ? ")" : "");
    snprintf(op->text, sizeof op->text, "%s%s%.16s%s", call, labelled ? " " : "",
             labelled ? label : "", op->plan->tail);
}

static shoal_op *fresh(void)
{
    shoal_op *op = shoali_alloc(sizeof *op);
    if (op == NULL)
        return NULL;
    op->arena = shoali_arena_create(ARENA_BYTES);
    if (op->arena != NULL)
        return op;
    shoali_free(op);
    return NULL;
}

static shoal_status fill(shoal_op *op, const shoal_op_desc *desc, uint32_t round)
{
    const shoal_op_plan *plan = op->plan;
    const bool barrier = plan->kind == SHOAL_BARRIER, serves = plan->me >= plan->contributors;
    op->hash = plan->hash;
    op->buf = barrier ? &op->barrier_value : desc->buf;
    op->rows = desc->rows;
    op->row_count = desc->row_count;
    op->tos = desc->tos;
    op->timeout_us = desc->timeout_us > 0 ? desc->timeout_us : op->ops->timeout_us;
    if (plan->bits)
        op->extras.check_finite = false;
    if (op->buf == NULL && plan->count > 0 && !serves)
        return shoali_fail(SHOAL_EINVAL, "%zu elements at %p", plan->count, (void *)op->buf);
    SHOALI_TRY(identify(op, &desc->id, round));
    describe(op, desc->label);
    return SHOAL_OK;
}

shoal_status shoali_op_of(shoal_op_plan *plan, const shoal_op_desc *desc,
                          const shoali_op_extras *extras, uint32_t round, shoal_op **op_out)
{
    shoal_op *op = shoali_plans_wake(plan);
    if (op == NULL && (op = fresh()) == NULL) {
        shoali_plans_drop(plan);
        return SHOAL_ENOMEM;
    }
    *op = (shoal_op){.ops = plan->ops,
                     .comm = plan->ops->host.ctx,
                     .plan = plan,
                     .arena = op->arena,
                     .kept = op->kept,
                     .extras = *extras};
    shoal_status status = fill(op, desc, round);
    if (status != SHOAL_OK) {
        shoali_op_free(op);
        return status;
    }
    *op_out = op;
    return SHOAL_OK;
}

shoal_status shoali_op_make(shoali_ops *ops, const shoal_op_desc *desc,
                            const shoali_op_extras *extras, uint32_t round, shoal_op **op_out)
{
    if (desc == NULL || desc->size != sizeof *desc)
        return shoali_fail(SHOAL_EINVAL,
                           "the descriptor of an operation has the wrong size: start from "
                           "SHOAL_OP_DESC_INIT");
    shoal_op_plan *plan;
    SHOALI_TRY(shoali_plans_find(ops, desc, extras, &plan));
    shoal_status status = shoali_op_of(plan, desc, extras, round, op_out);
    shoali_plans_drop(plan);
    return status;
}

void shoali_op_free(shoal_op *op)
{
    if (!shoali_plans_rest(op))
        shoali_op_discard(op);
}

void shoali_op_discard(shoal_op *op)
{
    if (op->kept.rests != NULL)
        op->kept.rests->fini(op->kept.flow);
    shoali_free(op->kept.flow);
    shoali_arena_destroy(op->arena);
    shoali_free(op);
}
