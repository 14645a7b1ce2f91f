/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronisation protocols: which operations exist, among whom, and when. Three calls around a training step:
 *
 *     for every step:  backward pass, calling shoal_sync_ready as gradient ranges become final
 *                      shoal_sync_before_update -> verdict; if (verdict.apply) optimiser step with grad_scale
 *                      shoal_sync_after_update  -> next verdict (stop?)
 */
#ifndef SHOAL_SYNC_H
#define SHOAL_SYNC_H

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_sync shoal_sync;

typedef enum shoal_nonfinite { SHOAL_NONFINITE_STOP, SHOAL_NONFINITE_SKIP } shoal_nonfinite;

typedef struct shoal_sync_desc {
    size_t size;
    const char *sync;            /* spec ["all_reduce"] */
    const char *collective;      /* spec ["ring"] */
    const char *codec;           /* spec ["identity"] */
    float *params, *grads;       /* float32[count] each, borrowed until destroy */
    size_t count;
    const shoal_tensor *tensors; /* copied; whole parameters, in the order of the arena */
    uint32_t tensor_count;
    size_t bucket_bytes;         /* [4 MiB] gradients of about this size travel as one operation; SIZE_MAX: the model */
    shoal_nonfinite nonfinite;
    uint64_t iteration;          /* first iteration (resume) */
    uint8_t tos;
} shoal_sync_desc;
#define SHOAL_SYNC_DESC_INIT \
    {sizeof(shoal_sync_desc), NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, 0, SHOAL_NONFINITE_STOP, 0, 0}

/** What to do now. */
typedef struct shoal_verdict {
    bool apply;         /* run the optimiser on grads, multiplied by grad_scale */
    bool stop;          /* the protocol ends here (peers stopped, or a failure was agreed on) */
    bool skipped;       /* a value was not finite and nonfinite = SKIP: no update this step, on any rank */
    float grad_scale;
    uint64_t iteration; /* of the step that this verdict is about */
} shoal_verdict;

/** Time and traffic of the last finished step, and its totals are the caller's. */
typedef struct shoal_sync_stats {
    size_t size;
    uint64_t wait_us;            /* spent inside before_update and after_update */
    uint64_t comm_us;            /* from the first operation's start to the last one's end */
    uint64_t encode_ns, decode_ns;
    uint64_t sent_payload_bytes, received_payload_bytes;
    uint64_t sent_elems, received_elems; /* 4 x these = what float32 would have sent */
    uint32_t operations;
} shoal_sync_stats;

SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_create(shoal_comm *comm, const shoal_sync_desc *desc,
                                                        shoal_sync **sync_out);
/** Ends the protocol politely. NULL is allowed. */
SHOAL_API void shoal_sync_destroy(shoal_sync *sync);

/** Gradient range [offset, offset + count) is final for this step; never blocks. Ranges come back to front, whole tensors. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_ready(shoal_sync *sync, size_t offset, size_t count);
/** All ranges are ready: wait for what the protocol needs before the update. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_before_update(shoal_sync *sync, shoal_verdict *verdict_out);
/** The update is done (or skipped): wait until the next iteration may start. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_after_update(shoal_sync *sync, shoal_verdict *next_out);
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_last_stats(shoal_sync *sync, shoal_sync_stats *stats_out);

/** A dedicated server's whole life (rank >= workers): serves until the workers stop. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_serve(shoal_sync *sync);

#ifdef __cplusplus
}
#endif
#endif
