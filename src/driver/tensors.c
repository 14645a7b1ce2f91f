/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/tensors.h"

#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "driver/trusted.h"
#include "kernel/kernel.h"

shoal_status shoali_table_check(const shoal_tensor *table, uint32_t tensor_count, size_t *count_out)
{
    size_t at = 0;
    for (uint32_t i = 0; i < tensor_count; i++) {
        const shoal_tensor *t = &table[i];
        if (t->offset != at || t->count == 0 || t->count > SIZE_MAX / sizeof(float) - at)
            return shoali_fail(SHOAL_EINVAL,
                               "tensor %u starts at %zu with %zu elements; tensors are sorted, "
                               "without gaps and not empty",
                               i, t->offset, t->count);
        at += t->count;
    }
    *count_out = at;
    return SHOAL_OK;
}

uint32_t shoali_table_cut(const shoal_tensor *table, uint32_t tensor_count, size_t offset,
                          size_t count, shoal_tensor *out, uint32_t *first_out)
{
    uint32_t cut = 0;
    *first_out = 0;
    for (uint32_t i = 0; i < tensor_count; i++) {
        if (table[i].offset < offset || table[i].offset - offset >= count)
            continue;
        *first_out = cut == 0 ? i : *first_out;
        out[cut] = table[i];
        out[cut++].offset -= offset;
    }
    return cut;
}

shoali_coding shoali_coding_of(const shoal_codec *codec)
{
    const uint32_t traits = shoal_codec_traits(codec);
    if ((traits & SHOAL_CODEC_RAW_BYTES) != 0)
        return SHOALI_PLAIN;
    return (traits & SHOAL_CODEC_LOSSLESS) != 0 ? SHOALI_LOSSLESS : SHOALI_LOSSY;
}

shoal_status shoali_tensors_init(shoali_tensors *tensors, float *params, float *grads, size_t count,
                                 uint32_t slots)
{
    size_t floats;
    *tensors = (shoali_tensors){
        .params = params, .grads = grads, .count = count, .slot_count = slots};
    if (slots == 0)
        return SHOAL_OK;
    if (__builtin_mul_overflow(count, (size_t)slots, &floats))
        return shoali_fail(SHOAL_ENOMEM, "%u slots of %zu elements exceed the address space", slots,
                           count);
    tensors->slots = shoali_alloc_array(floats, sizeof(float));
    tensors->refused = shoali_alloc(sizeof *tensors->refused);
    return tensors->slots != NULL && tensors->refused != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

void shoali_tensors_fini(shoali_tensors *tensors)
{
    shoali_free(tensors->slots);
    shoali_free(tensors->refused);
    *tensors = (shoali_tensors){0};
}

float *shoali_tensor_memory(const shoali_tensors *tensors, uint32_t tensor, size_t offset,
                            size_t count)
{
    float *base = NULL;
    if (tensor == SHOALI_GRAD)
        base = tensors->grads;
    else if (tensor == SHOALI_PARAM)
        base = tensors->params;
    else if (tensor >= SHOALI_SLOT && tensor - SHOALI_SLOT < tensors->slot_count)
        base = tensors->slots + (size_t)(tensor - SHOALI_SLOT) * tensors->count;
    if (base == NULL || offset > tensors->count || count > tensors->count - offset) {
        (void)shoali_fail(SHOAL_EINTERNAL,
                          "a protocol named elements [%zu, +%zu) of tensor %u, which is not there",
                          offset, count, tensor);
        return NULL;
    }
    return base + offset;
}

static void set(float *dst, const float *src, float weight, size_t count)
{
    if (src != dst)
        shoali_kernel()->copy(dst, src, count);
    if (weight != 1)
        shoali_kernel()->scale(dst, weight, count);
}

shoal_status shoali_tensors_mix(const shoali_tensors *tensors, const shoali_action *mix)
{
    if (mix->mix.judged)
        return shoali_trusted_sum(tensors, mix);
    uint32_t count = mix->mix.term_count, first = 0;
    const shoali_mix_term *terms = mix->mix.terms;
    size_t offset = mix->mix.offset, elems = mix->mix.count;
    float *dst = shoali_tensor_memory(tensors, mix->mix.dst, offset, elems);
    if (dst == NULL)
        return SHOAL_EINTERNAL;
    if (count == 0) {
        memset(dst, 0, elems * sizeof *dst);
        return SHOAL_OK;
    }
    for (uint32_t i = 0; i < count; i++)
        first = terms[i].tensor == mix->mix.dst ? i : first;
    for (uint32_t i = 0; i < count; i++)
        if (shoali_tensor_memory(tensors, terms[i].tensor, offset, elems) == NULL)
            return SHOAL_EINTERNAL;
    set(dst, shoali_tensor_memory(tensors, terms[first].tensor, offset, elems), terms[first].weight,
        elems);
    for (uint32_t i = 0; i < count; i++)
        if (i != first)
            shoali_kernel()->axpy(dst, terms[i].weight,
                                  shoali_tensor_memory(tensors, terms[i].tensor, offset, elems),
                                  elems);
    return SHOAL_OK;
}
