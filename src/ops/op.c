/* SPDX-License-Identifier: Apache-2.0 */
/* Making an operation from a descriptor, on the caller's thread: everything is checked and copied,
 * and the call gets the text and the hash by which members recognise each other's. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "collective/carry.h"
#include "ops/inner.h"

enum { ARENA_BYTES = 2048 };

static const char *kind_name(shoal_op_kind kind)
{
    static const char *const names[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                        "barrier"};
    return names[kind];
}

/* ------------------------------------------------------------------ copies */

static shoal_status copy_members(shoal_op *op, const shoal_op_desc *desc)
{
    const shoali_ops *ops = op->ops;
    bool all = desc->members == NULL;
    const uint32_t named = all ? ops->ranks : desc->member_count;
    op->contributors = desc->contributors != 0 ? desc->contributors : named;
    op->root = desc->root;
    /* nobody named serves, and the collective wants servers: the job's aggregators */
    const bool served = (op->collective.traits & SHOALI_COLL_SERVED) != 0 &&
                        op->contributors == named && ops->aggregators <= ops->size - named;
    op->member_count = named + (served ? ops->aggregators : 0);
    if (op->member_count == 0 || op->member_count > ops->size ||
        op->contributors > op->member_count || op->root >= op->member_count)
        return shoali_fail(SHOAL_EINVAL, "%u members of %u ranks, %u of them contribute, root %u",
                           op->member_count, ops->size, op->contributors, op->root);
    op->members = shoali_arena_array(op->arena, op->member_count, sizeof *op->members);
    uint32_t *member_of = shoali_arena_array(op->arena, ops->size, sizeof *member_of);
    if (op->members == NULL || member_of == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < ops->size; i++)
        member_of[i] = SHOALI_NONE;
    for (uint32_t m = 0; m < op->member_count; m++) {
        uint32_t rank = m >= named ? ops->ranks + m - named : all ? m : desc->members[m];
        if (rank >= ops->size || member_of[rank] != SHOALI_NONE)
            return shoali_fail(SHOAL_EINVAL, "member %u is rank %u, which is %s", m, rank,
                               rank >= ops->size ? "none of this communicator" : "listed twice");
        op->members[m] = rank;
        member_of[rank] = m;
    }
    op->member_of = member_of;
    op->me = member_of[ops->me];
    if (op->me == SHOALI_NONE)
        return shoali_fail(SHOAL_EINVAL, "rank %u is no member of its own operation", ops->me);
    return SHOAL_OK;
}

static shoal_status copy_tensors(shoal_op *op, const shoal_op_desc *desc)
{
    op->tensor_count = desc->tensors != NULL ? desc->tensor_count : 1;
    op->tensors = shoali_arena_array(op->arena, op->tensor_count, sizeof *op->tensors);
    if (op->tensors == NULL)
        return SHOAL_ENOMEM;
    if (desc->tensors == NULL) {
        op->tensors[0] = (shoal_tensor){.key = 1, .count = op->count, .lr_scale = 1};
        return SHOAL_OK;
    }
    size_t at = 0;
    for (uint32_t t = 0; t < op->tensor_count; t++) {
        op->tensors[t] = desc->tensors[t];
        if (op->tensors[t].offset != at || op->tensors[t].count > op->count - at)
            return shoali_fail(
                SHOAL_EINVAL,
                "tensor %u does not start at element %zu, or is longer than the buffer", t, at);
        at += op->tensors[t].count;
    }
    if (at != op->count)
        return shoali_fail(SHOAL_EINVAL, "the tensors cover %zu of %zu elements", at, op->count);
    return SHOAL_OK;
}

static shoal_status copy_buffer(shoal_op *op, const shoal_op_desc *desc)
{
    op->buf = desc->buf;
    op->count = desc->count;
    if (op->kind == SHOAL_BARRIER) {
        op->buf = &op->barrier_value;
        op->count = 1;
    }
    const bool serves = op->me >= op->contributors;
    if ((op->buf == NULL && op->count > 0 && !serves) || op->count > SIZE_MAX / sizeof(float))
        return shoali_fail(SHOAL_EINVAL, "%zu elements at %p", op->count, (void *)op->buf);
    return SHOAL_OK;
}

static shoal_status open_codecs(shoal_op *op, const shoal_op_desc *desc)
{
    const char *push = desc->push_codec != NULL ? desc->push_codec : "identity";
    if (op->extras.codec_row != NULL)
        SHOALI_TRY(shoali_codec_open_row(op->extras.codec_row, push, &op->push));
    else
        SHOALI_TRY(shoal_codec_open(push, &op->push));
    if (desc->pull_codec != NULL)
        return shoal_codec_open(desc->pull_codec, &op->pull);
    op->pull = op->push;
    return SHOAL_OK;
}

/* Bits are no numbers: nothing may add, code or judge them. */
static shoal_status check_bits(shoal_op *op)
{
    uint32_t bits = 0;
    for (uint32_t t = 0; t < op->tensor_count; t++)
        bits += (op->tensors[t].flags & SHOAL_TENSOR_BITS) != 0;
    if (bits == 0)
        return SHOAL_OK;
    bool moved = op->kind == SHOAL_ALL_GATHER || op->kind == SHOAL_BROADCAST;
    if (bits < op->tensor_count || !moved || (op->push->traits & SHOAL_CODEC_RAW_BYTES) == 0 ||
        op->pull != op->push)
        return shoali_fail(SHOAL_EINVAL,
                           "tensors of bits: all of an operation's or none, in an all-gather or a "
                           "broadcast, by codec identity");
    op->extras.check_finite = false;
    return SHOAL_OK;
}

/* A barrier has one element: by direct exchange all come together at its owner in two hops, and
 * leave nearly at once; around a ring they would in 2 (P - 1). */
static const char *usual_collective(shoal_op_kind kind)
{
    return kind == SHOAL_BROADCAST ? "broadcast" : kind == SHOAL_BARRIER ? "direct" : "ring";
}

static shoal_status open_collective(shoal_op *op, const shoal_op_desc *desc)
{
    const char *spec = desc->collective != NULL ? desc->collective : usual_collective(op->kind);
    return shoali_collective_open(spec, &op->collective);
}

/* Ranks 0, 1, 2 ..., whoever else is there. */
static bool are_all_ranks(const shoal_op *op)
{
    bool all = op->member_count == op->ops->ranks || op->member_count == op->ops->size;
    for (uint32_t m = 0; m < op->member_count && all; m++)
        all = op->members[m] == m;
    return all;
}

static shoal_status check_collective(const shoal_op *op)
{
    const uint32_t traits = op->collective.row->traits;
    if ((op->kind == SHOAL_BROADCAST) != ((traits & SHOALI_COLL_ROOTED) != 0))
        return shoali_fail(SHOAL_EINVAL, "collective '%s' is not for %s", op->collective.spec,
                           kind_name(op->kind));
    if ((op->kind == SHOAL_REDUCE_SCATTER || op->kind == SHOAL_ALL_GATHER) &&
        (traits & SHOALI_COLL_SHARDED) == 0)
        return shoali_fail(SHOAL_EINVAL, "collective '%s' gives members no shards, which %s needs",
                           op->collective.spec, kind_name(op->kind));
    if (op->contributors < op->member_count && (traits & SHOALI_COLL_DEDICATED) == 0)
        return shoali_fail(SHOAL_EINVAL,
                           "collective '%s' has no place for members that contribute nothing",
                           op->collective.spec);
    if ((op->collective.traits & SHOALI_COLL_RATED) != 0 &&
        !(are_all_ranks(op) && op->member_count == op->ops->ranks))
        return shoali_fail(SHOAL_EINVAL,
                           "collective '%s' measures the links of all %u ranks: it is for "
                           "operations among all of them",
                           op->collective.spec, op->ops->ranks);
    return shoali_carry_check(&op->collective, op->push, op->pull, op->extras.owner != NULL);
}

/* ------------------------------------------------------------------ identity */

static uint64_t group_of(const shoal_op *op)
{
    if (are_all_ranks(op))
        return 0;
    uint64_t group = shoali_hash(op->members, op->member_count * sizeof *op->members, 0) &
                     UINT64_MAX >> 1;
    return group != 0 ? group : 1;
}

static shoal_status identify(shoal_op *op, const shoal_op_id *given, uint32_t round)
{
    op->id = (shoali_wire_id){given->group, given->sequence, round};
    if (given->group != 0 || given->sequence != 0)
        return SHOAL_OK;
    op->id.group = group_of(op);
    return op->ops->host.number(op->ops->host.ctx, op->id.group, &op->id.sequence);
}

/* Texts have 64 bytes on the wire and in errors: what does not fit is cut. */
static void append(char text[SHOALI_OP_TEXT_BYTES], const char *format, ...) SHOAL_PRINTF(2, 3);

static void append(char text[SHOALI_OP_TEXT_BYTES], const char *format, ...)
{
    size_t used = strlen(text);
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, SHOALI_OP_TEXT_BYTES - used, format, list);
    va_end(list);
}

static void describe(shoal_op *op, const char *label)
{
    append(op->name, "%s %llu", kind_name(op->kind), (unsigned long long)op->id.sequence);
    if (op->id.group != 0)
        append(op->name, " of group %llx", (unsigned long long)op->id.group >> 32);
    append(op->text, "%s", op->name);
    if (label != NULL) {
        append(op->name, " (%s)", label);
        append(op->text, " %.16s", label);
    }
    if (op->kind == SHOAL_BARRIER)
        return;
    append(op->text, ", %zu elements%s, %s, %s", op->count, op->reduce == SHOAL_MAX ? ", max" : "",
           op->collective.spec, op->push->spec);
    if (op->pull->hash != op->push->hash)
        append(op->text, "/%s", op->pull->spec);
}

/* Everything on which the members must agree. */
static uint64_t hash_of(const shoal_op *op)
{
    uint64_t hash = shoali_mix(op->kind, op->reduce);
    const uint64_t words[] = {
        op->count,      op->contributors,    op->root,         op->ops->chunk_elems, op->push->hash,
        op->pull->hash, op->collective.hash, op->member_count, op->tensor_count};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        hash = shoali_mix(hash, words[i]);
    hash = shoali_hash(op->members, op->member_count * sizeof *op->members, hash);
    for (uint32_t t = 0; t < op->tensor_count; t++) {
        const shoal_tensor *tensor = &op->tensors[t];
        hash = shoali_mix(shoali_mix(hash, tensor->key), tensor->count);
        hash = shoali_mix(hash, (uint64_t)tensor->rows << 32 | tensor->cols);
        hash = shoali_mix(hash, tensor->flags);
    }
    return hash;
}

/* ------------------------------------------------------------------ make and free */

static shoal_status fill(shoal_op *op, const shoal_op_desc *desc, uint32_t round)
{
    if (desc->kind > SHOAL_BARRIER || desc->reduce > SHOAL_MAX)
        return shoali_fail(SHOAL_EINVAL, "operation of kind %d, reduce %d", (int)desc->kind,
                           (int)desc->reduce);
    op->kind = desc->kind;
    op->reduce = desc->reduce;
    op->tos = desc->tos;
    op->timeout_us = desc->timeout_us > 0 ? desc->timeout_us : op->ops->timeout_us;
    op->arena = shoali_arena_create(ARENA_BYTES);
    if (op->arena == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(open_collective(op, desc));
    SHOALI_TRY(copy_members(op, desc));
    SHOALI_TRY(copy_buffer(op, desc));
    SHOALI_TRY(copy_tensors(op, desc));
    op->rows = desc->rows;
    op->row_count = desc->row_count;
    if (op->me < op->contributors)
        shoali_collective_with_rows(&op->collective, op->rows, op->count, op->tensors,
                                    op->tensor_count);
    SHOALI_TRY(open_codecs(op, desc));
    SHOALI_TRY(check_bits(op));
    SHOALI_TRY(check_collective(op));
    SHOALI_TRY(identify(op, &desc->id, round));
    describe(op, desc->label);
    op->hash = hash_of(op);
    return SHOAL_OK;
}

shoal_status shoali_op_make(shoali_ops *ops, const shoal_op_desc *desc,
                            const shoali_op_extras *extras, uint32_t round, shoal_op **op_out)
{
    if (desc == NULL || desc->size != sizeof *desc)
        return shoali_fail(SHOAL_EINVAL,
                           "the descriptor of an operation has the wrong size: start from "
                           "SHOAL_OP_DESC_INIT");
    shoal_op *op = shoali_alloc(sizeof *op);
    if (op == NULL)
        return SHOAL_ENOMEM;
    op->ops = ops;
    op->comm = ops->host.ctx;
    op->extras = *extras;
    shoal_status status = fill(op, desc, round);
    if (status != SHOAL_OK) {
        shoali_op_free(op);
        return status;
    }
    *op_out = op;
    return SHOAL_OK;
}

void shoali_op_free(shoal_op *op)
{
    if (op->pull != op->push)
        shoal_codec_close(op->pull);
    shoal_codec_close(op->push);
    shoali_collective_close(&op->collective);
    shoali_arena_destroy(op->arena);
    shoali_free(op);
}
