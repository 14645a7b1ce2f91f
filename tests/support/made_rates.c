/* SPDX-License-Identifier: Apache-2.0 */
#include "support/made_rates.h"

#include "base/rng.h"
#include "support/check.h"

static uint32_t drawn;
static shoali_rates kept[MADE_RATES_MAX + 1];
static uint32_t percents[MADE_RATES_MAX + 1][MADE_RATES_MAX];
static uint32_t orders[MADE_RATES_MAX + 1][MADE_RATES_MAX];

void made_rates_draw(uint32_t draw)
{
    drawn = draw;
    memset(kept, 0, sizeof kept);
}

static void make(uint32_t size, shoali_rates *rates_out)
{
    enum { SLOW = 4, RACKS = 3 };
    uint64_t seed = check_seed() + drawn;
    float to[MADE_RATES_MAX * MADE_RATES_MAX], link[MADE_RATES_MAX];
    uint32_t place[MADE_RATES_MAX], rack[MADE_RATES_MAX];
    for (uint32_t i = 0; i < size; i++) {
        place[i] = i;
        rack[i] = (uint32_t)shoali_rng_below(seed, 2 * size, i, RACKS);
        link[i] = 1e8f / (float)(1 + shoali_rng_below(seed, 2 * size + 1, i, SLOW));
    }
    for (uint32_t k = 1; k < size; k++)
        for (uint32_t i = 0; i < size; i++) {
            uint32_t j = (i + k) % size;
            float rate = link[i] < link[j] ? link[i] : link[j];
            to[(k - 1) * size + i] = rack[i] == rack[j] ? rate : rate / 2;
        }
    shoal_arena *arena = shoali_arena_create(1024);
    shoali_rates rates;
    assert_non_null(arena);
    assert_ok(shoali_rates_judge(to, size - 1, size, place, arena, &rates));
    memcpy(percents[size], rates.percent, size * sizeof(uint32_t));
    memcpy(orders[size], rates.order, size * sizeof(uint32_t));
    shoali_arena_destroy(arena);
    *rates_out = (shoali_rates){size, percents[size], orders[size]};
}

const shoali_rates *made_rates(uint32_t size)
{
    if (size == 0 || size > MADE_RATES_MAX)
        return NULL;
    if (kept[size].size == 0)
        make(size, &kept[size]);
    return &kept[size];
}
