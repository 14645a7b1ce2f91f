/* SPDX-License-Identifier: Apache-2.0 */
/* When messages arrive, and what a cut does. A lost message comes a timeout later, which doubles
 * when it is lost again (as TCP's); messages between two endpoints never overtake each other. A cut
 * holds messages and operations that cross it until it is over; a longer one than the watchdog's
 * patience ends the endpoints that it cuts off. */
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "driver/sim_parts.h"

enum { STREAM_WIRE = 0x7769, LOST_AT_MOST = 12 };
#define TIMEOUT_NS UINT64_C(200000000)

/* Nothing happens to messages but that they take a while: one event serves all receivers. */
bool shoali_sim_wire_plain(const shoal_sim *sim)
{
    return sim->wire.last_arrival == NULL;
}

static bool uneven(const shoal_sim *sim)
{
    return sim->asked.network.jitter_us > 0 || sim->asked.network.loss > 0 ||
           sim->asked.faults.cut_count > 0 || sim->cluster != NULL;
}

/* Cuts of the spec and of the cluster in one list. */
static shoal_status list_cuts(shoal_sim *sim)
{
    uint32_t most = sim->asked.faults.cut_count;
    for (uint32_t i = 0; sim->cluster != NULL && i < sim->cluster->partition_count; i++)
        most += sim->cluster->partitions[i].host_count;
    sim->wire.cuts = shoali_alloc_array(most > 0 ? most : 1, sizeof *sim->wire.cuts);
    if (sim->wire.cuts == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < sim->asked.faults.cut_count; i++) {
        const shoali_sim_cut *cut = &sim->asked.faults.cuts[i];
        sim->wire.cuts[sim->wire.cut_count++] = (shoali_sim_break_up){
            cut->host, i, (uint64_t)(cut->from_s * 1e9), (uint64_t)(cut->until_s * 1e9)};
    }
    for (uint32_t i = 0; sim->cluster != NULL && i < sim->cluster->partition_count; i++) {
        const shoali_partition *p = &sim->cluster->partitions[i];
        uint64_t until = p->until_s < 1e9 ? (uint64_t)(p->until_s * 1e9) : UINT64_MAX;
        for (uint32_t k = 0; k < p->host_count; k++)
            sim->wire.cuts[sim->wire.cut_count++] = (shoali_sim_break_up){
                p->hosts[k], sim->asked.faults.cut_count + i, (uint64_t)(p->from_s * 1e9), until};
    }
    return SHOAL_OK;
}

shoal_status shoali_sim_wire_open(shoal_sim *sim)
{
    size_t pairs = (size_t)sim->size * sim->size;
    if (!uneven(sim))
        return SHOAL_OK;
    sim->wire.last_arrival = shoali_alloc_array(pairs, sizeof *sim->wire.last_arrival);
    sim->wire.sent_messages = shoali_alloc_array(sim->size, sizeof *sim->wire.sent_messages);
    if (sim->wire.last_arrival == NULL || sim->wire.sent_messages == NULL)
        return SHOAL_ENOMEM;
    return list_cuts(sim);
}

/* The hosts that a cut separates from the rest reach each other: the same group of the list. */
static bool crosses(const shoal_sim *sim, uint32_t group, uint32_t a, uint32_t b)
{
    bool inside_a = false, inside_b = false;
    for (uint32_t i = 0; i < sim->wire.cut_count; i++)
        if (sim->wire.cuts[i].group == group) {
            inside_a = inside_a || sim->wire.cuts[i].host == sim->world.hosts[a];
            inside_b = inside_b || sim->wire.cuts[i].host == sim->world.hosts[b];
        }
    return inside_a != inside_b;
}

/* From when on two endpoints reach each other again; now, if they do. */
static uint64_t open_from(const shoal_sim *sim, uint32_t a, uint32_t b, uint64_t at_ns)
{
    for (uint32_t i = 0; i < sim->wire.cut_count; i++) {
        const shoali_sim_break_up *cut = &sim->wire.cuts[i];
        if (at_ns >= cut->from_ns && at_ns < cut->until_ns && crosses(sim, cut->group, a, b)) {
            at_ns = cut->until_ns;
            i = UINT32_MAX; /* another cut may have begun meanwhile */
        }
    }
    return at_ns;
}

uint64_t shoali_sim_arrival_ns(shoal_sim *sim, uint32_t from, uint32_t to)
{
    uint64_t at_ns = sim->now_ns + shoali_sim_latency_ns(sim, from, to), timeout_ns = TIMEOUT_NS;
    if (shoali_sim_wire_plain(sim))
        return at_ns;
    uint64_t draw = (uint64_t)(sim->wire.sent_messages[from]++) * (LOST_AT_MOST + 1);
    uint64_t stream = shoali_mix(STREAM_WIRE, from), *last;
    double loss = shoali_sim_loss(sim, from, to);
    at_ns += (uint64_t)(sim->asked.network.jitter_us * 1e3 *
                        shoali_rng_double(sim->seed, stream, draw));
    for (uint32_t i = 1;
         i <= LOST_AT_MOST && loss > 0 && shoali_rng_double(sim->seed, stream, draw + i) < loss;
         i++, timeout_ns *= 2)
        at_ns += timeout_ns;
    at_ns = open_from(sim, from, to, at_ns);
    last = &sim->wire.last_arrival[(size_t)from * sim->size + to];
    *last = at_ns > *last ? at_ns : *last;
    return *last;
}

uint64_t shoali_sim_last_word_ns(const shoal_sim *sim, uint32_t endpoint)
{
    uint64_t at_ns = sim->now_ns + sim->latency_ns;
    for (uint32_t to = 0; to < sim->size && !shoali_sim_wire_plain(sim); to++) {
        uint64_t last = sim->wire.last_arrival[(size_t)endpoint * sim->size + to];
        at_ns = last > at_ns ? last : at_ns;
    }
    return at_ns;
}

bool shoali_sim_op_cut(const shoal_sim *sim, const shoali_sim_op *op)
{
    for (uint32_t i = 1; sim->wire.cut_count > 0 && i < op->size; i++)
        if (open_from(sim, op->members[0], op->members[i], sim->now_ns) > sim->now_ns)
            return true;
    return false;
}

/* Each cut is two events; the endpoints of one that lasts too long stand still from its start. */
void shoali_sim_plan_cuts(shoal_sim *sim)
{
    double patience_ns = sim->asked.faults.detect_ms * 1e6;
    for (uint32_t i = 0; i < sim->wire.cut_count; i++) {
        const shoali_sim_break_up *cut = &sim->wire.cuts[i];
        shoali_sim_at(sim, cut->from_ns, SHOALI_SIM_CUT, 0, 0, 0);
        if (cut->until_ns < UINT64_MAX)
            shoali_sim_at(sim, cut->until_ns, SHOALI_SIM_CUT, 0, 0, 0);
        for (uint32_t e = 0; e < sim->size; e++)
            if ((double)(cut->until_ns - cut->from_ns) > patience_ns &&
                sim->world.hosts[e] == cut->host)
                shoali_sim_at(sim, cut->from_ns, SHOALI_SIM_FAULT, e, SHOALI_SIM_FREEZE, 0);
    }
}
