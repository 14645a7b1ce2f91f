/* SPDX-License-Identifier: Apache-2.0 */
#include "collective/feedback.h"

#include <string.h>

#include "kernel/kernel.h"

uint32_t shoali_tensor_at(const shoal_tensor *tensors, uint32_t tensor_count, size_t element)
{
    uint32_t low = 0, high = tensor_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (tensors[middle].offset <= element)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The part of tensor t inside [first, end) of the operation: its residual from there on, and how
 * many elements. */
static float *overlap(const shoali_feedback *feedback, uint32_t t, size_t first, size_t end,
                      size_t *count_out)
{
    const shoal_tensor *tensor = &feedback->tensors[t];
    size_t tensor_end = tensor->offset + tensor->count;
    *count_out = (tensor_end < end ? tensor_end : end) - first;
    float *residual = feedback->residuals[t];
    return residual != NULL ? residual + (first - tensor->offset) : NULL;
}

void shoali_feedback_add(const shoali_feedback *feedback, float decay, size_t first, size_t count,
                         float *x)
{
    const size_t end = first + count;
    uint32_t t = shoali_tensor_at(feedback->tensors, feedback->tensor_count, first);
    for (size_t at = first, n; at < end; at += n, t++) {
        const float *residual = overlap(feedback, t, at, end, &n);
        if (residual != NULL && decay == 1)
            shoali_kernel()->add(x + (at - first), residual, n);
        else if (residual != NULL)
            shoali_kernel()->axpy(x + (at - first), decay, residual, n);
    }
}

void shoali_feedback_keep(const shoali_feedback *feedback, size_t first, size_t count,
                          const float *x, const float *decoded)
{
    const size_t end = first + count;
    uint32_t t = shoali_tensor_at(feedback->tensors, feedback->tensor_count, first);
    for (size_t at = first, n; at < end; at += n, t++) {
        float *residual = overlap(feedback, t, at, end, &n);
        if (residual == NULL)
            continue;
        shoali_kernel()->copy(residual, x + (at - first), n);
        shoali_kernel()->axpy(residual, -1.0f, decoded + (at - first), n);
    }
}

void shoali_feedback_clear(const shoali_feedback *feedback)
{
    for (uint32_t t = 0; t < feedback->tensor_count; t++)
        if (feedback->residuals[t] != NULL)
            memset(feedback->residuals[t], 0, feedback->tensors[t].count * sizeof(float));
}
