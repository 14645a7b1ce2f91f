/* SPDX-License-Identifier: Apache-2.0 */
/* The engine end to end: right sums on every row of the table, every kind of operation, owner jobs,
 * values that are not finite, and calls that it refuses. */
#include <math.h>

#include "support/check.h"
#include "support/reference.h"
#include "support/toycodec.h"

enum { SIZES = 9 };

static void run_exact(const engine_case *c)
{
    engine_run run;
    if (!engine_run_open(c, &run))
        return;
    engine_run_go(&run);
    engine_run_assert_ok(&run);
    engine_run_assert_exact(&run);
    engine_run_close(&run);
}

static void every_row_with(const char *codec, size_t count, uint32_t tensors)
{
    const char *spec;
    for (size_t i = 0; (spec = engine_spec_at(i)) != NULL; i++)
        for (uint32_t size = 1; size <= SIZES; size++) {
            uint32_t servers = engine_spec_servers(spec);
            engine_case c = {.collective = spec,
                             .push = codec,
                             .kind = engine_spec_rooted(spec) ? SHOAL_BROADCAST : SHOAL_ALL_REDUCE,
                             .size = size + servers,
                             .contributors = size,
                             .root = engine_spec_rooted(spec) ? size / 2 : 0,
                             .count = count,
                             .chunk_elems = 32,
                             .tensors = tensors,
                             .input_seed = 1000 * i + size,
                             .order_seed = check_seed() + 100 * i + size};
            run_exact(&c);
        }
}

static void all_reduce_identity(void **state)
{
    (void)state;
    every_row_with("identity", 1003, 1);
}

/* Sums of up to nine multiples of 1/64 up to 1 have at most 11 bits: fp16 holds them exactly. */
static void all_reduce_fp16(void **state)
{
    (void)state;
    every_row_with("fp16", 777, 5);
}

/* A reduce-scatter leaves block m at member m; an all-gather takes it from there. */
static void shards(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= SIZES; size++) {
        engine_run run;
        engine_case c = {.collective = "ring",
                         .kind = SHOAL_REDUCE_SCATTER,
                         .size = size,
                         .count = 500,
                         .chunk_elems = 32,
                         .order_seed = check_seed() + size};
        assert_true(engine_run_open(&c, &run));
        engine_run_go(&run);
        engine_run_assert_ok(&run);
        for (uint32_t m = 0; m < size; m++) {
            size_t offset, count;
            shoali_block_range(c.count, size, m, &offset, &count);
            for (size_t i = offset; i < offset + count; i++)
                assert_true(run.bufs[m][i] == (float)engine_run_sum(&run, i));
        }
        memnet_destroy(run.net);
        run.net = memnet_create(size, check_seed());
        run.c.kind = SHOAL_ALL_GATHER;
        engine_run_go(&run);
        engine_run_assert_ok(&run);
        engine_run_assert_exact(&run);
        engine_run_close(&run);
    }
}

static void maximum(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= SIZES; size++) {
        engine_run run;
        engine_case c = {.collective = size % 2 == 0 ? "ring" : "direct",
                         .reduce = SHOAL_MAX,
                         .size = size,
                         .count = 100,
                         .order_seed = check_seed() + size};
        assert_true(engine_run_open(&c, &run));
        engine_run_go(&run);
        engine_run_assert_ok(&run);
        engine_run_assert_same(&run);
        for (size_t i = 0; i < c.count; i++) {
            float most = run.inputs[0][i];
            for (uint32_t m = 1; m < size; m++)
                most = fmaxf(most, run.inputs[m][i]);
            assert_true(run.bufs[0][i] == most);
        }
        engine_run_close(&run);
    }
}

/* ------------------------------------------------------------- owner jobs */

/* Turns a sum into "weights"; depends on the position, so that a wrong range shows. */
static shoal_status owner(void *ctx, uint32_t member, float *x, size_t offset, size_t count)
{
    (void)member;
    ++*(size_t *)ctx;
    for (size_t i = 0; i < count; i++)
        x[i] = 3 * x[i] + (float)(offset + i);
    return SHOAL_OK;
}

static void owner_jobs(void **state)
{
    (void)state;
    static const char *const specs[] = {"worker_aggregator", "worker_aggregator:servers=2",
                                        "worker_aggregator:servers=2,dedicated", "ring", "direct"};
    shoal_codec *toy = toy_codec_open("toy:ef");
    for (size_t i = 0; i < 2 * sizeof specs / sizeof specs[0]; i++)
        for (uint32_t size = 1; size <= 5; size++) {
            engine_run run;
            reference ref;
            size_t jobs = 0, unused = 0;
            const char *spec = specs[i / 2];
            engine_case c = {.collective = spec,
                             .push_codec = i % 2 == 0 ? NULL : toy,
                             .pull_codec = i % 2 == 0 ? NULL : toy,
                             .size = size + engine_spec_servers(spec),
                             .contributors = size,
                             .count = 300,
                             .chunk_elems = 40,
                             .tensors = 3,
                             .owner_job = true,
                             .feedback = true,
                             .order_seed = check_seed() + 10 * i + size};
            if (!engine_run_open(&c, &run))
                continue;
            reference_open(&run, owner, &unused, &ref);
            memnet_set_owner(run.net, owner, &jobs);
            engine_run_go(&run);
            engine_run_assert_ok(&run);
            assert_true(jobs > 0);
            reference_assert_equal(&run, &ref);
            reference_close(&run, &ref);
            engine_run_close(&run);
        }
    shoal_codec_close(toy);
}

static shoal_status failing_owner(void *ctx, uint32_t member, float *x, size_t offset, size_t count)
{
    (void)ctx, (void)member, (void)x, (void)count;
    return offset > 100 ? SHOAL_EIO : SHOAL_OK;
}

static void failing_owner_job(void **state)
{
    (void)state;
    engine_run run;
    engine_case c = {.collective = "worker_aggregator",
                     .size = 4,
                     .count = 300,
                     .chunk_elems = 40,
                     .owner_job = true,
                     .order_seed = check_seed()};
    assert_true(engine_run_open(&c, &run));
    memnet_set_owner(run.net, failing_owner, NULL);
    engine_run_go(&run);
    for (uint32_t m = 0; m < c.size; m++)
        assert_int_equal(memnet_result_of(run.net, m)->status, SHOAL_EIO);
    assert_non_null(strstr(memnet_result_of(run.net, 0)->why, "owner job of elements"));
    engine_run_close(&run);
}

/* ------------------------------------------------------------- not finite */

/* Bad values at some members; every contributor must name the smallest, and the chunks without any
 * must be as if nothing had happened. */
static void poison(engine_case c, const uint32_t *members, const size_t *elements, size_t bad)
{
    static const float values[] = {NAN, INFINITY, -INFINITY};
    engine_run run;
    size_t jobs = 0, first = 0;
    if (!engine_run_open(&c, &run))
        return;
    if (c.owner_job)
        memnet_set_owner(run.net, owner, &jobs);
    for (size_t b = 0; b < bad; b++) {
        run.bufs[members[b]][elements[b]] = values[b % 3];
        if (members[b] < members[first])
            first = b;
    }
    engine_run_go(&run);
    for (uint32_t m = 0; m < run.c.contributors; m++) {
        const memnet_result *r = memnet_result_of(run.net, m);
        if (r->status != SHOAL_ENOTFINITE)
            print_error("%s: member %u ended %s\n", engine_run_name(&run), m,
                        shoal_status_name(r->status));
        assert_int_equal(r->status, SHOAL_ENOTFINITE);
        assert_true(r->origin_known);
        assert_int_equal(r->origin.endpoint, run.endpoints[members[first]]);
        const shoal_tensor *tensor = run.tensors;
        while (tensor->offset + tensor->count <= elements[first])
            tensor++;
        assert_int_equal(r->origin.key, tensor->key);
        assert_int_equal(r->origin.index, elements[first] - tensor->offset);
    }
    size_t good = 0; /* elements that are right everywhere */
    for (size_t i = 0; i < c.count; i++) {
        bool right = true;
        for (uint32_t m = 0; m < run.c.contributors; m++)
            right = right && run.bufs[m][i] == (float)engine_run_sum(&run, i);
        good += right;
    }
    if (c.push_codec == NULL && !c.owner_job && c.size > 1)
        assert_true(good + bad * c.chunk_elems >= c.count);
    engine_run_close(&run);
}

static void not_finite(void **state)
{
    (void)state;
    static const uint32_t members[] = {3, 1, 2, 1};
    static const size_t elements[] = {17, 399, 17, 402};
    const char *spec;
    shoal_codec *toy = toy_codec_open("toy:ef"), *slots = toy_codec_open("toy:slots");
    for (size_t i = 0; (spec = engine_spec_at(i)) != NULL; i++) {
        uint32_t servers = engine_spec_servers(spec);
        engine_case c = {.collective = spec,
                         .size = 4 + servers,
                         .contributors = 4,
                         .count = 500,
                         .chunk_elems = 24,
                         .tensors = 5,
                         .input_seed = 3,
                         .order_seed = check_seed() + i};
        if (engine_spec_rooted(spec))
            continue;
        for (size_t bad = 1; bad <= 4; bad++)
            poison(c, members, elements, bad);
        c.push_codec = c.pull_codec = strcmp(spec, "gather") == 0 ? slots : toy;
        c.feedback = true;
        poison(c, members, elements, 4);
        c.owner_job = strcmp(spec, "gather") != 0;
        poison(c, members, elements, 2);
    }
    shoal_codec_close(toy);
    shoal_codec_close(slots);
}

/* Far inside a large chunk, where the check runs in pieces between additions. */
static void not_finite_in_a_large_chunk(void **state)
{
    (void)state;
    const uint32_t members[] = {2, 0};
    const size_t elements[] = {13000, 29999};
    for (size_t i = 0; i < 2; i++)
        poison((engine_case){.collective = i == 0 ? "ring" : "worker_aggregator",
                             .size = 3,
                             .count = 30000,
                             .chunk_elems = 10000,
                             .tensors = 2,
                             .order_seed = check_seed()},
               members, elements, 2);
}

static void not_finite_alone_and_at_a_root(void **state)
{
    (void)state;
    const uint32_t members[] = {0, 2};
    const size_t elements[] = {70, 71};
    poison((engine_case){.collective = "ring", .size = 1, .count = 100, .chunk_elems = 16}, members,
           elements, 1);
    poison((engine_case){.collective = "broadcast",
                         .kind = SHOAL_BROADCAST,
                         .root = 2,
                         .size = 5,
                         .count = 100,
                         .chunk_elems = 16,
                         .order_seed = check_seed()},
           members + 1, elements + 1, 1);
}

/* Finite values whose sum the codec cannot carry: found at the encode, by the rank that has the
 * sum. */
static void overflow_is_not_finite(void **state)
{
    (void)state;
    engine_run run;
    shoal_codec *toy = toy_codec_open("toy");
    engine_case c = {.collective = "ring",
                     .push_codec = toy,
                     .pull_codec = toy,
                     .size = 3,
                     .count = 90,
                     .chunk_elems = 10,
                     .order_seed = check_seed()};
    assert_true(engine_run_open(&c, &run));
    for (uint32_t m = 0; m < 3; m++)
        run.bufs[m][45] = 4e5f;
    engine_run_go(&run);
    shoali_not_finite origin = memnet_result_of(run.net, 0)->origin;
    for (uint32_t m = 0; m < 3; m++) {
        const memnet_result *r = memnet_result_of(run.net, m);
        assert_int_equal(r->status, SHOAL_ENOTFINITE);
        assert_memory_equal(&r->origin, &origin, sizeof origin);
    }
    engine_run_close(&run);
    shoal_codec_close(toy);
}

static void unchecked_values_travel(void **state)
{
    (void)state;
    engine_run run;
    engine_case c = {.collective = "ring",
                     .size = 3,
                     .count = 90,
                     .chunk_elems = 10,
                     .unchecked = true,
                     .order_seed = check_seed()};
    assert_true(engine_run_open(&c, &run));
    run.bufs[1][45] = INFINITY;
    engine_run_go(&run);
    engine_run_assert_ok(&run);
    for (uint32_t m = 0; m < 3; m++)
        assert_true(isinf(run.bufs[m][45]));
    engine_run_close(&run);
}

/* ------------------------------------------------------------- refusals */

static void refuse(shoali_flow_args args, const char *part)
{
    memnet *net = memnet_create(args.size > 0 ? args.size : 1, 1);
    assert_int_equal(memnet_start(net, &shoali_engine, &args), SHOAL_EINVAL);
    assert_error_has(part);
    memnet_destroy(net);
}

static void refuses(void **state)
{
    (void)state;
    engine_run run;
    shoal_codec *slots = toy_codec_open("toy:slots");
    engine_case c = {.collective = "ring", .size = 4, .count = 100, .tensors = 2};
    assert_true(engine_run_open(&c, &run));
    run.tensors[0].count = run.tensors[1].offset = 60;
    run.tensors[1].count = 40;
    shoali_flow_args good = engine_run_args(&run, 1), bad = good;
    bad.contributors = 5;
    refuse(bad, "contributors");
    bad = good;
    bad.chunk_elems = 0;
    refuse(bad, "a chunk has 1");
    bad = good;
    bad.tensor_count = 1;
    refuse(bad, "cover");
    bad = good;
    bad.count = 99;
    refuse(bad, "tensor 1");
    bad = good;
    bad.push = slots;
    refuse(bad, "gather");
    bad = good;
    bad.reduce = SHOAL_MAX;
    bad.pull = slots;
    refuse(bad, "slots");
    bad = good;
    bad.kind = SHOAL_BROADCAST;
    refuse(bad, "broadcast");
    engine_run_close(&run);
    shoal_codec_close(slots);
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(all_reduce_identity),
    CHECK_TEST(all_reduce_fp16),
    CHECK_TEST(shards),
    CHECK_TEST(maximum),
    CHECK_TEST(owner_jobs),
    CHECK_TEST(failing_owner_job),
    CHECK_TEST(not_finite),
    CHECK_TEST(not_finite_in_a_large_chunk),
    CHECK_TEST(not_finite_alone_and_at_a_root),
    CHECK_TEST(overflow_is_not_finite),
    CHECK_TEST(unchecked_values_travel),
    CHECK_TEST(refuses),
};

int main(void)
{
    return CHECK_RUN(tests);
}
