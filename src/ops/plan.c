/* SPDX-License-Identifier: Apache-2.0 */
/* Making a plan from a descriptor: everything is checked and copied, codecs and collective are
 * opened, and the call gets the hash by which members recognise each other's. Any thread. */
#include "ops/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "collective/carry.h"
#include "ops/inner.h"

enum { ARENA_BYTES = 1024 };

const char *shoali_kind_name(shoal_op_kind kind)
{
    static const char *const names[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                        "barrier"};
    return names[kind];
}

/* ------------------------------------------------------------------ copies */

static shoal_status copy_members(shoal_op_plan *plan, const shoal_op_desc *desc)
{
    const shoali_ops *ops = plan->ops;
    bool all = desc->members == NULL;
    const uint32_t named = all ? ops->ranks : desc->member_count;
    plan->contributors = desc->contributors != 0 ? desc->contributors : named;
    plan->root = desc->root;
    /* nobody named serves, and the collective wants servers: the job's aggregators */
    const bool served = (plan->collective.traits & SHOALI_COLL_SERVED) != 0 &&
                        plan->contributors == named && ops->aggregators <= ops->size - named;
    plan->member_count = named + (served ? ops->aggregators : 0);
    if (plan->member_count == 0 || plan->member_count > ops->size ||
        plan->contributors > plan->member_count || plan->root >= plan->member_count)
        return shoali_fail(SHOAL_EINVAL, "%u members of %u ranks, %u of them contribute, root %u",
                           plan->member_count, ops->size, plan->contributors, plan->root);
    plan->members = shoali_arena_array(plan->arena, plan->member_count, sizeof *plan->members);
    uint32_t *member_of = shoali_arena_array(plan->arena, ops->size, sizeof *member_of);
    if (plan->members == NULL || member_of == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < ops->size; i++)
        member_of[i] = SHOALI_NONE;
    for (uint32_t m = 0; m < plan->member_count; m++) {
        uint32_t rank = m >= named ? ops->ranks + m - named : all ? m : desc->members[m];
        if (rank >= ops->size || member_of[rank] != SHOALI_NONE)
            return shoali_fail(SHOAL_EINVAL, "member %u is rank %u, which is %s", m, rank,
                               rank >= ops->size ? "none of this communicator" : "listed twice");
        plan->members[m] = rank;
        member_of[rank] = m;
    }
    plan->member_of = member_of;
    plan->me = member_of[ops->me];
    if (plan->me == SHOALI_NONE)
        return shoali_fail(SHOAL_EINVAL, "rank %u is no member of its own operation", ops->me);
    return SHOAL_OK;
}

static shoal_status copy_tensors(shoal_op_plan *plan, const shoal_op_desc *desc)
{
    plan->tensor_count = desc->tensors != NULL ? desc->tensor_count : 1;
    plan->tensors = shoali_arena_array(plan->arena, plan->tensor_count, sizeof *plan->tensors);
    if (plan->tensors == NULL)
        return SHOAL_ENOMEM;
    if (desc->tensors == NULL) {
        plan->tensors[0] = (shoal_tensor){.key = 1, .count = plan->count, .lr_scale = 1};
        return SHOAL_OK;
    }
    size_t at = 0;
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        plan->tensors[t] = desc->tensors[t];
        if (plan->tensors[t].offset != at || plan->tensors[t].count > plan->count - at)
            return shoali_fail(
                SHOAL_EINVAL,
                "tensor %u does not start at element %zu, or is longer than the buffer", t, at);
        at += plan->tensors[t].count;
    }
    if (at != plan->count)
        return shoali_fail(SHOAL_EINVAL, "the tensors cover %zu of %zu elements", at, plan->count);
    return SHOAL_OK;
}

static shoal_status count_elements(shoal_op_plan *plan, const shoal_op_desc *desc)
{
    plan->count = plan->kind == SHOAL_BARRIER ? 1 : desc->count;
    if (plan->count > SIZE_MAX / sizeof(float))
        return shoali_fail(SHOAL_EINVAL, "%zu elements at %p", plan->count, (void *)desc->buf);
    return SHOAL_OK;
}

static shoal_status open_codecs(shoal_op_plan *plan, const shoal_op_desc *desc,
                                const struct shoali_codec_row *codec_row)
{
    const char *push = desc->push_codec != NULL ? desc->push_codec : "identity";
    if (codec_row != NULL)
        SHOALI_TRY(shoali_codec_open_row(codec_row, push, &plan->push));
    else
        SHOALI_TRY(shoal_codec_open(push, &plan->push));
    if (desc->pull_codec != NULL)
        return shoal_codec_open(desc->pull_codec, &plan->pull);
    plan->pull = plan->push;
    return SHOAL_OK;
}

/* Bits are no numbers: nothing may add, code or judge them. */
static shoal_status check_bits(shoal_op_plan *plan)
{
    uint32_t bits = 0;
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        bits += (plan->tensors[t].flags & SHOAL_TENSOR_BITS) != 0;
    if (bits == 0)
        return SHOAL_OK;
    bool moved = plan->kind == SHOAL_ALL_GATHER || plan->kind == SHOAL_BROADCAST;
    if (bits < plan->tensor_count || !moved || (plan->push->traits & SHOAL_CODEC_RAW_BYTES) == 0 ||
        plan->pull != plan->push)
        return shoali_fail(SHOAL_EINVAL,
                           "tensors of bits: all of an operation's or none, in an all-gather or a "
                           "broadcast, by codec identity");
    plan->bits = true;
    return SHOAL_OK;
}

/* By direct exchange all come together at an element's owner in two hops, and leave nearly at once;
 * around a ring they would in 2 (P - 1). Among many members the owner would have a connection with
 * everyone else for it: there it is 2 log2 P hops. */
const char *shoali_op_few_hops(uint32_t members)
{
    enum { DIRECT_MOST = 16 };
    return members <= DIRECT_MOST ? "direct" : "halving_doubling";
}

static const char *usual_collective(const shoal_op_plan *plan, const shoal_op_desc *desc)
{
    const uint32_t members = desc->members != NULL ? desc->member_count : plan->ops->ranks;
    return plan->kind == SHOAL_BROADCAST ? "broadcast"
           : plan->kind == SHOAL_BARRIER ? shoali_op_few_hops(members)
                                         : "ring";
}

static shoal_status open_collective(shoal_op_plan *plan, const shoal_op_desc *desc)
{
    const char *spec = desc->collective != NULL ? desc->collective : usual_collective(plan, desc);
    return shoali_collective_open(spec, &plan->collective);
}

/* Ranks 0, 1, 2 ..., whoever else is there. */
static bool are_all_ranks(const shoal_op_plan *plan)
{
    bool all = plan->member_count == plan->ops->ranks || plan->member_count == plan->ops->size;
    for (uint32_t m = 0; m < plan->member_count && all; m++)
        all = plan->members[m] == m;
    return all;
}

static shoal_status check_collective(const shoal_op_plan *plan)
{
    const uint32_t traits = plan->collective.row->traits;
    if ((plan->kind == SHOAL_BROADCAST) != ((traits & SHOALI_COLL_ROOTED) != 0))
        return shoali_fail(SHOAL_EINVAL, "collective '%s' is not for %s", plan->collective.spec,
                           shoali_kind_name(plan->kind));
    if ((plan->kind == SHOAL_REDUCE_SCATTER || plan->kind == SHOAL_ALL_GATHER) &&
        (traits & SHOALI_COLL_SHARDED) == 0)
        return shoali_fail(SHOAL_EINVAL, "collective '%s' gives members no shards, which %s needs",
                           plan->collective.spec, shoali_kind_name(plan->kind));
    if (plan->contributors < plan->member_count && (traits & SHOALI_COLL_DEDICATED) == 0)
        return shoali_fail(SHOAL_EINVAL,
                           "collective '%s' has no place for members that contribute nothing",
                           plan->collective.spec);
    if ((plan->collective.traits & SHOALI_COLL_RATED) != 0 &&
        !(are_all_ranks(plan) && plan->member_count == plan->ops->ranks))
        return shoali_fail(SHOAL_EINVAL,
                           "collective '%s' measures the links of all %u ranks: it is for "
                           "operations among all of them",
                           plan->collective.spec, plan->ops->ranks);
    return shoali_carry_check(&plan->collective, plan->push, plan->pull, plan->given.owned);
}

static uint64_t group_of(const shoal_op_plan *plan)
{
    if (are_all_ranks(plan))
        return 0;
    uint64_t group = shoali_hash(plan->members, plan->member_count * sizeof *plan->members, 0) &
                     UINT64_MAX >> 1;
    return group != 0 ? group : 1;
}

/* Everything on which the members must agree. */
static uint64_t hash_of(const shoal_op_plan *plan)
{
    uint64_t hash = shoali_mix(plan->kind, plan->reduce);
    const uint64_t words[] = {plan->count,
                              plan->contributors,
                              plan->root,
                              plan->ops->chunk_elems,
                              plan->push->hash,
                              plan->pull->hash,
                              plan->collective.hash,
                              plan->member_count,
                              plan->tensor_count};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        hash = shoali_mix(hash, words[i]);
    hash = shoali_hash(plan->members, plan->member_count * sizeof *plan->members, hash);
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        const shoal_tensor *tensor = &plan->tensors[t];
        hash = shoali_mix(shoali_mix(hash, tensor->key), tensor->count);
        hash = shoali_mix(hash, (uint64_t)tensor->rows << 32 | tensor->cols);
        hash = shoali_mix(hash, tensor->flags);
    }
    return hash;
}

/* Texts have 64 bytes on the wire and in errors: what does not fit is cut. */
static void describe(shoal_op_plan *plan)
{
    if (plan->kind == SHOAL_BARRIER)
        return;
    const bool same = plan->pull->hash == plan->push->hash;
    snprintf(plan->tail, sizeof plan->tail, ", %zu elements%s, %.48s, %.48s%s%.48s", plan->count,
             plan->reduce == SHOAL_MAX ? ", max" : "", plan->collective.spec, plan->push->spec,
             same ? "" : "/", same ? "" : plan->pull->spec);
}

/* ------------------------------------------------------------------ what was given */

static const char *copy_text(shoal_op_plan *plan, const char *text, bool *failed)
{
    const char *copy = text != NULL ? shoali_arena_strdup(plan->arena, text) : NULL;
    *failed |= text != NULL && copy == NULL;
    return copy;
}

static shoal_status keep_given(shoal_op_plan *plan, const shoal_op_desc *desc,
                               const shoali_op_extras *extras)
{
    bool failed = false;
    shoal_op_desc *mine = &plan->given.desc;
    *mine = *desc;
    mine->buf = NULL;
    mine->rows = NULL;
    mine->row_count = 0;
    mine->collective = copy_text(plan, desc->collective, &failed);
    mine->push_codec = copy_text(plan, desc->push_codec, &failed);
    mine->pull_codec = copy_text(plan, desc->pull_codec, &failed);
    mine->label = copy_text(plan, desc->label, &failed);
    mine->tensors = desc->tensors != NULL ? plan->tensors : NULL;
    mine->members = desc->members != NULL ? plan->members : NULL;
    plan->given.codec_row = extras->codec_row;
    plan->given.error_feedback = extras->error_feedback;
    return failed ? SHOAL_ENOMEM : SHOAL_OK;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_bytes(const void *a, const void *b, size_t bytes)
{
    return a == NULL || b == NULL ? a == b : memcmp(a, b, bytes) == 0;
}

bool shoali_plan_is(const shoal_op_plan *plan, const shoal_op_desc *desc,
                    const shoali_op_extras *extras)
{
    const shoal_op_desc *mine = &plan->given.desc;
    return mine->kind == desc->kind && mine->reduce == desc->reduce && mine->count == desc->count &&
           mine->tensor_count == desc->tensor_count && mine->member_count == desc->member_count &&
           mine->contributors == desc->contributors && mine->root == desc->root &&
           plan->given.owned == (extras->owner != NULL) &&
           plan->given.codec_row == extras->codec_row &&
           plan->given.error_feedback == extras->error_feedback &&
           same_text(mine->collective, desc->collective) &&
           same_text(mine->push_codec, desc->push_codec) &&
           same_text(mine->pull_codec, desc->pull_codec) &&
           same_bytes(mine->members, desc->members, desc->member_count * sizeof *desc->members) &&
           same_bytes(mine->tensors, desc->tensors, desc->tensor_count * sizeof *desc->tensors);
}

/* ------------------------------------------------------------------ make and free */

static shoal_status fill(shoal_op_plan *plan, const shoal_op_desc *desc,
                         const shoali_op_extras *extras)
{
    if (desc->kind > SHOAL_BARRIER || desc->reduce > SHOAL_MAX)
        return shoali_fail(SHOAL_EINVAL, "operation of kind %d, reduce %d", (int)desc->kind,
                           (int)desc->reduce);
    plan->kind = desc->kind;
    plan->reduce = desc->reduce;
    plan->arena = shoali_arena_create(ARENA_BYTES);
    if (plan->arena == NULL)
        return SHOAL_ENOMEM;
    plan->given.owned = extras->owner != NULL;
    SHOALI_TRY(open_collective(plan, desc));
    SHOALI_TRY(copy_members(plan, desc));
    SHOALI_TRY(count_elements(plan, desc));
    SHOALI_TRY(copy_tensors(plan, desc));
    if (plan->me < plan->contributors)
        shoali_collective_with_rows(&plan->collective, desc->rows, plan->count, plan->tensors,
                                    plan->tensor_count);
    SHOALI_TRY(open_codecs(plan, desc, extras->codec_row));
    SHOALI_TRY(check_bits(plan));
    SHOALI_TRY(check_collective(plan));
    SHOALI_TRY(keep_given(plan, desc, extras));
    plan->group = group_of(plan);
    plan->hash = hash_of(plan);
    describe(plan);
    return SHOAL_OK;
}

shoal_status shoali_plan_make(shoali_ops *ops, const shoal_op_desc *desc,
                              const shoali_op_extras *extras, shoal_op_plan **plan_out)
{
    shoal_op_plan *plan = shoali_alloc(sizeof *plan);
    if (plan == NULL)
        return SHOAL_ENOMEM;
    plan->ops = ops;
    shoal_status status = fill(plan, desc, extras);
    if (status != SHOAL_OK) {
        shoali_plan_free(plan);
        return status;
    }
    *plan_out = plan;
    return SHOAL_OK;
}

void shoali_plan_free(shoal_op_plan *plan)
{
    if (plan->pull != plan->push)
        shoal_codec_close(plan->pull);
    shoal_codec_close(plan->push);
    shoali_collective_close(&plan->collective);
    shoali_arena_destroy(plan->arena);
    shoali_free(plan);
}
