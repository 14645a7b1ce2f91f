/* SPDX-License-Identifier: Apache-2.0 */
/* OmniReduce's two forms: blocks of a dense tensor (omni.h), and rows of a sparse one by key
 * (omni_pairs.c). */
#ifndef SHOALI_COLLECTIVE_OMNI_FORM_H
#define SHOALI_COLLECTIVE_OMNI_FORM_H

#include "collective/omni.h"

/** What the flow asks of blocks and of rows alike; units are blocks or rows. */
struct shoali_omni_form {
    size_t (*contribution_bytes)(const shoali_omni_layout *l, uint32_t units);
    size_t (*result_bytes)(const shoali_omni_layout *l, uint32_t units);
    /** Most units of a slot's first contribution; of the answer to a result of k. */
    uint32_t (*first_most)(const shoali_omni_layout *l, uint32_t slot);
    uint32_t (*reply_most)(const shoali_omni_layout *l, uint32_t k);
    /** Units of a result of so many bytes; NONE: no result of this slot has them. */
    uint32_t (*result_units)(const shoali_omni_layout *l, uint32_t slot, size_t bytes);
    /** Units of a contribution of so many bytes; NONE: this worker owes no such one now. */
    uint32_t (*owed_units)(const shoali_omni_aggregator *a, uint32_t slot, uint32_t worker,
                           size_t bytes);
    /** As shoali_omni_worker_first and _result. */
    uint32_t (*first)(shoali_omni_worker *w, uint32_t slot, uint8_t *body, bool *flagged_out);
    shoal_status (*result)(shoali_omni_worker *w, uint32_t slot, uint32_t round,
                           const uint8_t *body, uint32_t k, uint8_t *reply_out, uint32_t *units_out,
                           bool *flagged_out);
    bool (*owes)(const shoali_omni_aggregator *a, uint32_t slot, uint32_t worker);
    shoal_status (*take)(shoali_omni_aggregator *a, uint32_t slot, uint32_t worker, uint8_t *body,
                         uint32_t units);
    uint8_t *(*give_back)(shoali_omni_aggregator *a, uint32_t slot, uint32_t worker);
    uint32_t (*sum_most)(const shoali_omni_aggregator *a, uint32_t slot);
    uint32_t (*sum)(shoali_omni_aggregator *a, uint32_t slot, uint8_t *result);
    /** Units of the longest result. */
    uint32_t (*longest)(const shoali_omni_layout *l);
};
extern const shoali_omni_form shoali_omni_blocks, shoali_omni_pairs;

/** A worker that brings the rows with these keys of x.
 *  @return SHOAL_OK | EINVAL (keys that do not ascend, or beyond the rows) | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_omni_pairs_worker_init(shoali_omni_worker *w,
                                                          const shoali_omni_layout *l, float *x,
                                                          const uint32_t *keys, size_t key_count,
                                                          bool check_finite, shoal_arena *arena);
/** From now on, note which rows come. */
SHOAL_MUST_USE shoal_status shoali_omni_pairs_note(shoali_omni_worker *w, shoal_arena *arena);
/** Those that came, ascending; NULL: no memory. */
const uint32_t *shoali_omni_pairs_came(const shoali_omni_worker *w, shoal_arena *arena,
                                       size_t *count_out);
SHOAL_MUST_USE shoal_status shoali_omni_pairs_aggregator_init(shoali_omni_aggregator *a,
                                                              const shoali_omni_layout *l,
                                                              uint32_t me, shoal_arena *arena);

#endif
