/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives in chunks: Rashidi et al., "Themis: a network bandwidth-aware collective scheduling
 * policy for distributed training of DL models", ISCA 2022. Its rule: a chunk is reduced and
 * scattered over the dimension with least load first, and gathered the other way round. The first
 * dimension sends most of a chunk, and each later one by a factor of the earlier ones' sizes less:
 *
 *     4 x 4, all of one bandwidth       inner first: 12/16 and 3/16 of each chunk, time 12/16
 *     chunks in turns 01, 10, 01, ...   7.5/16 and 7.5/16, time 7.5/16
 *
 * Departures: what a chunk adds is booked as both halves of an all-reduce at once, and where the
 * simulation of one order for all is faster, as with few chunks, that one is taken. */
#include "plan/network_schedule.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "plan/network.h"

enum { DIMS = SHOALI_CLUSTER_DIMENSIONS_MAX, STEPS_MAX = 2 * DIMS };

/* ---------------------------------------------------------------- volumes and the bound */

/* Bytes that a whole vector has, of which a shard is one member's part. */
static double whole_of(const shoali_chunked *of)
{
    double bytes = of->bytes;
    for (uint32_t d = 0; of->kind == SHOALI_COMM_ALL_GATHER && d < of->dims; d++)
        bytes *= of->groups[d];
    return bytes;
}

static bool depends_on_order(const shoali_chunked *of)
{
    return of->kind != SHOALI_COMM_ALL_TO_ALL && of->kind != SHOALI_COMM_SEND;
}

void shoali_chunked_volume(const shoali_chunked *of, double s, const uint32_t *order, double *out)
{
    for (uint32_t i = 0; i < of->dims; i++) {
        double c = of->groups[order[i]];
        out[order[i]] = s * (c - 1) / c;
        s /= c;
    }
}

double shoali_chunked_bound(const shoali_chunked *of)
{
    double all = 1, most = 0, volume[DIMS];
    if (!depends_on_order(of)) {
        shoali_network_volume(of->kind, of->bytes, of->groups, of->dims, volume);
        for (uint32_t d = 0; d < of->dims; d++)
            most = volume[d] > 0 ? fmax(most, volume[d] / of->bandwidth[d]) : most;
        return most;
    }
    for (uint32_t d = 0; d < of->dims; d++)
        all *= of->groups[d];
    for (uint32_t set = 1; set < 1u << of->dims; set++) {
        double members = 1, bandwidth = 0;
        for (uint32_t d = 0; d < of->dims; d++)
            if ((set >> d & 1) != 0 && of->groups[d] > 1) {
                members *= of->groups[d];
                bandwidth += of->bandwidth[d];
            }
        if (members > 1)
            most = fmax(most, (members - 1) / all / bandwidth);
    }
    return most * whole_of(of) * (of->kind == SHOALI_COMM_ALL_REDUCE ? 2 : 1);
}

/* ---------------------------------------------------------------- orders */

/* What a chunk does one after the other: on which dimension, for how long. */
typedef struct chunk {
    uint8_t dim[STEPS_MAX];
    double seconds[STEPS_MAX], ready;
    uint32_t steps, at;
} chunk;

/* Dimensions by rising load, inner ones first where that is equal; the chunk's part is booked. */
static void choose_order(const shoali_chunked *of, double *load, uint32_t *order)
{
    double volume[DIMS];
    for (uint32_t i = 0; i < of->dims; i++) {
        uint32_t k = i;
        for (; k > 0 && load[order[k - 1]] > load[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    shoali_chunked_volume(of, 1, order, volume);
    for (uint32_t d = 0; d < of->dims; d++)
        load[d] += volume[d] > 0 ? volume[d] / of->bandwidth[d] : 0;
}

static void add_step(const shoali_chunked *of, chunk *c, uint32_t dim, double bytes)
{
    if (bytes <= 0)
        return;
    c->dim[c->steps] = (uint8_t)dim;
    c->seconds[c->steps++] = bytes / of->bandwidth[dim];
}

/* There in the order, back against it. */
static void make_steps(const shoali_chunked *of, const uint32_t *order, chunk *c)
{
    double volume[DIMS], share = 1.0 / of->chunks;
    if (depends_on_order(of))
        shoali_chunked_volume(of, whole_of(of) * share, order, volume);
    else
        shoali_network_volume(of->kind, of->bytes * share, of->groups, of->dims, volume);
    for (uint32_t i = 0; of->kind != SHOALI_COMM_ALL_GATHER && i < of->dims; i++)
        add_step(of, c, order[i], volume[order[i]]);
    bool back = of->kind == SHOALI_COMM_ALL_GATHER || of->kind == SHOALI_COMM_ALL_REDUCE;
    for (uint32_t i = of->dims; back && i-- > 0;)
        add_step(of, c, order[i], volume[order[i]]);
}

/* ---------------------------------------------------------------- simulation */

/* The chunk whose next step begins first; of those that wait for one dimension the one that came
 * first. NULL: all are through. */
static chunk *next_of(const shoali_chunked *of, chunk *chunks, const double *free_at)
{
    chunk *best = NULL;
    double begin = INFINITY;
    for (uint32_t i = 0; i < of->chunks; i++) {
        chunk *c = &chunks[i];
        if (c->at == c->steps)
            continue;
        double at = fmax(c->ready, free_at[c->dim[c->at]]);
        if (best == NULL || at < begin || (at <= begin && c->ready < best->ready)) {
            begin = at;
            best = c;
        }
    }
    return best;
}

static double simulate(const shoali_chunked *of, bool choose, chunk *chunks)
{
    double load[DIMS] = {0}, free_at[DIMS] = {0}, end = 0;
    for (uint32_t i = 0; i < of->chunks; i++) {
        uint32_t order[DIMS] = {0, 1, 2, 3, 4, 5, 6, 7};
        chunks[i] = (chunk){.ready = 0};
        if (choose)
            choose_order(of, load, order);
        make_steps(of, order, &chunks[i]);
    }
    for (chunk *c; (c = next_of(of, chunks, free_at)) != NULL;) {
        uint32_t d = c->dim[c->at];
        c->ready = free_at[d] = fmax(c->ready, free_at[d]) + c->seconds[c->at];
        c->at++;
        end = fmax(end, c->ready);
    }
    return end;
}

shoal_status shoali_chunked_run(const shoali_chunked *of, bool choose, shoal_arena *scratch,
                                double *seconds_out)
{
    chunk *chunks = shoali_arena_array(scratch, of->chunks, sizeof *chunks);
    if (chunks == NULL)
        return SHOAL_ENOMEM;
    *seconds_out = simulate(of, choose, chunks);
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- a step of the jobs */

/* Times of one collective, and of a step: by the formula, simulated, the bound. */
typedef struct times {
    double formula, fixed, chosen, bound;
} times;

static times add(times a, double k, times b)
{
    return (times){a.formula + k * b.formula, a.fixed + k * b.fixed, a.chosen + k * b.chosen,
                   a.bound + k * b.bound};
}

static times longer(times a, times b)
{
    return (times){fmax(a.formula, b.formula), fmax(a.fixed, b.fixed), fmax(a.chosen, b.chosen),
                   fmax(a.bound, b.bound)};
}

/* What was simulated already, per byte: time is proportional to bytes. */
enum { KNOWN_MAX = 64 };
typedef struct runner {
    const shoal_network *network;
    const double *bandwidth;
    uint32_t chunks, known;
    shoal_arena *scratch;
    struct {
        shoali_comm_kind kind;
        uint32_t groups[DIMS];
        times per_byte;
    } at[KNOWN_MAX];
} runner;

static shoal_status run_one(const runner *r, shoali_comm_kind kind, const uint32_t *groups,
                            times *out)
{
    const shoali_chunked of = {kind, 1, groups, r->bandwidth, r->network->dims, r->chunks};
    double volume[DIMS];
    shoali_network_volume(kind, 1, groups, r->network->dims, volume);
    *out = (times){0};
    for (uint32_t d = 0; d < r->network->dims; d++)
        if (volume[d] > 0) {
            if (!(r->bandwidth[d] > 0))
                return shoali_fail(SHOAL_EINVAL, "dimension %u has traffic, and no bandwidth", d);
            out->formula = fmax(out->formula, volume[d] / r->bandwidth[d]);
        }
    SHOALI_TRY(shoali_chunked_run(&of, false, r->scratch, &out->fixed));
    SHOALI_TRY(shoali_chunked_run(&of, true, r->scratch, &out->chosen));
    shoali_arena_reset(r->scratch);
    out->chosen = fmin(out->chosen, out->fixed);
    out->bound = shoali_chunked_bound(&of);
    return SHOAL_OK;
}

/* Before a collective, and it. */
static shoal_status phase_of(runner *r, const shoali_network_job *job,
                             const shoali_workload_row *row, shoali_phase_kind kind,
                             double before_ns, times *out)
{
    const shoali_phase *phase = &row->phase[kind];
    const uint32_t *groups = shoali_network_group(job, kind, phase);
    const size_t len = r->network->dims * sizeof *groups;
    times found = {0}, before = {before_ns, before_ns, before_ns, before_ns};
    uint32_t i = 0;
    *out = before;
    if (phase->comm == SHOALI_COMM_NONE || phase->bytes <= 0)
        return SHOAL_OK;
    while (i < r->known &&
           (r->at[i].kind != phase->comm || memcmp(r->at[i].groups, groups, len) != 0))
        i++;
    if (i < r->known) {
        found = r->at[i].per_byte;
    } else {
        SHOALI_TRY(run_one(r, phase->comm, groups, &found));
        if (r->known < KNOWN_MAX) {
            r->at[r->known].kind = phase->comm;
            memcpy(r->at[r->known].groups, groups, len);
            r->at[r->known++].per_byte = found;
        }
    }
    *out = add(before, phase->bytes, found);
    return SHOAL_OK;
}

/* The loops of network_volume.c. */
static shoal_status row_of(runner *r, const shoali_network_job *job, const shoali_workload_row *row,
                           times *sum)
{
    double forward = row->phase[SHOALI_PHASE_FORWARD].compute_ns;
    double input = row->phase[SHOALI_PHASE_INPUT_GRAD].compute_ns;
    double weight = row->phase[SHOALI_PHASE_WEIGHT_GRAD].compute_ns;
    const bool overlap = r->network->overlap;
    times a, b;
    SHOALI_TRY(phase_of(r, job, row, SHOALI_PHASE_FORWARD, forward, &a));
    *sum = add(*sum, job->weight, a);
    if (r->network->recompute) {
        SHOALI_TRY(phase_of(r, job, row, SHOALI_PHASE_FORWARD, 0, &a));
        *sum = add(*sum, job->weight, a);
    }
    SHOALI_TRY(phase_of(r, job, row, SHOALI_PHASE_INPUT_GRAD, input, &a));
    SHOALI_TRY(
        phase_of(r, job, row, SHOALI_PHASE_WEIGHT_GRAD, overlap ? input + weight : weight, &b));
    *sum = add(*sum, job->weight, overlap ? longer(a, b) : add(a, 1, b));
    return SHOAL_OK;
}

shoal_status shoal_network_schedule_at(const shoal_network *network, const double *bandwidth,
                                       uint32_t chunks, shoal_network_schedule *out)
{
    times sum = {0};
    if (network == NULL || bandwidth == NULL || out == NULL || out->size < sizeof *out)
        return shoali_fail(SHOAL_EINVAL,
                           "shoal_network_schedule_at needs a network, bandwidths and a place");
    if (chunks == 0 || chunks > SHOALI_CHUNKS_MAX)
        return shoali_fail(SHOAL_EINVAL, "%u chunks of a collective; 1 .. %d", chunks,
                           SHOALI_CHUNKS_MAX);
    shoal_arena *scratch = shoali_arena_create(1 << 16);
    runner r = {network, bandwidth, chunks, .scratch = scratch};
    shoal_status status = scratch != NULL ? SHOAL_OK : SHOAL_ENOMEM;
    for (uint32_t i = 0; status == SHOAL_OK && i < network->job_count; i++)
        for (uint32_t k = 0; status == SHOAL_OK && k < network->jobs[i].workload.row_count; k++)
            status = row_of(&r, &network->jobs[i], &network->jobs[i].workload.rows[k], &sum);
    shoali_arena_destroy(scratch);
    if (status != SHOAL_OK)
        return status;
    out->time_ns = sum.formula;
    out->fixed_ns = sum.fixed;
    out->chosen_ns = sum.chosen;
    out->bound_ns = sum.bound;
    return SHOAL_OK;
}
