/* SPDX-License-Identifier: Apache-2.0 */
#include "support/steps.h"

#include <stdio.h>

#include "support/check.h"
#include "support/made_rates.h"

enum { TEXT_BYTES = 4096 };

static shoal_status build(const steps_of *which, shoal_arena *arena, shoal_schedule *schedule_out)
{
    shoali_collective collective;
    uint32_t contributors = which->contributors > 0 ? which->contributors : which->size;
    shoal_schedule_args args = {which->size, contributors, which->me,
                                which->root, NULL,         made_rates(which->size)};
    assert_ok(shoali_collective_open(which->spec, &collective));
    shoal_status status = shoali_collective_build(&collective, which->kind, &args, arena,
                                                  schedule_out);
    shoali_collective_close(&collective);
    return status;
}

static size_t format(const shoal_step *step, char *out, size_t out_bytes)
{
    static const char *const kinds[] = {"send", "add", "set"};
    static const char *const legs[] = {"push", "pull"};
    char blocks[32];
    if (step->block_count == 1)
        snprintf(blocks, sizeof blocks, "%u", step->block);
    else
        snprintf(blocks, sizeof blocks, "%u-%u", step->block, step->block + step->block_count - 1);
    int used = step->kind == SHOAL_OWN
                   ? snprintf(out, out_bytes, "own %s x%u", blocks, step->parts)
                   : snprintf(out, out_bytes, "%u %s %s %s %s %u x%u", step->round, legs[step->leg],
                              kinds[step->kind], blocks, step->kind == SHOAL_SEND ? "to" : "from",
                              step->peer, step->parts);
    assert_in_range(used, 1, out_bytes - 1);
    return (size_t)used;
}

void steps_are(const steps_of *which, const char *expected)
{
    char text[TEXT_BYTES] = "";
    size_t used = 0;
    shoal_schedule schedule;
    shoal_arena *arena = shoali_arena_create(4096);
    assert_ok(build(which, arena, &schedule));
    for (uint32_t i = 0; i < schedule.count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s", i > 0 ? "; " : "");
        used += format(&schedule.steps[i], text + used, sizeof text - used);
    }
    assert_string_equal(text, expected);
    shoali_arena_destroy(arena);
}

shoali_cost steps_cost(const steps_of *which, size_t count)
{
    shoali_cost cost;
    shoal_schedule schedule;
    shoal_arena *arena = shoali_arena_create(4096);
    assert_ok(build(which, arena, &schedule));
    shoali_schedule_cost(&schedule, count, &cost);
    shoali_arena_destroy(arena);
    return cost;
}

shoal_status steps_status(const steps_of *which)
{
    shoal_schedule schedule;
    shoal_arena *arena = shoali_arena_create(4096);
    shoal_status status = build(which, arena, &schedule);
    shoali_arena_destroy(arena);
    return status;
}
