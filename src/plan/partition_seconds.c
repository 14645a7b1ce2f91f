/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds of a step, one worker and its link followed through the layers:
 *
 *     forward    each layer's third of the time; then its border, for which everybody waits
 *     backward   each layer's two thirds; its gradient then queues for the link behind what is
 *                there; the border waits for the link, and computation for the border
 *
 * The step ends when both are done. Work is divided among layers by their FLOPs. */
#include <math.h>

#include "plan/partition.h"

typedef struct clocks {
    double now;  /* of the computation */
    double link; /* when all that was sent so far has arrived */
} clocks;

static double moved(const shoal_partition_pace *pace, double elements, double rounds)
{
    return elements > 0 ? 4 * elements / pace->bytes_per_s + rounds * pace->latency_s : 0;
}

/* One direction of the border behind layer l, of one worker: a share of the reduce-scatter, and
 * half of what it holds for each cut where only the next layer is by model. */
static double border(const shoal_partition *p, const shoal_partition_pace *pace, uint32_t l)
{
    uint32_t mask = p->layers[l].mask, next = l + 1 < p->layer_count ? p->layers[l + 1].mask : 0;
    double members = (double)(1u << __builtin_popcount(mask));
    double swaps = (double)__builtin_popcount(next & ~mask);
    uint64_t outputs = mask != 0 ? p->layers[l].unpooled : p->layers[l].outputs;
    double share = (double)p->batch * (double)outputs / (double)(1u << p->levels);
    return moved(pace, share * (members - 1), 1) + moved(pace, share / 2 * swaps, swaps);
}

/* A ring among those with the same part of the weights. */
static double gradient(const shoal_partition *p, const shoal_partition_pace *pace, uint32_t l)
{
    const shoali_part_layer *layer = &p->layers[l];
    uint32_t m = (uint32_t)__builtin_popcount(layer->mask);
    double members = (double)(1u << (p->levels - m));
    double elements = (double)layer->weights / (double)(1u << m) + (double)layer->biases;
    return moved(pace, 2 * (members - 1) / members * elements, 2 * (members - 1));
}

static void wait_for_link(clocks *c, double seconds)
{
    c->now = c->link = fmax(c->now, c->link) + seconds;
}

double shoal_partition_seconds(const shoal_partition *p, const shoal_partition_pace *pace)
{
    if (p == NULL || pace == NULL || pace->size != sizeof *pace)
        return (double)NAN;
    double all = 0;
    clocks c = {0, 0};
    for (uint32_t l = 0; l < p->layer_count; l++)
        all += p->layers[l].flops;
    for (uint32_t l = 0; l < p->layer_count; l++) {
        c.now += pace->compute_s / 3 * p->layers[l].flops / all;
        wait_for_link(&c, border(p, pace, l));
    }
    for (uint32_t l = p->layer_count; l-- > 0;) {
        double back = border(p, pace, l);
        if (back > 0)
            wait_for_link(&c, back);
        c.now += pace->compute_s * 2 / 3 * p->layers[l].flops / all;
        c.link = fmax(c.link, c.now) + gradient(p, pace, l);
    }
    return fmax(c.now, c.link) + pace->rest_s;
}
