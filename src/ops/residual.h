/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives an operation: error feedback's residuals, by tensor key, and the states of
 * transforms, by a hash of codec and tensor table. One thread at a time. */
#ifndef SHOALI_OPS_RESIDUAL_H
#define SHOALI_OPS_RESIDUAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

typedef struct shoali_residual_store shoali_residual_store;

typedef struct shoali_residual {
    uint64_t key;
    float *values;
    size_t count;
} shoali_residual;

/** NULL: no memory. */
shoali_residual_store *shoali_residuals_create(void);
void shoali_residuals_free(shoali_residual_store *store); /* NULL: nothing */

/** While somebody holds the store, what shoali_residuals_at has returned stays valid, also once
 * the tensor has got another size. */
void shoali_residuals_hold(shoali_residual_store *store);
void shoali_residuals_release(shoali_residual_store *store);
/** The residual of a tensor: zero if it is new or had another size; NULL: no memory. */
float *shoali_residuals_at(shoali_residual_store *store, uint64_t key, size_t count);
/** A transform's state, zero if it is new and no checkpoint brought it: one that did waits among
 * the residuals, with the hash for a key. NULL: no memory. */
void *shoali_residuals_state(shoali_residual_store *store, uint64_t hash, size_t bytes);
/** Whether members have agreed on the steps that this state counts; to be set and read. NULL: it is
 * none of these. */
bool *shoali_residuals_agreed(shoali_residual_store *store, const void *state);
/** Other members: they have not agreed on any state. store NULL: there are none. */
void shoali_residuals_reform(shoali_residual_store *store);
/** To zero, if state is one of these. store NULL: there are none. */
void shoali_residuals_reset(shoali_residual_store *store, const void *state);
/** Residuals, then states; how many there are, of which capacity at most are listed. store NULL:
 * there are none. */
size_t shoali_residuals_list(const shoali_residual_store *store, shoali_residual *out,
                             size_t capacity);

#endif
