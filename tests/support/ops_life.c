/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a life run together, drawn from its seed. */
#include "support/ops_life.h"

#include <math.h>

#include "support/check.h"
#include "support/toycodec.h"
#include "support/toytransform.h"

enum { SECOND = 1000 * 1000 };

static const life_form forms[] = {
    {SHOAL_ALL_REDUCE, "ring", NULL, SUM_EXACT, FORM_OWNER | FORM_TROUBLE | FORM_MAX},
    {SHOAL_ALL_REDUCE, "direct", NULL, SUM_EXACT, FORM_OWNER | FORM_TROUBLE | FORM_MAX},
    {SHOAL_ALL_REDUCE, "ring:both", NULL, SUM_EXACT, FORM_TROUBLE},
    {SHOAL_ALL_REDUCE, "halving_doubling", NULL, SUM_EXACT, FORM_MAX},
    {SHOAL_ALL_REDUCE, "hierarchical", NULL, SUM_EXACT, FORM_MAX},
    {SHOAL_ALL_REDUCE, "gather", NULL, SUM_EXACT, 0},
    {SHOAL_ALL_REDUCE, "worker_aggregator", NULL, SUM_EXACT, FORM_OWNER},
    {SHOAL_ALL_REDUCE, "worker_aggregator:servers=1,dedicated", NULL, SUM_EXACT, FORM_SERVED},
    {SHOAL_ALL_REDUCE, "omnireduce:block=4", NULL, SUM_EXACT, FORM_TROUBLE},
    {SHOAL_ALL_REDUCE, "omnireduce:block=4,hosts", NULL, SUM_EXACT, FORM_TROUBLE},
    {SHOAL_ALL_REDUCE, "omnireduce:block=4,hosts", NULL, SUM_EXACT, 0},
    {SHOAL_ALL_REDUCE, "switchml:block=8,slots=4", NULL, SUM_NEAR, 0},
    {SHOAL_ALL_REDUCE, "ring", "toy:q=1,ef", SUM_KEPT, FORM_TOY | FORM_KEEPS},
    {SHOAL_ALL_REDUCE, "direct", "toy:q=1,ef", SUM_KEPT, FORM_TOY | FORM_KEEPS},
    {SHOAL_ALL_REDUCE, "ring", "inceptionn:prescale=auto", SUM_NEAR, 0},
    {SHOAL_ALL_REDUCE, "direct", "toy_transform", SUM_ANY, FORM_TRANSFORM | FORM_KEEPS},
    {SHOAL_ALL_REDUCE, "direct", "onebit:warmup=1", SUM_ANY, FORM_COUNTS | FORM_KEEPS},
    {SHOAL_REDUCE_SCATTER, "ring", NULL, SUM_EXACT, 0},
    {SHOAL_REDUCE_SCATTER, "direct", NULL, SUM_EXACT, 0},
    {SHOAL_ALL_GATHER, "ring", NULL, SUM_EXACT, 0},
    {SHOAL_BROADCAST, "broadcast", NULL, SUM_EXACT, 0},
    {SHOAL_BROADCAST, "broadcast:tree", NULL, SUM_EXACT, 0},
    {SHOAL_BARRIER, NULL, NULL, SUM_ANY, 0},
};
enum { FORMS = sizeof forms / sizeof forms[0] };

uint64_t life_random(life *l, uint64_t below)
{
    return shoali_rng_next(&l->rng) % below;
}

void life_break(life *l, const char *format, ...)
{
    va_list args;
    if (l->violation[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(l->violation, sizeof l->violation, format, args);
    va_end(args);
    life_tell(l, "BROKEN: %s", l->violation);
}

void life_tell(const life *l, const char *format, ...)
{
    va_list args;
    if (!l->trace)
        return;
    va_start(args, format);
    printf("%10llu us %5llu: ", (unsigned long long)l->now_us, (unsigned long long)l->events);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

/* ------------------------------------------------------------------ start */

static shoal_status owner(void *ctx, float *sum_in_weights_out, size_t offset, size_t count)
{
    life_part *part = ctx;
    if (part->fails)
        return shoali_fail(SHOAL_ECORRUPT, "an owner cannot make use of a sum");
    for (size_t i = 0; i < count; i++) {
        sum_in_weights_out[i] *= 2;
        if (part->owned[offset + i]++ > 0)
            life_break(part->life, "element %zu was applied twice", offset + i);
    }
    return SHOAL_OK;
}

static void describe(const life *l, life_act *act, uint32_t rank, shoal_op_desc *desc,
                     uint32_t members[LIFE_RANKS], shoali_op_extras *extras)
{
    const life_shape *s = act->shape;
    for (uint32_t m = 0; m < s->member_count; m++)
        members[m] = l->rank[s->members[m]].number;
    *desc = (shoal_op_desc)SHOAL_OP_DESC_INIT;
    desc->kind = s->form->kind;
    desc->reduce = s->reduce;
    desc->buf = act->part[rank].buf;
    desc->count = s->count;
    desc->tensors = s->tensor_count > 0 ? s->tensors : NULL;
    desc->tensor_count = s->tensor_count;
    desc->members = members;
    desc->member_count = s->member_count;
    desc->contributors = s->contributors;
    desc->root = s->root;
    desc->collective = s->form->collective;
    desc->push_codec = s->form->codec;
    desc->timeout_us = s->timeout_us;
    if (act->last) {
        desc->timeout_us = (int64_t)60 * SECOND;
        desc->id = (shoal_op_id){UINT64_C(1) << 63 | 7, life_index_of(l, act) + 1, 0, 0};
    }
    if (act->odd == rank) {
        desc->count--;
        desc->tensors = NULL;
        desc->tensor_count = 0;
    }
    *extras = (shoali_op_extras){.check_finite = true, .error_feedback = true};
    extras->done_ctx = &act->part[rank];
    if ((s->form->traits & FORM_TOY) != 0)
        extras->codec_row = &toy_codec_row;
    if ((s->form->traits & FORM_TRANSFORM) != 0)
        extras->codec_row = &toy_transform_row;
    if (life_has_owner(s)) {
        extras->owner = owner;
        extras->owner_ctx = &act->part[rank];
    }
}

static shoal_op *make(life *l, life_act *act, uint32_t r)
{
    life_rank *rank = &l->rank[r];
    const uint32_t s = (uint32_t)(act->shape - l->shape);
    shoal_op_desc desc;
    shoali_op_extras extras;
    uint32_t members[LIFE_RANKS];
    shoal_op *op = NULL;
    describe(l, act, r, &desc, members, &extras);
    shoal_status status;
    if (act->shape->prepared && act->odd != r) {
        status = rank->plans[s] != NULL
                     ? SHOAL_OK
                     : shoali_plans_prepare(&rank->ops, &desc, &extras, &rank->plans[s]);
        if (status == SHOAL_OK)
            status = shoali_op_of(rank->plans[s], &desc, &extras, SHOALI_MAIN_ROUND, &op);
    } else {
        status = shoali_op_make(&rank->ops, &desc, &extras, SHOALI_MAIN_ROUND, &op);
    }
    if (status != SHOAL_OK)
        life_break(l, "rank %u cannot make act %u: %s", r, life_index_of(l, act),
                   shoal_last_error()->text);
    return status == SHOAL_OK ? op : NULL;
}

void life_start(life *l, uint32_t r, uint32_t index)
{
    life_act *act = &l->act[index];
    life_part *part = &act->part[r];
    if (l->rank[r].dead || l->rank[r].hangs)
        return;
    for (size_t i = 0; i < LIFE_COUNT; i++)
        part->buf[i] = life_value(l, act, r, i);
    if (act->bad == r)
        part->buf[act->shape->count / 2] = NAN;
    shoal_op *op = make(l, act, r);
    if (op == NULL)
        return;
    const float *counted = life_counted(l, act, r);
    part->started = true;
    part->start_us = l->now_us;
    part->steps_before = counted != NULL ? counted[0] : 0;
    life_tell(l, "rank %u starts act %u: %s, %u members, %zu elements", r, index, op->text,
              act->shape->member_count, act->shape->count);
    shoali_run_start(op);
}

/* ------------------------------------------------------------------ a life is drawn */

static void draw_order(life *l, uint32_t order[LIFE_RANKS])
{
    for (uint32_t i = 0; i < l->epoch_size; i++) {
        const uint32_t at = (uint32_t)life_random(l, i + 1);
        order[i] = order[at];
        order[at] = l->who[i];
    }
}

static void draw_members(life *l, life_shape *s)
{
    uint32_t order[LIFE_RANKS] = {0};
    draw_order(l, order);
    const uint32_t all = l->epoch_size;
    s->member_count = life_random(l, 3) != 0 ? all : 2 + (uint32_t)life_random(l, all - 1);
    if ((s->form->traits & FORM_COUNTS) != 0)
        s->member_count = all;
    for (uint32_t m = 0; m < s->member_count; m++)
        s->members[m] = s->member_count == all && all % 2 == 0 ? l->who[m] : order[m];
    const bool served = (s->form->traits & FORM_SERVED) != 0 && s->member_count > 2;
    if ((s->form->traits & FORM_SERVED) != 0 && !served)
        s->form = &forms[0];
    s->contributors = served ? s->member_count - 1 : s->member_count;
    s->root = (uint32_t)life_random(l, s->member_count);
}

static void draw_tensors(life *l, life_shape *s)
{
    const uint64_t key = 100 + 2 * (uint64_t)(s - l->shape);
    const size_t half = s->count / 2;
    s->tensor_count = 0;
    if ((s->form->traits & (FORM_TRANSFORM | FORM_TOY | FORM_COUNTS)) != 0) {
        s->count = 48;
        s->tensor_count = 1;
        s->tensors[0] = (shoal_tensor){
            .key = key, .count = 48, .rows = 8, .cols = 6, .lr_scale = 1};
    } else if (s->form->kind == SHOAL_ALL_REDUCE && half > 0 && life_random(l, 2) == 0) {
        s->tensor_count = 2;
        s->tensors[0] = (shoal_tensor){.key = key, .count = half, .lr_scale = 1};
        s->tensors[1] = (shoal_tensor){
            .key = key + 1, .offset = half, .count = s->count - half, .lr_scale = 1};
    }
}

static const life_shape *counting(const life *l, const life_shape *but)
{
    for (const life_shape *s = l->shape; s < l->shape + LIFE_SHAPES; s++)
        if (s != but && s->form != NULL && (s->form->traits & FORM_COUNTS) != 0)
            return s;
    return NULL;
}

static void draw_shape(life *l, life_shape *s, bool last)
{
    s->form = &forms[life_random(l, FORMS)];
    if ((s->form->traits & FORM_COUNTS) != 0 && counting(l, s) != NULL)
        s->form = &forms[0];
    draw_members(l, s);
    s->count = s->form->kind == SHOAL_BARRIER ? 1 : 1 + life_random(l, LIFE_COUNT);
    draw_tensors(l, s);
    s->reduce = (s->form->traits & FORM_MAX) != 0 && life_random(l, 4) == 0 ? SHOAL_MAX : SHOAL_SUM;
    s->prepared = life_random(l, 2) == 0;
    s->timeout_us = (int64_t)(60 * SECOND);
    if (!l->calm && !last && life_random(l, 3) == 0)
        s->timeout_us = (int64_t)(1000 + life_random(l, 2 * SECOND));
    s->timeout_us -= s->timeout_us % 2;
    if ((s->form->traits & FORM_OWNER) != 0 && s->reduce == SHOAL_SUM && life_random(l, 3) == 0)
        s->timeout_us += 1; /* has_owner */
}

/* The same but for its members, their order, or what is looked for: not to be taken for it. */
static void draw_twin(life *l, life_shape *s, life_shape *of)
{
    if ((of->form->traits & (FORM_KEEPS | FORM_SERVED)) != 0)
        return;
    of->prepared = false;
    *s = *of;
    if ((of->form->traits & FORM_MAX) != 0 && !life_has_owner(of) && life_random(l, 2) == 0) {
        s->reduce = of->reduce == SHOAL_MAX ? SHOAL_SUM : SHOAL_MAX;
        return;
    }
    uint32_t order[LIFE_RANKS] = {0};
    draw_order(l, order);
    memcpy(s->members, order, s->member_count * sizeof *order);
}

static void draw_act(life *l, const life_shape *s, bool last)
{
    life_act *act = &l->act[l->acts];
    const uint32_t traits = s->form->traits;
    act->shape = s;
    act->last = last;
    act->bad = act->odd = act->fails = act->garbles = LIFE_NOBODY;
    if ((traits & FORM_TROUBLE) != 0 && !life_has_owner(s) && s->reduce == SHOAL_SUM &&
        s->count > 1) {
        const uint64_t what = life_random(l, 16);
        const uint32_t one = s->members[life_random(l, s->member_count)];
        if (what == 0)
            act->bad = one;
        else if (what == 1 && strcmp(s->form->collective, "direct") == 0)
            act->odd = one;
    }
    if ((traits & FORM_TOY) != 0 && !last && life_random(l, 8) == 0)
        act->garbles = s->members[life_random(l, s->member_count)];
    if (life_has_owner(s) && !last && life_random(l, 4) == 0)
        act->fails = s->members[life_random(l, s->member_count)];
    for (uint32_t r = 0; r < LIFE_RANKS; r++) {
        act->part[r].life = l;
        act->part[r].fails = act->fails == r;
    }
}

void life_go_on(life *l, uint32_t r, const life_act *ended)
{
    uint32_t a = life_index_of(l, ended) + 1;
    while (a < l->acts && life_member_of(&l->act[a], r) == SHOALI_NONE)
        a++;
    if (l->in_turn && a < l->acts)
        life_at(l, l->now_us + life_random(l, 10),
                (life_event){.kind = EVENT_START, .to = r, .act = a});
}

/* Each starts them in the same order, at times of its own; what keeps residuals waits for a while,
 * in which the one before has ended. */
static void plan_starts(life *l, uint32_t first)
{
    for (uint32_t r = 0; r < l->epoch_size; r++) {
        uint64_t at_us = l->now_us + life_random(l, 300);
        for (uint32_t a = first; a < l->acts; a++) {
            if (life_member_of(&l->act[a], l->who[r]) == SHOALI_NONE)
                continue;
            life_at(l, at_us, (life_event){.kind = EVENT_START, .to = l->who[r], .act = a});
            if (l->in_turn)
                break;
            at_us += life_random(l, 4) == 0 ? life_delay(l) : life_random(l, 20);
            if (!l->calm && life_random(l, 12) == 0)
                at_us += life_random(l, 2 * SECOND);
        }
    }
}

/* What keeps residuals runs once at a time. */
static bool may_run_beside(const life *l, const life_act *act, uint32_t first)
{
    const uint32_t traits = act->shape->form->traits;
    if ((traits & FORM_KEEPS) == 0 || ((traits & FORM_COUNTS) != 0 && l->in_turn))
        return true;
    for (const life_act *other = &l->act[first]; other < act; other++)
        if (other->shape == act->shape)
            return false;
    return true;
}

static void draw(life *l)
{
    l->size = l->epoch_size = 2 + (uint32_t)life_random(l, LIFE_RANKS - 1);
    const bool even = life_random(l, 3) == 0;
    for (uint32_t r = 0; r < LIFE_RANKS; r++) /* 10 % apart and more */
        l->rank[r].rate = even ? 1000 : 900 + life_random(l, 201);
    for (uint32_t r = 0; r < l->size; r++)
        l->who[r] = r;
    l->calm = life_random(l, 4) == 0;
    l->slow = life_random(l, 4) == 0;
    l->in_turn = life_random(l, 2) == 0;
    l->loss = life_random(l, 2) == 0 ? (double)life_random(l, 30) / 100 : 0;
    l->shapes = 1 + (uint32_t)life_random(l, 2);
    for (uint32_t s = 0; s < l->shapes; s++)
        draw_shape(l, &l->shape[s], false);
    if (l->shapes > 1 && life_random(l, 2) == 0)
        draw_twin(l, &l->shape[1], &l->shape[0]);
    const uint32_t most = 1 + (uint32_t)life_random(l, LIFE_ACTS - 3);
    while (l->acts < most) {
        draw_act(l, &l->shape[life_random(l, l->shapes)], false);
        if (!may_run_beside(l, &l->act[l->acts], 0))
            break;
        l->acts++;
    }
    l->strikes = l->calm ? 0 : 1 + (uint32_t)life_random(l, LIFE_STRIKES);
    const uint64_t reach = life_random(l, 2) == 0 ? 60 : 400;
    for (uint32_t i = 0; i < l->strikes; i++)
        l->strike_at[i] = life_random(l, reach);
    for (uint32_t i = 1; i < l->strikes; i++)
        if (l->strike_at[i] < l->strike_at[i - 1])
            l->strike_at[i] = l->strike_at[i - 1];
}

/* Those that live and hear each other. */
static uint32_t survivors(const life *l, uint32_t who[LIFE_RANKS])
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < l->size; r++) {
        bool fits = !l->rank[r].dead && !l->rank[r].gone;
        for (uint32_t i = 0; i < count; i++)
            fits &= !l->rank[r].lost[who[i]] && !l->rank[who[i]].lost[r];
        if (fits)
            who[count++] = r;
    }
    return count;
}

static bool all_are_of(const life_shape *s, const uint32_t who[LIFE_RANKS], uint32_t count)
{
    uint32_t there = 0;
    for (uint32_t m = 0; m < s->member_count; m++)
        for (uint32_t i = 0; i < count; i++)
            there += who[i] == s->members[m];
    return there == s->member_count;
}

/* What was run before and all that it needs are left for; what counts steps goes on among those
 * that are there now, newcomers with them. Within an epoch it does not go on behind a failure. */
static const life_shape *shape_again(life *l, const uint32_t who[LIFE_RANKS], uint32_t count,
                                     const life_shape *fresh)
{
    const life_shape *s = &l->shape[life_random(l, l->shapes)], *counts = counting(l, NULL);
    life_shape *again = &l->shape[LIFE_SHAPES - 1];
    if (l->reopened && counts != NULL && counts != fresh) {
        *again = *counts;
        again->prepared = false;
        again->root = 0;
        again->member_count = again->contributors = count;
        again->timeout_us = (int64_t)60 * SECOND;
        memcpy(again->members, who, sizeof again->members);
        return again;
    }
    return s != counts && all_are_of(s, who, count) ? s : fresh;
}

/* Something new, or what was run before, if all that it needs are left. */
static void draw_last(life *l, const uint32_t who[LIFE_RANKS], uint32_t count)
{
    uint32_t all[LIFE_RANKS];
    const uint32_t size = l->epoch_size, first = l->acts;
    life_shape *fresh = &l->shape[LIFE_SHAPES - 2];
    memcpy(all, l->who, sizeof all);
    memcpy(l->who, who, sizeof all);
    l->epoch_size = count;
    draw_shape(l, fresh, true);
    for (uint32_t i = 0; i < 2; i++) {
        draw_act(l, i > 0 ? shape_again(l, who, count, fresh) : fresh, true);
        if (may_run_beside(l, &l->act[l->acts], first))
            l->acts++;
    }
    plan_starts(l, first);
    memcpy(l->who, all, sizeof all);
    l->epoch_size = size;
}

/* When all trouble is over: those that are left go on, in a new epoch if somebody asked for it. */
static void go_on(life *l)
{
    uint32_t who[LIFE_RANKS] = {0};
    uint32_t count = survivors(l, who);
    const bool same = !l->left && life_random(l, 2) == 0;
    while (!same && count > 0 && l->size < LIFE_RANKS && life_random(l, 2) == 0)
        who[count++] = l->size++;
    if (count < 2)
        return;
    for (uint32_t i = 0; i < count; i++) {
        life_rank *rank = &l->rank[who[i]];
        rank->hangs = rank->leaving = false;
        memset(rank->leaves, 0, sizeof rank->leaves);
    }
    if (!same) {
        life_close(l);
        life_tell(l, "a new epoch of %u ranks", count);
        memcpy(l->who, who, sizeof who);
        l->epoch_size = count;
        l->reopened = true;
        life_open(l);
    }
    draw_last(l, who, count);
    life_run(l);
}

bool life_live(life *l, uint64_t seed, bool trace)
{
    life_event *heap = l->heap;
    const uint32_t capacity = l->capacity;
    memset(l, 0, sizeof *l);
    l->heap = heap;
    l->capacity = capacity;
    l->seed = seed;
    l->trace = trace;
    l->rng = (shoali_rng){seed, 77, 0};
    l->now_us = 1000 * 1000;
    draw(l);
    life_open(l);
    plan_starts(l, 0);
    life_run(l);
    l->strikes = l->struck; /* no more trouble */
    if (l->violation[0] == '\0')
        go_on(l);
    for (uint32_t a = 0; a < l->acts && l->violation[0] == '\0'; a++)
        life_check(l, &l->act[a]);
    life_close(l);
    for (uint32_t r = 0; r < l->size; r++)
        shoali_residuals_free(l->rank[r].kept);
    return l->violation[0] == '\0';
}

void life_free(life *l)
{
    free(l->heap);
    *l = (life){0};
}
