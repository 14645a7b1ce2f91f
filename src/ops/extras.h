/* SPDX-License-Identifier: Apache-2.0 */
/* What internal callers may ask of an operation beyond shoal_op_desc. */
#ifndef SHOALI_OPS_EXTRAS_H
#define SHOALI_OPS_EXTRAS_H

#include "shoal/shoal.h"

/** Extras of an operation that only internal callers may ask for. */
typedef struct shoali_op_extras {
    /** OWN's owner job: the block's sum in, weights out, in place; runs on the work thread. */
    shoal_status (*owner)(void *ctx, float *sum_in_weights_out, size_t offset, size_t count);
    void *owner_ctx;
    const float *weights; /* with owner: what to keep where the sum is not finite; flow.h */
    /** Called on the owner's thread when the operation completes; then it never shows up in
     * next_done, and is freed. */
    void (*on_done)(void *ctx, shoal_status status, const shoal_error *error,
                    const shoal_op_stats *stats);
    void *done_ctx;
    /** Both true for public operations. error_feedback: keep residuals by tensor key, if the codec
     * has `ef`. */
    bool check_finite, error_feedback;
    /** What comes back are not gradients: not by connections with the operation's ToS. */
    bool unmarked_pull;
    /** Nobody waits for it sooner: what it sends may be spread over so long from its start
     * on, where it becomes that moment. 0: as fast as it can. */
    uint64_t pace_us;
    /** Whoever starts it waits for it, at once: it never shows up in next_done, where another
     * thread would take it away. */
    bool own_wait;
    /** A codec outside of the table for push and pull (tests); push_codec is its spec. NULL:
     * none. */
    const struct shoali_codec_row *codec_row;
} shoali_op_extras;

#endif
