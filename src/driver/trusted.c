/* SPDX-License-Identifier: Apache-2.0 */
/* Norms and products are plain sums in double, in order: the same on all that have the same
 * numbers. */
#include "driver/trusted.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "kernel/kernel.h"
#include "sync/trust.h"

static double product(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static double length(const float *x, size_t count)
{
    const double square = product(x, x, count);
    return isfinite(square) ? sqrt(square) : (double)NAN;
}

static void add_up(float *dst, float *const *updates, const double *factors, uint32_t terms,
                   size_t count)
{
    memset(dst, 0, count * sizeof *dst);
    for (uint32_t i = 0; i < terms; i++)
        if (factors[i] > 0)
            shoali_kernel()->axpy(dst, (float)factors[i], updates[i], count);
}

/* Each knows; the first that was trusted says it, of one worker's the first, second, fourth ... */
static void tell(const shoali_tensors *tensors, const shoali_action *mix,
                 const shoali_verdict *verdicts)
{
    const uint32_t terms = mix->mix.term_count;
    uint32_t speaker = 0;
    while (speaker < terms && verdicts[speaker] != SHOALI_TRUSTED)
        speaker++;
    for (uint32_t i = 0; i < terms; i++) {
        const uint32_t worker = mix->mix.terms[i].tensor - mix->mix.first;
        if (verdicts[i] == SHOALI_TRUSTED || worker >= SHOALI_TRUST_WORKERS)
            continue;
        const uint64_t times = ++tensors->refused->times[worker];
        tensors->refused->speaks = speaker < terms &&
                                   mix->mix.terms[speaker].tensor - mix->mix.first == mix->mix.me;
        if (tensors->refused->speaks && (times & (times - 1)) == 0)
            shoali_log(WARN, "the update of worker %u of iteration %llu is refused: it is %s",
                       worker, (unsigned long long)mix->mix.iteration,
                       shoali_trust_text(verdicts[i]));
    }
}

shoal_status shoali_trusted_sum(const shoali_tensors *tensors, const shoali_action *mix)
{
    const uint32_t terms = mix->mix.term_count;
    const size_t count = mix->mix.count;
    float *updates[SHOALI_TRUST_WORKERS] = {NULL};
    double lengths[SHOALI_TRUST_WORKERS], factors[SHOALI_TRUST_WORKERS];
    double products[SHOALI_TRUST_WORKERS];
    shoali_verdict verdicts[SHOALI_TRUST_WORKERS];
    float *dst = shoali_tensor_memory(tensors, mix->mix.dst, mix->mix.offset, count);
    if (dst == NULL || terms > SHOALI_TRUST_WORKERS || tensors->refused == NULL)
        return SHOAL_EINTERNAL;
    for (uint32_t i = 0; i < terms; i++) {
        updates[i] = shoali_tensor_memory(tensors, mix->mix.terms[i].tensor, mix->mix.offset,
                                          count);
        if (updates[i] == NULL)
            return SHOAL_EINTERNAL;
        lengths[i] = length(updates[i], count);
    }
    shoali_trust_lengths(lengths, terms, verdicts, factors);
    add_up(dst, updates, factors, terms, count);
    for (uint32_t i = 0; i < terms; i++)
        products[i] = factors[i] > 0 ? product(updates[i], dst, count) : 0;
    shoali_trust_directions(lengths, products, length(dst, count), terms, verdicts, factors);
    add_up(dst, updates, factors, terms, count);
    tell(tensors, mix, verdicts);
    return SHOAL_OK;
}

void shoali_trusted_tell(const shoali_tensors *tensors)
{
    for (uint32_t w = 0; tensors->refused != NULL && w < SHOALI_TRUST_WORKERS; w++)
        if (tensors->refused->speaks && tensors->refused->times[w] > 0)
            shoali_log(WARN, "%llu updates of worker %u were refused in all",
                       (unsigned long long)tensors->refused->times[w], w);
}
