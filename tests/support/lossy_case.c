/* SPDX-License-Identifier: Apache-2.0 */
#include "support/lossy_case.h"

#include <math.h>

#include "base/rng.h"
#include "support/check.h"

static void zero_blocks(lossy_case *c, double density, uint64_t seed)
{
    for (uint32_t w = 0; w < c->run.c.contributors; w++)
        for (size_t i = 0; i < c->run.c.count; i++)
            if (shoali_rng_double(seed, 700 + w, i / c->block) >= density)
                c->run.inputs[w][i] = c->run.bufs[w][i] = i % 3 == 0 ? -0.0f : 0;
}

/* Values of many sizes: integers cannot hold them all, so sums of floats would differ. */
static void spread_values(lossy_case *c, uint64_t seed)
{
    for (uint32_t w = 0; w < c->run.c.contributors; w++)
        for (size_t i = 0; i < c->run.c.count; i++) {
            const double x = shoali_rng_double(seed, 300 + w, i) - 0.5;
            const int power = (int)shoali_rng_below(seed, 5, i / c->block, 60) - 30;
            c->run.inputs[w][i] = c->run.bufs[w][i] = (float)ldexp(x, power);
        }
}

void lossy_open(lossy_case *c, uint32_t workers, uint32_t servers, size_t count, uint32_t block,
                uint32_t slots, bool sparse, double density, const lossnet_faults *faults,
                uint64_t seed)
{
    *c = (lossy_case){.block = block, .sparse = sparse};
    snprintf(c->spec, sizeof c->spec, "switchml:block=%u,slots=%u%s%s", block, slots,
             servers > 0 ? ",dedicated" : "", sparse ? ",sparse" : "");
    const engine_case made = {.collective = c->spec,
                              .size = workers + servers,
                              .contributors = workers,
                              .count = count,
                              .tensors = 3,
                              .input_seed = seed,
                              .order_seed = seed};
    assert_true(engine_run_open(&made, &c->run));
    spread_values(c, seed);
    zero_blocks(c, density, seed);
    lossy_start(c, faults, seed);
}

void lossy_start(lossy_case *c, const lossnet_faults *faults, uint64_t seed)
{
    c->net = lossnet_create(c->run.c.size, faults, seed);
    for (uint32_t m = 0; m < c->run.c.size; m++) {
        const shoali_flow_args args = engine_run_args(&c->run, m);
        assert_ok(lossnet_start(c->net, engine_run_row(&c->run), &args, 1472));
    }
}

void lossy_close(lossy_case *c)
{
    lossnet_destroy(c->net);
    engine_run_close(&c->run);
}

lossnet_faults lossy_faults(uint64_t seed)
{
    const lossnet_faults faults = {.loss = 0.2 * shoali_rng_double(seed, 1, 0),
                                   .duplicate = 0.2 * shoali_rng_double(seed, 1, 1),
                                   .late = 0.2 * shoali_rng_double(seed, 1, 2),
                                   .delay_us = 20 + shoali_rng_below(seed, 1, 3, 200),
                                   .jitter_us = shoali_rng_below(seed, 1, 4, 2000),
                                   .late_us = shoali_rng_below(seed, 1, 5, 200 * 1000)};
    return faults;
}

/* The blocks of the aggregator that has element i: shares are contiguous, and start blocks anew. */
static void block_of(const lossy_case *c, size_t i, size_t *first_out, size_t *end_out)
{
    const uint32_t servers = c->run.c.size - c->run.c.contributors;
    const uint32_t shards = servers > 0 ? servers : c->run.c.contributors;
    for (uint32_t a = 0; a < shards; a++) {
        size_t offset, count;
        shoali_block_range(c->run.c.count, shards, a, &offset, &count);
        if (i >= offset + count)
            continue;
        *first_out = offset + (i - offset) / c->block * c->block;
        *end_out = *first_out + c->block < offset + count ? *first_out + c->block : offset + count;
        return;
    }
}

static double reference(const lossy_case *c, size_t i, double scale)
{
    int64_t sum = 0;
    for (uint32_t w = 0; w < c->run.c.contributors; w++)
        sum += (int64_t)nearbyint((double)c->run.inputs[w][i] * scale);
    assert_true(sum <= INT32_MAX && sum >= -(int64_t)INT32_MAX);
    return (double)sum / scale;
}

/* (2^31 - 1) / (n 2^e), with the least e for which 2^e exceeds every worker's block. */
static double scale_of(const lossy_case *c, size_t first, size_t end)
{
    double most = 0, power = 0x1p-150;
    for (uint32_t w = 0; w < c->run.c.contributors; w++)
        for (size_t i = first; i < end; i++)
            most = fmax(most, fabs((double)c->run.inputs[w][i]));
    if (most == 0)
        return 0;
    while (power <= most)
        power *= 2;
    return 2147483647.0 / c->run.c.contributors / power;
}

const char *lossy_wrong(const lossy_case *c)
{
    static char text[256];
    const uint32_t n = c->run.c.contributors;
    size_t first = 0, end = 0;
    double scale = 0;
    for (size_t i = 0; i < c->run.c.count; i++) {
        if (i == end) {
            block_of(c, i, &first, &end);
            scale = scale_of(c, first, end);
        }
        const double sum = engine_run_sum(&c->run, i);
        const float want = scale == 0 || n == 1 ? (float)sum : (float)reference(c, i, scale);
        const double off = fabs((double)want - sum);
        if (scale > 0 && n > 1 && off > 0.5001 * n / scale + fabs(sum) * 0x1p-23) {
            snprintf(text, sizeof text, "element %zu is off by %g, the bound is %g", i, off,
                     0.5 * n / scale);
            return text;
        }
        for (uint32_t w = 0; w < n; w++)
            if (memcmp(&want, &c->run.bufs[w][i], sizeof want) != 0 &&
                (want != 0 || c->run.bufs[w][i] != 0 || n > 1)) {
                snprintf(text, sizeof text, "worker %u has %.9g at element %zu, not %.9g", w,
                         (double)c->run.bufs[w][i], i, (double)want);
                return text;
            }
    }
    return "";
}
