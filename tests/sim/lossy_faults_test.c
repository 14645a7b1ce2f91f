/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduces of 64 blocks on 2 to 16 workers over a net that loses, repeats, delays and reorders,
 * all drawn from a seed: exact integer sums on every worker, or an error that names who is dead.
 * SHOAL_FAULT_SEED=17 repeats one run, SHOAL_SOAK_RUNS=100000 makes more. */
#include "base/rng.h"
#include "support/check.h"
#include "support/lossy_case.h"

enum { BLOCKS = 64, BLOCK = 4, DEADLINE_US = 300 * 1000 * 1000, QUICK_RUNS = 1000 };

/* Everybody who has not ended waits for the dead member, and not only for a packet that is lost. */
static bool all_wait_for(const lossy_case *c, uint32_t dead)
{
    char why[200];
    for (uint32_t m = 0; m < c->run.c.size; m++) {
        if (m == dead || lossnet_result_of(c->net, m)->done)
            continue;
        if (lossnet_describe(c->net, m, why, sizeof why) != dead && strstr(why, "set up") == NULL)
            return false;
    }
    return true;
}

/* Every eighth run a member dies. The rest end within the deadline, or name it at the deadline. */
static const char *after_a_death(lossy_case *c, uint64_t seed, uint64_t *errors)
{
    static char text[400];
    char why[200];
    const uint32_t dead = (uint32_t)shoali_rng_below(seed, 2, 1, c->run.c.size);
    if (lossnet_run(c->net, shoali_rng_below(seed, 2, 2, 200 * 1000)))
        return lossy_wrong(c);
    lossnet_kill(c->net, dead);
    for (int part = 1; part <= 10; part++) /* one slot at a fifth lost takes seconds a round */
        if (lossnet_run(c->net, (uint64_t)part * DEADLINE_US / 10) || all_wait_for(c, dead))
            break;
    for (uint32_t m = 0; m < c->run.c.size; m++) {
        if (m == dead || lossnet_result_of(c->net, m)->done)
            continue;
        const uint32_t culprit = lossnet_time_out(c->net, m, why, sizeof why);
        ++*errors;
        if (culprit == dead || strstr(why, "set up") != NULL)
            continue; /* before it is set up, the aggregator's own error names who is missing */
        snprintf(text, sizeof text, "member %u blames %u, but %u is dead: %s", m, culprit, dead,
                 why);
        return text;
    }
    return "";
}

static const char *one(uint64_t seed, uint64_t *packets, uint64_t *errors)
{
    lossy_case c;
    const lossnet_faults faults = lossy_faults(seed);
    const uint32_t workers = 2 + (uint32_t)shoali_rng_below(seed, 2, 3, 15);
    const bool served = shoali_rng_below(seed, 2, 4, 4) > 0;
    const bool dies = served && seed % 8 == 0, sparse = seed % 3 == 0;
    lossy_open(&c, workers, served ? 1 + (uint32_t)shoali_rng_below(seed, 2, 5, 2) : 0,
               BLOCKS * BLOCK, BLOCK, 1 + (uint32_t)shoali_rng_below(seed, 2, 6, 16), sparse,
               sparse ? shoali_rng_double(seed, 2, 7) : 1, &faults, seed);
    const char *wrong = dies                              ? after_a_death(&c, seed, errors)
                        : lossnet_run(c.net, DEADLINE_US) ? lossy_wrong(&c)
                                                          : "not finished at the deadline";
    *packets += lossnet_packets(c.net);
    lossy_close(&c);
    return wrong;
}

static void sums_are_exact_or_errors_name_the_dead(void **state)
{
    (void)state;
    const uint64_t runs = check_number("SHOAL_SOAK_RUNS", QUICK_RUNS);
    const uint64_t first = check_number("SHOAL_FAULT_SEED", check_seed());
    const uint64_t count = getenv("SHOAL_FAULT_SEED") != NULL ? 1 : runs;
    uint64_t packets = 0, errors = 0;
    for (uint64_t k = 0; k < count; k++) {
        const char *wrong = one(first + k, &packets, &errors);
        if (wrong[0] != '\0')
            fail_msg("%s (SHOAL_FAULT_SEED=%llu repeats it)", wrong,
                     (unsigned long long)(first + k));
    }
    print_message("{\"runs\": %llu, \"packets\": %llu, \"named_errors\": %llu}\n",
                  (unsigned long long)count, (unsigned long long)packets,
                  (unsigned long long)errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(sums_are_exact_or_errors_name_the_dead)};
    return CHECK_RUN(tests);
}
