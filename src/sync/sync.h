/* SPDX-License-Identifier: Apache-2.0 */
/* A synchronisation protocol is a state machine: events go in, actions come out. It decides which
 * operation runs, among whom and when; it never sees a clock, a thread, a socket or a value of a
 * tensor. Drivers (driver/real.c on real processes, driver/sim.c in virtual time) feed it and carry
 * out what it asks. docs/add-sync.md adds a row.
 *
 * A training step as a worker's machine sees it (ranges come back to front):
 *
 *     READY ... READY BEFORE -> GO(apply?)  caller's optimiser  AFTER -> GO(next iteration)
 *
 * One GO answers one BEFORE, AFTER, FINISH or STOP. PARAM may change only between BEFORE, AFTER or
 * FINISH and its GO: what runs during compute works on GRAD or slots and is committed by MIX or
 * APPLY, so nobody sees a half-summed parameter.
 *
 * Who was lost comes back in another epoch only: the driver lets all FINISH and STOP, and STARTs
 * fresh machines whose world has the epoch and the iteration to go on with.
 *
 * Between FINISH and its GO a machine goes on serving peers that are not through yet; where
 * replicas differ, finale.h brings all to their exact mean. */
#ifndef SHOALI_SYNC_SYNC_H
#define SHOALI_SYNC_SYNC_H

#include "base/spec.h"
#include "shoal/sync.h"
#include "sync/actions.h"

enum { SHOALI_WORKER, SHOALI_SERVER };

/** What the job's codec does to values: nothing, nothing that shows, or it loses some. */
typedef enum shoali_coding { SHOALI_PLAIN, SHOALI_LOSSLESS, SHOALI_LOSSY } shoali_coding;

/** The job as one endpoint sees it. Constant: another epoch has machines of its own.
 * Endpoint ids are for ever. */
typedef struct shoali_world {
    const void *params;          /* of the row's schema */
    uint64_t epoch;              /* 0 until the first reform */
    uint32_t me, role;           /* endpoint id; SHOALI_WORKER or SHOALI_SERVER */
    uint32_t workers, servers;   /* live ones */
    const uint32_t *endpoints;   /* ids of the live ones, ascending: workers, then servers */
    const uint32_t *hosts;       /* host of endpoints[i]: equal numbers share a host */
    const shoal_tensor *tensors; /* parameters in the order of the arena, without gaps */
    uint32_t tensor_count;
    size_t count;        /* elements of GRAD, PARAM and each slot */
    bool rows_apart;     /* tensors with the flag ROWS are buckets of their own */
    size_t bucket_elems; /* gradients of about this size travel as one operation */
    shoali_coding coding;
    shoal_nonfinite nonfinite;
    uint64_t seed, iteration; /* seed of the job; first iteration, or the one to go on with */
} shoali_world;

typedef enum shoali_event_kind {
    SHOALI_EV_START,     /* world */
    SHOALI_EV_READY,     /* range: gradients are final; ranges come back to front without gaps */
    SHOALI_EV_BEFORE,    /* all ranges were READY; the caller waits for GO */
    SHOALI_EV_AFTER,     /* step: the caller is done with the update and waits for GO */
    SHOALI_EV_MESSAGE,   /* peer, bytes: from another endpoint's SEND; ordered per pair, hostile */
    SHOALI_EV_OP_DONE,   /* op: it ended, also after CANCEL; its buffer is free again */
    SHOALI_EV_TIMER,     /* timer: its time has come */
    SHOALI_EV_PEER_DOWN, /* peer, text: lost for this epoch, with the reason; again after AWAY */
    SHOALI_EV_FINISH,    /* all iterations are done: answer GO once PARAM is the job's result */
    SHOALI_EV_STOP, /* the caller wants to end; answer GO(stop) once nothing is open any more */
    SHOALI_EV_COUNT
} shoali_event_kind;

/** What is certain about a peer that is down. */
typedef enum shoali_down {
    SHOALI_DOWN_LEFT, /* it said goodbye, after all else that it had to say */
    SHOALI_DOWN_DEAD, /* its process has ended, with some of what it said on its way perhaps */
    SHOALI_DOWN_AWAY  /* nothing: it may be alive, and go on with others */
} shoali_down;

/** Only the member named beside the kind is set. Everything behind pointers lives for the call,
 * world longer. */
typedef struct shoali_event {
    shoali_event_kind kind;
    uint64_t now_us; /* since any fixed moment; the same clock as TIMER */
    union {
        const shoali_world *world;
        struct {
            size_t offset, count;
        } range;
        struct {
            uint32_t samples; /* that this worker's gradients of the iteration were the mean of */
            uint32_t batch; /* of a worker on the mean, the same on all; 0: all have equally many */
        } step;
        struct {
            uint32_t peer;
            const uint8_t *bytes;
            size_t len_bytes;
        } message;
        struct {
            uint64_t id;
            shoal_status status; /* OK, ENOTFINITE (the same on every member), or why it failed */
            const char *text;    /* of a failure: a full sentence */
        } op;
        struct {
            uint64_t id;
        } timer;
        struct {
            uint32_t peer;
            const char *text;
            shoali_down how;
        } down;
    };
} shoali_event;

/** Traits of a protocol row. */
enum {
    SHOALI_SYNC_EXACT =
        1u << 0, /* after every GO of AFTER all workers have the same parameters, bit for bit */
    SHOALI_SYNC_MEAN = 1u << 1, /* communication never moves the mean of the workers' parameters */
    SHOALI_SYNC_SERVERS = 1u << 2, /* can use dedicated servers: the machine has a role SERVER */
    SHOALI_SYNC_OWNER = 1u
                        << 3, /* the optimiser runs as owner job or APPLY: GO says apply = false */
    SHOALI_SYNC_SURVIVES = 1u << 4, /* goes on without lost workers: a goodbye is PEER_DOWN, too */
    SHOALI_SYNC_SAMPLES = 1u << 5,  /* weighs workers by the samples that AFTER tells: a gradient
                                     is a worker's own mean, however many there were */
    SHOALI_SYNC_CODED = 1u << 6,    /* what it sends goes through the job's codec */
    SHOALI_SYNC_COLLECTIVE = 1u << 7, /* coded sums are made by the job's collective */
    SHOALI_SYNC_GRADIENTS = 1u << 8,  /* an iteration is one sum of all workers' gradients, and the
                                      same update everywhere: nothing between iterations is kept */
    SHOALI_SYNC_LATER = 1u << 9,      /* a worker may wait for what others do in later iterations:
                                    nothing else may make these wait for it */
    SHOALI_SYNC_APART = 1u << 10,     /* replicas differ, and PARAM behind GO of AFTER is all that a
                                    worker has of the protocol: each may keep its own, when it gets
                                    there, and all begin anew from what they kept */
    SHOALI_SYNC_MODELS = 1u << 11,    /* whole models travel: through a codec without losses as they
                                      are */
    SHOALI_SYNC_CHANGES = 1u << 12,   /* with MODELS: through one with losses, as what changed since
                                       the last one; repeated coding has to come ever closer */
    SHOALI_SYNC_FAITHFUL = 1u << 13   /* with CHANGES: and quickly, see docs/protocols.md */
};

#define SHOALI_STALENESS_UNBOUNDED UINT32_MAX

/** One kind of protocol: a file with a row, and a line in syncs.def. */
typedef struct shoali_sync_row {
    const char *name;
    const char *paper; /* source, and where we differ */
    uint32_t traits;
    /** The same where they depend on the keys; NULL: they do not. */
    uint32_t (*traits_with)(const void *params);
    /** What else a job with these keys must be: codec_traits (SHOAL_CODEC_*; 0 with codec auto) and
     * workers (0: not known yet). Sets the last error with the reason. NULL: any do. */
    shoal_status (*fits)(const void *params, uint32_t codec_traits, uint32_t workers);
    shoali_schema schema;
    /** Cross-key checks after parsing; NULL: none. Sets the last error. */
    shoal_status (*check)(const void *params);
    /** Dedicated servers that it wants behind the workers; NULL: none. */
    uint32_t (*servers)(const void *params);
    /** Bytes of state, which the driver allocates zeroed and 64-byte aligned. */
    size_t (*state_size)(const shoali_world *world);
    /** Slots (tensors of world->count elements, zero at START) that it wants on this endpoint;
     * NULL: none. */
    uint32_t (*slots)(const shoali_world *world);
    /** The slot that goes on in the next epoch of the members; NULL: none does. False: none with
     * these keys. */
    bool (*carries)(const shoali_world *world, uint32_t *slot_out);
    /** Over whose edges models go in each iteration; NULL: none. */
    const char *(*graph)(const void *params);
    /** Iterations by which what enters an update may be older than the update. */
    uint32_t (*max_staleness)(const void *params);
    /** By which two workers may be apart while nobody is lost; NULL: no promise. */
    uint32_t (*max_gap)(const shoali_world *world);
    /** The machine. An error is only what is nobody's fault but ours (ENOMEM); else it FAILs. */
    shoal_status (*on_event)(void *state, const shoali_event *event, shoali_actions *actions);
} shoali_sync_row;

size_t shoali_sync_count(void);
const shoali_sync_row *shoali_sync_row_at(size_t i);

/** An opened spec string: row and parsed params. */
typedef struct shoali_protocol {
    const shoali_sync_row *row;
    void *params;    /* owned, NULL without keys */
    uint32_t traits; /* of these keys */
    char spec[160];  /* canonical */
} shoali_protocol;

/** Look the name up and parse the keys; an unknown name is EINVAL and lists the known ones. */
SHOAL_MUST_USE shoal_status shoali_sync_open(const char *spec, shoali_protocol *protocol_out);
/** The same with a row outside the table. */
SHOAL_MUST_USE shoal_status shoali_sync_open_row(const shoali_sync_row *row, const char *spec,
                                                 shoali_protocol *protocol_out);
void shoali_sync_close(shoali_protocol *protocol);
/** Traits as a codec's (SHOAL_CODEC_*) change them: with LOCAL replicas meet now and then. */
void shoali_sync_coded_by(shoali_protocol *protocol, uint32_t codec_traits);
/** Offset of the tensor that begins nearest below part / parts of all elements: ranges of whole
 * tensors, about equal, the same on every endpoint. */
size_t shoali_tensor_boundary(const shoali_world *world, uint32_t part, uint32_t parts);

/** Of a spec: whether replicas are (EXACT), and whether the protocol carries something from one
 * epoch of the members to the next beside the parameters, equal on all that took part in its last
 * round (the momentum of an outer step): float32[count].
 * @return SHOAL_OK | EINVAL: unknown protocol or key */
SHOAL_MUST_USE shoal_status shoali_sync_asks(const char *spec, bool *exact_out, bool *carries_out);

/** Dedicated servers that the protocol wants. */
uint32_t shoali_sync_servers(const shoali_protocol *protocol);
#endif
