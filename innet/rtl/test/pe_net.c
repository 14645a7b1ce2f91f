/* SPDX-License-Identifier: Apache-2.0 */
/* A net as `shoal export` wrote it: NET_HEADER is its NAME.h, NET its NAME. */
#include NET_HEADER

#include "pe_net.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

const void *pe_net(void)
{
    return &JOIN(NET, _net);
}

unsigned pe_net_in_frac(void)
{
    return JOIN(NET, _IN_FRAC);
}

/* Memory of one frame at a time. */
static int32_t words[JOIN(NET, _WORDS)(1)];
static int16_t halves[JOIN(NET, _HALVES)(1)];

void pe_net_run(const int16_t *x, int16_t *y, int first)
{
    if (first)
        JOIN(NET, _reset)(words, halves);
    JOIN(NET, _run)(x, 1, y, words, halves);
}
