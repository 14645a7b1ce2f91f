/* SPDX-License-Identifier: Apache-2.0 */
/* One operation, from the first member that enters to the last that is told:
 *
 *   GATHERING --last enters--> LATENCY --(rounds + 1) one-way times--> MOVING --through--> free
 *       |                         |                                       |
 *       +-- a member dies: HUNG until others notice; cancelled, mismatch, a member gone for good:
 *           FAILED: those inside are told after one latency, later ones, too
 *
 * Numbers are computed when the last member enters, by the real engine (sim_flow.c): nobody looks
 * at the buffers before the end. One round more than the schedule's: data waits for a grant. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "driver/driver.h"
#include "driver/sim_flow.h"
#include "driver/sim_parts.h"

#define NONE UINT32_MAX
enum { STREAM_TAILS = 0x7461 };

/* ---------------------------------------------------------------- opening */

static uint32_t member_of(const shoali_sim_op *op, uint32_t endpoint)
{
    if (endpoint < op->size && op->members[endpoint] == endpoint)
        return endpoint; /* all of the world, in order */
    for (uint32_t i = 0; i < op->size; i++)
        if (op->members[i] == endpoint)
            return i;
    return NONE;
}

/* After a loss a sum may have fewer members than its collective was chosen for. Without numbers a
 * transform has no rounds that would name theirs. */
static const char *spec_of(shoal_sim *sim, const shoali_sync_op *op)
{
    if (op->collective != NULL)
        return op->collective;
    if (op->kind == SHOALI_SYNC_BROADCAST)
        return "broadcast";
    if (op->push_coded && !sim->numbers &&
        (shoal_codec_traits(sim->codec) & SHOAL_CODEC_GATHERS) != 0)
        return "gather";
    if (op->members == NULL || op->contributors == sim->workers)
        return sim->collective;
    shoal_status status = shoali_collective_among(sim->collective, op->contributors, false,
                                                  sim->among);
    if (status != SHOAL_OK)
        shoali_sim_break(sim, status);
    return sim->among;
}

/* A new operation as its first member describes it. */
static uint32_t open_op(shoal_sim *sim, uint32_t endpoint, const shoali_sync_op *op)
{
    const shoali_world *world = &sim->nodes[endpoint].world;
    uint32_t size = op->members != NULL ? op->member_count : world->workers + world->servers;
    shoali_collective *opened = shoali_sim_collective_of(sim, spec_of(sim, op));
    uint32_t index = opened != NULL ? shoali_sim_place_take(sim, op->id, size) : NONE;
    if (index == NONE) {
        shoali_sim_break(sim, SHOAL_ENOMEM);
        return NONE;
    }
    shoali_sim_op *place = &sim->ops.places[index];
    place->state = SHOALI_SIM_OP_GATHERING;
    place->op = *op;
    place->op.members = NULL;
    place->op.collective = NULL;
    place->collective = opened;
    place->size = size;
    place->contributors = op->members != NULL ? op->contributors : world->workers;
    place->contributors = place->contributors > 0 ? place->contributors : size;
    place->entered = place->told = 0;
    place->iteration_min = UINT64_MAX;
    place->iteration_max = 0;
    place->status = SHOAL_OK;
    for (uint32_t i = 0; i < size; i++)
        place->members[i] = op->members != NULL ? op->members[i] : world->endpoints[i];
    memset(place->phase, SHOALI_MEMBER_ABSENT, size);
    return index;
}

/* ---------------------------------------------------------------- the end */

static void tell(shoal_sim *sim, uint32_t index, uint32_t member)
{
    shoali_sim_op *op = &sim->ops.places[index];
    uint64_t id = op->op.id;
    uint32_t endpoint = op->members[member];
    op->phase[member] = SHOALI_MEMBER_TOLD;
    op->told++;
    if (op->state == SHOALI_SIM_OP_MOVING) {
        sim->nodes[endpoint].sent_bytes += op->volume->sent[member];
        sim->nodes[endpoint].received_bytes += op->volume->received[member];
        sim->nodes[endpoint].dense_bytes += op->volume->dense[member];
        if (sim->told.keeper.operation != NULL)
            sim->told.keeper.operation(sim->told.keeper.ctx, op, member);
    }
    shoali_sim_op_done(sim, endpoint, id, op->status, op->status == SHOAL_OK ? NULL : op->text);
}

void shoali_sim_op_tell(shoal_sim *sim, uint32_t endpoint, uint32_t index, uint32_t generation)
{
    if (sim->ops.places[index].generation != generation)
        return;
    uint32_t member = member_of(&sim->ops.places[index], endpoint);
    if (sim->ops.places[index].phase[member] == SHOALI_MEMBER_ENTERED)
        tell(sim, index, member);
}

/* Another one of the same members is under way: what it sends shows that a packet is missing. */
static bool is_followed(const shoal_sim *sim, const shoali_sim_op *op)
{
    for (uint32_t i = 0; i < sim->ops.count; i++) {
        const shoali_sim_op *other = &sim->ops.places[i];
        const bool open = other->state == SHOALI_SIM_OP_GATHERING ||
                          other->state == SHOALI_SIM_OP_LATENCY ||
                          (other->state == SHOALI_SIM_OP_MOVING && !other->awaits);
        if (open && other != op && other->size == op->size &&
            memcmp(other->members, op->members, op->size * sizeof *op->members) == 0)
            return true;
    }
    return false;
}

/* How long the timers of an operation's last packets run. */
static uint64_t tails_ns(const shoal_sim *sim, const shoali_sim_op *op)
{
    const shoali_volume *v = op->volume;
    double seconds = 0;
    if (v->tails == NULL || is_followed(sim, op))
        return 0;
    const uint64_t stream = shoali_mix(STREAM_TAILS, sim->report.results.operations);
    for (uint32_t round = 0; round < v->rounds; round++)
        if (v->tails[round] > 0)
            seconds += shoali_lost_draw_s(v->loss, v->latency_s, v->tails[round],
                                          shoali_rng_double(sim->seed, stream, round));
    return (uint64_t)(seconds * 1e9);
}

static void end_op(shoal_sim *sim, uint32_t index);

void shoali_sim_op_moved(shoal_sim *sim, uint32_t index)
{
    shoali_sim_op *op = &sim->ops.places[index];
    const uint64_t late_ns = tails_ns(sim, op);
    op->awaits = late_ns > 0;
    if (late_ns > 0)
        shoali_sim_at(sim, sim->now_ns + late_ns, SHOALI_SIM_MOVED, NONE, index, op->generation);
    else
        end_op(sim, index);
}

void shoali_sim_op_arrived(shoal_sim *sim, uint32_t index, uint32_t generation)
{
    const shoali_sim_op *op = &sim->ops.places[index];
    if (op->state == SHOALI_SIM_OP_MOVING && op->generation == generation)
        end_op(sim, index);
}

/* All bytes are through: everybody is told in order of membership. */
static void end_op(shoal_sim *sim, uint32_t index)
{
    uint32_t size = sim->ops.places[index].size;
    uint64_t apart = sim->ops.places[index].iteration_max - sim->ops.places[index].iteration_min;
    sim->report.results.operations++;
    if (apart > sim->report.results.staleness_max)
        sim->report.results.staleness_max = apart;
    shoali_sim_report_op(sim, &sim->ops.places[index]);
    sim->report.cause = sim->ops.places[index].last;
    sim->report.cause_ns = sim->ops.places[index].began_ns;
    for (uint32_t member = 0; member < size; member++)
        tell(sim, index, member); /* may open operations, and so move sim->ops.places */
    sim->report.cause = SHOALI_SIM_NO_CAUSE;
    shoali_sim_volume_drop(sim->ops.places[index].volume);
    sim->ops.places[index].volume = NULL;
    shoali_sim_place_drop(sim, index);
}

static void fail(shoal_sim *sim, uint32_t index, shoal_status status, const char *why)
{
    shoali_sim_op *op = &sim->ops.places[index];
    if (op->state == SHOALI_SIM_OP_FAILED)
        return;
    if (op->state == SHOALI_SIM_OP_MOVING)
        (void)shoali_links_cancel(sim->net, sim->now_ns, index);
    op->state = SHOALI_SIM_OP_FAILED;
    op->status = status;
    snprintf(op->text, sizeof op->text, "operation %llu of iteration %llu: %s",
             (unsigned long long)op->op.id, (unsigned long long)op->op.iteration, why);
    for (uint32_t i = 0; i < op->size; i++)
        if (op->phase[i] == SHOALI_MEMBER_ENTERED)
            shoali_sim_at(sim, sim->now_ns + sim->latency_ns, SHOALI_SIM_TELL, op->members[i],
                          index, op->generation);
}

void shoali_sim_op_cancel(shoal_sim *sim, uint32_t endpoint, uint64_t id)
{
    char why[96];
    uint32_t index = shoali_sim_place_find(sim, id);
    snprintf(why, sizeof why, "endpoint %u cancelled it", endpoint);
    if (index != NONE)
        fail(sim, index, SHOAL_ECANCELLED, why);
}

void shoali_sim_op_hurry(shoal_sim *sim, uint64_t id)
{
    const uint32_t index = shoali_sim_place_find(sim, id);
    if (index == NONE)
        return;
    sim->ops.places[index].op.within_us = 0;
    if (sim->ops.places[index].state == SHOALI_SIM_OP_MOVING)
        shoali_sim_break(sim, shoali_links_pace(sim->net, sim->now_ns, index, sim->now_ns));
}

void shoali_sim_ops_abandon(shoal_sim *sim, uint32_t endpoint, const char *why)
{
    for (uint32_t i = 0; i < sim->ops.count; i++) {
        shoali_sim_op *op = &sim->ops.places[i];
        uint32_t member = op->state == SHOALI_SIM_OP_FREE ? NONE : member_of(op, endpoint);
        if (member != NONE && op->phase[member] == SHOALI_MEMBER_ENTERED)
            fail(sim, i, SHOAL_ECANCELLED, why);
    }
}

void shoali_sim_ops_hang(shoal_sim *sim, uint32_t endpoint)
{
    for (uint32_t i = 0; i < sim->ops.count; i++) {
        shoali_sim_op *op = &sim->ops.places[i];
        bool open = op->state == SHOALI_SIM_OP_GATHERING || op->state == SHOALI_SIM_OP_LATENCY ||
                    op->state == SHOALI_SIM_OP_MOVING;
        if (!open || member_of(op, endpoint) == NONE)
            continue;
        if (op->state == SHOALI_SIM_OP_MOVING)
            (void)shoali_links_cancel(sim->net, sim->now_ns, i);
        op->state = SHOALI_SIM_OP_HUNG;
    }
}

/* What has all its members moves on without the one that left; what hung, or lacks it, fails. */
void shoali_sim_ops_fail(shoal_sim *sim, uint32_t endpoint, const char *why)
{
    for (uint32_t i = 0; i < sim->ops.count; i++) {
        shoali_sim_op *op = &sim->ops.places[i];
        uint32_t member = op->state == SHOALI_SIM_OP_FREE ? NONE : member_of(op, endpoint);
        if (member == NONE)
            continue;
        if (op->state == SHOALI_SIM_OP_HUNG || op->phase[member] == SHOALI_MEMBER_ABSENT)
            fail(sim, i, SHOAL_EPEER, why);
    }
}

void shoali_sim_ops_clear(shoal_sim *sim)
{
    for (uint32_t i = 0; i < sim->ops.count; i++) {
        shoali_sim_op *op = &sim->ops.places[i];
        if (op->state == SHOALI_SIM_OP_FREE)
            continue;
        if (op->state == SHOALI_SIM_OP_MOVING)
            (void)shoali_links_cancel(sim->net, sim->now_ns, i);
        shoali_sim_volume_drop(op->volume);
        op->volume = NULL;
        shoali_sim_place_drop(sim, i);
    }
}

/* ---------------------------------------------------------------- numbers */

typedef struct numbers {
    shoal_sim *sim;
    shoali_sim_op *op;
    shoali_volume *measured; /* NULL: the schedule's count is exact */
    uint32_t first_tensor;
} numbers;

static shoal_status owner_job(void *ctx, uint32_t member, float *sum_in_weights_out, size_t offset,
                              size_t count)
{
    const numbers *n = ctx;
    size_t at = n->op->op.offset + offset;
    shoali_sim_optimise(n->sim, n->op->members[member], n->op->op.iteration, at, count,
                        sum_in_weights_out, 1.0f / (float)n->op->contributors, sum_in_weights_out);
    return SHOAL_OK;
}

static const float *weights(void *ctx, uint32_t member)
{
    const numbers *n = ctx;
    return n->sim->nodes[n->op->members[member]].tensors.params + n->op->op.offset;
}

static void carried(void *ctx, uint32_t from, uint32_t to, uint64_t bytes)
{
    const numbers *n = ctx;
    if (n->measured != NULL)
        shoali_sim_volume_add(n->sim, n->measured, n->op, from, to, bytes);
}

static void *transform(void *ctx, uint32_t member, size_t bytes)
{
    const numbers *n = ctx;
    return shoali_sim_transform_state(&n->sim->nodes[n->op->members[member]], n->op->op.offset,
                                      n->op->op.count, bytes);
}

/* sim->room.residuals[member] as flows want them: one pointer a tensor. NULL: no error feedback. */
static float *const *const *residuals(numbers *n, uint32_t tensor_count)
{
    shoal_sim *sim = n->sim;
    bool coded = n->op->op.push_coded || n->op->op.pull_coded;
    if (!sim->codec->error_feedback || !coded)
        return NULL;
    for (uint32_t m = 0; m < n->op->size; m++) {
        float **of = sim->room.residual_of + (size_t)m * sim->tensor_count;
        for (uint32_t t = 0; t < tensor_count; t++)
            of[t] = sim->nodes[n->op->members[m]].residual +
                    sim->tensors[n->first_tensor + t].offset;
        sim->room.residuals[m] = of;
    }
    return sim->room.residuals;
}

/* Sum the members' buffers as the engine does; a NaN becomes the status that all will be told. */
static shoal_status compute(shoal_sim *sim, shoali_sim_op *op, shoali_volume *measured)
{
    numbers n = {.sim = sim, .op = op, .measured = measured};
    shoali_not_finite origin;
    uint32_t tensor_count = shoali_table_cut(sim->tensors, sim->tensor_count, op->op.offset,
                                             op->op.count, sim->room.tensors, &n.first_tensor);
    bool broadcast = op->op.kind == SHOALI_SYNC_BROADCAST;
    shoali_sim_flow flow = {.bufs = op->bufs,
                            .residuals = residuals(&n, tensor_count),
                            .ctx = &n,
                            .owner = owner_job,
                            .weights = weights,
                            .transform = transform,
                            .carried = carried};
    flow.args = (shoali_flow_args){.id = shoali_sync_op_id(0, op->op.id),
                                   .kind = broadcast ? SHOAL_BROADCAST : SHOAL_ALL_REDUCE,
                                   .size = op->size,
                                   .contributors = op->contributors,
                                   .root = op->op.root,
                                   .endpoints = op->members,
                                   .count = op->op.count,
                                   .tensors = sim->room.tensors,
                                   .tensor_count = tensor_count,
                                   .push = op->op.push_coded ? sim->codec : sim->identity,
                                   .pull = op->op.pull_coded ? sim->codec : sim->identity,
                                   .collective = op->collective,
                                   .owner_job = op->op.owner_job,
                                   .check_finite = !broadcast || op->op.checked,
                                   .chunk_elems = sim->chunk_elems,
                                   .seed = sim->seed,
                                   .scratch = sim->kept.scratch};
    SHOALI_TRY(shoali_sim_flow_run(&flow, &op->status, &origin));
    if (op->status == SHOAL_ENOTFINITE)
        snprintf(
            op->text, sizeof op->text,
            "the gradient of iteration %llu is not finite: worker %u, tensor %llu, element %llu",
            (unsigned long long)op->op.iteration, origin.endpoint, (unsigned long long)origin.key,
            (unsigned long long)origin.index);
    return SHOAL_OK;
}

static bool exact_rate(const shoal_sim *sim, const shoali_sync_op *op)
{
    bool fixed = (shoal_codec_traits(sim->codec) & SHOAL_CODEC_FIXED_RATE) != 0;
    return fixed || (!op->push_coded && !op->pull_coded);
}

/* ---------------------------------------------------------------- members enter */

/* Before the last byte moves: every round takes the longest way between the first member and
 * another one, which on a cluster is the longest of all or half of it. */
static uint64_t delay_ns(const shoal_sim *sim, const shoali_sim_op *op)
{
    uint64_t rounds = op->volume->rounds > 0 ? op->volume->rounds + 1 : 0, latency_ns = 0;
    if (sim->cluster == NULL)
        return op->volume->idle_ns + rounds * sim->latency_ns;
    for (uint32_t i = 1; i < op->size; i++) {
        uint64_t own = shoali_sim_latency_ns(sim, op->members[0], op->members[i]);
        latency_ns = own > latency_ns ? own : latency_ns;
    }
    double spent_s = sim->cluster->overhead.operation_s +
                     (double)rounds * sim->cluster->overhead.round_s;
    return op->volume->idle_ns + rounds * latency_ns + (uint64_t)(spent_s * 1e9);
}

/* All members are there. */
static void begin(shoal_sim *sim, uint32_t index)
{
    shoali_sim_op *op = &sim->ops.places[index];
    bool measure = sim->numbers && !exact_rate(sim, &op->op);
    op->volume = measure ? shoali_sim_volume_measured(sim, op) : shoali_sim_volume(sim, op);
    if (op->volume == NULL)
        return;
    if (sim->numbers) {
        shoal_status status = compute(sim, op, measure ? op->volume : NULL);
        if (status != SHOAL_OK) {
            shoali_sim_break(sim, status);
            return;
        }
    }
    op->state = SHOALI_SIM_OP_LATENCY;
    shoali_sim_at(sim, sim->now_ns + delay_ns(sim, op), SHOALI_SIM_MOVE, NONE, index,
                  op->generation);
}

static void recut(shoal_sim *sim, uint32_t index)
{
    shoali_sim_op *op = &sim->ops.places[index];
    bool cut = shoali_sim_op_cut(sim, op);
    if (cut != op->paused)
        shoali_sim_break(sim, shoali_links_pause(sim->net, sim->now_ns, index, cut));
    op->paused = cut;
}

void shoali_sim_ops_recut(shoal_sim *sim)
{
    for (uint32_t i = 0; i < sim->ops.count; i++)
        if (sim->ops.places[i].state == SHOALI_SIM_OP_MOVING)
            recut(sim, i);
}

void shoali_sim_op_move(shoal_sim *sim, uint32_t index, uint32_t generation)
{
    shoali_sim_op *op = &sim->ops.places[index];
    if (op->state != SHOALI_SIM_OP_LATENCY || op->generation != generation)
        return;
    op->state = SHOALI_SIM_OP_MOVING;
    op->paused = op->awaits = false;
    shoal_status status = shoali_links_start(sim->net, sim->now_ns, op->volume->loads,
                                             op->volume->load_count, index);
    if (status == SHOAL_OK && op->op.within_us > 0)
        status = shoali_links_pace(sim->net, sim->now_ns, index,
                                   op->began_ns + op->op.within_us * 1000);
    if (status != SHOAL_OK)
        shoali_sim_break(sim, status);
    else if (sim->wire.cut_count > 0)
        recut(sim, index);
}

static bool same(const shoali_sim_op *have, const shoali_sync_op *op, uint32_t size)
{
    return have->op.kind == op->kind && have->op.count == op->count && have->size == size &&
           have->op.offset == op->offset && have->op.owner_job == op->owner_job &&
           have->op.push_coded == op->push_coded && have->op.pull_coded == op->pull_coded;
}

/* A member that everybody knows to be gone, and that has not entered; NONE: none. */
static uint32_t missing(const shoal_sim *sim, const shoali_sim_op *op)
{
    for (uint32_t i = 0; sim->epoch.gone > 0 && i < op->size; i++)
        if (sim->nodes[op->members[i]].gone && op->phase[i] == SHOALI_MEMBER_ABSENT)
            return op->members[i];
    return NONE;
}

static bool silent_member(const shoal_sim *sim, const shoali_sim_op *op)
{
    for (uint32_t i = 0; sim->epoch.ended > 0 && i < op->size; i++)
        if (sim->nodes[op->members[i]].end == SHOAL_SIM_DEAD && !sim->nodes[op->members[i]].gone)
            return true;
    return false;
}

/* Put a member inside; false: it is not allowed to be there. */
static bool admit(shoal_sim *sim, shoali_sim_op *op, uint32_t endpoint, const shoali_sync_op *own)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    uint32_t member = member_of(op, endpoint);
    if (member == NONE || op->phase[member] != SHOALI_MEMBER_ABSENT) {
        shoali_sim_break(sim, shoali_fail(SHOAL_EINTERNAL, "endpoint %u %s operation %llu",
                                          endpoint, member == NONE ? "is no member of" : "reuses",
                                          (unsigned long long)own->id));
        return false;
    }
    if (sim->numbers) {
        op->bufs[member] = shoali_tensor_memory(&node->tensors, own->tensor, own->offset,
                                                own->count);
        if (op->bufs[member] == NULL) {
            shoali_sim_break(sim, SHOAL_EINTERNAL);
            return false;
        }
    }
    op->phase[member] = SHOALI_MEMBER_ENTERED;
    op->entered_ns[member] = sim->now_ns;
    op->entered++;
    bool gives = op->op.kind == SHOALI_SYNC_BROADCAST ? member == op->op.root
                                                      : member < op->contributors;
    if (gives) {
        uint64_t k = node->iteration;
        op->iteration_min = k < op->iteration_min ? k : op->iteration_min;
        op->iteration_max = k > op->iteration_max ? k : op->iteration_max;
    }
    return true;
}

void shoali_sim_op_enter(shoal_sim *sim, uint32_t endpoint, const shoali_sync_op *op)
{
    uint32_t index = shoali_sim_place_find(sim, op->id);
    if (index == NONE)
        index = open_op(sim, endpoint, op);
    if (index == NONE)
        return;
    shoali_sim_op *into = &sim->ops.places[index];
    const shoali_world *world = &sim->nodes[endpoint].world;
    uint32_t size = op->members != NULL ? op->member_count : world->workers + world->servers;
    bool differs = !same(into, op, size);
    shoali_sim_lie(sim, endpoint, op);
    if (!admit(sim, into, endpoint, op))
        return;
    uint32_t lost = missing(sim, into);
    if (into->state == SHOALI_SIM_OP_FAILED) {
        shoali_sim_at(sim, sim->now_ns + sim->latency_ns, SHOALI_SIM_TELL, endpoint, index,
                      into->generation);
    } else if (differs) {
        fail(sim, index, SHOAL_EMISMATCH, "members started different operations");
    } else if (lost != NONE) {
        char why[96];
        snprintf(why, sizeof why, "endpoint %u is gone", lost);
        fail(sim, index, SHOAL_EPEER, why);
    } else if (silent_member(sim, into)) {
        into->state = SHOALI_SIM_OP_HUNG;
    } else if (into->entered == into->size) {
        into->last = endpoint;
        into->began_ns = sim->now_ns;
        begin(sim, index);
    }
}
