/* SPDX-License-Identifier: Apache-2.0 */
/* A collective is a pure schedule over blocks: one function returns one rank's list of steps.
 * docs/architecture.md section 4a is the contract; tests/conformance/collective_test.c proves every
 * row for P = 1..17. */
#ifndef SHOALI_COLLECTIVE_SCHEDULE_H
#define SHOALI_COLLECTIVE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/spec.h"
#include "collective/rates.h"
#include "shoal/shoal.h"

enum { SHOAL_SEND, SHOAL_RECV_ADD, SHOAL_RECV_SET, SHOAL_OWN };
enum { SHOAL_PUSH, SHOAL_PULL };

/** Steps on a chunk run in list order; nothing else orders steps. The k-th SEND of i to j meets the
 *  k-th RECV of j from i. A message has the same round, from 1, at both ends; OWN has the round
 *  that completes the sum, 0 if none does. */
typedef struct shoal_step {
    uint8_t kind, leg; /* OWN counts to PULL */
    uint16_t round;
    uint32_t peer;               /* index in the member list; OWN: me */
    uint32_t block, block_count; /* consecutive blocks */
    uint32_t parts;              /* members summed in what moves */
} shoal_step;

/** One rank's list. rounds is the number of messages on the longest chain of all ranks, the same on
 *  every rank: what latency multiplies. A fan-in (several receives into one block) and a fan-out
 *  share one round. */
typedef struct shoal_schedule {
    shoal_step *steps;
    uint32_t count, blocks;
    uint16_t rounds;
    bool slots; /* trait SLOTS: block i is the whole buffer, as member i contributes it */
    /** A PUSH to a member waits while this many chunks sent to it have not come back by PULL; 0: it
     *  never waits. For rows whose every PUSH comes back from where it went, in one order. */
    uint32_t ahead;
    /** Chunks are made smaller, within reason, until the buffer has so many; 0: they stay. For rows
     *  whose slowest member idles while a first chunk comes in or a last one goes out. */
    uint32_t cuts;
    /** Members [k site, (k + 1) site) are of one site: what they send each other is float32; 0:
     *  all is coded. Whoever sends a PULL step to another site made the sum or got it coded. */
    uint32_t site;
    uint32_t me; /* whose list it is */
} shoal_schedule;

typedef struct shoal_schedule_args {
    uint32_t size, contributors, me, root;
    const void *params;        /* of the row's schema */
    const shoali_rates *rates; /* trait RATED: as all members have agreed; NULL: none is known */
} shoal_schedule_args;

/** Most members of one operation: the rounds of a ring still fit. */
enum { SHOALI_MEMBERS_MAX = 32768 };

/** Traits of a collective row. */
enum {
    SHOALI_COLL_SHARDED = 1u << 0,   /* block i belongs to member i: reduce_scatter, all_gather */
    SHOALI_COLL_SLOTS = 1u << 1,     /* blocks are members' own vectors, kept, added in order */
    SHOALI_COLL_UNIFORM = 1u << 2,   /* every rank's cost equals rank 0's */
    SHOALI_COLL_DEDICATED = 1u << 3, /* members beyond contributors may serve */
    SHOALI_COLL_ROOTED = 1u << 4,    /* broadcast: only the root's values count */
    SHOALI_COLL_FLOW = 1u << 5,      /* event driven: the row brings a flow instead of a schedule */
    SHOALI_COLL_SERVED = 1u << 6,    /* the job's aggregators are members behind the contributors */
    SHOALI_COLL_ROUNDED = 1u << 7,   /* sums are rounded once, to integers of a shared scale */
    SHOALI_COLL_RATED = 1u << 8,     /* lists follow measured links: among all ranks only */
    SHOALI_COLL_ROWS = 1u << 9,      /* sends the rows that an operation names, where it does */
    SHOALI_COLL_HOSTS = 1u << 10,    /* sums inside each host first: row->stages */
    SHOALI_COLL_SITES = 1u << 11     /* codes between sites only: among all ranks only */
};

/* clang-format off */
/** The key of rows that know sites; `type`, their params, has `int64_t site`. */
#define SHOALI_COLLECTIVE_KEY_SITE(type)                                                    \
    {"site", SHOALI_KEY_INT, offsetof(type, site), 0, SHOALI_MEMBERS_MAX, NULL, "0",         \
     "ranks in a row of one host or site, which exchange uncoded float32 (0: all is coded)"}
/* clang-format on */

struct shoali_flow_row;
typedef struct shoali_collective_row {
    const char *name;
    const char *paper;
    uint32_t traits;
    /** Traits with these keys, of its traits, RATED and SITES; NULL: keys change none. */
    uint32_t (*traits_with)(const void *params);
    shoali_schema schema;
    /** One rank's list, for any element count; sizes are already checked against the traits. */
    shoal_status (*build)(const shoal_schedule_args *args, shoal_arena *arena,
                          shoal_schedule *schedule_out);
    const struct shoali_flow_row *flow; /* NULL: the engine runs the schedule */
    /** Trait HOSTS: the specs of the sums inside a host and between hosts, of spec_bytes each. */
    void (*stages)(const void *params, char *inside_out, char *between_out, size_t spec_bytes);
    /** Complete the keys of a contributor's operation, which names its rows or (rows NULL) does
     *  not. NULL: rows are of no use here. */
    void (*with_rows)(void *params, const uint32_t *rows, size_t count, const shoal_tensor *tensors,
                      uint32_t tensor_count);
} shoali_collective_row;

size_t shoali_collective_count(void);
const shoali_collective_row *shoali_collective_row_at(size_t i);

/** A parsed "ring:both" string: row and params. Opened once, used for any size. */
typedef struct shoali_collective {
    const shoali_collective_row *row;
    uint32_t traits; /* with these params */
    void *params;    /* owned */
    char spec[160];  /* canonical */
    uint64_t hash;   /* of spec */
} shoali_collective;
SHOAL_MUST_USE shoal_status shoali_collective_open(const char *spec,
                                                   shoali_collective *collective_out);
void shoali_collective_close(shoali_collective *collective);
/** At a contributor: row->with_rows, and the spec that follows from it. */
void shoali_collective_with_rows(shoali_collective *collective, const uint32_t *rows, size_t count,
                                 const shoal_tensor *tensors, uint32_t tensor_count);

/**
 * The steps of one rank for an operation kind: what the engine runs. Checks sizes against the row's
 * traits, builds, and keeps the legs that kind uses. A group of one gets no steps.
 * @param args params is ignored: collective brings its own.
 * @return SHOAL_OK | EINVAL (the row cannot carry this kind, or its keys do not fit these sizes) |
 *     ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_collective_build(const shoali_collective *collective,
                                                    shoal_op_kind kind,
                                                    const shoal_schedule_args *args,
                                                    shoal_arena *arena,
                                                    shoal_schedule *schedule_out);

/** Longest spec, with its NUL. */
enum { SHOALI_COLLECTIVE_SPEC = 160 };

/**
 * What takes the place of a collective among fewer members than it was chosen for: itself or, where
 * its keys do not let it (hierarchical:dims=2/2 among three; links measured among all), its row at
 * the default keys, which take any number.
 * @param spec one that opens. @param all they are all ranks there are. @param out
 * [SHOALI_COLLECTIVE_SPEC]
 * @return SHOAL_OK | ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_collective_among(const char *spec, uint32_t members, bool all,
                                                    char *out);
/** Whether its keys let it sum among so many members, where a list says it. EINVAL: why not. */
SHOAL_MUST_USE shoal_status shoali_collective_takes(const shoali_collective *collective,
                                                    uint32_t members);

/** Whether what a step moves is float32 whatever the codec: inside a site. */
bool shoali_schedule_inside(const shoal_schedule *schedule, const shoal_step *step);

/** The key `site` of rows that know sites: EINVAL unless the members are two or more sites of so
 *  many (in one, the codec would have no link to code).
 *  @param row its name, for the error. */
SHOAL_MUST_USE shoal_status shoali_check_site(const char *row, int64_t site, uint32_t members);

/** The only split of a buffer into blocks: the first count % blocks blocks are one element
 *  longer. */
void shoali_block_range(size_t count, uint32_t blocks, uint32_t block, size_t *offset_out,
                        size_t *count_out);

/** Elements of the operation that a block of this schedule covers: shoali_block_range, or
 *  everything with slots. */
void shoali_schedule_range(const shoal_schedule *schedule, size_t count, uint32_t block,
                           size_t *offset_out, size_t *count_out);

/** Keep the legs that an operation kind uses: all (ALL_REDUCE, BROADCAST, BARRIER), PUSH only, OWN
 *  and PULL only. In place; rounds are counted anew from 1. */
void shoali_schedule_filter(shoal_schedule *schedule, shoal_op_kind kind);

/** What one rank moves; counted from the list, so planner, simulator, documentation and wire
 *  counters agree. Codec work is counted as if every leg were coded: PUSH sends and OWN encode,
 *  receives and OWN decode. sends and receives count blocks: each travels in frames of its own. */
typedef struct shoali_cost {
    uint64_t sent_elems, received_elems, added_elems, encoded_elems, decoded_elems;
    uint32_t rounds, sends, receives;
} shoali_cost;
void shoali_schedule_cost(const shoal_schedule *schedule, size_t count, shoali_cost *cost_out);

/** A list under construction. The first failure sticks, so a row adds without checking and end
 *  reports. */
typedef struct shoali_steps {
    shoal_arena *arena;
    shoal_step *steps;
    uint32_t count, capacity;
    bool failed;
} shoali_steps;
void shoali_steps_begin(shoal_arena *arena, shoali_steps *steps_out);
void shoali_steps_add(shoali_steps *steps, shoal_step step);
SHOAL_MUST_USE shoal_status shoali_steps_end(const shoali_steps *steps, uint32_t blocks,
                                             uint32_t rounds, shoal_schedule *schedule_out);

/** Read "4/2/1" into at most capacity values, each in min..max, for keys that hold a list. */
SHOAL_MUST_USE shoal_status shoali_read_list(const char *what, const char *text, uint32_t min,
                                             uint32_t max, uint32_t capacity, uint32_t *values_out,
                                             uint32_t *count_out);

#endif
