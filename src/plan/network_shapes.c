/* SPDX-License-Identifier: Apache-2.0 */
/* Which shapes a network of so many accelerators may have, and what is sent in each. */
#include "plan/network_shapes.h"

#include <string.h>

#include "base/error.h"
#include "base/spec.h"

/* ---------------------------------------------------------------- blocks */

typedef struct block_keys {
    int64_t least, most;
    double cost, rate;
} block_keys;

static const shoali_key keys[] = {
    {"least", SHOALI_KEY_INT, offsetof(block_keys, least), 2, SHOALI_CLUSTER_WORKERS_MAX, NULL, "2",
     "members of a dimension at least"},
    {"most", SHOALI_KEY_INT, offsetof(block_keys, most), 2, SHOALI_CLUSTER_WORKERS_MAX, NULL, "1m",
     "members of a dimension at most: the radix"},
    {"cost", SHOALI_KEY_FLOAT, offsetof(block_keys, cost), 0, 1e12, NULL, "0",
     "$ per GB/s of one accelerator"},
    {"rate", SHOALI_KEY_FLOAT, offsetof(block_keys, rate), 0, 1e12, NULL, "0",
     "GB/s of one accelerator at most; 0: no limit"}};
static const shoali_schema schema = {keys, sizeof keys / sizeof *keys, sizeof(block_keys)};

static shoal_status read_block(const char *text, shoali_block *out)
{
    static const char *const kinds[] = {"ring", "fc", "switch"};
    block_keys p;
    size_t kind;
    SHOALI_TRY(shoali_spec_find("block", text, kinds, 3, &kind));
    SHOALI_TRY(shoali_spec_parse("block", text, &schema, &p));
    if (p.least > p.most)
        return shoali_fail(SHOAL_EINVAL, "block '%.64s' has %lld members at least and %lld at most",
                           text, (long long)p.least, (long long)p.most);
    *out = (shoali_block){(shoali_topology)kind, (uint32_t)p.least, (uint32_t)p.most, p.cost,
                          p.rate};
    return SHOAL_OK;
}

static shoal_status read_space(const shoal_network_space *space, shoal_network_shapes *out)
{
    if (space->npus < 2 || space->npus > SHOALI_CLUSTER_WORKERS_MAX)
        return shoali_fail(SHOAL_EINVAL, "%llu accelerators; shapes are of 2 .. %d",
                           (unsigned long long)space->npus, SHOALI_CLUSTER_WORKERS_MAX);
    if (space->blocks == NULL || space->block_count == 0 || space->block_count > SHOALI_BLOCKS_MAX)
        return shoali_fail(SHOAL_EINVAL, "%u blocks; shapes are made of 1 .. %d of them",
                           space->block_count, SHOALI_BLOCKS_MAX);
    if (space->dims_max == 0 || space->dims_max > SHOALI_CONVEX_DIMS)
        return shoali_fail(SHOAL_EINVAL, "at most %u dimensions; it must be 1 .. %d",
                           space->dims_max, SHOALI_CONVEX_DIMS);
    for (uint32_t i = 0; i < space->block_count; i++) {
        SHOALI_TRY(read_block(space->blocks[i], &out->blocks[i]));
        out->has_cost = out->has_cost || out->blocks[i].cost > 0;
    }
    out->block_count = space->block_count;
    out->dims_max = space->dims_max;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- one shape */

void shoali_shape_network(const shoal_network_shapes *shapes, const shoali_shape *shape,
                          shoali_network_job *jobs, shoal_network *out)
{
    const shoal_network *base = shapes->base;
    *out = (shoal_network){.dims = shape->dims,
                           .npus = base->npus,
                           .fixed_cost = base->fixed_cost,
                           .has_cost = shapes->has_cost,
                           .overlap = base->overlap,
                           .recompute = base->recompute,
                           .jobs = jobs,
                           .job_count = base->job_count,
                           .times = shape->times};
    for (uint32_t d = 0; d < shape->dims; d++) {
        const shoali_block *block = &shapes->blocks[shape->block[d]];
        out->dimension[d] = (shoali_dimension){.topology = block->topology,
                                               .size = shape->size[d],
                                               .efficiency = 1,
                                               .efficiency_sharded = 1,
                                               .cost_link = block->cost};
        out->unit_cost[d] = block->cost;
    }
    for (uint32_t r = 0; r < shape->times.piece_count; r++)
        out->traffic[shape->times.pieces[r].dim] += shape->times.pieces[r].amount;
    for (uint32_t i = 0; i < base->job_count; i++) {
        jobs[i] = base->jobs[i];
        /* it was placed before, when the shape was entered */
        shoal_status placed = shoali_network_place(&jobs[i].split, out, &jobs[i].communicator);
        (void)placed;
    }
}

/* An all-to-all over more of a ring than its neighbours: its bytes pass others on their way, which
 * the formula for matched collectives does not count. */
static bool rings_suit(const shoal_network *net, const shoali_network_job *job)
{
    for (uint32_t i = 0; i < job->workload.row_count * SHOALI_PHASES; i++) {
        const shoali_workload_row *row = &job->workload.rows[i / SHOALI_PHASES];
        shoali_phase_kind kind = (shoali_phase_kind)(i % SHOALI_PHASES);
        const shoali_phase *phase = &row->phase[kind];
        if (phase->comm != SHOALI_COMM_ALL_TO_ALL || !(phase->bytes > 0))
            continue;
        const uint32_t *group = shoali_network_group(job, kind, phase);
        for (uint32_t d = 0; d < net->dims; d++) {
            const shoali_dimension *dim = &net->dimension[d];
            if (dim->topology == SHOALI_TOPOLOGY_RING && group[d] > 2 &&
                !(group[d] == 3 && dim->size == 3))
                return false;
        }
    }
    return true;
}

/* Whether all jobs' groups fit; places them. */
static bool fits(const shoal_network *net)
{
    for (uint32_t i = 0; i < net->job_count; i++) {
        shoali_network_job *job = &net->jobs[i];
        if (shoali_network_place(&job->split, net, &job->communicator) != SHOAL_OK ||
            !rings_suit(net, job))
            return false;
    }
    return true;
}

/* Terms in as much memory as they need. */
static shoal_status keep(shoal_arena *arena, const shoali_times *from, shoali_times *out)
{
    shoali_piece *pieces = shoali_arena_array(arena, from->piece_count + 1, sizeof *pieces);
    shoali_term *terms = shoali_arena_array(arena, from->term_count + 1, sizeof *terms);
    if (pieces == NULL || terms == NULL)
        return SHOAL_ENOMEM;
    memcpy(pieces, from->pieces, from->piece_count * sizeof *pieces);
    memcpy(terms, from->terms, from->term_count * sizeof *terms);
    *out = *from;
    out->pieces = pieces;
    out->terms = terms;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- all of them */

enum { DIVISORS_MAX = 240 }; /* that a number up to SHOALI_CLUSTER_WORKERS_MAX has */

/* A shape under construction. */
typedef struct maker {
    shoal_network_shapes *out;
    shoali_network_job *jobs;
    shoal_arena *scratch;
    uint32_t divisor[DIVISORS_MAX], divisor_count; /* of all accelerators, from 2 on */
    shoali_shape shape;
} maker;

static shoal_status grow(shoal_network_shapes *out)
{
    if (out->count + out->misfits == SHOALI_SHAPES_MAX)
        return shoali_fail(SHOAL_EINVAL,
                           "there are more than %d shapes: allow fewer dimensions, or blocks of "
                           "fewer sizes (least=, most=)",
                           SHOALI_SHAPES_MAX);
    if (out->count < out->capacity)
        return SHOAL_OK;
    uint64_t capacity = out->capacity > 0 ? 2 * out->capacity : 256;
    shoali_shape *more = shoali_realloc(out->shapes, out->capacity * sizeof *more,
                                        capacity * sizeof *more);
    if (more == NULL)
        return SHOAL_ENOMEM;
    out->shapes = more;
    out->capacity = capacity;
    return SHOAL_OK;
}

static shoal_status enter(maker *m)
{
    shoal_network_shapes *out = m->out;
    shoal_network net;
    shoali_times times;
    SHOALI_TRY(grow(out));
    shoali_shape_network(out, &m->shape, m->jobs, &net);
    if (!fits(&net)) {
        out->misfits++;
        return SHOAL_OK;
    }
    shoali_arena_reset(m->scratch);
    SHOALI_TRY(shoali_network_terms(&net, net.job_count, m->scratch, &times));
    out->shapes[out->count] = m->shape;
    SHOALI_TRY(keep(out->arena, &times, &out->shapes[out->count].times));
    out->count++;
    return SHOAL_OK;
}

/* Whether dimensions of these blocks can still hold so many. */
static bool reaches(const maker *m, uint64_t left, uint32_t from)
{
    uint64_t most = 1, reach = 1;
    for (uint32_t b = from; b < m->out->block_count; b++)
        most = m->out->blocks[b].most > most ? m->out->blocks[b].most : most;
    for (uint32_t d = m->shape.dims; d < m->out->dims_max && reach < left; d++)
        reach *= most;
    return reach >= left;
}

/* All ways to go on with `left` accelerators, from a block on: a level for each dimension. */
static shoal_status extend(maker *m, uint64_t left, uint32_t from)
{
    const uint32_t d = m->shape.dims;
    if (left == 1)
        return enter(m);
    for (uint32_t b = from; b < m->out->block_count && reaches(m, left, b); b++) {
        const shoali_block *block = &m->out->blocks[b];
        for (uint32_t i = 0; i < m->divisor_count; i++) {
            const uint32_t n = m->divisor[i];
            if (n < block->least || n > block->most || left % n != 0)
                continue;
            m->shape.size[d] = n;
            m->shape.block[d] = (uint8_t)b;
            m->shape.dims = (uint8_t)(d + 1);
            shoal_status status = extend(m, left / n, b);
            m->shape.dims = (uint8_t)d;
            SHOALI_TRY(status);
        }
    }
    return SHOAL_OK;
}

static shoal_status none(const shoal_network_shapes *shapes)
{
    if (shapes->misfits > 0)
        return shoali_fail(SHOAL_EINVAL, "the groups of the jobs fit into none of the %llu shapes",
                           (unsigned long long)shapes->misfits);
    return shoali_fail(SHOAL_EINVAL,
                       "no sizes of these blocks make %.0f accelerators in at most %u dimensions",
                       shapes->base->npus, shapes->dims_max);
}

static shoal_status enumerate(const shoal_network_space *space, shoal_network_shapes *out)
{
    maker m = {.out = out, .scratch = shoali_arena_create(1 << 16)};
    for (uint32_t n = 2; n <= space->npus; n++)
        if (space->npus % n == 0)
            m.divisor[m.divisor_count++] = n;
    m.jobs = shoali_alloc_array(out->base->job_count, sizeof *m.jobs);
    shoal_status status = m.jobs != NULL && m.scratch != NULL ? extend(&m, space->npus, 0)
                                                              : SHOAL_ENOMEM;
    shoali_arena_destroy(m.scratch);
    shoali_free(m.jobs);
    return status == SHOAL_OK && out->count == 0 ? none(out) : status;
}

static bool is_file(const char *text)
{
    const char *end = text != NULL ? strrchr(text, '.') : NULL;
    return end != NULL && (strcmp(end, ".yml") == 0 || strcmp(end, ".yaml") == 0);
}

static shoal_status open_base(const shoal_network_desc *desc, const shoal_network_space *space,
                              shoal_network_shapes *out)
{
    char whole[32];
    shoal_network_desc one = *desc;
    if (desc->network != NULL || desc->cost != NULL)
        return shoali_fail(SHOAL_EINVAL,
                           "the shape of a network is looked for, and its costs are the blocks': "
                           "leave network and cost out");
    for (uint32_t i = 0; desc->jobs != NULL && i < desc->job_count; i++)
        if (is_file(desc->jobs[i].communicator))
            return shoali_fail(SHOAL_EINVAL,
                               "%.64s has the groups of one shape; write tp=N, which all can have",
                               desc->jobs[i].communicator);
    snprintf(whole, sizeof whole, "switch:%llu", (unsigned long long)space->npus);
    one.network = whole;
    return shoal_network_open(&one, &out->base);
}

shoal_status shoal_network_shapes_open(const shoal_network_desc *desc,
                                       const shoal_network_space *space,
                                       shoal_network_shapes **shapes_out)
{
    if (desc == NULL || space == NULL || shapes_out == NULL || desc->size < sizeof *desc ||
        space->size < sizeof *space)
        return shoali_fail(SHOAL_EINVAL, "shoal_network_shapes_open needs a description and a "
                                         "space with their sizes");
    shoal_network_shapes *out = shoali_alloc(sizeof *out);
    if (out == NULL)
        return SHOAL_ENOMEM;
    out->arena = shoali_arena_create(1 << 16);
    shoal_status status = out->arena != NULL ? read_space(space, out) : SHOAL_ENOMEM;
    if (status == SHOAL_OK)
        status = open_base(desc, space, out);
    if (status == SHOAL_OK)
        status = enumerate(space, out);
    if (status == SHOAL_OK)
        *shapes_out = out;
    else
        shoal_network_shapes_close(out);
    return status;
}

void shoal_network_shapes_close(shoal_network_shapes *shapes)
{
    if (shapes == NULL)
        return;
    shoal_network_close(shapes->base);
    shoali_arena_destroy(shapes->arena);
    shoali_free(shapes->shapes);
    shoali_free(shapes);
}
