/* SPDX-License-Identifier: Apache-2.0 */
#include "base/renewals.h"

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
