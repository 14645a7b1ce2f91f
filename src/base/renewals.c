/* SPDX-License-Identifier: Apache-2.0 */
#include "base/renewals.h"

#include <stdbool.h>

uint64_t shoali_renewals(uint64_t steps, uint64_t kappa)
{
    uint64_t count = 0;
    if (kappa == 0)
        return steps;
    for (unsigned e = 0; e < 64 && kappa <= UINT64_MAX >> e; e++) {
        if (steps <= kappa << e)
            return count + (steps >> e) + ((steps & ((UINT64_C(1) << e) - 1)) != 0);
        count += kappa;
        steps -= kappa << e;
    }
    return count;
}

static bool meet_behind(uint64_t k, uint64_t most, uint64_t doubling)
{
    const uint64_t doubled = doubling > 0 ? k / doubling : 63;
    const uint64_t every = doubled < 63 && UINT64_C(1) << doubled < most ? UINT64_C(1) << doubled
                                                                         : most;
    return (k + 1) % every == 0;
}

/* Distances are powers of two that grow: at most two of the last one lie between two meetings. */
uint64_t shoali_local_run(uint64_t k, uint64_t most, uint64_t doubling)
{
    uint64_t run = 1;
    if (!meet_behind(k, most, doubling))
        return 0;
    while (run <= k && !meet_behind(k - run, most, doubling))
        run++;
    return run;
}
