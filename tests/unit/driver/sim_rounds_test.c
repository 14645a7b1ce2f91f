/* SPDX-License-Identifier: Apache-2.0 */
/* Transforms in memory: what members hold and what travelled, against what the chosen blocks must
 * give and what the model of omnireduce counts for them. */
#include <math.h>

#include "base/rng.h"
#include "codec/codec.h"
#include "driver/sim_flow.h"
#include "shoal/sparse.h"
#include "support/check.h"

enum { MEMBERS = 4, BLOCK = 32, BLOCKS = 150, COUNT = BLOCKS * BLOCK - 9, STATE = 2 * COUNT };

typedef struct fixture {
    float values[MEMBERS][COUNT], states[MEMBERS][STATE];
    float *bufs[MEMBERS];
    uint32_t endpoints[MEMBERS];
    uint64_t sent[MEMBERS], frames;
    size_t asked_bytes;
    shoal_tensor tensors[2];
    shoali_collective collective;
    shoal_codec *codec;
    shoali_sim_flow flow;
} fixture;

static void carried(void *ctx, uint32_t from, uint32_t to, uint64_t bytes)
{
    fixture *f = ctx;
    (void)to;
    f->sent[from] += bytes;
    f->frames++;
}

static void *transform(void *ctx, uint32_t member, size_t bytes)
{
    fixture *f = ctx;
    assert_true(member < MEMBERS && bytes <= sizeof f->states[0]);
    f->asked_bytes = bytes;
    return f->states[member];
}

static void draw(fixture *f, uint64_t step)
{
    memset(f->sent, 0, sizeof f->sent);
    for (uint32_t m = 0; m < MEMBERS; m++)
        for (size_t j = 0; j < COUNT; j++)
            f->values[m][j] = (float)(shoali_rng_normal(check_seed(), step * MEMBERS + m, j) *
                                      (1 + (double)shoali_rng_below(check_seed(), 99 + m, j / BLOCK,
                                                                    50)));
}

static void open_flow(fixture *f, const char *collective, const char *codec)
{
    memset(f, 0, sizeof *f);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        f->bufs[m] = f->values[m];
        f->endpoints[m] = 10 + m;
    }
    f->tensors[0] = (shoal_tensor){.key = 7, .count = 300, .rows = 20, .cols = 15, .lr_scale = 1};
    f->tensors[1] = (shoal_tensor){.key = 8, .offset = 300, .count = COUNT - 300, .lr_scale = 1};
    assert_ok(shoali_collective_open(collective, &f->collective));
    assert_ok(shoal_codec_open(codec, &f->codec));
    f->flow = (shoali_sim_flow){
        .bufs = f->bufs, .ctx = f, .transform = transform, .carried = carried};
    f->flow.args = (shoali_flow_args){.kind = SHOAL_ALL_REDUCE,
                                      .id = {1, 2, 1, 0},
                                      .size = MEMBERS,
                                      .contributors = MEMBERS,
                                      .endpoints = f->endpoints,
                                      .count = COUNT,
                                      .tensors = f->tensors,
                                      .tensor_count = 2,
                                      .push = f->codec,
                                      .pull = f->codec,
                                      .collective = &f->collective,
                                      .check_finite = true,
                                      .chunk_elems = 1024,
                                      .seed = check_seed()};
}

static void close_flow(fixture *f)
{
    shoali_collective_close(&f->collective);
    shoal_codec_close(f->codec);
}

static shoal_status run(fixture *f, shoali_not_finite *origin)
{
    shoal_status result;
    assert_ok(shoali_sim_flow_run(&f->flow, &result, origin));
    return result;
}

static const float *residual_of(const fixture *f, uint32_t m)
{
    return f->states[m] + f->asked_bytes / sizeof(float) - COUNT;
}

/* Through every kind of collective: all hold the same bits, and with what members keep it is the
 * sum of all gradients. */
static void sums_and_residuals_are_the_gradients(void **state)
{
    (void)state;
    static const char *const collectives[] = {"ring",
                                              "direct",
                                              "gather",
                                              "hierarchical:dims=2/2",
                                              "halving_doubling",
                                              "worker_aggregator",
                                              "omnireduce:block=32",
                                              "switchml:sparse,block=32"};
    static fixture f;
    shoali_not_finite origin;
    for (size_t c = 0; c < sizeof collectives / sizeof *collectives; c++) {
        static double owed[COUNT];
        const bool integers = strstr(collectives[c], "switchml") != NULL;
        memset(owed, 0, sizeof owed);
        open_flow(&f, collectives[c], "blocks:block=32,k=0.1");
        for (uint64_t step = 0; step < 4; step++) {
            draw(&f, step);
            for (size_t j = 0; j < COUNT; j++)
                for (uint32_t m = 0; m < MEMBERS; m++)
                    owed[j] += (double)f.values[m][j];
            assert_int_equal(run(&f, &origin), SHOAL_OK);
            for (uint32_t m = 1; m < MEMBERS; m++)
                assert_memory_equal(f.values[m], f.values[0], sizeof f.values[0]);
            for (size_t j = 0; j < COUNT; j++)
                owed[j] -= (double)f.values[0][j];
        }
        double most = 0;
        for (size_t j = 0; j < COUNT; j++) {
            for (uint32_t m = 0; m < MEMBERS; m++)
                owed[j] -= (double)residual_of(&f, m)[j];
            most = fmax(most, fabs(owed[j]));
        }
        if (!(most < (integers ? 0.1 : 2e-3)))
            fail_msg("%s: %g is missing", collectives[c], most);
        close_flow(&f);
    }
}

/* By omnireduce each member sends what the model counts for the blocks that were chosen, and they
 * are as many as k says; with drawn ones all members' are the same. */
static void bytes_are_those_of_the_chosen_blocks(void **state)
{
    (void)state;
    static const char *const codecs[] = {"blocks:block=32,k=0.1",
                                         "blocks:block=32,k=0.1,pick=random"};
    static fixture f;
    static float before[MEMBERS][COUNT];
    shoali_not_finite origin;
    for (size_t c = 0; c < 2; c++) {
        uint8_t nonzero[MEMBERS][BLOCKS] = {{0}};
        uint64_t sent[MEMBERS], received[MEMBERS];
        shoal_sparse_desc desc;
        shoal_sparse_cost cost;
        open_flow(&f, "omnireduce:block=32,fusion=2,slots=1", codecs[c]);
        draw(&f, 5);
        memcpy(before, f.values, sizeof before);
        assert_int_equal(run(&f, &origin), SHOAL_OK);
        for (uint32_t m = 0; m < MEMBERS; m++)
            for (size_t j = 0; j < COUNT; j++) /* it travelled, and so nothing waits */
                nonzero[m][j / BLOCK] |= before[m][j] != 0 && residual_of(&f, m)[j] == 0;
        assert_ok(shoal_sparse_describe(f.collective.spec, COUNT, MEMBERS, MEMBERS, &desc));
        desc.head_bytes = 0;
        assert_ok(shoal_sparse_count(&desc, nonzero[0], sent, received, &cost));
        assert_true(fabs(cost.density - 15.0 / BLOCKS) < 1e-9);
        assert_true(c == 0 ? cost.together > 0.2 : fabs(cost.together - 0.1) < 1e-9);
        for (uint32_t m = 0; m < MEMBERS; m++)
            assert_int_equal(f.sent[m], sent[m]);
        close_flow(&f);
    }
}

/* A ring leaves the same blocks out; with the drawn ones, which do not become more on the way, the
 * bytes are their share and the bitmaps. */
static void a_ring_sends_no_zeros(void **state)
{
    (void)state;
    static fixture f;
    shoali_not_finite origin;
    uint64_t sent = 0;
    open_flow(&f, "ring", "blocks:block=256,k=0.1,pick=random"); /* 2 of 19 */
    draw(&f, 6);
    assert_int_equal(run(&f, &origin), SHOAL_OK);
    for (uint32_t m = 0; m < MEMBERS; m++)
        sent += f.sent[m];
    const double dense = 2.0 * (MEMBERS - 1) * COUNT * sizeof(float);
    assert_true((double)sent > 0.10 * dense && (double)sent < 0.14 * dense);
    close_flow(&f);
}

static void a_nan_is_named_and_states_begin_anew(void **state)
{
    (void)state;
    static fixture f;
    shoali_not_finite origin;
    open_flow(&f, "ring", "blocks:block=32,k=0.01");
    draw(&f, 7);
    f.values[2][333] = NAN;
    assert_int_equal(run(&f, &origin), SHOAL_ENOTFINITE);
    assert_int_equal(origin.endpoint, 12);
    assert_int_equal(origin.key, 8);
    assert_int_equal(origin.index, 33);
    for (size_t j = 0; j < COUNT; j++)
        assert_true(residual_of(&f, 0)[j] == 0);
    close_flow(&f);
}

/* powersgd has two rounds: sums of four alike are four times what one has, of rank 1. */
static void several_rounds_follow_each_other(void **state)
{
    (void)state;
    static fixture f;
    shoali_not_finite origin;
    uint64_t dense = 0;
    open_flow(&f, "ring", "powersgd:rank=1");
    f.flow.dense_elems_out = &dense;
    for (uint32_t m = 0; m < MEMBERS; m++)
        for (size_t j = 0; j < COUNT; j++)
            f.values[m][j] = j < 300 ? (float)(1 + j / 15) * (float)(1 + j % 15) : 1;
    assert_int_equal(run(&f, &origin), SHOAL_OK);
    for (size_t j = 0; j < COUNT; j++) {
        const double want = j < 300 ? 4.0 * (double)(1 + j / 15) * (double)(1 + j % 15) : 4;
        assert_true(fabs((double)f.values[3][j] - want) < 1e-4 * want);
    }
    assert_true(fabs((double)dense / (2.0 * (MEMBERS - 1) * COUNT) - 1) < 1e-3);
    close_flow(&f);
}

static void without_a_place_for_states_it_is_refused(void **state)
{
    (void)state;
    static fixture f;
    shoali_not_finite origin;
    shoal_status result;
    open_flow(&f, "ring", "blocks");
    f.flow.transform = NULL;
    assert_status(shoali_sim_flow_run(&f.flow, &result, &origin), SHOAL_ENOTSUP);
    close_flow(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(sums_and_residuals_are_the_gradients),
        CHECK_TEST(bytes_are_those_of_the_chosen_blocks),
        CHECK_TEST(a_ring_sends_no_zeros),
        CHECK_TEST(a_nan_is_named_and_states_begin_anew),
        CHECK_TEST(several_rounds_follow_each_other),
        CHECK_TEST(without_a_place_for_states_it_is_refused),
    };
    return CHECK_RUN(tests);
}
