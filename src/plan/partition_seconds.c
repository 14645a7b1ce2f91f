/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds of a step, one worker and its link followed through the layers:
 *
 *     forward    each layer's computation; then its border, for which everybody waits
 *     backward   each layer's computation; its gradient then queues for the link behind what is
 *                there; the border waits for the link, and computation for the border
 *
 * The step ends when both are done. */
#include <math.h>

#include "plan/partition.h"

typedef struct clocks {
    double now;  /* of the computation */
    double link; /* when all that was sent so far has arrived */
    shoali_partition_seconds out;
} clocks;

static double moved(clocks *c, const shoali_partition_pace *pace, double elements, double rounds)
{
    c->out.sent_bytes += 4 * elements;
    return elements > 0 ? 4 * elements / pace->bytes_per_s + rounds * pace->latency_s : 0;
}

/* One direction of the border behind layer l, of one worker: a share of the reduce-scatter, and
 * half of what it holds for each cut where only the next layer is by model. */
static void cross_border(clocks *c, const shoal_partition *p, const shoali_partition_pace *pace,
                         uint32_t l)
{
    uint32_t mask = p->layers[l].mask, next = l + 1 < p->layer_count ? p->layers[l + 1].mask : 0;
    double members = (double)(1u << __builtin_popcount(mask));
    double swaps = (double)__builtin_popcount(next & ~mask);
    uint64_t outputs = mask != 0 ? p->layers[l].unpooled : p->layers[l].outputs;
    double share = (double)p->batch * (double)outputs / (double)(1u << p->levels);
    double seconds = moved(c, pace, share * (members - 1), 1) +
                     moved(c, pace, share / 2 * swaps, swaps);
    if (seconds <= 0)
        return;
    double end = fmax(c->now, c->link) + seconds;
    c->out.borders_s += end - c->now;
    c->now = c->link = end;
}

/* A ring among those with the same part of the weights. */
static void send_gradient(clocks *c, const shoal_partition *p, const shoali_partition_pace *pace,
                          uint32_t l)
{
    const shoali_part_layer *layer = &p->layers[l];
    uint32_t m = (uint32_t)__builtin_popcount(layer->mask);
    double members = (double)(1u << (p->levels - m));
    double elements = 2 * (members - 1) / members *
                      ((double)layer->weights / (double)(1u << m) + (double)layer->biases);
    double seconds = moved(c, pace, elements, 2 * (members - 1));
    c->out.gradient_bytes += 4 * elements;
    c->out.hidden_s += seconds;
    c->link = fmax(c->link, c->now) + seconds;
}

shoali_partition_seconds shoali_partition_time_step(const shoal_partition *p,
                                                    const shoali_partition_pace *pace)
{
    clocks c = {0};
    for (uint32_t l = 0; l < p->layer_count; l++) {
        c.now += pace->forward_s[l];
        c.out.compute_s += pace->forward_s[l] + pace->backward_s[l];
        cross_border(&c, p, pace, l);
    }
    for (uint32_t l = p->layer_count; l-- > 0;) {
        cross_border(&c, p, pace, l);
        c.now += pace->backward_s[l];
        send_gradient(&c, p, pace, l);
    }
    c.out.exposed_s = fmax(0, c.link - c.now);
    c.out.hidden_s = fmax(0, c.out.hidden_s - c.out.exposed_s);
    return c.out;
}
