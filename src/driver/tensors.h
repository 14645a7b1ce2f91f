/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors that protocol machines name: GRAD, PARAM and slots as memory, and MIX on them. */
#ifndef SHOALI_DRIVER_TENSORS_H
#define SHOALI_DRIVER_TENSORS_H

#include "shoal/codec.h"
#include "sync/sync.h"
#include "sync/trust.h"

/** Updates that a judged MIX has refused, by worker. */
typedef struct shoali_refused {
    uint64_t times[SHOALI_TRUST_WORKERS];
    bool speaks; /* this worker is the one that says so */
} shoali_refused;

typedef struct shoali_tensors {
    float *params, *grads; /* the caller's */
    float *slots;          /* slot_count * count floats, ours */
    uint32_t slot_count;
    size_t count;
    shoali_refused *refused; /* where there are slots */
} shoali_tensors;

/** Tables of tensors: sorted by offset, without gaps, none empty. count_out: elements of all. */
SHOAL_MUST_USE shoal_status shoali_table_check(const shoal_tensor *table, uint32_t tensor_count,
                                               size_t *count_out);
/** The tensors that begin inside [offset, offset + count), with offsets from there, to out (room
 * for tensor_count). Returns how many; first_out: index of the first. */
uint32_t shoali_table_cut(const shoal_tensor *table, uint32_t tensor_count, size_t offset,
                          size_t count, shoal_tensor *out, uint32_t *first_out);

/** What a codec does to values, for machines. */
shoali_coding shoali_coding_of(const shoal_codec *codec);

/** Slots as the protocol's row asks for them, zero. */
SHOAL_MUST_USE shoal_status shoali_tensors_init(shoali_tensors *tensors, float *params,
                                                float *grads, size_t count, uint32_t slots);
void shoali_tensors_fini(shoali_tensors *tensors);

/** Memory of a named tensor; NULL with the last error set if there is none, or if the range
 *  [offset, offset + count) is not inside. */
float *shoali_tensor_memory(const shoali_tensors *tensors, uint32_t tensor, size_t offset,
                            size_t count);

/** dst = sum of weight * tensor over the terms of a MIX action, in the order of the terms but for
 *  dst itself, which comes first. */
SHOAL_MUST_USE shoal_status shoali_tensors_mix(const shoali_tensors *tensors,
                                               const shoali_action *mix);

#endif
