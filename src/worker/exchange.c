/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/exchange.h"

#include <string.h>

#include "base/clock.h"
#include "comm/comm.h"

enum { GROUP_MAX = 1024 };

/* A matrix of samples by channels, as one worker holds it: of each rank's share that agrees with
 * row_bits at row_mask, and of each part of the channels that agrees with col_bits at col_mask.
 * Shares and parts lie in ascending order. Parts are numbered by the bits of `to` alone. */
typedef struct view {
    float *data;
    uint32_t row_mask, row_bits, col_mask, col_bits;
} view;

static uint32_t count_bits(uint32_t mask)
{
    return (uint32_t)__builtin_popcount(mask);
}

/* The bits of value at mask, pushed together. */
static uint32_t gather_bits(uint32_t value, uint32_t mask)
{
    uint32_t out = 0, at = 0;
    for (; mask != 0; mask &= mask - 1, at++)
        out |= (value & mask & -mask) != 0 ? 1u << at : 0;
    return out;
}

static bool has_row(const view *v, uint32_t rank)
{
    return (rank & v->row_mask) == (v->row_bits & v->row_mask);
}

static bool has_part(const view *v, uint32_t part)
{
    return (part & v->col_mask) == (v->col_bits & v->col_mask);
}

/* Copy what two views have in common, a part of one rank's share at a time. */
static void copy_common(const shoali_border *b, const view *to, const view *from)
{
    uint32_t all = b->workers - 1, free_to = b->to & ~to->col_mask,
             free_from = b->to & ~from->col_mask;
    size_t part = b->features >> count_bits(b->to);
    size_t to_width = part << count_bits(free_to), from_width = part << count_bits(free_from);
    for (uint32_t rank = 0; rank < b->workers; rank++) {
        if (!has_row(to, rank) || !has_row(from, rank))
            continue;
        size_t to_row = gather_bits(rank, all & ~to->row_mask) * (size_t)b->share;
        size_t from_row = gather_bits(rank, all & ~from->row_mask) * (size_t)b->share;
        for (uint32_t p = 0; p <= b->to; p++) {
            if ((p & ~b->to) != 0 || !has_part(to, p) || !has_part(from, p))
                continue;
            float *out = to->data + to_row * to_width + gather_bits(p, free_to) * part;
            const float *in = from->data + from_row * from_width + gather_bits(p, free_from) * part;
            for (uint32_t i = 0; i < b->share; i++, out += to_width, in += from_width)
                memcpy(out, in, part * sizeof *out);
        }
    }
}

/* ---------------------------------------------------------------- operations */

void shoali_traffic_add(shoali_traffic *t, const shoal_op_stats *stats, uint64_t waited_us)
{
    t->sent_elems += stats->sent_elems;
    t->sent_bytes += stats->sent_payload_bytes;
    t->received_bytes += stats->received_payload_bytes;
    t->encode_ns += stats->encode_ns;
    t->decode_ns += stats->decode_ns;
    t->comm_us += stats->duration_us;
    t->wait_us += waited_us;
}

/* Among the workers that differ from this one at `mask` only, in ascending order. */
static shoal_status run_op(const shoali_border *b, shoal_op_kind kind, uint32_t mask, float *buf,
                           size_t count)
{
    uint32_t members[GROUP_MAX], found = 0;
    shoal_op_stats stats = {.size = sizeof stats};
    if (b->silent)
        return SHOAL_OK;
    for (uint32_t rank = 0; rank < b->workers && found < GROUP_MAX; rank++)
        if ((rank & ~mask) == (b->me & ~mask))
            members[found++] = rank;
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.kind = kind;
    desc.buf = buf;
    desc.count = count;
    desc.members = members;
    desc.member_count = found;
    desc.collective = "direct";
    desc.label = b->label;
    uint64_t start = shoali_now_us();
    shoal_status status = shoali_comm_run(b->comm, &desc, &stats);
    if (status == SHOAL_OK)
        shoali_traffic_add(b->traffic, &stats, shoali_now_us() - start);
    return status;
}

/* ---------------------------------------------------------------- the border's stations */

/* Before anything moved: own samples of the layer before, all channels. */
static view view_before(const shoali_border *b, float *data)
{
    return (view){data, (b->workers - 1) & ~b->from, b->me, 0, 0};
}

/* Behind the reduce-scatter, as `who` has it: cuts by model in both layers divide channels, those
 * in `from` alone samples. */
static view view_summed(const shoali_border *b, uint32_t who, float *data)
{
    uint32_t cols = b->from & b->to;
    return (view){data, (b->workers - 1) & ~cols, who, cols, who};
}

/* Behind the exchange at the cuts in `done` besides: samples of both sides, channels of one. */
static view view_swapped(const shoali_border *b, uint32_t done, float *data)
{
    view v = view_summed(b, b->me, data);
    v.row_mask &= ~done;
    v.col_mask |= done;
    return v;
}

/* What changes hands with the partner at a cut, before and behind it: `rows` of whose samples,
 * `cols` of whose channels. */
static view view_half(const shoali_border *b, uint32_t done, uint32_t bit, uint32_t rows,
                      uint32_t cols, float *data)
{
    view v = view_swapped(b, done, data);
    v.row_bits = rows;
    v.col_mask |= bit;
    v.col_bits = cols;
    return v;
}

/* One pair, one cut: forward from samples of one side to channels of one side, else back. */
static shoal_status change_halves(const shoali_border *b, uint32_t done, uint32_t bit, bool forward,
                                  float *from, float *to)
{
    uint32_t other = b->me ^ bit;
    size_t half = b->share * b->features / 2;
    float *mine = b->swap + ((b->me & bit) != 0 ? half : 0);
    float *theirs = b->swap + ((b->me & bit) != 0 ? 0 : half);
    view narrow = view_swapped(b, done, forward ? from : to);
    view wide = view_swapped(b, done | bit, forward ? to : from);
    view out = forward ? view_half(b, done, bit, b->me, other, mine)
                       : view_half(b, done, bit, other, b->me, mine);
    view in = forward ? view_half(b, done, bit, other, b->me, theirs)
                      : view_half(b, done, bit, b->me, other, theirs);
    const view *source = forward ? &narrow : &wide, *target = forward ? &wide : &narrow;
    copy_common(b, &out, source);
    copy_common(b, target, source);
    shoal_status status = run_op(b, SHOAL_ALL_GATHER, bit, b->swap, 2 * half);
    if (status == SHOAL_OK)
        copy_common(b, target, &in);
    return status;
}

bool shoali_border_is_open(const shoali_border *b)
{
    return b->from == 0 && b->to == 0;
}

/* The summed part is left in *summed_out, in pack. */
static shoal_status reduce_scatter(const shoali_border *b, float *y, float **summed_out)
{
    size_t block = b->share * b->features;
    view before = view_before(b, y);
    for (uint32_t rank = 0; rank < b->workers; rank++) {
        if ((rank & ~b->from) != (b->me & ~b->from))
            continue;
        view part = view_summed(b, rank, b->pack + gather_bits(rank, b->from) * block);
        copy_common(b, &part, &before);
    }
    *summed_out = b->pack + gather_bits(b->me, b->from) * block;
    return run_op(b, SHOAL_REDUCE_SCATTER, b->from, b->pack, block << count_bits(b->from));
}

static shoal_status all_gather(const shoali_border *b, const float *summed, float *dy)
{
    size_t block = b->share * b->features;
    memcpy(b->pack + gather_bits(b->me, b->from) * block, summed, block * sizeof *summed);
    shoal_status status = run_op(b, SHOAL_ALL_GATHER, b->from, b->pack,
                                 block << count_bits(b->from));
    view before = view_before(b, dy);
    for (uint32_t rank = 0; rank < b->workers && status == SHOAL_OK; rank++) {
        if ((rank & ~b->from) != (b->me & ~b->from))
            continue;
        view part = view_summed(b, rank, b->pack + gather_bits(rank, b->from) * block);
        copy_common(b, &before, &part);
    }
    return status;
}

shoal_status shoali_border_forward(const shoali_border *b, const float *y, float *x_out)
{
    float *at = (float *)(uintptr_t)
        y; /* views are read here, but share a type with those written */
    uint32_t left = b->to & ~b->from, done = 0;
    shoal_status status = SHOAL_OK;
    if (b->from != 0)
        status = reduce_scatter(b, at, &at);
    for (int turn = 0; left != 0 && status == SHOAL_OK; turn ^= 1) {
        uint32_t bit = left & -left;
        left &= ~bit;
        float *next = left == 0 ? x_out : b->turn[turn];
        status = change_halves(b, done, bit, true, at, next);
        done |= bit;
        at = next;
    }
    if (at != x_out && status == SHOAL_OK)
        memcpy(x_out, at, b->share * b->features * sizeof *at);
    return status;
}

shoal_status shoali_border_backward(const shoali_border *b, const float *dx, float *dy_out)
{
    float *at = (float *)(uintptr_t)dx;
    uint32_t done = b->to & ~b->from;
    shoal_status status = SHOAL_OK;
    for (int turn = 0; done != 0 && status == SHOAL_OK; turn ^= 1) {
        uint32_t bit = 1u << (31 - __builtin_clz(done));
        done &= ~bit;
        float *next = done == 0 && b->from == 0 ? dy_out : b->turn[turn];
        status = change_halves(b, done, bit, false, at, next);
        at = next;
    }
    if (b->from != 0 && status == SHOAL_OK)
        return all_gather(b, at, dy_out);
    if (at != dy_out && status == SHOAL_OK)
        memcpy(dy_out, at, b->share * b->features * sizeof *at);
    return status;
}
