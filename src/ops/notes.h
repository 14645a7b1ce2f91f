/* SPDX-License-Identifier: Apache-2.0 */
/* Messages about operations that are not entered here yet: kept in order of arrival until they are.
 * A peer can make this process keep no more than SHOALI_NOTES_PER_PEER. */
#ifndef SHOALI_OPS_NOTES_H
#define SHOALI_OPS_NOTES_H

#include <stdbool.h>

#include "shoal/status.h"
#include "wire/control.h"

enum { SHOALI_NOTES_PER_PEER = 1024 };

typedef struct shoali_note {
    struct shoali_note *next;
    uint32_t endpoint;
    bool is_abort;
    shoali_ready ready;
    shoali_abort abort;
} shoali_note;

typedef struct shoali_notes {
    shoali_note *first, *free;
    uint32_t *count_of; /* [size] by endpoint */
} shoali_notes;

/** size: of all endpoints. */
SHOAL_MUST_USE shoal_status shoali_notes_init(shoali_notes *notes, uint32_t size);
void shoali_notes_free(shoali_notes *notes);

/** Exactly one of ready and abort; copied. ENOMEM; EPEER: this peer has too many. The text says
 * which. */
SHOAL_MUST_USE shoal_status shoali_notes_add(shoali_notes *notes, uint32_t endpoint,
                                             const shoali_ready *ready, const shoali_abort *abort);
/** Take the next note about an operation at or behind *at (NULL: from the start), which then stands
 * behind it; false: there is none. Between two calls nothing else may take or forget. */
bool shoali_notes_take_ready(shoali_notes *notes, shoali_note ***at, const shoali_wire_id *id,
                             uint32_t *endpoint_out, shoali_ready *ready_out);
/** The first abort of an operation; false: there is none. */
bool shoali_notes_take_abort(shoali_notes *notes, const shoali_wire_id *id, uint32_t *endpoint_out,
                             shoali_abort *abort_out);
/** All that came from an endpoint. */
void shoali_notes_forget(shoali_notes *notes, uint32_t endpoint);

#endif
