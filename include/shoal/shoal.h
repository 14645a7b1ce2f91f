/* SPDX-License-Identifier: Apache-2.0 */
/* Shoal: communicators and operations. Read docs/architecture.md first.
 *
 * Threads: any thread may start, wait and poll. A handle made before fork() answers EFORKED in the
 * child.
 * Ownership: the caller owns every buffer; an operation borrows it until it completes. */
#ifndef SHOAL_SHOAL_H
#define SHOAL_SHOAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"
#include "shoal/version.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_comm shoal_comm;
typedef struct shoal_op shoal_op;
typedef struct shoal_op_plan shoal_op_plan;

/* ---------------------------------------------------------------- communicators */

/** How to join a job. Zero / NULL fields mean the default in brackets; start from
 * SHOAL_COMM_DESC_INIT. */
typedef struct shoal_comm_desc {
    size_t size;            /* sizeof(shoal_comm_desc) */
    const char *rendezvous; /* [env] "env" | "tcp://host:port" (rank 0 listens there) |
                               "file:///shared/path" */
    int32_t rank;           /* [-1: from the environment] */
    int32_t world_size; /* [-1: from the environment] endpoints of the job: workers, then servers */
    int32_t servers;    /* [0] the last so many endpoints contribute nothing, they only serve */
    const char *job;    /* [SHOAL_JOB or "shoal"] name; strangers with another one are refused */
    const char *token;  /* [SHOAL_TOKEN_FILE, SHOAL_TOKEN_FD] secret; required off loopback */
    const char *interface;   /* [chosen: never loopback for a remote peer] name or address */
    const char *transport;   /* ["tcp"] spec: "tcp:lanes=2,shm=off" */
    const char *fault;       /* [none; SHOAL_FAULT] spec of the fault decorator, for tests */
    int64_t join_timeout_us; /* [30 s] */
    int64_t peer_timeout_us; /* [2.5 s] silence until a peer is suspect; heartbeats go at a tenth of
                                it */
    int64_t op_timeout_us;   /* [300 s] default deadline of an operation */
    uint64_t seed;           /* [1] of everything random in codecs; the same on every rank */
    uint32_t chunk_elems;    /* [65536] unit of coding and framing; the same on every rank */
    /** [SHOAL_AGGREGATORS; none] "host:port,host:port": daemons (shoal/aggregator.h) that sum for
     * collectives with the key `dedicated`; the same on every rank. They are endpoints behind the
     * ranks. */
    const char *aggregators;
    bool reform;       /* [false] members may change: shoal_comm_reform; the same on every rank */
    bool spare;        /* [false] with reform: wait for a place in the running job, within the join
                    timeout. Rank and world size are those of any member */
    const char *doors; /* [SHOAL_DOORS] with reform: "10.0.0.1:29402,10.0.0.2:29402", where members
                          listen for newcomers, beside the rendezvous */
} shoal_comm_desc;
#define SHOAL_COMM_DESC_INIT                                                                   \
    {                                                                                          \
        sizeof(shoal_comm_desc), NULL, -1, -1, 0, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, \
            NULL, false, false, NULL                                                           \
    }

/**
 * Join a job: rendezvous, control connections to every other rank, version and feature check.
 * Blocks until all ranks are there or join_timeout_us passed; the error names the missing ranks.
 * With reform, a process that is started while the job runs (in the place of one that was lost,
 * with the same settings) enters its next epoch instead: view.epoch says so.
 * @param comm_out owned by the caller; shoal_comm_destroy.
 * @return SHOAL_OK | EINVAL | ETIMEDOUT (join) | EAUTH | EVERSION | EMISMATCH (two ranks disagree
 *         on world size, seed or chunk) | ENOMEM | ESYSTEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_comm_create(const shoal_comm_desc *desc,
                                                        shoal_comm **comm_out);

/** Say goodbye to all peers, stop the threads, free everything. Operations still open end
 * ECANCELLED on all their members, and threads that wait for one are let go first; handles that
 * nobody waits for are freed with it and must not be used again. NULL is allowed; in a forked child
 * it does nothing. */
SHOAL_API void shoal_comm_destroy(shoal_comm *comm);

/** The membership as this rank sees it. */
typedef struct shoal_view {
    size_t size;
    uint64_t epoch;              /* 0 until the first reform */
    uint32_t rank, rank_count;   /* among live endpoints */
    uint32_t endpoint;           /* id for ever */
    uint32_t workers;            /* live endpoints that contribute */
    uint64_t done_min, done_max; /* of what the members of the last epoch told shoal_comm_reform */
    uint32_t aggregators;        /* endpoints behind the ranks: their traffic is that of "ranks"
                             rank_count and up */
    uint32_t done_rank;          /* the first with done_max */
} shoal_view;
SHOAL_API SHOAL_MUST_USE shoal_status shoal_comm_view(shoal_comm *comm, shoal_view *view_out);

/**
 * Go on with other members: call it on every member once an operation has ended EPEER, ETIMEDOUT or
 * EEPOCH, or shoal_comm_reform_wanted is true. What PyTorch's c10d calls reconfigure, but the
 * members find out by themselves who they are: everybody who can be reached and newcomers that
 * wait, at most as many as the job began with. Operations still open end EEPOCH. Who was done with
 * less than done_max, and newcomers, take their state from done_rank (by shoal_broadcast, say): the
 * library does not know what it is.
 *
 * Of members that cannot reach each other those go on who are more than half, or half with rank 0;
 * a member whose process is known to have died does not count. The others try to come back until
 * the timeout. There is no order of ranks that lasts: members keep theirs, newcomers come last.
 *
 * @param comm in: to be left; out: the next epoch's. On failure it is as it was, without use;
 *        destroy it
 * @param done how far this member is, in whatever all count by (steps)
 * @param timeout_us 0: 60 s
 * @return SHOAL_OK | EINVAL (not created with reform) | EPEER: a minority | ETIMEDOUT | ENOMEM |
 *         ECANCELLED: the others have ended meanwhile
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_comm_reform(shoal_comm **comm, uint64_t done,
                                                        int64_t timeout_us, shoal_view *view_out);
/** A member has gone over to reform, or a newcomer waits for whom there is room: reform at the next
 *  boundary. Cheap. */
SHOAL_API bool shoal_comm_reform_wanted(const shoal_comm *comm);

/** Traffic with one peer since the start. Payload: coded bytes; wire: with frame headers. Packets
 * (`switchml`) count as frames, with all their bytes as both. */
typedef struct shoal_peer_stats {
    size_t size;
    char host[64];
    char transport[16]; /* "tcp", "shm" */
    uint64_t sent_frames, sent_payload_bytes, sent_wire_bytes;
    uint64_t received_frames, received_payload_bytes, received_wire_bytes;
    uint64_t control_bytes;  /* both directions */
    uint64_t dropped_frames; /* data for an unknown slot */
    uint64_t last_seen_us;   /* age */
    /** Of data connections, as the kernel counts: what the peer acknowledged, while this rank had
     * something to send it. Their quotient is the rate of the link. 0: not TCP, or not known. */
    uint64_t acked_bytes, busy_us;
    /** What this rank's interfaces can carry by their own word, bytes per second; 0: not known. */
    uint64_t line_bytes_s;
} shoal_peer_stats;
SHOAL_API SHOAL_MUST_USE shoal_status shoal_comm_peer_stats(shoal_comm *comm, uint32_t rank,
                                                            shoal_peer_stats *stats_out);

/* ---------------------------------------------------------------- operations */

/** Flags of a tensor. */
enum {
    SHOAL_TENSOR_RAW = 1u << 0, /* always travels as float32, whatever the codec */
    SHOAL_TENSOR_BIAS = 1u << 1,
    SHOAL_TENSOR_NORM = 1u << 2, /* batch norm scale or shift */
    SHOAL_TENSOR_LAST = 1u << 3, /* of the last layer */
    SHOAL_TENSOR_CIRCULANT = 1u << 4,
    SHOAL_TENSOR_BITS = 1u << 5, /* not numbers: any four bytes go through as they are. All tensors
                                   of an operation or none; all-gather and broadcast by identity */
    SHOAL_TENSOR_ROWS = 1u << 6  /* an embedding: most rows of its gradient are zero
                                    (shoal_sync_ready_rows) */
};

/** One tensor inside a flat buffer. A table is sorted by offset, without gaps, and holds whole
 * tensors. */
typedef struct shoal_tensor {
    uint64_t key; /* names the parameter, the same on every rank and in every run; never a bucket */
    size_t offset, count; /* elements in the buffer of the operation */
    uint32_t rows, cols;  /* matrix shape for codecs that want one; 0, 0: a vector */
    uint32_t flags;       /* SHOAL_TENSOR_* */
    float lr_scale;       /* 1 */
} shoal_tensor;

typedef enum shoal_op_kind {
    SHOAL_ALL_REDUCE,
    SHOAL_REDUCE_SCATTER, /* in place: this rank's shard (shoal_comm_shard) holds the sum, the rest
                             is undefined */
    SHOAL_ALL_GATHER,     /* in place: every rank's shard goes to all */
    SHOAL_BROADCAST,      /* from root */
    SHOAL_BARRIER         /* an all-reduce of one element, by "direct" unless told otherwise */
} shoal_op_kind;

typedef enum shoal_reduce { SHOAL_SUM, SHOAL_MAX /* identity codec only */ } shoal_reduce;

/** Name of an operation, equal on all members. {0,0,..} lets the comm number operations of one
 * group in order. */
typedef struct shoal_op_id {
    uint64_t group; /* 0 = all ranks; other static groups: hash of the members; protocols set the
                       top bit */
    uint64_t sequence;
    uint32_t round; /* 0 = measure */
    uint32_t zero;
} shoal_op_id;

typedef struct shoal_op_desc {
    size_t size;
    shoal_op_kind kind;
    shoal_reduce reduce;
    shoal_op_id id; /* all zero: numbered by the comm */
    float *buf;     /* float32[count], in place, borrowed until completion */
    size_t count;
    const shoal_tensor *tensors; /* copied; NULL: one tensor, key = 1 */
    uint32_t tensor_count;
    const uint32_t *members; /* ranks, copied; NULL: all. Contributors first. */
    uint32_t member_count;
    uint32_t contributors;  /* 0: all members; then the job's aggregators serve a collective with
                               `dedicated` */
    uint32_t root;          /* index in members */
    const char *collective; /* spec ["ring"] */
    const char *push_codec; /* spec ["identity"]: partial sums */
    const char *pull_codec; /* spec [push_codec]: completed sums */
    int64_t timeout_us;     /* [comm's op_timeout_us] */
    uint8_t tos;            /* IP ToS of its data connections; 0x28 marks compressible traffic */
    const char *label;      /* for errors and logs: "gradients 3/7" */
    /** Key-value input, for embeddings: all other rows of buf are zero. Ascending indices, borrowed
     * until completion; NULL: not known. buf is one tensor of rows x cols, or the collective says
     * how long a row is. With `omnireduce:input=coo` only these rows are read, and only rows that
     * some member names are written; other collectives need no such hint and ignore it. All
     * contributors give a list, which may be empty, or none does. */
    const uint32_t *rows;
    size_t row_count;
} shoal_op_desc;
#define SHOAL_OP_DESC_INIT                                                                        \
    {                                                                                             \
        sizeof(shoal_op_desc), SHOAL_ALL_REDUCE, SHOAL_SUM, {0, 0, 0, 0}, NULL, 0, NULL, 0, NULL, \
            0, 0, 0, NULL, NULL, NULL, 0, 0, NULL, NULL, 0                                        \
    }

/** What an operation cost this rank. */
typedef struct shoal_op_stats {
    size_t size;
    uint64_t duration_us; /* start to completion */
    uint64_t encode_ns, decode_ns;
    uint64_t sent_payload_bytes, received_payload_bytes; /* coded */
    uint64_t sent_elems, received_elems;
    uint32_t rounds; /* one after the other on the way; a transform's and a measure's included */
    /** Times 4: bytes that this collective would have sent for a dense float32 buffer, whatever
     *  the codec and the blocks that stayed out. */
    uint64_t dense_elems;
} shoal_op_stats;

/**
 * Start an operation; returns at once. Members that start different things get EMISMATCH with both
 * calls named.
 * @param op_out owned by the caller until shoal_op_wait frees it.
 * @return SHOAL_OK | EINVAL | ENOMEM | EFORKED. A member that is lost already is
 *         shoal_op_wait's to tell, on all members
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_op_start(shoal_comm *comm, const shoal_op_desc *desc,
                                                     shoal_op **op_out);

/**
 * Prepare an operation that will run often: its descriptor is checked and copied, its codecs and
 * its collective are opened once. From its third run on, one that sums by a schedule (all
 * collectives but omnireduce, switchml) allocates nothing. shoal_op_start and the wrappers below
 * keep the last 128 different operations prepared by themselves; a plan is never forgotten.
 * @param desc buf and rows are ignored: buf comes with each run, and rows differ from run to run
 *        (EINVAL if they are given). id must be all zero, as each run gets a number of its own
 * @param plan_out owned by the caller; shoal_op_plan_destroy.
 * @return SHOAL_OK | EINVAL | ENOMEM | EFORKED
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_op_prepare(shoal_comm *comm, const shoal_op_desc *desc,
                                                       shoal_op_plan **plan_out);

/**
 * Start a prepared operation on a buffer of desc's count; the same operation as shoal_op_start of
 * that descriptor, to the last bit: members that prepare and members that do not understand each
 * other. Several runs of one plan may be open at once. Residuals of error
 * feedback go by tensor key, as ever: two plans with the same keys share them.
 * @param op_out owned by the caller until shoal_op_wait frees it.
 * @return as shoal_op_start. A plan belongs to its communicator and to its epoch: after
 *         shoal_comm_reform it says EEPOCH, after shoal_comm_destroy ECANCELLED; prepare it anew
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_op_run(shoal_op_plan *plan, float *buf,
                                                   shoal_op **op_out);

/** Runs that are open go on. NULL is allowed, before and after the end of its communicator, but not
 * while another thread ends it. */
SHOAL_API void shoal_op_plan_destroy(shoal_op_plan *plan);

/**
 * Wait until *op completes or timeout_us passed (-1: as long as the operation's own deadline lets
 * it live).
 * @return PENDING when only this wait elapsed: the operation lives on. Else the operation's result;
 *         *op is freed and set to NULL, and a failure's text is this thread's last error.
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_op_wait(shoal_op **op, int64_t timeout_us,
                                                    shoal_op_stats *stats_out);

/** Ask an operation to end ECANCELLED on all its members; it still has to be waited for. */
SHOAL_API void shoal_op_cancel(shoal_op *op);

/** The next operation to have completed on this comm, in order of completion; then shoal_op_wait
 * it. Only what shoal_op_start began, not what the wrappers below and protocols do for themselves;
 * one thread that calls this has all operations of its comm. PENDING on timeout. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_comm_next_done(shoal_comm *comm, int64_t timeout_us,
                                                           shoal_op **op_out);

/** Elements [*offset_out, +*count_out) that `rank` owns after a reduce-scatter of count elements
 * over all ranks. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_comm_shard(shoal_comm *comm, uint32_t rank,
                                                       size_t count, size_t *offset_out,
                                                       size_t *count_out);

/* Thin wrappers over shoal_op_start and shoal_op_wait, over all ranks. Collectives sum; nothing
 * divides. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_allreduce(shoal_comm *comm, float *buf, size_t count,
                                                      const char *collective, const char *codec);
SHOAL_API SHOAL_MUST_USE shoal_status shoal_reduce_scatter(shoal_comm *comm, float *buf,
                                                           size_t count, const char *collective,
                                                           const char *codec);
SHOAL_API SHOAL_MUST_USE shoal_status shoal_allgather(shoal_comm *comm, float *buf, size_t count,
                                                      const char *collective, const char *codec);
SHOAL_API SHOAL_MUST_USE shoal_status shoal_broadcast(shoal_comm *comm, float *buf, size_t count,
                                                      uint32_t root);
SHOAL_API SHOAL_MUST_USE shoal_status shoal_barrier(shoal_comm *comm);

#ifdef __cplusplus
}
#endif
#endif
