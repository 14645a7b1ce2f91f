/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of ops_life.h. Values are small multiples of 1/8: their sums are exact in any order. */
#include <math.h>

#include "support/check.h"
#include "support/ops_life.h"

enum { SLACK_US = 3500 * 1000 }; /* a silent loss is known by then, and has been told */

/* ------------------------------------------------------------------ who brings what */

uint32_t life_index_of(const life *l, const life_act *act)
{
    return (uint32_t)(act - l->act);
}

uint32_t life_member_of(const life_act *act, uint32_t rank)
{
    for (uint32_t m = 0; m < act->shape->member_count; m++)
        if (act->shape->members[m] == rank)
            return m;
    return SHOALI_NONE;
}

/* Multiples of 1/8 within 1, some blocks of four zero. */
float life_value(const life *l, const life_act *act, uint32_t rank, size_t i)
{
    const uint64_t stream = (uint64_t)life_index_of(l, act) * LIFE_RANKS + rank;
    if (shoali_mix(shoali_mix(l->seed, stream), 1000 + i / 4) % 3 == 0)
        return 0;
    return (float)(shoali_mix(shoali_mix(l->seed, stream), i) % 17) / 8 - 1;
}

static double expected(const life *l, const life_act *act, uint32_t rank, size_t i, bool *any_out)
{
    const life_shape *s = act->shape;
    double sum = 0, most = -INFINITY;
    *any_out = false;
    for (uint32_t m = 0; m < s->member_count; m++) {
        size_t first, count;
        shoali_block_range(s->count, s->member_count, m, &first, &count);
        const bool inside = i >= first && i < first + count;
        if (s->form->kind == SHOAL_BROADCAST && m == s->root)
            return (double)life_value(l, act, s->members[m], i);
        if (s->form->kind == SHOAL_ALL_GATHER && inside)
            return (double)life_value(l, act, s->members[m], i);
        if (s->form->kind == SHOAL_REDUCE_SCATTER && s->members[m] == rank)
            *any_out = !inside;
        const double x = m < s->contributors ? (double)life_value(l, act, s->members[m], i) : 0;
        sum += x;
        most = m < s->contributors && x > most ? x : most;
    }
    return s->reduce == SHOAL_MAX ? most : sum;
}

bool life_has_owner(const life_shape *s)
{
    return (s->form->traits & FORM_OWNER) != 0 && s->timeout_us % 2 == 1;
}

/* ------------------------------------------------------------------ rules, at an end */

static void check_values(life *l, const life_act *act, uint32_t r)
{
    const life_shape *s = act->shape;
    const life_part *part = &act->part[r];
    const double by = life_has_owner(s) ? 2 : 1;
    bool any;
    if (life_member_of(act, r) >= s->contributors)
        return;
    for (size_t i = 0; i < s->count; i++) {
        const double want = by * expected(l, act, r, i, &any), got = (double)part->buf[i];
        const bool good = s->form->sum == SUM_EXACT  ? got == want
                          : s->form->sum == SUM_NEAR ? fabs(got - want) <= 0.02 * s->member_count
                                                     : isfinite(got);
        if (!good && !any)
            life_break(l, "act %u on rank %u: element %zu is %g and not %g", life_index_of(l, act),
                       r, i, got, want);
    }
    if (act->bad != LIFE_NOBODY || act->odd != LIFE_NOBODY)
        life_break(l, "act %u on rank %u ends well with what rank %u brought",
                   life_index_of(l, act), r, act->bad != LIFE_NOBODY ? act->bad : act->odd);
}

/* When so much of a rank's time for it is over, by its own clock. */
static uint64_t instant_of(const life *l, const life_act *act, uint32_t r, uint64_t after_us)
{
    return life_instant(l, r, life_local(l, r, act->part[r].start_us) + after_us);
}

/* When the first of all that have started it has so little time left. */
static uint64_t first_with_us(const life *l, const life_act *act, uint64_t left_us)
{
    uint64_t first_us = UINT64_MAX;
    for (uint32_t r = 0; r < LIFE_RANKS; r++) {
        if (!act->part[r].started)
            continue;
        const uint64_t at_us = instant_of(l, act, r, (uint64_t)act->shape->timeout_us - left_us);
        first_us = at_us < first_us ? at_us : first_us;
    }
    return first_us;
}

static bool is_about(const life *l, const life_part *part, const bool of[LIFE_RANKS])
{
    const int32_t number = part->error.rank;
    return number >= 0 && (uint32_t)number < l->epoch_size && of[l->who[number]];
}

static bool is_true(const life *l, const life_act *act, const life_part *part)
{
    const int32_t about = part->error.rank;
    switch (part->status) {
    case SHOAL_EPEER:
        return is_about(l, part, l->hurt);
    case SHOAL_ECANCELLED:
        return is_about(l, part, l->cancelled);
    case SHOAL_EEPOCH:
        return l->left;
    case SHOAL_ETIMEDOUT:
        return l->now_us >= first_with_us(l, act, 0);
    case SHOAL_EMISMATCH:
        return act->odd != LIFE_NOBODY;
    case SHOAL_ECORRUPT:
        return act->fails != LIFE_NOBODY || act->garbles != LIFE_NOBODY;
    case SHOAL_ENOTFINITE:
        return act->bad != LIFE_NOBODY && about >= 0 && l->who[about] == act->bad;
    default:
        return false;
    }
}

/* "has not entered": then it had not when it was asked. */
static bool blames_truly(const life *l, const life_act *act, const life_part *part)
{
    if (part->status != SHOAL_ETIMEDOUT || strstr(part->error.text, "not entered") == NULL ||
        part->error.rank < 0)
        return true;
    const life_part *other = &act->part[l->who[part->error.rank]];
    const uint64_t before_us = (uint64_t)act->shape->timeout_us / 4 < 250 * 1000
                                   ? (uint64_t)act->shape->timeout_us / 4
                                   : 250 * 1000;
    return !other->started || other->start_us >= first_with_us(l, act, before_us);
}

static void check_failure(life *l, const life_act *act, uint32_t r)
{
    const life_part *part = &act->part[r];
    const char *name = shoal_status_name(part->status);
    if (part->error.status != part->status || part->error.text[0] == '\0' ||
        part->error.operation[0] == '\0')
        life_break(l, "act %u on rank %u fails %s and does not say why", life_index_of(l, act), r,
                   name);
    else if (!is_true(l, act, part))
        life_break(l, "act %u on rank %u ends %s, which is not so: rank %d, %.200s",
                   life_index_of(l, act), r, name, part->error.rank, part->error.text);
    else if (!blames_truly(l, act, part))
        life_break(l, "act %u on rank %u blames one who had entered: %.200s", life_index_of(l, act),
                   r, part->error.text);
}

enum { COUNTED = 48, COUNTED_STATE = 3 + 3 * COUNTED }; /* codec/onebit.c */

float *life_counted(const life *l, const life_act *act, uint32_t r)
{
    shoali_residual kept[8];
    const size_t count = shoali_residuals_list(l->rank[r].ops.residuals, kept, 8);
    if ((act->shape->form->traits & FORM_COUNTS) == 0)
        return NULL;
    for (size_t k = 0; k < count && k < 8; k++)
        if (kept[k].count == COUNTED_STATE)
            return kept[k].values;
    return NULL;
}

/* What a failed step had coded is nobody's. */
static void check_counted(life *l, const life_act *act, uint32_t r)
{
    const float *state = life_counted(l, act, r);
    for (size_t i = 0; state != NULL && i < COUNTED; i++)
        if (state[3 + 2 * COUNTED + i] != 0)
            life_break(l, "act %u has failed, rank %u keeps what it owed", life_index_of(l, act),
                       r);
}

/* One more than whoever had taken most. */
static void check_steps(life *l, const life_act *act)
{
    const life_shape *s = act->shape;
    float most = 0;
    for (uint32_t m = 0; m < s->member_count; m++)
        if (act->part[s->members[m]].steps_before > most)
            most = act->part[s->members[m]].steps_before;
    for (uint32_t m = 0; m < s->member_count; m++)
        if ((s->form->traits & FORM_COUNTS) != 0 &&
            act->part[s->members[m]].steps_after != most + 1)
            life_break(l, "act %u: rank %u counts %g steps, and not %g", life_index_of(l, act),
                       s->members[m], (double)act->part[s->members[m]].steps_after,
                       (double)most + 1);
}

static void check_residuals(life *l, const life_act *act, uint32_t r)
{
    shoali_residual kept[8];
    const size_t count = shoali_residuals_list(l->rank[r].ops.residuals, kept, 8);
    if ((act->shape->form->traits & FORM_TOY) == 0)
        return;
    for (size_t k = 0; k < count && k < 8; k++)
        for (size_t i = 0; i < kept[k].count; i++)
            if (kept[k].key == act->shape->tensors[0].key && kept[k].values[i] != 0)
                life_break(l, "act %u has failed, rank %u keeps a residual", life_index_of(l, act),
                           r);
}

void life_over(life *l, uint32_t r, shoal_op *op)
{
    life_part *part = op->extras.done_ctx;
    life_act *act = NULL;
    for (uint32_t a = 0; a < l->acts; a++)
        if (part == &l->act[a].part[r])
            act = &l->act[a];
    if (act == NULL || part->ended) {
        life_break(l, "rank %u ends %s twice, or for another", r, op->name);
        return;
    }
    part->ended = true;
    part->end_us = l->now_us;
    part->status = op->status;
    part->error = op->error;
    part->stats = op->stats;
    memcpy(part->left, part->buf, sizeof part->left);
    life_tell(l, "rank %u ends act %u: %s %s", r, life_index_of(l, act),
              shoal_status_name(op->status), op->status == SHOAL_OK ? "" : op->error.text);
    if (l->rank[r].dead)
        return;
    life_go_on(l, r, act);
    l->ended_ok += op->status == SHOAL_OK;
    l->ended_badly += op->status != SHOAL_OK;
    const float *counted = life_counted(l, act, r);
    part->steps_after = counted != NULL ? counted[0] : 0;
    const uint64_t deadline_us = instant_of(l, act, r, (uint64_t)act->shape->timeout_us);
    if (l->now_us > deadline_us + SLACK_US + l->rank[r].paused_us)
        life_break(l, "act %u on rank %u ends %llu us after its deadline", life_index_of(l, act), r,
                   (unsigned long long)(l->now_us - deadline_us));
    if (op->status == SHOAL_OK)
        check_values(l, act, r);
    else {
        check_failure(l, act, r);
        check_residuals(l, act, r);
        check_counted(l, act, r);
    }
}

/* ------------------------------------------------------------------ rules, when all is over */

static bool ended_well(const life *l, const life_act *act, uint32_t r)
{
    return act->part[r].ended && act->part[r].status == SHOAL_OK && !l->rank[r].dead;
}

static bool same_bits(const void *a, const void *b, size_t floats)
{
    return memcmp(a, b, floats * sizeof(float)) == 0;
}

/* Those that ended well hold the same bits. */
static void check_same(life *l, const life_act *act, uint32_t a, uint32_t b)
{
    const life_shape *s = act->shape;
    if (s->form->kind == SHOAL_REDUCE_SCATTER || s->form->kind == SHOAL_BARRIER ||
        life_member_of(act, a) >= s->contributors || life_member_of(act, b) >= s->contributors)
        return;
    if (!same_bits(act->part[a].left, act->part[b].left, s->count))
        life_break(l, "act %u left other bits on rank %u than on rank %u", life_index_of(l, act), a,
                   b);
}

/* What one has found out, the others hear soon. */
static void check_spread(life *l, const life_act *act, uint32_t a, uint32_t b)
{
    const life_part *first = &act->part[a], *other = &act->part[b];
    if (first->status == SHOAL_OK || first->status == SHOAL_ENOTFINITE || l->rank[a].dead ||
        l->rank[b].dead)
        return;
    const uint64_t from_us = first->end_us > other->start_us ? first->end_us : other->start_us;
    if (other->end_us > from_us + SLACK_US + l->rank[a].paused_us + l->rank[b].paused_us)
        life_break(l, "act %u failed on rank %u, rank %u was left to wait for %llu us",
                   life_index_of(l, act), a, b, (unsigned long long)(other->end_us - from_us));
}

static const float *residual_of(const life *l, const life_act *act, uint32_t r)
{
    shoali_residual kept[8];
    const size_t count = shoali_residuals_list(l->rank[r].ops.residuals, kept, 8);
    for (size_t k = 0; k < count && k < 8; k++)
        if (kept[k].key == act->shape->tensors[0].key && kept[k].count == act->shape->count)
            return kept[k].values;
    return NULL;
}

/* The only one of its shape, and the store is still there: what has not arrived is kept back. */
static void check_kept(life *l, const life_act *act)
{
    const life_shape *s = act->shape;
    bool any;
    for (uint32_t a = 0; a < l->acts; a++)
        if (l->act[a].shape == s && &l->act[a] != act)
            return;
    if (s->form->sum != SUM_KEPT || (l->reopened && !act->last))
        return;
    for (size_t i = 0; i < s->count; i++) {
        double sum = (double)act->part[s->members[0]].left[i];
        for (uint32_t m = 0; m < s->member_count; m++) {
            const float *kept = residual_of(l, act, s->members[m]);
            sum += kept != NULL ? (double)kept[i] : 0;
        }
        if (sum != expected(l, act, s->members[0], i, &any))
            life_break(l, "act %u: element %zu and what is kept back of it are %g and not %g",
                       life_index_of(l, act), i, sum, expected(l, act, s->members[0], i, &any));
    }
}

/* What ended well on all: each element went to one owner, once, and what codecs kept back is known;
 * as much was received as sent. */
static void check_all(life *l, const life_act *act)
{
    const life_shape *s = act->shape;
    uint64_t sent = 0, received = 0;
    for (uint32_t m = 0; m < s->member_count; m++) {
        sent += act->part[s->members[m]].stats.sent_payload_bytes;
        received += act->part[s->members[m]].stats.received_payload_bytes;
    }
    if (sent != received &&
        strncmp(s->form->collective != NULL ? s->form->collective : "", "switchml", 8) != 0)
        life_break(l, "act %u sent %llu bytes and received %llu", life_index_of(l, act),
                   (unsigned long long)sent, (unsigned long long)received);
    for (size_t i = 0; i < s->count && life_has_owner(s); i++) {
        uint32_t owned = 0;
        for (uint32_t m = 0; m < s->member_count; m++)
            owned += act->part[s->members[m]].owned[i];
        if (owned != 1)
            life_break(l, "act %u: element %zu was applied %u times", life_index_of(l, act), i,
                       owned);
    }
    check_kept(l, act);
    check_steps(l, act);
}

void life_check(life *l, const life_act *act)
{
    const life_shape *s = act->shape;
    uint32_t well = 0;
    for (uint32_t m = 0; m < s->member_count; m++) {
        const uint32_t r = s->members[m];
        const life_part *part = &act->part[r];
        well += ended_well(l, act, r);
        if (!part->started)
            continue;
        if (!part->ended)
            life_break(l, "act %u on rank %u never ends", life_index_of(l, act), r);
        if (part->ended && !same_bits(part->left, part->buf, LIFE_COUNT))
            life_break(l, "act %u on rank %u: its buffer was touched after its end",
                       life_index_of(l, act), r);
        if ((l->calm || act->last) && part->status != SHOAL_OK && part->status != SHOAL_EMISMATCH &&
            part->status != SHOAL_ENOTFINITE && part->status != SHOAL_ECORRUPT)
            life_break(l, "act %u on rank %u fails untroubled: %.200s", life_index_of(l, act), r,
                       part->error.text);
        for (uint32_t n = 0; n < s->member_count; n++)
            if (n != m && act->part[s->members[n]].ended) {
                check_spread(l, act, r, s->members[n]);
                if (n < m && ended_well(l, act, r) && ended_well(l, act, s->members[n]))
                    check_same(l, act, r, s->members[n]);
            }
    }
    if (well == s->member_count)
        check_all(l, act);
}
