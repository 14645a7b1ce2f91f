/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that sum inside each host first (trait HOSTS). Members behind the same links form a
 * group, its first member leads it; each stage is an operation of its own (a child). Two hosts of
 * two ranks, an aggregator:
 *
 *   stage      rank 0        rank 1        rank 2        rank 3
 *   INSIDE     0 + 1         0 + 1         2 + 3         2 + 3         row->stages' inside
 *   BETWEEN    (0+1)+(2+3)   waits         (0+1)+(2+3)   waits         row->stages' between
 *   BACK       to 1          from 0        to 3          from 2        broadcast
 *
 * So of each host one member speaks to the aggregators, and its links carry one contribution and
 * one copy of the sum, however many ranks the host has. Sums are made in order of ranks inside a
 * host, then in order of the leaders' ranks: they repeat to the last bit, but differ by rounding
 * from sums in order of all ranks.
 *
 * Rows that an operation names go the same way; back into the host they are a sum to which only
 * the leader brings rows, all that any rank has named.
 *
 * A host that has one member, or a job on one host, leaves out what moves nothing. What fails, or
 * is not finite, in one group is told to all members of the operation. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "ops/inner.h"

enum { INSIDE, BETWEEN, BACK, STAGES };

typedef struct shoali_hosts {
    uint32_t *group, group_count; /* ranks of this member's host, ascending */
    uint32_t *leads, lead_count;  /* the first rank of each host */
    char spec[STAGES][160];
    uint32_t stage;
    const uint32_t *rows; /* of the sum so far, if the operation names its rows; else NULL */
    size_t row_count;
} shoali_hosts;

static uint32_t host_of(const shoal_op *op, uint32_t member)
{
    return op->ops->peers[op->plan->members[member]].place;
}

static bool leads(const shoal_op *op, uint32_t member)
{
    for (uint32_t m = 0; m < member; m++)
        if (host_of(op, m) == host_of(op, member))
            return false;
    return true;
}

static shoal_status find_groups(shoal_op *op, shoali_hosts *h)
{
    h->group = shoali_arena_array(op->arena, op->plan->contributors, sizeof *h->group);
    h->leads = shoali_arena_array(op->arena, op->plan->contributors, sizeof *h->leads);
    if (h->group == NULL || h->leads == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t m = 0; m < op->plan->contributors; m++) {
        if (host_of(op, m) == host_of(op, op->plan->me))
            h->group[h->group_count++] = op->plan->members[m];
        if (leads(op, m))
            h->leads[h->lead_count++] = op->plan->members[m];
    }
    return SHOAL_OK;
}

static shoal_status make(shoal_op *op)
{
    if (op->plan->kind != SHOAL_ALL_REDUCE || op->plan->reduce != SHOAL_SUM ||
        op->extras.owner != NULL || op->plan->me >= op->plan->contributors)
        return shoali_fail(SHOAL_EINVAL, "%s: '%s' sums, to all members, and has no owners",
                           op->name, op->plan->collective.spec);
    shoali_hosts *h = op->rounds.hosts = shoali_arena_alloc(op->arena, sizeof *h);
    if (h == NULL)
        return SHOAL_ENOMEM;
    op->plan->collective.row->stages(op->plan->collective.params, h->spec[INSIDE], h->spec[BETWEEN],
                                     sizeof h->spec[0]);
    h->rows = op->rows;
    h->row_count = op->row_count;
    snprintf(h->spec[BACK], sizeof h->spec[BACK], "%s",
             op->rows != NULL ? h->spec[INSIDE] : "broadcast");
    return find_groups(op, h);
}

/* Whether this member moves anything in a stage. */
static bool takes_part(const shoal_op *op, uint32_t stage)
{
    const shoali_hosts *h = op->rounds.hosts;
    const bool several = h->group_count > 1, apart = h->lead_count > 1;
    return stage == INSIDE    ? several
           : stage == BETWEEN ? apart && op->plan->members[op->plan->me] == h->group[0]
                              : several && apart;
}

static void start_stage(shoal_op *op)
{
    static const char *const labels[] = {"inside the host", "between hosts", "back into the host"};
    const shoali_hosts *h = op->rounds.hosts;
    const bool between = h->stage == BETWEEN;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.kind = h->stage == BACK && h->rows == NULL ? SHOAL_BROADCAST : SHOAL_ALL_REDUCE;
    desc.id = (shoal_op_id){op->id.group, op->id.sequence, 0, 0};
    desc.buf = op->buf;
    desc.count = op->plan->count;
    desc.tensors = op->plan->tensors;
    desc.tensor_count = op->plan->tensor_count;
    desc.members = between ? h->leads : h->group;
    desc.member_count = between ? h->lead_count : h->group_count;
    desc.collective = h->spec[h->stage];
    desc.rows = h->rows;
    desc.row_count = h->stage == BACK && op->plan->members[op->plan->me] != h->group[0]
                         ? 0
                         : h->row_count;
    desc.tos = op->tos;
    desc.label = labels[h->stage];
    shoal_op *child = shoali_rounds_child(op, &desc,
                                          SHOALI_HOSTS_ROUND | op->id.round << 2 | h->stage,
                                          op->extras.check_finite && h->stage != BACK);
    if (child == NULL)
        return;
    child->keep_rows = h->rows != NULL && h->stage != BACK;
    shoali_run_start(child);
}

bool shoali_hosts_between(const shoal_op *op)
{
    return op->rounds.hosts->stage == BETWEEN;
}

void shoali_hosts_take_rows(shoal_op *child)
{
    shoali_hosts *h = child->rounds.parent->rounds.hosts;
    size_t count;
    const uint32_t *rows = child->row->rows(child->flow, &count);
    uint32_t *kept = NULL;
    if (rows != NULL)
        kept = shoali_arena_array(child->rounds.parent->arena, count + 1, sizeof *kept);
    if (kept == NULL) {
        child->status = shoali_fail(SHOAL_ENOMEM, "%s: no memory for %zu rows", child->name, count);
        shoali_error_get(&child->error);
        return;
    }
    if (count > 0)
        memcpy(kept, rows, count * sizeof *kept);
    h->rows = kept;
    h->row_count = count;
}

static void go_on(shoal_op *op)
{
    while (op->rounds.hosts->stage < STAGES && !takes_part(op, op->rounds.hosts->stage))
        op->rounds.hosts->stage++;
    if (op->rounds.hosts->stage < STAGES)
        start_stage(op);
    else
        shoali_run_end(op, SHOAL_OK);
}

void shoali_hosts_begin(shoal_op *op)
{
    if (make(op) == SHOAL_OK)
        go_on(op);
    else
        shoali_run_fail(op, true);
}

void shoali_hosts_stage_done(shoal_op *op)
{
    op->rounds.hosts->stage++;
    go_on(op);
}
