/* SPDX-License-Identifier: Apache-2.0 */
/* What activations do between two layers of a plan: docs/architecture.md 4h.
 *
 * 2^H workers; bit H - h of a worker's number says on which side of cut h it is. A layer is divided
 * by data at some cuts and by model at the others: it has the samples of those ranks' shares that
 * agree with this worker's number at the cuts by data, and those of its input channels that agree
 * at the cuts by model. At a border, `from` are the cuts by model of the layer before (its output
 * is a partial sum there, for all its channels), `to` those of the layer behind:
 *
 *   cut in from      reduce-scatter among the 2^|from| workers that differ there: the sum, divided
 *                    by samples where the next layer is by data, by channels where by model
 *   cut in to only   pairs of workers change halves: samples of both, channels of one
 *
 *   2 workers, from = {}, to = {1}:   0: samples 0, channels a b  ->  0: samples 0 1, channels a
 *                                     1: samples 1, channels a b  ->  1: samples 0 1, channels b
 *
 * The gradient goes back the same way: pairs change halves, then an all-gather. */
#ifndef SHOALI_WORKER_EXCHANGE_H
#define SHOALI_WORKER_EXCHANGE_H

#include "base/arena.h"
#include "shoal/shoal.h"

/** Sums over the operations of a step. */
typedef struct shoali_traffic {
    uint64_t sent_elems, sent_bytes, received_bytes, encode_ns, decode_ns;
    uint64_t comm_us, wait_us; /* operations' own durations; how long this thread waited for them */
} shoali_traffic;

typedef struct shoali_border {
    shoal_comm *comm;
    shoali_traffic *traffic;
    const char *label;
    uint32_t workers, me; /* workers: 2^H */
    uint32_t from, to;    /* bits of worker numbers */
    uint32_t share;       /* samples of one worker's share of the batch */
    size_t features;      /* per sample, of all channels: a multiple of 2^|to| */
    bool silent;          /* move nothing: computation is being timed */
    /* Work memory, shared by all borders: float32[share * features << |from|] and float32[share *
     * features]. */
    float *pack, *swap, *turn[2];
} shoali_border;

/** Nothing to do: the output of the layer before is the input of the next. */
bool shoali_border_is_open(const shoali_border *border);

/** y: float32[share << |from|][features], partial where from is not empty; x_out:
 * float32[share << |to|][features >> |to|]. */
SHOAL_MUST_USE shoal_status shoali_border_forward(const shoali_border *border, const float *y,
                                                  float *x_out);
/** The gradients of the same: dx to dy_out. */
SHOAL_MUST_USE shoal_status shoali_border_backward(const shoali_border *border, const float *dx,
                                                   float *dy_out);

/** Add one finished operation's cost. */
void shoali_traffic_add(shoali_traffic *traffic, const shoal_op_stats *stats, uint64_t waited_us);

#endif
