/* SPDX-License-Identifier: Apache-2.0 */
/* Where blocks lie and how a body is laid out. */
#include "collective/omni.h"

#include "base/error.h"
#include "wire/bytes.h"

shoal_status shoali_omni_lay_out(size_t count, uint32_t block, uint32_t fusion, uint32_t slots,
                                 uint32_t workers, uint32_t aggregators, shoali_omni_layout *out)
{
    const uint64_t columns = (uint64_t)fusion * slots * aggregators;
    const uint64_t blocks = count / block + (count % block != 0 ? 1 : 0);
    if (columns > 1u << 24 || blocks > (UINT32_MAX / columns - 1) * columns)
        return shoali_fail(SHOAL_EINVAL,
                           "omnireduce: %zu elements in blocks of %u and %llu columns are more "
                           "blocks than 32 bits can number",
                           count, block, (unsigned long long)columns);
    const uint64_t first_row = blocks < columns ? blocks : columns;
    *out = (shoali_omni_layout){.count = count,
                                .block = block,
                                .fusion = fusion,
                                .columns = (uint32_t)columns,
                                .blocks = (uint32_t)blocks,
                                .slots = (uint32_t)((first_row + fusion - 1) / fusion),
                                .workers = workers,
                                .aggregators = aggregators};
    return SHOAL_OK;
}

uint32_t shoali_omni_width(const shoali_omni_layout *l, uint32_t slot)
{
    const uint32_t left = l->blocks - slot * l->fusion;
    return left < l->fusion ? left : l->fusion;
}

uint32_t shoali_omni_rows(const shoali_omni_layout *l, uint32_t slot)
{
    return (l->blocks - slot * l->fusion - 1) / l->columns + 1;
}

uint32_t shoali_omni_end(const shoali_omni_layout *l, uint32_t column)
{
    return (UINT32_MAX / l->columns - 1) * l->columns + column;
}

size_t shoali_omni_contribution_bytes(const shoali_omni_layout *l, uint32_t blocks)
{
    return (size_t)blocks * (l->block + 1) * sizeof(float);
}

size_t shoali_omni_result_bytes(const shoali_omni_layout *l, uint32_t blocks)
{
    return (size_t)blocks * (l->block + 2) * sizeof(float);
}

static size_t word_at(const shoali_omni_layout *l, uint32_t k, uint32_t i)
{
    return ((size_t)k * l->block + i) * sizeof(uint32_t);
}

uint32_t shoali_omni_word(const shoali_omni_layout *l, const uint8_t *body, uint32_t k, uint32_t i)
{
    return shoali_get_u32(body + word_at(l, k, i));
}

void shoali_omni_set_word(const shoali_omni_layout *l, uint8_t *body, uint32_t k, uint32_t i,
                          uint32_t value)
{
    shoali_put_u32(body + word_at(l, k, i), value);
}

bool shoali_omni_follows(const shoali_omni_layout *l, uint32_t slot, uint32_t before, uint32_t b)
{
    const uint32_t column = b % l->columns;
    return column == before % l->columns && column / l->fusion == slot && b > before &&
           (b < l->blocks || b == shoali_omni_end(l, column));
}
