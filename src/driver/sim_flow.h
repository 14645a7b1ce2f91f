/* SPDX-License-Identifier: Apache-2.0 */
/* One operation with real numbers, all its members in this process: the flow that a comm would run,
 * frames handed over at once. Same code, same chunks, same codecs, so the same bits as on a
 * network. */
#ifndef SHOALI_DRIVER_SIM_FLOW_H
#define SHOALI_DRIVER_SIM_FLOW_H

#include "collective/flow.h"

typedef struct shoali_sim_flow {
    /** What all members share. me, buf, residuals, shared, weights and now_ns are filled in per
     * member. */
    shoali_flow_args args;
    float *const *bufs;             /* [size] */
    float *const *const *residuals; /* [size], each per tensor; NULL: no error feedback */
    void *ctx;
    /** Push codecs with the trait TRANSFORM: a member's state for this table of tensors, zero at
     * first, `bytes` long; it lives from operation to operation. NULL: ENOMEM. */
    void *(*transform)(void *ctx, uint32_t member, size_t bytes);
    /** The owner job of member at the operation's elements [offset, +count); NULL without
     * owner_job. */
    shoal_status (*owner)(void *ctx, uint32_t member, float *sum_in_weights_out, size_t offset,
                          size_t count);
    /** With owner_job: weights of member at the operation's first element; flow.h. */
    const float *(*weights)(void *ctx, uint32_t member);
    /** Coded bytes that went from one member to another. */
    void (*carried)(void *ctx, uint32_t from, uint32_t to, uint64_t bytes);
    uint64_t *dense_elems_out; /* flow.h, of all members together; NULL: nobody asks */
} shoali_sim_flow;

/**
 * Run it to its end. Sums of a transform are made round by round, as ops/rounds.c does; if one is
 * not finite, the members' states begin anew.
 * @param result_out what every member's operation ended with: OK or ENOTFINITE.
 * @param origin_out with ENOTFINITE: the first NaN or infinity, as all members know it.
 * @return SHOAL_OK | ENOTSUP (a transform, and nobody keeps its state) | why it could not run
 */
SHOAL_MUST_USE shoal_status shoali_sim_flow_run(const shoali_sim_flow *flow,
                                                shoal_status *result_out,
                                                shoali_not_finite *origin_out);

/** The same without a transform: one flow. */
SHOAL_MUST_USE shoal_status shoali_sim_flow_once(const shoali_sim_flow *flow,
                                                 shoal_status *result_out,
                                                 shoali_not_finite *origin_out);

#endif
