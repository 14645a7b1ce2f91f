/* SPDX-License-Identifier: Apache-2.0 */
/* One operation on N members, run by the engine over memnet: made from a few numbers, checked
 * against sums computed here. Inputs are multiples of `unit` small enough that float32 sums are
 * exact in any order, so a lossless run has exactly one right answer. */
#ifndef SHOALI_TESTS_SUPPORT_ENGINECASE_H
#define SHOALI_TESTS_SUPPORT_ENGINECASE_H

#include "support/memnet.h"

typedef struct engine_case {
    const char *collective, *push, *pull;       /* specs; pull NULL: as push */
    const shoal_codec *push_codec, *pull_codec; /* instead of the specs, borrowed; or NULL */
    shoal_op_kind kind;
    shoal_reduce reduce;
    uint32_t size, contributors, root; /* contributors 0: size */
    size_t count;
    uint32_t chunk_elems, tensors; /* tensors 0: 1 */
    uint64_t sequence;             /* of the operation's id */
    uint64_t input_seed, order_seed;
    float unit;
    uint32_t raw_tensor; /* this tensor + 1 is flagged RAW; 0: none */
    bool owner_job, unchecked, feedback;
    uint64_t pace_us; /* in virtual time: sends take so long; 0: as long as they need */
} engine_case;

typedef struct engine_run {
    engine_case c;
    shoal_codec *push, *pull; /* opened here; NULL where borrowed */
    shoali_collective collective;
    shoal_tensor *tensors;
    uint32_t *endpoints;
    float **inputs, **bufs;  /* [size][count]: as contributed, and the operation's buffers */
    float ***residuals;      /* [size][tensors][count of the tensor], zero at first */
    float *shared;           /* [size][measured values] if the push codec measures, else NULL */
    shoali_scratch *scratch; /* one pool for all, checked to be empty at the end */
    const uint32_t **rows;   /* [size] lists of rows, the caller's; NULL: none */
    const size_t *row_counts;
    memnet *net;
    char text[256];
} engine_run;

/** Make everything, start nothing. Returns false if the collective cannot do this size (EINVAL). */
bool engine_run_open(const engine_case *c, engine_run *run_out);
/** Flow arguments of one member. */
shoali_flow_args engine_run_args(const engine_run *run, uint32_t member);
/** Its collective's flow, or the engine. */
const shoali_flow_row *engine_run_row(const engine_run *run);
/** What rounds.c does before the first encode: the largest values of all members. engine_run_go
 * does it. */
void engine_run_measure(engine_run *run);
/** Start all members. */
void engine_run_start(engine_run *run);
/** Let all that have started run to the end; fails the test if they hang, or keep a buffer. */
void engine_run_to_end(engine_run *run);
/** Measure, start, to the end. */
void engine_run_go(engine_run *run);
/** Start all; after so many events the victim vanishes; to the end. Fails the test unless each of
 * the others ended OK or EPEER, and then said why. @return how many EPEER */
size_t engine_run_lose(engine_run *run, size_t events, uint32_t victim);
/** Start again on new inputs, with the residuals as they are. */
void engine_run_again(engine_run *run, uint64_t sequence, uint64_t input_seed);
/** Every buffer is back in the pool; free. */
void engine_run_close(engine_run *run);

/** Sum over the contributors at element i, in double. */
double engine_run_sum(const engine_run *run, size_t i);
/** Fails the test unless every member ended OK and no frame was refused. */
void engine_run_assert_ok(const engine_run *run);
/** Fails the test unless all know that element i of this member is not finite; servers may know
 * nothing of it (another's shard). */
void engine_run_assert_not_finite(const engine_run *run, uint32_t member, size_t i);
/** Fails the test unless contributors hold exactly the sum, and the same bits. */
void engine_run_assert_exact(const engine_run *run);
/** Fails the test unless contributors hold the same bits. */
void engine_run_assert_same(const engine_run *run);
/** A line that repeats the case, for print_error. */
const char *engine_run_name(const engine_run *run);

/** Specs of schedules to try with every size: the table's rows with default keys, and some with
 * keys. NULL: end. */
const char *engine_spec_at(size_t i);
/** Members beyond contributors that the spec asks for. */
uint32_t engine_spec_servers(const char *spec);
bool engine_spec_rooted(const char *spec);

#endif
