/* SPDX-License-Identifier: Apache-2.0 */
/* Places of operations: found by id through a table of open addressing, used again in the order of
 * their release. A failed operation keeps its place, as members may still enter. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "driver/sim_parts.h"

#define NONE SHOALI_SIM_NO_PLACE

static void free_members(shoali_sim_op *op)
{
    shoali_free(op->members);
    shoali_free(op->phase);
    shoali_free(op->bufs);
    shoali_free(op->entered_ns);
}

void shoali_sim_ops_fini(shoal_sim *sim)
{
    for (uint32_t i = 0; i < sim->ops.count; i++) {
        shoali_sim_volume_drop(sim->ops.places[i].volume);
        free_members(&sim->ops.places[i]);
    }
    for (uint32_t i = 0; i < sim->kept.collective_count; i++)
        shoali_collective_close(&sim->kept.collectives[i].opened);
    shoali_free(sim->ops.places);
    shoali_free(sim->ops.table);
}

/* ---------------------------------------------------------------- lookup */

/* The table is at least twice as long as there are places: some entry is always free. */
static uint32_t slot_of(const shoal_sim *sim, uint64_t id)
{
    uint32_t mask = 4 * sim->ops.capacity - 1, at = (uint32_t)shoali_mix(id, 0) & mask;
    while (sim->ops.table[at] != 0 && sim->ops.places[sim->ops.table[at] - 1].op.id != id)
        at = (at + 1) & mask;
    return at;
}

uint32_t shoali_sim_place_find(const shoal_sim *sim, uint64_t id)
{
    if (sim->ops.capacity == 0)
        return NONE;
    return sim->ops.table[slot_of(sim, id)] - 1; /* 0 - 1: NONE */
}

/* Entries behind the one that goes move up, so that none is cut off from its home. */
static void forget(shoal_sim *sim, uint64_t id)
{
    uint32_t mask = 4 * sim->ops.capacity - 1, hole = slot_of(sim, id);
    for (uint32_t at = (hole + 1) & mask; sim->ops.table[at] != 0; at = (at + 1) & mask) {
        uint32_t home = (uint32_t)shoali_mix(sim->ops.places[sim->ops.table[at] - 1].op.id, 0) &
                        mask;
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        sim->ops.table[hole] = sim->ops.table[at];
        hole = at;
    }
    sim->ops.table[hole] = 0;
}

static bool grow_places(shoal_sim *sim)
{
    uint32_t capacity = sim->ops.capacity > 0 ? 2 * sim->ops.capacity : 16;
    shoali_sim_op *grown = shoali_realloc(sim->ops.places, sim->ops.capacity * sizeof *grown,
                                          capacity * sizeof *grown);
    sim->ops.places = grown != NULL ? grown : sim->ops.places;
    uint32_t *table = shoali_alloc_array(4 * (size_t)capacity, sizeof *table);
    if (grown == NULL || table == NULL) {
        shoali_free(table);
        return false;
    }
    shoali_free(sim->ops.table);
    sim->ops.table = table;
    sim->ops.capacity = capacity;
    for (uint32_t i = 0; i < sim->ops.count; i++)
        if (sim->ops.places[i].state != SHOALI_SIM_OP_FREE)
            sim->ops.table[slot_of(sim, sim->ops.places[i].op.id)] = i + 1;
    return true;
}

static bool grow_members(shoali_sim_op *op, uint32_t size)
{
    if (size <= op->capacity)
        return true;
    free_members(op);
    op->members = shoali_alloc_array(size, sizeof *op->members);
    op->phase = shoali_alloc_array(size, sizeof *op->phase);
    op->bufs = shoali_alloc_array(size, sizeof(float *));
    op->entered_ns = shoali_alloc_array(size, sizeof *op->entered_ns);
    const bool all = op->members != NULL && op->phase != NULL && op->bufs != NULL &&
                     op->entered_ns != NULL;
    op->capacity = all ? size : 0;
    if (op->capacity == size)
        return true;
    free_members(op); /* its place may not count yet, and nobody else would */
    op->members = NULL;
    op->phase = NULL;
    op->bufs = NULL;
    op->entered_ns = NULL;
    return false;
}

uint32_t shoali_sim_place_take(shoal_sim *sim, uint64_t id, uint32_t size)
{
    uint32_t index = sim->ops.free - 1;
    if (sim->ops.free == 0) {
        if (sim->ops.count == sim->ops.capacity && !grow_places(sim))
            return NONE;
        index = sim->ops.count;
    }
    shoali_sim_op *op = &sim->ops.places[index];
    if (!grow_members(op, size))
        return NONE;
    if (sim->ops.free == 0)
        sim->ops.count++;
    else
        sim->ops.free = op->next_free;
    op->generation++;
    op->op.id = id;
    sim->ops.table[slot_of(sim, id)] = index + 1;
    return index;
}

void shoali_sim_place_drop(shoal_sim *sim, uint32_t index)
{
    shoali_sim_op *op = &sim->ops.places[index];
    forget(sim, op->op.id);
    op->state = SHOALI_SIM_OP_FREE;
    op->next_free = sim->ops.free;
    sim->ops.free = index + 1;
}

/* ---------------------------------------------------------------- collectives */

shoali_collective *shoali_sim_collective_of(shoal_sim *sim, const char *spec)
{
    for (uint32_t i = 0; i < sim->kept.collective_count; i++)
        if (strcmp(sim->kept.collectives[i].spec, spec) == 0)
            return &sim->kept.collectives[i].opened;
    if (sim->kept.collective_count == SHOALI_SIM_COLLECTIVES) {
        shoali_sim_break(sim, shoali_fail(SHOAL_ENOTSUP, "a protocol uses more than %d collectives",
                                          SHOALI_SIM_COLLECTIVES));
        return NULL;
    }
    shoali_sim_collective *entry = &sim->kept.collectives[sim->kept.collective_count];
    shoal_status status = shoali_collective_open(spec, &entry->opened);
    if (status != SHOAL_OK) {
        shoali_sim_break(sim, status);
        return NULL;
    }
    snprintf(entry->spec, sizeof entry->spec, "%s", spec);
    sim->kept.collective_count++;
    return &entry->opened;
}
