/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that have ended here, not long ago: the news for whoever comes late. */
#ifndef SHOALI_OPS_RECENT_H
#define SHOALI_OPS_RECENT_H

#include <stdbool.h>

#include "shoal/status.h"
#include "wire/control.h"

enum { SHOALI_RECENT_KEPT = 128 };

/** An operation that has ended here. */
typedef struct shoali_finished {
    shoali_wire_id id;
    bool used;
    uint64_t hash, ended_us;
    shoal_status status;
    uint32_t culprit;
    char text[SHOALI_OP_TEXT_BYTES];
    char why[SHOALI_ABORT_TEXT_BYTES];
} shoali_finished;

/** The youngest SHOALI_RECENT_KEPT. */
typedef struct shoali_recent {
    shoali_finished *all; /* [SHOALI_RECENT_KEPT] */
    uint32_t next;
} shoali_recent;

SHOAL_MUST_USE shoal_status shoali_recent_init(shoali_recent *recent);
void shoali_recent_free(shoali_recent *recent);
/** In the place of the oldest. */
void shoali_recent_add(shoali_recent *recent, const shoali_finished *finished);
/** NULL: it has not ended here, or long ago. */
const shoali_finished *shoali_recent_find(const shoali_recent *recent, const shoali_wire_id *id);

static inline bool shoali_same_id(const shoali_wire_id *a, const shoali_wire_id *b)
{
    return a->sequence == b->sequence && a->group == b->group && a->round == b->round;
}

#endif
