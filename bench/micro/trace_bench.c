/* SPDX-License-Identifier: Apache-2.0 */
/* What keeping events costs: nanoseconds each, with the clock that it reads, and without a ring:
 *
 *     trace_bench [EVENTS] */
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "trace/trace.h"

static double per_event(shoal_train *train, uint64_t events)
{
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < 7; round++) {
        uint64_t start = shoali_now_ns();
        for (uint64_t i = 0; i < events; i++)
            shoali_trace_note(train, SHOALI_TRACE_UPDATE, start / 1000);
        uint64_t took = shoali_now_ns() - start;
        best = took < best ? took : best;
    }
    return (double)best / (double)events;
}

int main(int argc, char **argv)
{
    uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    shoal_train train = {0};
    if (events == 0)
        return EXIT_FAILURE;
    printf("without a ring  %6.2f ns\n", per_event(&train, events));
    train.trace = shoali_alloc(sizeof *train.trace);
    if (train.trace == NULL)
        return EXIT_FAILURE;
    printf("with one        %6.2f ns, clock included\n", per_event(&train, events));
    shoali_free(train.trace);
    return EXIT_SUCCESS;
}
