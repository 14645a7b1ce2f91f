/* SPDX-License-Identifier: Apache-2.0 */
#include "support/enginecase.h"

#include <math.h>

#include "base/arena.h"
#include "base/rng.h"
#include "support/check.h"
#include "support/made_rates.h"

static const char *const more_specs[] = {
    "ring:both",
    "worker_aggregator:servers=2",
    "worker_aggregator:servers=2,dedicated",
    "worker_aggregator:servers=1,dedicated",
    "broadcast:tree",
    "direct:site=2",
    "hierarchical:site=2",
    "hierarchical:dims=2/2/2,site=4",
};

const char *engine_spec_at(size_t i)
{
    size_t rows = 0;
    for (size_t r = 0; r < shoali_collective_count(); r++) {
        const shoali_collective_row *row = shoali_collective_row_at(r);
        if (row->flow == NULL && rows++ == i)
            return row->name;
    }
    return i - rows < sizeof more_specs / sizeof more_specs[0] ? more_specs[i - rows] : NULL;
}

uint32_t engine_spec_servers(const char *spec)
{
    if (strstr(spec, "dedicated") == NULL)
        return 0;
    return strstr(spec, "servers=2") != NULL ? 2 : 1;
}

bool engine_spec_rooted(const char *spec)
{
    return strncmp(spec, "broadcast", 9) == 0;
}

const char *engine_run_name(const engine_run *run)
{
    static char text[640];
    const engine_case *c = &run->c;
    snprintf(text, sizeof text,
             "%s, push %s, pull %s, %u members (%u contribute), %zu elements, chunks of %u, order "
             "seed %llu",
             run->collective.spec, engine_run_args(run, 0).push->spec,
             engine_run_args(run, 0).pull->spec, c->size, c->contributors, c->count, c->chunk_elems,
             (unsigned long long)c->order_seed);
    return text;
}

static void *zeroed(size_t count, size_t size)
{
    void *memory = calloc(count > 0 ? count : 1, size);
    assert_non_null(memory);
    return memory;
}

/* Uneven whole tensors, some of them empty. */
static void make_tensors(engine_run *run)
{
    engine_case *c = &run->c;
    run->tensors = zeroed(c->tensors, sizeof *run->tensors);
    size_t at = 0;
    for (uint32_t t = 0; t < c->tensors; t++) {
        size_t left = c->count - at;
        size_t count = t + 1 == c->tensors ? left
                                           : (size_t)shoali_rng_below(c->input_seed, 77, t,
                                                                      2 * left / c->tensors + 1);
        run->tensors[t] = (shoal_tensor){.key = 1000 + 7 * (uint64_t)t,
                                         .offset = at,
                                         .count = count,
                                         .flags = t + 1 == c->raw_tensor ? SHOAL_TENSOR_RAW : 0,
                                         .lr_scale = 1};
        at += count;
    }
}

static void make_inputs(engine_run *run)
{
    const engine_case *c = &run->c;
    for (uint32_t m = 0; m < c->size; m++)
        for (size_t i = 0; i < c->count; i++) {
            double k = (double)shoali_rng_below(c->input_seed, 100 + m, i, 129) - 64;
            run->inputs[m][i] = (float)(k * c->unit);
            run->bufs[m][i] = m < c->contributors ? run->inputs[m][i] : NAN;
        }
}

static void fill_defaults(engine_case *c)
{
    c->contributors = c->contributors == 0 ? c->size : c->contributors;
    c->tensors = c->tensors == 0 ? 1 : c->tensors;
    c->unit = c->unit == 0 ? 1.0f / 64 : c->unit;
    c->chunk_elems = c->chunk_elems == 0 ? 64 : c->chunk_elems;
    c->push = c->push == NULL ? "identity" : c->push;
    c->pull = c->pull == NULL ? c->push : c->pull;
}

static bool can_build(const engine_run *run)
{
    const engine_case *c = &run->c;
    shoal_schedule_args args = {c->size, c->contributors, 0, c->root, NULL, made_rates(c->size)};
    shoal_schedule schedule;
    if (run->collective.row->flow != NULL)
        return c->kind == SHOAL_ALL_REDUCE;
    shoal_arena *arena = shoali_arena_create(4096);
    assert_non_null(arena);
    shoal_status status = shoali_collective_build(&run->collective, c->kind, &args, arena,
                                                  &schedule);
    shoali_arena_destroy(arena);
    assert_true(status == SHOAL_OK || status == SHOAL_EINVAL);
    return status == SHOAL_OK;
}

static void make_members(engine_run *run)
{
    const engine_case *c = &run->c;
    run->inputs = zeroed(c->size, sizeof *run->inputs);
    run->bufs = zeroed(c->size, sizeof *run->bufs);
    run->residuals = zeroed(c->size, sizeof *run->residuals);
    run->endpoints = zeroed(c->size, sizeof *run->endpoints);
    for (uint32_t m = 0; m < c->size; m++) {
        run->endpoints[m] = 40 + 3 * m;
        run->inputs[m] = zeroed(c->count, sizeof(float));
        run->bufs[m] = zeroed(c->count, sizeof(float));
        run->residuals[m] = zeroed(c->tensors, sizeof(float *));
        for (uint32_t t = 0; t < c->tensors; t++)
            run->residuals[m][t] = zeroed(run->tensors[t].count, sizeof(float));
    }
}

bool engine_run_open(const engine_case *c, engine_run *run)
{
    *run = (engine_run){.c = *c};
    fill_defaults(&run->c);
    assert_ok(shoali_collective_open(c->collective, &run->collective));
    if (!can_build(run)) {
        shoali_collective_close(&run->collective);
        return false;
    }
    if (c->push_codec == NULL)
        assert_ok(shoal_codec_open(run->c.push, &run->push));
    if (c->pull_codec == NULL)
        assert_ok(shoal_codec_open(run->c.pull, &run->pull));
    run->scratch = shoali_scratch_create();
    assert_non_null(run->scratch);
    make_tensors(run);
    make_members(run);
    make_inputs(run);
    run->net = memnet_create(run->c.size, run->c.order_seed);
    return true;
}

static const shoal_codec *push_of(const engine_run *run)
{
    return run->c.push_codec != NULL ? run->c.push_codec : run->push;
}

static size_t measured_count(const engine_run *run)
{
    return run->c.tensors * shoal_codec_measure_count(push_of(run));
}

void engine_run_measure(engine_run *run)
{
    const shoal_codec *codec = push_of(run);
    const size_t each = shoal_codec_measure_count(codec), row = measured_count(run);
    free(run->shared);
    run->shared = row > 0 ? zeroed(row * run->c.size, sizeof(float)) : NULL;
    for (uint32_t m = 0; m < run->c.contributors && row > 0; m++) {
        float *own = run->shared + m * row;
        for (uint32_t t = 0; t < run->c.tensors; t++)
            assert_ok(shoal_codec_measure(codec, &run->tensors[t],
                                          run->bufs[m] + run->tensors[t].offset, own + t * each));
        if ((shoal_codec_traits(codec) & SHOAL_CODEC_MEASURE_ALL) != 0)
            shoali_codec_measured_all(codec, run->c.tensors, own);
    }
    if ((shoal_codec_traits(codec) & SHOAL_CODEC_MEASURE_OWN) != 0)
        return;
    const bool rms = (shoal_codec_traits(codec) & SHOAL_CODEC_MEASURE_RMS) != 0;
    for (size_t i = 0; i < row; i++) {
        double squares = pow((double)run->shared[i], 2);
        for (uint32_t m = 1; m < run->c.contributors; m++) {
            squares += pow((double)run->shared[m * row + i], 2);
            run->shared[i] = fmaxf(run->shared[i], run->shared[m * row + i]);
        }
        if (rms)
            run->shared[i] = (float)sqrt(squares / run->c.contributors);
        for (uint32_t m = 1; m < run->c.size; m++)
            run->shared[m * row + i] = run->shared[i];
    }
}

shoali_flow_args engine_run_args(const engine_run *run, uint32_t member)
{
    const engine_case *c = &run->c;
    return (shoali_flow_args){
        .id = {.group = 5, .sequence = c->sequence, .round = 1},
        .kind = c->kind,
        .reduce = c->reduce,
        .me = member,
        .size = c->size,
        .contributors = c->contributors,
        .root = c->root,
        .endpoints = run->endpoints,
        .buf = run->bufs[member],
        .count = c->count,
        .rows = run->rows != NULL ? run->rows[member] : NULL,
        .row_count = run->rows != NULL ? run->row_counts[member] : 0,
        .tensors = run->tensors,
        .tensor_count = c->tensors,
        .residuals = c->feedback ? run->residuals[member] : NULL,
        .shared = run->shared != NULL ? run->shared + member * measured_count(run) : NULL,
        .push = push_of(run),
        .pull = c->pull_codec != NULL ? c->pull_codec : run->pull,
        .collective = &run->collective,
        .rates = made_rates(c->size),
        .owner_job = c->owner_job,
        .check_finite = !c->unchecked,
        .chunk_elems = c->chunk_elems,
        .seed = 99,
        .scratch = run->scratch,
    };
}

const shoali_flow_row *engine_run_row(const engine_run *run)
{
    return run->collective.row->flow != NULL ? run->collective.row->flow : &shoali_engine;
}

void engine_run_start(engine_run *run)
{
    for (uint32_t m = 0; m < run->c.size; m++) {
        shoali_flow_args args = engine_run_args(run, m);
        assert_ok(memnet_start(run->net, engine_run_row(run), &args));
    }
}

void engine_run_to_end(engine_run *run)
{
    if (!memnet_run(run->net, SIZE_MAX, run->text, sizeof run->text)) {
        print_error("%s: stuck: %s\n", engine_run_name(run), run->text);
        fail();
    }
    assert_int_equal(shoali_scratch_used_bytes(run->scratch), 0);
}

void engine_run_go(engine_run *run)
{
    engine_run_measure(run);
    engine_run_start(run);
    engine_run_to_end(run);
}

size_t engine_run_lose(engine_run *run, size_t events, uint32_t victim)
{
    size_t failed = 0;
    engine_run_start(run);
    if (!memnet_run(run->net, events, run->text, sizeof run->text))
        memnet_kill(run->net, victim);
    engine_run_to_end(run);
    for (uint32_t m = 0; m < run->c.size; m++) {
        const memnet_result *r = memnet_result_of(run->net, m);
        if (r->dead)
            continue;
        assert_true(r->done && (r->status == SHOAL_OK || r->status == SHOAL_EPEER));
        assert_true(r->status == SHOAL_OK || strlen(r->why) > 0);
        failed += r->status == SHOAL_EPEER;
    }
    return failed;
}

void engine_run_again(engine_run *run, uint64_t sequence, uint64_t input_seed)
{
    run->c.sequence = sequence;
    run->c.input_seed = input_seed;
    make_inputs(run);
    memnet_destroy(run->net);
    run->net = memnet_create(run->c.size, run->c.order_seed + sequence);
    engine_run_go(run);
}

void engine_run_close(engine_run *run)
{
    memnet_destroy(run->net);
    assert_int_equal(shoali_scratch_used_bytes(run->scratch), 0);
    shoali_scratch_destroy(run->scratch);
    for (uint32_t m = 0; m < run->c.size; m++) {
        for (uint32_t t = 0; t < run->c.tensors; t++)
            free(run->residuals[m][t]);
        free(run->residuals[m]);
        free(run->inputs[m]);
        free(run->bufs[m]);
    }
    free(run->residuals);
    free(run->shared);
    free(run->inputs);
    free(run->bufs);
    free(run->endpoints);
    free(run->tensors);
    shoal_codec_close(run->push);
    shoal_codec_close(run->pull);
    shoali_collective_close(&run->collective);
}

double engine_run_sum(const engine_run *run, size_t i)
{
    double sum = 0;
    if (engine_spec_rooted(run->c.collective))
        return run->inputs[run->c.root][i];
    for (uint32_t m = 0; m < run->c.contributors; m++)
        sum += run->inputs[m][i];
    return sum;
}

void engine_run_assert_ok(const engine_run *run)
{
    for (uint32_t m = 0; m < run->c.size; m++) {
        const memnet_result *r = memnet_result_of(run->net, m);
        if (r->status == SHOAL_OK)
            continue;
        print_error("%s: member %u ended %s: %s\n", engine_run_name(run), m,
                    shoal_status_name(r->status), r->why);
        fail();
    }
    assert_int_equal(memnet_refused(run->net), 0);
}

void engine_run_assert_not_finite(const engine_run *run, uint32_t member, size_t i)
{
    for (uint32_t m = 0; m < run->c.size; m++) {
        const memnet_result *r = memnet_result_of(run->net, m);
        bool found = false;
        if (m >= run->c.contributors && r->status == SHOAL_OK)
            continue;
        assert_int_equal(r->status, SHOAL_ENOTFINITE);
        assert_true(r->origin_known);
        assert_int_equal(r->origin.endpoint, run->endpoints[member]);
        for (uint32_t t = 0; t < run->c.tensors; t++)
            found = found || (run->tensors[t].key == r->origin.key &&
                              run->tensors[t].offset + r->origin.index == i);
        assert_true(found);
    }
}

void engine_run_assert_exact(const engine_run *run)
{
    for (uint32_t m = 0; m < run->c.contributors; m++)
        for (size_t i = 0; i < run->c.count; i++) {
            if (run->bufs[m][i] == (float)engine_run_sum(run, i))
                continue;
            print_error("%s: member %u element %zu is %.9g, not %.9g\n", engine_run_name(run), m, i,
                        (double)run->bufs[m][i], engine_run_sum(run, i));
            fail();
        }
}

void engine_run_assert_same(const engine_run *run)
{
    for (uint32_t m = 1; m < run->c.contributors; m++)
        if (memcmp(run->bufs[m], run->bufs[0], run->c.count * sizeof(float)) != 0) {
            print_error("%s: members 0 and %u hold different bits\n", engine_run_name(run), m);
            fail();
        }
}
