/* SPDX-License-Identifier: Apache-2.0 */
/* Error feedback: one residual per element and rank. Before an encode x += e, after it e = x -
 * decoded. Exact at every hop because no rank encodes an element twice in one operation: what is
 * delivered plus all residuals is the sum of all gradients. (With a codec's decay, x += decay e:
 * part of what was not delivered is forgotten.) Residual t belongs to tensor t and is
 * indexed from its first element; NULL: none for that tensor. */
#ifndef SHOALI_COLLECTIVE_FEEDBACK_H
#define SHOALI_COLLECTIVE_FEEDBACK_H

#include "shoal/shoal.h"

typedef struct shoali_feedback {
    const shoal_tensor *tensors; /* the operation's table */
    uint32_t tensor_count;
    float *const *residuals;
} shoali_feedback;

/** x[i] += decay * e[first + i] for count elements of the operation. */
void shoali_feedback_add(const shoali_feedback *feedback, float decay, size_t first, size_t count,
                         float *x);
/** e[first + i] = x[i] - decoded[i]. */
void shoali_feedback_keep(const shoali_feedback *feedback, size_t first, size_t count,
                          const float *x, const float *decoded);
/** All residuals of the operation become zero: what they stood for is lost. */
void shoali_feedback_clear(const shoali_feedback *feedback);

/** Index of the tensor that holds element of the operation; the table is sorted and gapless. */
uint32_t shoali_tensor_at(const shoal_tensor *tensors, uint32_t tensor_count, size_t element);

#endif
