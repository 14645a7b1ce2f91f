/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan moves. With M the levels at which layer l is model parallel, D = H - M the others, X
 * those at which l is data parallel and l + 1 is not, B the batch, F the outputs per sample:
 *
 *     N = sum over l of 2 W (2^D - 1) + 2 B F (2^M - 1)  +  sum over l but the last of B F X
 *
 * and table 2 adds B F M for each but the last. It is the same sum as the published recursion,
 * which shoali_partition_level_scaled is. An execution moves biases, too (2 b 2^M (2^D - 1)), and
 * where M > 0 a layer's own outputs, before its pool: F is a function of M > 0 then. */
#include "plan/partition.h"

static uint32_t bits(uint32_t mask)
{
    return (uint32_t)__builtin_popcount(mask);
}

/* Sums have to be complete before a pool or an activation may see them. */
static uint64_t executed_outputs(const shoali_part_layer *layer, uint32_t count)
{
    return count > 0 ? layer->unpooled : layer->outputs;
}

/* Every one of the 2^M members of a group with the same samples has all biases, and sums their
 * gradients with those that have its other samples. */
static uint64_t biases_moved(const shoal_partition *p, uint32_t l, uint32_t count)
{
    return 2 * p->layers[l].biases * ((UINT64_C(1) << p->levels) - (UINT64_C(1) << count));
}

uint64_t shoali_partition_moved(const shoal_partition *p, uint32_t l, uint32_t count)
{
    return p->mode == SHOAL_PARTITION_EXECUTED ? executed_outputs(&p->layers[l], count)
                                               : p->layers[l].outputs;
}

static uint64_t batch_outputs(const shoal_partition *p, uint32_t l)
{
    return p->batch * shoali_partition_moved(p, l, bits(p->layers[l].mask));
}

uint64_t shoali_partition_alone(const shoal_partition *p, uint32_t l, uint32_t count)
{
    uint64_t moved = p->batch * shoali_partition_moved(p, l, count);
    uint64_t sums = 2 * p->layers[l].weights * ((UINT64_C(1) << (p->levels - count)) - 1) +
                    2 * moved * ((UINT64_C(1) << count) - 1);
    bool leaves = p->mode == SHOAL_PARTITION_TABLE2 && l + 1 < p->layer_count;
    if (p->mode == SHOAL_PARTITION_EXECUTED)
        sums += biases_moved(p, l, count);
    return sums + (leaves ? moved * count : 0);
}

uint64_t shoali_partition_elements(const shoal_partition *p)
{
    uint64_t sum = 0;
    for (uint32_t l = 0; l < p->layer_count; l++) {
        sum += shoali_partition_alone(p, l, bits(p->layers[l].mask));
        if (l + 1 < p->layer_count)
            sum += batch_outputs(p, l) * bits(~p->layers[l].mask & p->layers[l + 1].mask);
    }
    return sum;
}

uint64_t shoali_partition_bias_elements(const shoal_partition *p)
{
    uint64_t sum = 0;
    for (uint32_t l = 0; l < p->layer_count; l++)
        sum += biases_moved(p, l, bits(p->layers[l].mask));
    return sum;
}

uint64_t shoali_partition_executed(const shoal_partition *p)
{
    shoal_partition executed = *p;
    executed.mode = SHOAL_PARTITION_EXECUTED;
    return shoali_partition_elements(&executed);
}

/* Algorithm 1's sum for the types chosen at this level, on what the levels before have left: W is
 * halved by model parallelism, B F by data parallelism, and at a border by either. Biases are
 * halved by nothing, and each member that further levels of model parallelism make sums its own. */
uint64_t shoali_partition_level_scaled(const shoal_partition *p, uint32_t level)
{
    uint32_t before = (1u << (level - 1)) - 1, here = 1u << (level - 1), h = p->levels;
    uint64_t sum = 0;
    for (uint32_t l = 0; l < p->layer_count; l++) {
        uint32_t m = bits(p->layers[l].mask & before), d = level - 1 - m;
        bool mp = (p->layers[l].mask & here) != 0;
        sum += mp ? 2 * batch_outputs(p, l) << (h - d) : 2 * p->layers[l].weights << (h - m);
        if (p->mode == SHOAL_PARTITION_EXECUTED && !mp)
            sum += 2 * p->layers[l].biases << (h + bits(p->layers[l].mask) - m);
        if (l + 1 == p->layer_count)
            continue;
        bool enters = !mp && (p->layers[l + 1].mask & here) != 0;
        bool leaves = mp && p->mode == SHOAL_PARTITION_TABLE2;
        sum += enters || leaves ? batch_outputs(p, l) << (h - level + 1) : 0;
    }
    return sum;
}
