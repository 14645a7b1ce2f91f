/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective in numbers, through the engine: whole numbers in, so float32 sums are exact in
 * any order and one naive loop says what is right. Then what each member moved is what its list
 * counts. */
#include "support/check.h"
#include "support/enginecase.h"
#include "support/made_rates.h"

enum { MOST = 9, PRIME = 211, CHUNK = 16 };

/* ---------------------------------------------------------------- references */

static double sum_of_all(const engine_run *run, size_t i)
{
    double sum = 0;
    for (uint32_t m = 0; m < run->c.contributors; m++)
        sum += (double)run->inputs[m][i];
    return sum;
}

/* The member that owns element i of count split evenly, the first count % size shards one
 * longer. */
static uint32_t owner_of(size_t i, size_t count, uint32_t size)
{
    uint32_t owner = 0;
    for (size_t end = 0;; owner++) {
        end += count / size + (owner < count % size ? 1 : 0);
        if (i < end)
            return owner;
    }
}

/* What member m has to hold at element i; false: nothing is promised there. */
static bool wanted(const engine_run *run, uint32_t m, size_t i, double *value_out)
{
    uint32_t owner = owner_of(i, run->c.count, run->c.size);
    switch (run->c.kind) {
    case SHOAL_BROADCAST:
        *value_out = (double)run->inputs[run->c.root][i];
        return true;
    case SHOAL_ALL_GATHER:
        *value_out = (double)run->inputs[owner][i];
        return true;
    case SHOAL_REDUCE_SCATTER:
        *value_out = sum_of_all(run, i);
        return owner == m;
    case SHOAL_ALL_REDUCE:
    case SHOAL_BARRIER:
        break;
    }
    *value_out = sum_of_all(run, i);
    return true;
}

static void check_numbers(const engine_run *run)
{
    for (uint32_t m = 0; m < run->c.contributors; m++)
        for (size_t i = 0; i < run->c.count; i++) {
            double want;
            if (!wanted(run, m, i, &want) || (double)run->bufs[m][i] == want)
                continue;
            fail_msg("%s, kind %d: element %zu of member %u is %g, not %g", engine_run_name(run),
                     run->c.kind, i, m, (double)run->bufs[m][i], want);
        }
}

/* Counters of the flow against the list, and what is sent against what arrives. */
static void check_cost(const engine_run *run)
{
    uint64_t sent = 0, received = 0;
    for (uint32_t m = 0; m < run->c.size; m++) {
        shoali_cost cost;
        shoal_schedule schedule;
        const shoali_flow_stats *stats = &memnet_result_of(run->net, m)->stats;
        shoal_schedule_args args = {run->c.size, run->c.contributors,    m, run->c.root,
                                    NULL,        made_rates(run->c.size)};
        shoal_arena *arena = shoali_arena_create(4096);
        assert_ok(shoali_collective_build(&run->collective, run->c.kind, &args, arena, &schedule));
        shoali_schedule_cost(&schedule, run->c.count, &cost);
        shoali_arena_destroy(arena);
        if (stats->sent_elems != cost.sent_elems || stats->received_elems != cost.received_elems)
            fail_msg("%s: member %u moved %llu / %llu elements, its list says %llu / %llu",
                     engine_run_name(run), m, (unsigned long long)stats->sent_elems,
                     (unsigned long long)stats->received_elems, (unsigned long long)cost.sent_elems,
                     (unsigned long long)cost.received_elems);
        sent += stats->sent_elems;
        received += stats->received_elems;
    }
    assert_true(sent == received);
}

/* ---------------------------------------------------------------- cases */

static void try(const char *spec, shoal_op_kind kind, uint32_t size, uint32_t contributors,
                uint32_t root, size_t count)
{
    engine_run run;
    engine_case c = {.collective = spec,
                     .kind = kind,
                     .size = size,
                     .contributors = contributors,
                     .root = root,
                     .count = count,
                     .chunk_elems = CHUNK,
                     .unit = 1,
                     .input_seed = 17 * count + size,
                     .order_seed = check_seed() + 1000 * count + size};
    if (!engine_run_open(&c, &run))
        fail_msg("%s cannot carry kind %d for %u members", spec, kind, size);
    engine_run_go(&run);
    engine_run_assert_ok(&run);
    check_numbers(&run);
    check_cost(&run);
    engine_run_close(&run);
}

/* All the lengths at which a split has corners. */
static void try_lengths(const char *spec, shoal_op_kind kind, uint32_t size, uint32_t contributors,
                        uint32_t root)
{
    const size_t lengths[] = {0, 1, size - 1, size, size + 1, PRIME};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        try(spec, kind, size, contributors, root, lengths[i]);
}

static void try_kinds(const char *spec, uint32_t size)
{
    shoali_collective collective;
    assert_ok(shoali_collective_open(spec, &collective));
    uint32_t traits = collective.traits;
    shoali_collective_close(&collective);
    if (traits & SHOALI_COLL_FLOW)
        return;
    if (traits & SHOALI_COLL_ROOTED) {
        try_lengths(spec, SHOAL_BROADCAST, size, size, 0);
        try_lengths(spec, SHOAL_BROADCAST, size, size, size - 1);
        return;
    }
    try_lengths(spec, SHOAL_ALL_REDUCE, size, size, 0);
    if (traits & SHOALI_COLL_SHARDED) {
        try_lengths(spec, SHOAL_REDUCE_SCATTER, size, size, 0);
        try_lengths(spec, SHOAL_ALL_GATHER, size, size, 0);
    }
}

static void every_row_with_default_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < shoali_collective_count(); i++)
        for (uint32_t size = 1; size <= MOST; size++)
            try_kinds(shoali_collective_row_at(i)->name, size);
}

static void keys_that_change_the_shape(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= MOST; size++) {
        char spec[64];
        try_kinds("ring:both", size);
        try_kinds("broadcast:tree", size);
        try_kinds("hierarchical:inner=direct", size);
        snprintf(spec, sizeof spec, "worker_aggregator:servers=%u", (size + 1) / 2);
        try_kinds(spec, size);
    }
    try_kinds("hierarchical:dims=3/2", 6);
    try_kinds("hierarchical:dims=2/2/2", 8);
    try_kinds("hierarchical:dims=4/2,inner=direct", 8);
    try_kinds("direct:weights=1/1/1/0", 4);
    for (uint32_t size = 2; size <= 9; size++) {
        try_kinds("direct:weights=auto", size);
        try_kinds("ring:order=auto", size);
    }
    try_kinds("direct:weights=3/0/2/5/1", 5);
    try_kinds("direct:site=3", 6);
    try_kinds("hierarchical:dims=2/2/2,site=4", 8);
}

static void dedicated_servers(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= MOST; workers++)
        for (uint32_t servers = 1; servers <= 3; servers++) {
            char spec[64];
            snprintf(spec, sizeof spec, "worker_aggregator:servers=%u,dedicated", servers);
            try_lengths(spec, SHOAL_ALL_REDUCE, workers + servers, workers, 0);
        }
}

/* A lossy code on every hop changes the numbers, but never their equality among members. */
static void the_same_bits_everywhere_with_a_lossy_codec(void **state)
{
    (void)state;
    static const char *const codecs[] = {"inceptionn", "bf16"};
    const char *spec;
    for (size_t i = 0; (spec = engine_spec_at(i)) != NULL; i++)
        for (uint32_t size = 2; size <= MOST; size++) {
            engine_run run;
            bool rooted = engine_spec_rooted(spec);
            engine_case c = {.collective = spec,
                             .push = codecs[size % 2],
                             .kind = rooted ? SHOAL_BROADCAST : SHOAL_ALL_REDUCE,
                             .size = size + engine_spec_servers(spec),
                             .contributors = size,
                             .root = rooted ? size / 2 : 0,
                             .count = PRIME,
                             .chunk_elems = CHUNK,
                             .unit = 0x1.1p-11f, /* most need more bits than the codes have */
                             .input_seed = size,
                             .order_seed = check_seed() + size};
            const bool opened = engine_run_open(&c, &run);
            assert_true(opened || strstr(spec, "site=") != NULL); /* no whole sites */
            if (!opened)
                continue;
            engine_run_go(&run);
            engine_run_assert_ok(&run);
            engine_run_assert_same(&run);
            check_cost(&run);
            engine_run_close(&run);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(every_row_with_default_keys),
        CHECK_TEST(keys_that_change_the_shape),
        CHECK_TEST(dedicated_servers),
        CHECK_TEST(the_same_bits_everywhere_with_a_lossy_codec),
    };
    return CHECK_RUN(tests);
}
