/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_flow.h"

#include <math.h>

#include "support/check.h"

enum { MEMBERS = 5, COUNT = 1000, CHUNK = 64 };

typedef struct fixture {
    float values[MEMBERS][COUNT];
    float *bufs[MEMBERS];
    uint32_t endpoints[MEMBERS];
    shoal_tensor tensors[2];
    shoali_collective collective;
    shoal_codec *codec;
    uint64_t bytes[MEMBERS][MEMBERS];
    size_t owned;
    shoali_sim_flow flow;
} fixture;

static void carried(void *ctx, uint32_t from, uint32_t to, uint64_t bytes)
{
    ((fixture *)ctx)->bytes[from][to] += bytes;
}

static shoal_status negate(void *ctx, uint32_t member, float *sum_in_weights_out, size_t offset,
                           size_t count)
{
    fixture *f = ctx;
    assert_true(member < MEMBERS && offset + count <= COUNT);
    for (size_t j = 0; j < count; j++)
        sum_in_weights_out[j] = -sum_in_weights_out[j];
    f->owned += count;
    return SHOAL_OK;
}

/* Member m holds m + 1 + j / 1000 at j. */
static void open_flow(fixture *f, const char *collective, const char *codec, uint32_t size)
{
    memset(f, 0, sizeof *f);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        f->bufs[m] = f->values[m];
        f->endpoints[m] = 10 + m;
        for (size_t j = 0; j < COUNT; j++)
            f->values[m][j] = (float)(m + 1) + (float)j / 1000;
    }
    f->tensors[0] = (shoal_tensor){.key = 7, .count = 300, .lr_scale = 1};
    f->tensors[1] = (shoal_tensor){.key = 8, .offset = 300, .count = COUNT - 300, .lr_scale = 1};
    assert_ok(shoali_collective_open(collective, &f->collective));
    assert_ok(shoal_codec_open(codec, &f->codec));
    f->flow = (shoali_sim_flow){.bufs = f->bufs, .ctx = f, .owner = negate, .carried = carried};
    f->flow.args = (shoali_flow_args){.kind = SHOAL_ALL_REDUCE,
                                      .id = {1, 2, 1, 0},
                                      .size = size,
                                      .contributors = size,
                                      .endpoints = f->endpoints,
                                      .count = COUNT,
                                      .tensors = f->tensors,
                                      .tensor_count = 2,
                                      .push = f->codec,
                                      .pull = f->codec,
                                      .collective = &f->collective,
                                      .check_finite = true,
                                      .chunk_elems = CHUNK,
                                      .seed = check_seed()};
}

static void close_flow(fixture *f)
{
    shoali_collective_close(&f->collective);
    shoal_codec_close(f->codec);
}

static shoal_status run(fixture *f)
{
    shoal_status result;
    shoali_not_finite origin;
    assert_ok(shoali_sim_flow_run(&f->flow, &result, &origin));
    return result;
}

static void all_members_hold_the_sum(void **state)
{
    (void)state;
    static const char *const specs[] = {"ring", "ring:both", "worker_aggregator:servers=2",
                                        "halving_doubling"};
    fixture f;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (uint32_t size = 1; size <= MEMBERS; size++) {
            open_flow(&f, size == 1 ? "ring" : specs[i], "identity", size);
            assert_int_equal(run(&f), SHOAL_OK);
            for (size_t j = 0; j < COUNT; j++)
                assert_true(fabs((double)f.values[0][j] - size * (size + 1) / 2.0 -
                                 (double)size * (double)j / 1000) < 1e-5);
            for (uint32_t m = 1; m < size; m++)
                assert_memory_equal(f.values[m], f.values[0], sizeof f.values[0]);
            close_flow(&f);
        }
}

/* terngrad's scale of a member's tensor, in double precision: its values differ less than they are
 * large, so it is their root mean square. */
static double scale_of(uint32_t member, const shoal_tensor *tensor)
{
    double square = 0;
    for (size_t j = tensor->offset; j < tensor->offset + tensor->count; j++)
        square += pow((double)(member + 1) + (double)j / 1000, 2);
    return sqrt(square / (double)tensor->count);
}

/* Sums are whole multiples of what the members' scales come to: their largest, or their rms. */
static void measures_are_shared_as_the_codec_says(void **state)
{
    (void)state;
    static const char *const specs[] = {"terngrad", "terngrad:scaler=rms"};
    fixture f;
    for (size_t i = 0; i < 2; i++) {
        open_flow(&f, "ring", specs[i], MEMBERS);
        assert_int_equal(run(&f), SHOAL_OK);
        for (size_t t = 0; t < 2; t++) {
            double largest = 0, square = 0;
            for (uint32_t m = 0; m < MEMBERS; m++) {
                double scale = scale_of(m, &f.tensors[t]);
                largest = fmax(largest, scale), square += scale * scale / MEMBERS;
            }
            double shared = i == 0 ? largest : sqrt(square);
            for (size_t j = 0; j < f.tensors[t].count; j++) {
                double steps = (double)f.values[0][f.tensors[t].offset + j] / shared;
                assert_true(fabs(steps - rint(steps)) < 1e-4);
            }
        }
        close_flow(&f);
    }
}

/* Sums over packets: integers of a scale, the same on all members; and what packets have no room
 * for ends it, though others wait. */
static void packets_are_handed_over_too(void **state)
{
    (void)state;
    static const char *const specs[] = {"switchml", "switchml:sparse,block=32",
                                        "switchml:shards=1"};
    fixture f;
    shoal_status result;
    shoali_not_finite origin;
    for (size_t i = 0; i < 3; i++)
        for (uint32_t size = 1; size <= MEMBERS; size++) {
            uint64_t bytes = 0;
            open_flow(&f, specs[i], "identity", size);
            assert_int_equal(run(&f), SHOAL_OK);
            for (size_t j = 0; j < COUNT; j++)
                assert_true(fabs((double)f.values[0][j] - size * (size + 1) / 2.0 -
                                 (double)size * (double)j / 1000) < 1e-5);
            for (uint32_t m = 1; m < size; m++) {
                assert_memory_equal(f.values[m], f.values[0], sizeof f.values[0]);
                bytes += f.bytes[m][0] + f.bytes[0][m];
            }
            assert_true(size == 1 || bytes > COUNT * sizeof(float));
            close_flow(&f);
        }
    open_flow(&f, "switchml:block=500", "identity", 3);
    assert_status(shoali_sim_flow_run(&f.flow, &result, &origin), SHOAL_EINVAL);
    assert_error_has("room for");
    close_flow(&f);
    open_flow(&f, "switchml", "identity", 3);
    f.values[1][310] = NAN;
    assert_ok(shoali_sim_flow_run(&f.flow, &result, &origin));
    assert_int_equal(result, SHOAL_ENOTFINITE);
    assert_int_equal(origin.endpoint, 11);
    assert_int_equal(origin.index, 10);
    close_flow(&f);
}

static void bytes_are_those_of_the_schedule(void **state)
{
    (void)state;
    fixture f;
    open_flow(&f, "ring", "fp16", 4);
    assert_int_equal(run(&f), SHOAL_OK);
    for (uint32_t m = 0; m < 4;
         m++) /* 2 * 3/4 of the vector, two bytes each, to the right neighbour */
        assert_int_equal(f.bytes[m][(m + 1) % 4], 2 * 6 * COUNT / 4);
    close_flow(&f);
}

static void zero_most(fixture *f, uint32_t size)
{
    for (uint32_t m = 0; m < size; m++)
        for (size_t j = 0; j < COUNT; j++)
            f->values[m][j] = j == 7 + 100 * m ? 1.0f : 0.0f;
}

/* What figures are compared with: every element to whoever sums it and back, each member's own
 * share apart; whatever the codec, and however many elements are zero. */
static void the_dense_exchange_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *collective, *codec;
        uint32_t size;
        uint64_t sent; /* by all, in vectors */
    } cases[] = {
        {"ring", "identity", 4, 6},
        {"ring", "terngrad", 5, 8},
        {"worker_aggregator", "fp16", 5, 8},
        {"gather", "topk", 4, 12},
        {"omnireduce:block=32", "identity", 4, 6},
        {"omnireduce:block=7,fusion=3,slots=2", "identity", 5, 8},
        {"omnireduce:block=32,shards=1", "identity", 5, 8},
        {"omnireduce:block=32", "identity", 1, 0},
        {"switchml", "identity", 4, 6},
        {"switchml:sparse,block=32", "identity", 5, 8},
        {"switchml:shards=2", "identity", 5, 8},
        {"switchml", "identity", 1, 0},
    };
    fixture f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t dense = UINT64_MAX;
        open_flow(&f, cases[i].collective, cases[i].codec, cases[i].size);
        zero_most(&f, cases[i].size);
        f.flow.dense_elems_out = &dense;
        assert_int_equal(run(&f), SHOAL_OK);
        assert_int_equal(dense, cases[i].sent * COUNT);
        close_flow(&f);
    }
}

static void owners_turn_sums_into_weights(void **state)
{
    (void)state;
    fixture f;
    for (uint32_t size = 1; size <= 4; size++) {
        open_flow(&f, "worker_aggregator", "identity", size);
        f.flow.args.owner_job = true;
        assert_int_equal(run(&f), SHOAL_OK);
        assert_int_equal(f.owned, COUNT);
        assert_true(fabsf(f.values[size - 1][0] + (float)(size * (size + 1)) / 2) < 1e-5f);
        close_flow(&f);
    }
}

static void a_nan_is_named(void **state)
{
    (void)state;
    fixture f;
    shoal_status result;
    shoali_not_finite origin;
    open_flow(&f, "ring", "identity", 4);
    f.values[2][333] = NAN;
    assert_ok(shoali_sim_flow_run(&f.flow, &result, &origin));
    assert_int_equal(result, SHOAL_ENOTFINITE);
    assert_int_equal(origin.endpoint, 12);
    assert_int_equal(origin.key, 8);
    assert_int_equal(origin.index, 33);
    close_flow(&f);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    fixture f;
    shoal_status result;
    shoali_not_finite origin;
    open_flow(&f, "worker_aggregator:servers=4", "identity", 3);
    assert_status(shoali_sim_flow_run(&f.flow, &result, &origin), SHOAL_EINVAL);
    close_flow(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(all_members_hold_the_sum),
        CHECK_TEST(bytes_are_those_of_the_schedule),
        CHECK_TEST(owners_turn_sums_into_weights),
        CHECK_TEST(a_nan_is_named),
        CHECK_TEST(packets_are_handed_over_too),
        CHECK_TEST(what_does_not_fit_is_refused),
        CHECK_TEST(measures_are_shared_as_the_codec_says),
        CHECK_TEST(the_dense_exchange_is_told),
    };
    return CHECK_RUN(tests);
}
