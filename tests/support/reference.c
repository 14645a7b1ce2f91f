/* SPDX-License-Identifier: Apache-2.0 */
#include "support/reference.h"

#include <math.h>

#include "base/arena.h"
#include "base/rng.h"
#include "support/check.h"
#include "support/made_rates.h"

typedef struct message {
    struct message *next;
    size_t first_block;
    float *values[64]; /* by block, from first_block */
} message;

typedef struct world {
    const engine_run *run;
    reference *ref;
    memnet_owner owner;
    void *owner_ctx;
    shoali_flow_args args; /* of member 0: codecs, tensors, seed */
    shoal_schedule *schedules;
    uint32_t *pc;
    message **queues; /* [from * size + to] */
    float ***slots;   /* [member][slot], with slots; and what every member knows to be complete */
} world;

static float *copy_of(const float *values, size_t count)
{
    float *copy = malloc((count > 0 ? count : 1) * sizeof *copy);
    assert_non_null(copy);
    if (count > 0)
        memcpy(copy, values, count * sizeof *copy);
    return copy;
}

static uint64_t stream_of(const world *w, uint32_t member, const shoal_step *step, uint32_t block)
{
    const shoal_op_id *id = &w->args.id;
    uint64_t operation = shoali_mix(shoali_mix(id->group, id->sequence), id->round);
    if (w->schedules[0].slots)
        return shoali_mix(shoali_mix(operation, 2), block);
    if (step->leg == SHOAL_PULL)
        return shoali_mix(operation, SHOAL_PULL);
    return shoali_mix(shoali_mix(operation, SHOAL_PUSH), w->args.endpoints[member]);
}

/* residual and x change as the contract says: x += decay e, or e = x - decoded. */
static void feed_back(const world *w, uint32_t member, float decay, size_t offset, size_t count,
                      float *x, const float *decoded)
{
    for (uint32_t t = 0; t < w->args.tensor_count; t++) {
        const shoal_tensor *tensor = &w->args.tensors[t];
        for (size_t i = 0; i < tensor->count; i++) {
            size_t at = tensor->offset + i;
            float *e = &w->ref->residuals[member][t][i];
            if (at < offset || at >= offset + count)
                continue;
            if (decoded == NULL)
                x[at - offset] = fmaf(decay, *e, x[at - offset]);
            else
                *e = x[at - offset] - decoded[at - offset];
        }
    }
}

/* x through the codec of a step, as member encodes it: the floats that all receivers see. */
static float *coded(const world *w, uint32_t member, const shoal_step *step, uint32_t block,
                    float *x, size_t offset, size_t count)
{
    const shoal_codec *codec = step->leg == SHOAL_PUSH ? w->args.push : w->args.pull;
    shoali_codec_span span = {.tensors = w->args.tensors,
                              .tensor_count = w->args.tensor_count,
                              .first = offset,
                              .count = count,
                              .parts = step->parts,
                              .seed = w->args.seed,
                              .stream = stream_of(w, member, step, block)};
    bool feedback = w->args.residuals != NULL && codec->error_feedback &&
                    w->args.kind != SHOAL_BROADCAST &&
                    !(step->kind == SHOAL_OWN && w->owner != NULL);
    size_t capacity = shoali_codec_span_bound(codec, &span), written = 0;
    uint8_t *bytes = malloc(capacity > 0 ? capacity : 1);
    float *out = copy_of(x, count);
    assert_non_null(bytes);
    if (feedback)
        feed_back(w, member, codec->decay, offset, count, x, NULL);
    assert_ok(shoali_codec_span_encode(codec, &span, x, bytes, capacity, &written));
    assert_ok(shoali_codec_span_decode(codec, &span, bytes, written, out, false));
    if (feedback)
        feed_back(w, member, codec->decay, offset, count, x, out);
    free(bytes);
    return out;
}

/* Members of one site: as the spec says, in rank order. */
static bool inside_site(const world *w, uint32_t a, uint32_t b)
{
    const char *key = strstr(w->args.collective->spec, "site=");
    uint32_t site = key != NULL ? (uint32_t)strtoul(key + 5, NULL, 10) : 1;
    return a / site == b / site;
}

static void step_send(world *w, uint32_t me, const shoal_step *step)
{
    message *m = calloc(1, sizeof *m);
    assert_non_null(m);
    assert_true(step->block_count <= 64);
    for (uint32_t b = 0; b < step->block_count; b++) {
        size_t offset, count;
        uint32_t block = step->block + b;
        shoali_schedule_range(&w->schedules[me], w->args.count, block, &offset, &count);
        float *x = w->ref->bufs[me] + offset;
        if (w->schedules[me].slots)
            m->values[b] = copy_of(w->slots[me][block], count);
        else if (step->leg == SHOAL_PULL || inside_site(w, me, step->peer))
            m->values[b] = copy_of(x, count); /* bytes kept since they were decoded over x */
        else
            m->values[b] = coded(w, me, step, block, x, offset, count);
    }
    message **end = &w->queues[me * w->args.size + step->peer];
    while (*end != NULL)
        end = &(*end)->next;
    *end = m;
}

/* False: nothing has come. */
static bool step_receive(world *w, uint32_t me, const shoal_step *step)
{
    message **queue = &w->queues[step->peer * w->args.size + me], *m = *queue;
    if (m == NULL)
        return false;
    *queue = m->next;
    for (uint32_t b = 0; b < step->block_count; b++) {
        size_t offset, count;
        uint32_t block = step->block + b;
        shoali_schedule_range(&w->schedules[me], w->args.count, block, &offset, &count);
        float *x = w->ref->bufs[me] + offset;
        for (size_t i = 0; i < count && !w->schedules[me].slots; i++)
            x[i] = step->kind == SHOAL_RECV_SET  ? m->values[b][i]
                   : w->args.reduce == SHOAL_MAX ? (x[i] > m->values[b][i] ? x[i] : m->values[b][i])
                                                 : x[i] + m->values[b][i];
        if (w->schedules[me].slots)
            w->slots[me][block] = m->values[b];
        else
            free(m->values[b]);
    }
    free(m);
    return true;
}

static void step_own(world *w, uint32_t me, const shoal_step *step)
{
    for (uint32_t b = 0; b < step->block_count; b++) {
        size_t offset, count;
        uint32_t block = step->block + b;
        shoali_schedule_range(&w->schedules[me], w->args.count, block, &offset, &count);
        float *x = w->ref->bufs[me] + offset;
        if (w->owner != NULL)
            assert_ok(w->owner(w->owner_ctx, me, x, offset, count));
        float *out = coded(w, me, step, block, x, offset, count);
        if (w->schedules[me].slots) {
            w->slots[me][block] = out;
            continue;
        }
        if (count > 0)
            memcpy(x, out, count * sizeof *x);
        free(out);
    }
}

static void lockstep(world *w)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t m = 0; m < w->args.size; m++)
            while (w->pc[m] < w->schedules[m].count) {
                const shoal_step *step = &w->schedules[m].steps[w->pc[m]];
                if (step->kind == SHOAL_SEND)
                    step_send(w, m, step);
                else if (step->kind == SHOAL_OWN)
                    step_own(w, m, step);
                else if (!step_receive(w, m, step))
                    break;
                w->pc[m]++;
                moved = true;
            }
    }
    for (uint32_t m = 0; m < w->args.size; m++)
        assert_int_equal(w->pc[m], w->schedules[m].count);
}

static void sum_slots(world *w, uint32_t me)
{
    for (size_t i = 0; i < w->args.count; i++) {
        float sum = 0;
        for (uint32_t slot = 0; slot < w->schedules[me].blocks; slot++)
            sum += w->slots[me][slot][i];
        w->ref->bufs[me][i] = sum;
    }
    for (uint32_t slot = 0; slot < w->schedules[me].blocks; slot++)
        free(w->slots[me][slot]);
}

static void copy_members(const engine_run *run, reference *ref)
{
    const uint32_t size = run->c.size;
    ref->bufs = calloc(size, sizeof *ref->bufs);
    ref->residuals = calloc(size, sizeof *ref->residuals);
    assert_true(ref->bufs != NULL && ref->residuals != NULL);
    for (uint32_t m = 0; m < size; m++) {
        ref->bufs[m] = copy_of(run->bufs[m], run->c.count);
        ref->residuals[m] = calloc(run->c.tensors, sizeof **ref->residuals);
        assert_non_null(ref->residuals[m]);
        for (uint32_t t = 0; t < run->c.tensors; t++)
            ref->residuals[m][t] = copy_of(run->residuals[m][t], run->tensors[t].count);
    }
}

void reference_open(const engine_run *run, memnet_owner owner, void *ctx, reference *out)
{
    const uint32_t size = run->c.size;
    world w = {.run = run, .ref = out, .owner = owner, .owner_ctx = ctx};
    shoal_arena *arena = shoali_arena_create(4096);
    assert_non_null(arena);
    copy_members(run, out);
    w.args = engine_run_args(run, 0);
    w.schedules = shoali_arena_array(arena, size, sizeof *w.schedules);
    w.pc = shoali_arena_array(arena, size, sizeof *w.pc);
    w.queues = shoali_arena_array(arena, (size_t)size * size, sizeof *w.queues);
    w.slots = shoali_arena_array(arena, size, sizeof *w.slots);
    for (uint32_t m = 0; m < size; m++) {
        shoal_schedule_args args = {size, run->c.contributors, m, run->c.root,
                                    NULL, made_rates(size)};
        assert_ok(
            shoali_collective_build(&run->collective, run->c.kind, &args, arena, &w.schedules[m]));
        w.slots[m] = shoali_arena_array(arena, w.schedules[m].blocks, sizeof **w.slots);
    }
    if (size > 1)
        lockstep(&w);
    else if (owner != NULL)
        assert_ok(owner(ctx, 0, out->bufs[0], 0, run->c.count));
    for (uint32_t m = 0; size > 1 && m < size && w.schedules[m].slots; m++)
        sum_slots(&w, m);
    shoali_arena_destroy(arena);
}

void reference_close(const engine_run *run, reference *ref)
{
    for (uint32_t m = 0; m < run->c.size; m++) {
        for (uint32_t t = 0; t < run->c.tensors; t++)
            free(ref->residuals[m][t]);
        free(ref->residuals[m]);
        free(ref->bufs[m]);
    }
    free(ref->residuals);
    free(ref->bufs);
}

static void assert_bits(const engine_run *run, uint32_t member, const char *what, const float *got,
                        const float *want, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (memcmp(&got[i], &want[i], sizeof *got) == 0)
            continue;
        print_error("%s: member %u, %s, element %zu is %.9g, not %.9g\n", engine_run_name(run),
                    member, what, i, (double)got[i], (double)want[i]);
        fail();
    }
}

void reference_assert_equal(const engine_run *run, const reference *ref)
{
    for (uint32_t m = 0; m < run->c.size; m++) {
        if (m < run->c.contributors)
            assert_bits(run, m, "buffer", run->bufs[m], ref->bufs[m], run->c.count);
        for (uint32_t t = 0; t < run->c.tensors; t++)
            assert_bits(run, m, "residual", run->residuals[m][t], ref->residuals[m][t],
                        run->tensors[t].count);
    }
}
