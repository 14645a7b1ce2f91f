/* SPDX-License-Identifier: Apache-2.0 */
/* Where blocks lie, how a body is laid out, and their form as the flow sees it. */
#include "collective/omni_form.h"

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
    *out = (shoali_omni_layout){.form = &shoali_omni_blocks,
                                .count = count,
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
    const uint32_t first = l->form == &shoali_omni_pairs ? slot : slot * l->fusion;
    return (l->blocks - first - 1) / l->columns + 1;
}

uint64_t shoali_omni_share(const shoali_omni_layout *l, uint32_t aggregator)
{
    const uint32_t columns = l->blocks < l->columns ? l->blocks : l->columns,
                   width = l->form == &shoali_omni_pairs ? 1 : l->fusion;
    uint64_t blocks = 0, padding = 0;
    for (uint32_t c = 0; c < columns; c++) {
        if (c / width % l->aggregators != aggregator)
            continue;
        blocks += (l->blocks - c - 1) / l->columns + 1;
        if ((l->blocks - 1) % l->columns == c)
            padding = (uint64_t)l->blocks * l->block - l->count;
    }
    return blocks * l->block - padding;
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

/* ------------------------------------------------------------------ form */

static uint32_t reply_most(const shoali_omni_layout *l, uint32_t k)
{
    (void)l;
    return k;
}

static uint32_t result_units(const shoali_omni_layout *l, uint32_t slot, size_t bytes)
{
    const size_t one = shoali_omni_result_bytes(l, 1);
    if (bytes < one || bytes % one != 0 || bytes / one > shoali_omni_width(l, slot))
        return SHOALI_OMNI_NONE;
    return (uint32_t)(bytes / one);
}

static uint32_t owed_units(const shoali_omni_aggregator *a, uint32_t slot, uint32_t worker,
                           size_t bytes)
{
    const uint32_t owed = shoali_omni_aggregator_owed(a, slot, worker);
    return owed > 0 && bytes == shoali_omni_contribution_bytes(a->l, owed) ? owed
                                                                           : SHOALI_OMNI_NONE;
}

static bool owes(const shoali_omni_aggregator *a, uint32_t slot, uint32_t worker)
{
    return shoali_omni_aggregator_owed(a, slot, worker) > 0;
}

static uint32_t longest(const shoali_omni_layout *l)
{
    return l->fusion;
}

const shoali_omni_form shoali_omni_blocks = {
    .contribution_bytes = shoali_omni_contribution_bytes,
    .result_bytes = shoali_omni_result_bytes,
    .first_most = shoali_omni_width,
    .reply_most = reply_most,
    .result_units = result_units,
    .owed_units = owed_units,
    .first = shoali_omni_worker_first,
    .result = shoali_omni_worker_result,
    .owes = owes,
    .take = shoali_omni_aggregator_take,
    .give_back = shoali_omni_aggregator_give_back,
    .sum_most = shoali_omni_aggregator_blocks,
    .sum = shoali_omni_aggregator_sum,
    .longest = longest,
};
