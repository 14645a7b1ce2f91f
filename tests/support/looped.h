/* SPDX-License-Identifier: Apache-2.0 */
/* A loop whose owner counts what it is asked for. */
#ifndef SHOAL_TEST_LOOPED_H
#define SHOAL_TEST_LOOPED_H

#include <stdatomic.h>

#include "loop/loop.h"

typedef struct looped {
    shoali_loop loop;
    _Atomic uint32_t begun, rounds, heard, held, forked;
    _Atomic uint64_t due_us, late_us; /* when something falls due; the most it came late */
    _Atomic int fd;                   /* that spoke last */
    int waits_for;                    /* what comes there may wait */
    int order[8];                     /* of tasks, on the loop's thread */
    int count;
} looped;

/** Everything at rest: nothing falls due. */
void looped_init(looped *l);
void looped_free(looped *l);

#endif
