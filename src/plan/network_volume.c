/* SPDX-License-Identifier: Apache-2.0 */
/* From rows of a workload to terms of T(b) (planning.md 3.3 and 3.4). */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "plan/network.h"

enum { DIMS = SHOALI_CONVEX_DIMS, PIECES_MAX = 2 * DIMS + 2 };
#define SAME_RATIO 1e-12 /* relative: proportional but for rounding */

void shoali_network_volume(shoali_comm_kind kind, double bytes, const uint32_t *groups,
                           uint32_t dims, double *out)
{
    double s = bytes;
    memset(out, 0, dims * sizeof *out);
    for (uint32_t i = 0; i < dims; i++) {
        uint32_t d = kind == SHOALI_COMM_ALL_GATHER ? dims - 1 - i : i;
        double c = groups[d];
        if (kind == SHOALI_COMM_NONE || groups[d] <= 1)
            continue;
        if (kind == SHOALI_COMM_SEND) {
            out[d] = bytes; /* somewhere a stage's next one lies beyond this dimension */
        } else if (kind == SHOALI_COMM_ALL_GATHER) {
            out[d] = s * (c - 1);
            s *= c;
        } else {
            out[d] = (kind == SHOALI_COMM_ALL_REDUCE ? 2 : 1) * s * (c - 1) / c;
            s = kind == SHOALI_COMM_ALL_TO_ALL ? s : s / c;
        }
    }
}

/* One term under construction. */
typedef struct draft {
    shoali_piece piece[PIECES_MAX];
    uint32_t count;
} draft;

/* All terms of a job, or of several. */
typedef struct builder {
    const shoal_network *network;
    shoali_piece *pieces;
    shoali_term *terms;
    uint32_t piece_count, term_count, capacity;
    double constant, weight;
} builder;

/* a never exceeds b, whatever the bandwidth. */
static bool covered(const shoali_piece *a, const shoali_piece *b)
{
    return a->add <= b->add && (a->amount <= 0 || (a->dim == b->dim && a->amount <= b->amount));
}

static void add_piece(draft *term, double add, double amount, uint32_t dim)
{
    shoali_piece piece = {add, amount, dim};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < term->count; i++) {
        if (covered(&piece, &term->piece[i]))
            return;
    }
    for (uint32_t i = 0; i < term->count; i++) {
        if (!covered(&term->piece[i], &piece))
            term->piece[kept++] = term->piece[i];
    }
    term->piece[kept++] = piece;
    term->count = kept;
}

/* Computation and then a collective, as one more way to be the longest. */
static void add_phase(builder *b, const shoali_network_job *job, const shoali_workload_row *row,
                      shoali_phase_kind phase, double before_ns, draft *term)
{
    double volume[DIMS];
    uint32_t dims = b->network->dims;
    bool any = false;
    shoali_network_volume(row->phase[phase].comm, row->phase[phase].bytes,
                          shoali_network_group(job, phase, &row->phase[phase]), dims, volume);
    for (uint32_t d = 0; d < dims; d++) {
        if (volume[d] > 0)
            add_piece(term, before_ns * b->weight, volume[d] * b->weight, d);
        any = any || volume[d] > 0;
    }
    if (!any)
        add_piece(term, before_ns * b->weight, 0, 0);
}

/* How much longer the new term is than one that stands; 0: not proportional. */
static double ratio_to(const draft *term, const shoali_piece *pieces)
{
    double ratio = term->piece[0].amount > 0 ? term->piece[0].amount / pieces[0].amount
                                             : term->piece[0].add / pieces[0].add;
    for (uint32_t i = 0; i < term->count; i++) {
        const shoali_piece *new = &term->piece[i], *old = &pieces[i];
        if (new->dim != old->dim ||
            !(fabs(new->amount - ratio * old->amount) <= SAME_RATIO * new->amount) ||
            !(fabs(new->add - ratio * old->add) <= SAME_RATIO * new->add))
            return 0;
    }
    return ratio > 0 && ratio < INFINITY ? ratio : 0;
}

static bool merge(builder *b, const draft *term)
{
    for (uint32_t j = 0; j < b->term_count; j++) {
        shoali_piece *pieces = b->pieces + b->terms[j].first;
        double ratio = b->terms[j].count == term->count ? ratio_to(term, pieces) : 0;
        for (uint32_t i = 0; ratio > 0 && i < term->count; i++) {
            pieces[i].add += term->piece[i].add;
            pieces[i].amount += term->piece[i].amount;
        }
        if (ratio > 0)
            return true;
    }
    return false;
}

/* What all pieces share goes to the constant; terms proportional to an earlier one join it. */
static shoal_status add_term(builder *b, draft *term)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < term->count; i++)
        least = fmin(least, term->piece[i].add);
    b->constant += least;
    for (uint32_t i = 0; i < term->count; i++)
        term->piece[i].add -= least;
    if ((term->count == 1 && term->piece[0].amount <= 0) || merge(b, term))
        return SHOAL_OK;
    if (b->term_count == b->capacity)
        return shoali_fail(SHOAL_EINVAL, "more than %d collectives of different proportions",
                           SHOALI_NETWORK_TERMS_MAX);
    b->terms[b->term_count++] = (shoali_term){b->piece_count, term->count};
    memcpy(b->pieces + b->piece_count, term->piece, term->count * sizeof *term->piece);
    b->piece_count += term->count;
    return SHOAL_OK;
}

static shoal_status add_alone(builder *b, const shoali_network_job *job,
                              const shoali_workload_row *row, shoali_phase_kind phase,
                              double before_ns)
{
    draft term = {.count = 0};
    add_phase(b, job, row, phase, before_ns, &term);
    return add_term(b, &term);
}

static shoal_status add_row(builder *b, const shoali_network_job *job,
                            const shoali_workload_row *row)
{
    double forward = row->phase[SHOALI_PHASE_FORWARD].compute_ns;
    double input = row->phase[SHOALI_PHASE_INPUT_GRAD].compute_ns;
    double weight = row->phase[SHOALI_PHASE_WEIGHT_GRAD].compute_ns;
    draft backward = {.count = 0};
    SHOALI_TRY(add_alone(b, job, row, SHOALI_PHASE_FORWARD, forward));
    if (b->network->recompute)
        SHOALI_TRY(add_alone(b, job, row, SHOALI_PHASE_FORWARD, 0));
    if (!b->network->overlap) {
        SHOALI_TRY(add_alone(b, job, row, SHOALI_PHASE_INPUT_GRAD, input));
        return add_alone(b, job, row, SHOALI_PHASE_WEIGHT_GRAD, weight);
    }
    add_phase(b, job, row, SHOALI_PHASE_INPUT_GRAD, input, &backward);
    add_phase(b, job, row, SHOALI_PHASE_WEIGHT_GRAD, input + weight, &backward);
    return add_term(b, &backward);
}

shoal_status shoali_network_terms(const shoal_network *network, uint32_t index, shoal_arena *arena,
                                  shoali_times *out)
{
    bool all = index == network->job_count;
    builder b = {.network = network};
    uint64_t rows = 1;
    for (uint32_t i = all ? 0 : index; i < (all ? network->job_count : index + 1); i++)
        rows += network->jobs[i].workload.row_count;
    size_t most = rows < SHOALI_NETWORK_TERMS_MAX / 4 ? 4 * (size_t)rows : SHOALI_NETWORK_TERMS_MAX;
    b.capacity = (uint32_t)most;
    b.terms = shoali_arena_array(arena, most, sizeof *b.terms);
    b.pieces = shoali_arena_array(arena, most * PIECES_MAX, sizeof *b.pieces);
    if (b.terms == NULL || b.pieces == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = all ? 0 : index; i < (all ? network->job_count : index + 1); i++) {
        const shoali_network_job *job = &network->jobs[i];
        b.weight = all ? job->weight : 1;
        for (uint32_t r = 0; r < job->workload.row_count; r++)
            SHOALI_TRY(add_row(&b, job, &job->workload.rows[r]));
    }
    *out = (shoali_times){b.constant,    b.pieces,     b.terms,
                          b.piece_count, b.term_count, network->dims};
    return SHOAL_OK;
}
