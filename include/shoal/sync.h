/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronisation protocols: which operations exist, among whom, and when. Three calls around a
 * training step, the same for every protocol:
 *
 *     for every step:
 *         backward pass, calling shoal_sync_ready as gradient ranges become final
 *         shoal_sync_before_update -> verdict
 *         if (verdict.apply) optimiser step on params with grad_scale * grads
 *         shoal_sync_after_update -> next verdict; leave the loop if (verdict.stop)
 *     shoal_sync_finish
 *
 * Some protocols leave iterations out on a slow worker: the next step is verdict.iteration.
 * Threads: one thread makes these calls; communication runs behind its back.
 * Ownership: params and grads are the caller's. From the first ready of a step to the return of
 * before_update the ranges of grads that are ready belong to the protocol; params change only
 * inside before_update, after_update and finish.
 * Errors: after the first failing call the protocol is over; only destroy is left. The text names
 * the peer, the operation and the iteration. */
#ifndef SHOAL_SYNC_H
#define SHOAL_SYNC_H
/* Of libshoal_train: pkg-config shoal_train. */

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_sync shoal_sync;

/** A gradient with a NaN or an infinity: end the job with an error that names rank, tensor and
 *  index, or leave the step out. Either way all ranks do the same. */
typedef enum shoal_nonfinite { SHOAL_NONFINITE_STOP, SHOAL_NONFINITE_SKIP } shoal_nonfinite;

/** What to synchronise and how. Zero and NULL mean the default in brackets; start from
 *  SHOAL_SYNC_DESC_INIT. Everything but the buffers has to be equal on all ranks. */
typedef struct shoal_sync_desc {
    size_t size;            /* sizeof(shoal_sync_desc) */
    const char *sync;       /* spec of the protocol ["all_reduce"] */
    const char *collective; /* spec ["ring"]; protocols that prescribe one ignore it */
    const char *codec;      /* spec ["identity"] of gradients on the wire */
    float *params, *grads;  /* float32[count] each, borrowed until destroy */
    size_t count;
    const shoal_tensor *tensors; /* whole parameters, sorted, without gaps; copied */
    uint32_t tensor_count;
    /** [4 MiB] Gradients of about this size travel as one operation, as soon as they are ready;
     *  SIZE_MAX: the whole model at once. */
    size_t bucket_bytes;
    shoal_nonfinite nonfinite; /* [stop] */
    uint64_t iteration;        /* [0] first iteration (resume) */
    uint8_t tos;               /* [0] IP type of service of the gradients' connections */
} shoal_sync_desc;
/** A descriptor with every default; fill in params, grads, count and tensors. */
#define SHOAL_SYNC_DESC_INIT                                                  \
    {                                                                         \
        sizeof(shoal_sync_desc), NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, 0, \
            SHOAL_NONFINITE_STOP, 0, 0                                        \
    }

/** What to do now. */
typedef struct shoal_verdict {
    bool apply; /* run the optimiser on grads multiplied by grad_scale; false: params are new */
    bool stop;  /* the protocol ends here, because peers stopped; destroy comes next */
    /** A value was not finite and nonfinite = skip: no rank updated its range (param_server), or
     *  anything at all (all others), in this step. */
    bool skipped;
    float grad_scale;   /* 1 / weight of what grads sum up: grads * grad_scale is the mean */
    uint64_t iteration; /* of the step that this verdict is about */
} shoal_verdict;

/** Time and traffic of the last finished step; totals are the caller's. */
typedef struct shoal_sync_stats {
    size_t size;
    uint64_t wait_us; /* spent inside before_update and after_update */
    uint64_t comm_us; /* from the first operation's start to the last one's end; no time twice */
    uint64_t encode_ns, decode_ns;
    uint64_t sent_payload_bytes, received_payload_bytes; /* coded, without frame headers */
    uint64_t sent_elems, received_elems;
    uint32_t operations;
    uint64_t dense_elems; /* times 4: what the same operations send of dense float32 */
} shoal_sync_stats;

/**
 * Start a protocol on a communicator; at most one at a time. Every rank calls it, servers too.
 * Residuals of error feedback that earlier operations or protocols have left there are dropped;
 * those that a reform has brought stay.
 * @param sync_out owned by the caller; shoal_sync_destroy, before shoal_comm_destroy.
 * @return SHOAL_OK | EINVAL (spec, tensors, or a protocol that does not fit the job's workers and
 *         servers) | ENOMEM | EPEER | ETIMEDOUT | EFORKED
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_create(shoal_comm *comm,
                                                        const shoal_sync_desc *desc,
                                                        shoal_sync **sync_out);

/** End the protocol politely: peers that go on get verdict.stop. Waits until no operation borrows
 *  the buffers any more. NULL is allowed. */
SHOAL_API void shoal_sync_destroy(shoal_sync *sync);

/**
 * Gradient range [offset, offset + count) is final for this step: its exchange may begin.
 * Never waits. Ranges are whole tensors and come back to front without gaps.
 * @return SHOAL_OK | EINVAL (not the range below the last one) | what ended the protocol
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_ready(shoal_sync *sync, size_t offset,
                                                       size_t count);

/**
 * As shoal_sync_ready, of one tensor whose gradient is zero but in these rows: ascending indices,
 * borrowed until before_update returns. A tensor with the flag SHOAL_TENSOR_ROWS travels as an
 * operation of its own where the collective sends rows (`omnireduce:input=coo`): then nobody looks
 * at the others. Every rank names rows of the same tensors, which may be none of them (row_count
 * 0); with other collectives this is shoal_sync_ready.
 * @param rows NULL: not known
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_ready_rows(shoal_sync *sync, size_t offset,
                                                            size_t count, const uint32_t *rows,
                                                            size_t row_count);

/**
 * The backward pass is over; ranges not yet announced are ready now. Waits for what the protocol
 * needs before the update. Bounded by the operations' deadlines.
 * @return SHOAL_OK | ENOTFINITE (nonfinite = stop) | EPEER | ETIMEDOUT | EMISMATCH | ...
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_before_update(shoal_sync *sync,
                                                               shoal_verdict *verdict_out);

/** The update is done (or skipped): wait until the next iteration may start.
 *  @param next_out about the next iteration: its number, and whether to stop before it. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_after_update(shoal_sync *sync,
                                                              shoal_verdict *next_out);

/**
 * All iterations of this worker are done. Waits until the parameters are the job's result: with
 * protocols whose replicas differ their exact mean over all workers that are still there, so it
 * takes until the slowest is through; meanwhile this one goes on serving the others. Parameters
 * change inside. Only destroy is left after it.
 * @return SHOAL_OK | what ended the protocol
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_finish(shoal_sync *sync);

/**
 * SGD with momentum for protocols that run the optimiser themselves (param_server): v = momentum v
 * + g, params = params - lr v, where g is the mean gradient. Every rank calls it before its first
 * step, servers before shoal_sync_serve; again, to change the rates, between after_update and the
 * next ready. Other protocols ignore it.
 * @return SHOAL_OK | EINVAL (lr or momentum below 0 or not finite) | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_set_sgd(shoal_sync *sync, double lr,
                                                         double momentum);

/** Cost of the last step that before_update and after_update both finished. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_last_stats(shoal_sync *sync,
                                                            shoal_sync_stats *stats_out);

/** A dedicated server's whole life (rank >= workers): serves until the workers stop. The optimiser
 *  runs here, on params; what the workers call is of no use on a server. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_serve(shoal_sync *sync);

/**
 * Dedicated server processes that a protocol wants beside the workers, for launchers:
 * "param_server:servers=2,dedicated" wants 2, most want none.
 * @return SHOAL_OK | EINVAL (unknown protocol or key)
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_servers(const char *spec, uint32_t *servers_out);

/**
 * Whether a protocol goes on by itself when workers are lost, for launchers: the job then ends when
 * those that are left have ended.
 * @return SHOAL_OK | EINVAL (unknown protocol or key)
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sync_survives(const char *spec, bool *survives_out);

#ifdef __cplusplus
}
#endif
#endif
