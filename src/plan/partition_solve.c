/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to a plan. Greedy is the paper's algorithms 1 and 2, in whole numbers times 2^H so that ties
 * are ties; the optimum needs only the number of model-parallel levels of each layer, because the
 * total does not change when levels are permuted, and nested sets of levels enter each other as
 * cheaply as can be. On equality data parallelism is preferred, everywhere. */
#include <string.h>

#include "base/error.h"
#include "plan/partition.h"

enum { EXHAUSTIVE_BITS = 20 };

/* ---------------------------------------------------------------- greedy */

/* Algorithm 1 at one level: two states per layer. from[l] bit 0: the best way to l data parallel
 * came from a model-parallel l - 1; bit 1: the same for l model parallel. */
static void solve_level(shoal_partition *p, uint32_t level, uint8_t *from)
{
    uint32_t before = (1u << (level - 1)) - 1, h = p->levels;
    uint64_t best_dp = 0, best_mp = 0;
    for (uint32_t l = 0; l < p->layer_count; l++) {
        const shoali_part_layer *layer = &p->layers[l];
        uint32_t m = (uint32_t)__builtin_popcount(layer->mask & before), d = level - 1 - m;
        uint32_t last = l > 0 ? (uint32_t)__builtin_popcount(layer[-1].mask & before) : 0;
        uint64_t outputs = l > 0 ? shoali_partition_moved(p, l - 1, last) : 0;
        uint64_t border = (p->batch * outputs) << (h - level + 1);
        uint64_t leave = p->mode == SHOAL_PARTITION_TABLE2 ? border : 0;
        uint64_t biases = p->mode == SHOAL_PARTITION_EXECUTED ? 2 * layer->biases << h : 0;
        bool dp_from_mp = l > 0 && best_mp + leave < best_dp;
        bool mp_from_mp = l > 0 && best_mp + leave < best_dp + border;
        uint64_t to_dp = dp_from_mp ? best_mp + leave : best_dp;
        uint64_t to_mp = mp_from_mp ? best_mp + leave : best_dp + border;
        best_dp = to_dp + (2 * layer->weights << (h - m)) + biases;
        best_mp = to_mp + ((2 * p->batch * shoali_partition_moved(p, l, m + 1)) << (h - d));
        from[l] = (uint8_t)((dp_from_mp ? 1 : 0) | (mp_from_mp ? 2 : 0));
    }
    bool mp = best_mp < best_dp;
    for (uint32_t l = p->layer_count; l-- > 0;) {
        if (mp)
            p->layers[l].mask |= 1u << (level - 1);
        mp = (from[l] & (mp ? 2 : 1)) != 0;
    }
}

static shoal_status solve_greedy(shoal_partition *p)
{
    uint8_t *from = shoali_arena_alloc(p->arena, p->layer_count);
    if (from == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t level = 1; level <= p->levels; level++)
        solve_level(p, level, from);
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- optimum */

/* The last `count` of the levels: what model parallelism adds then travels between near ones. */
static uint32_t nested(const shoal_partition *p, uint32_t count)
{
    return ((1u << count) - 1) << (p->levels - count);
}

#define NEVER (UINT64_C(1) << 62) /* more than any plan: shoali_partition_chain has checked */

/* best[m]: the cheapest way to the layer at hand with m model-parallel levels; from[l][m]: the
 * number of the layer before on that way. */
static shoal_status solve_optimum(shoal_partition *p)
{
    enum { STATES = SHOAL_PARTITION_LEVELS_MAX + 1 };
    uint64_t best[STATES], next[STATES];
    uint8_t(*from)[STATES] = shoali_arena_array(p->arena, p->layer_count, sizeof *from);
    if (from == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t m = 0; m <= p->levels; m++)
        best[m] = shoali_partition_divides(p, 0, 0, m) ? shoali_partition_alone(p, 0, m) : NEVER;
    for (uint32_t l = 1; l < p->layer_count; l++) {
        for (uint32_t m = 0; m <= p->levels; m++) {
            next[m] = NEVER;
            for (uint32_t k = 0; k <= p->levels; k++) {
                uint64_t border = m > k ? p->batch * shoali_partition_moved(p, l - 1, k) : 0;
                uint64_t cost = best[k] + border * (m > k ? m - k : 0);
                if (cost < next[m] && shoali_partition_divides(p, l, k, m)) {
                    next[m] = cost;
                    from[l][m] = (uint8_t)k;
                }
            }
            if (next[m] < NEVER)
                next[m] += shoali_partition_alone(p, l, m);
        }
        memcpy(best, next, sizeof best);
    }
    uint32_t m = 0;
    for (uint32_t k = 1; k <= p->levels; k++)
        m = best[k] < best[m] ? k : m;
    for (uint32_t l = p->layer_count; l-- > 0; m = from[l][m])
        p->layers[l].mask = nested(p, m);
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- the others */

static void set_masks(shoal_partition *p, uint32_t plan)
{
    for (uint32_t l = 0; l < p->layer_count; l++)
        p->layers[l].mask = plan >> (l * p->levels) & nested(p, p->levels);
}

static bool all_divide(const shoal_partition *p)
{
    for (uint32_t l = 0; l < p->layer_count; l++) {
        uint32_t before = l > 0 ? (uint32_t)__builtin_popcount(p->layers[l - 1].mask) : 0;
        uint32_t count = (uint32_t)__builtin_popcount(p->layers[l].mask);
        if (!shoali_partition_divides(p, l, before, count))
            return false;
    }
    return true;
}

static shoal_status solve_exhaustive(shoal_partition *p)
{
    if (p->levels * p->layer_count > EXHAUSTIVE_BITS)
        return shoali_fail(SHOAL_EINVAL,
                           "%u layers at %u levels have 2^%u plans; at most 2^%d are "
                           "tried",
                           p->layer_count, p->levels, p->layer_count * p->levels, EXHAUSTIVE_BITS);
    uint32_t plans = 1u << (p->levels * p->layer_count), chosen = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t plan = 0; plan < plans; plan++) {
        set_masks(p, plan);
        uint64_t elements = shoali_partition_elements(p);
        if (elements < least && all_divide(p)) {
            least = elements;
            chosen = plan;
        }
    }
    set_masks(p, chosen);
    return SHOAL_OK;
}

static void solve_alike(shoal_partition *p)
{
    uint32_t all = nested(p, p->levels);
    for (uint32_t l = 0; l < p->layer_count; l++) {
        bool mp = p->method == SHOAL_PARTITION_MODEL ||
                  (p->method == SHOAL_PARTITION_OWT && !p->layers[l].spatial);
        p->layers[l].mask = mp ? all : 0;
    }
}

/* "0011/0010": a row per level, a digit per layer. */
static shoal_status read_given(shoal_partition *p, const char *given)
{
    const char *at = given;
    for (uint32_t level = 1; level <= p->levels; level++) {
        for (uint32_t l = 0; l < p->layer_count; l++, at++) {
            if (*at != '0' && *at != '1')
                return shoali_fail(SHOAL_EINVAL,
                                   "plan \"%.64s\": level %u must have a 0 or 1 for each of the %u "
                                   "layers with weights",
                                   given, level, p->layer_count);
            p->layers[l].mask |= (uint32_t)(*at - '0') << (level - 1);
        }
        if (*at++ != (level == p->levels ? '\0' : '/'))
            return shoali_fail(SHOAL_EINVAL,
                               "plan \"%.64s\": %u levels of %u digits, with a '/' between them",
                               given, p->levels, p->layer_count);
    }
    return SHOAL_OK;
}

shoal_status shoali_partition_solve(shoal_partition *p, const char *given)
{
    switch (p->method) {
    case SHOAL_PARTITION_OPTIMUM:
        return solve_optimum(p);
    case SHOAL_PARTITION_GREEDY:
        return solve_greedy(p);
    case SHOAL_PARTITION_EXHAUSTIVE:
        return solve_exhaustive(p);
    case SHOAL_PARTITION_GIVEN:
        return given != NULL ? read_given(p, given)
                             : shoali_fail(SHOAL_EINVAL, "method given needs the plan's rows");
    case SHOAL_PARTITION_DATA:
    case SHOAL_PARTITION_MODEL:
    case SHOAL_PARTITION_OWT:
    default:
        solve_alike(p);
        return SHOAL_OK;
    }
}
