/* SPDX-License-Identifier: Apache-2.0 */
/* The table of collectives, and what is true of every list of steps whoever built it. */
#include "collective/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/rng.h"
#include "collective/by_density.h"

/* ---------------------------------------------------------------- the table */

#define SHOAL_COLLECTIVE(name) extern const shoali_collective_row shoali_collective_##name;
#include "collective/collectives.def"
#undef SHOAL_COLLECTIVE

static const shoali_collective_row *const table[] = {
#define SHOAL_COLLECTIVE(name) &shoali_collective_##name,
#include "collective/collectives.def"
#undef SHOAL_COLLECTIVE
};
enum { ROWS = sizeof table / sizeof table[0] };

size_t shoali_collective_count(void)
{
    return ROWS;
}

const shoali_collective_row *shoali_collective_row_at(size_t i)
{
    return i < ROWS ? table[i] : NULL;
}

static const shoali_collective_row *find(const char *spec)
{
    const char *names[ROWS];
    size_t found;
    for (size_t i = 0; i < ROWS; i++)
        names[i] = table[i]->name;
    return shoali_spec_find("collective", spec, names, ROWS, &found) == SHOAL_OK ? table[found]
                                                                                 : NULL;
}

static void name_it(shoali_collective *collective)
{
    shoali_spec_format(collective->row->name, &collective->row->schema, collective->params,
                       collective->spec, sizeof collective->spec);
    collective->hash = shoali_hash(collective->spec, strlen(collective->spec), 0);
}

shoal_status shoali_collective_open(const char *spec, shoali_collective *collective_out)
{
    shoali_collective opened = {0};
    if (shoali_by_density_named(spec))
        return shoali_fail(SHOAL_EINVAL,
                           "collective '%s' is chosen from one step to the next while real ranks "
                           "train; here name one",
                           spec);
    opened.row = find(spec);
    if (opened.row == NULL)
        return SHOAL_EINVAL;
    opened.params = shoali_alloc(opened.row->schema.params_size);
    if (opened.params == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = shoali_spec_parse("collective", spec, &opened.row->schema, opened.params);
    if (status != SHOAL_OK) {
        shoali_free(opened.params);
        return status;
    }
    opened.traits = opened.row->traits_with != NULL ? opened.row->traits_with(opened.params)
                                                    : opened.row->traits;
    name_it(&opened);
    *collective_out = opened;
    return SHOAL_OK;
}

void shoali_collective_with_rows(shoali_collective *collective, const uint32_t *rows, size_t count,
                                 const shoal_tensor *tensors, uint32_t tensor_count)
{
    if (collective->row->with_rows == NULL)
        return;
    collective->row->with_rows(collective->params, rows, count, tensors, tensor_count);
    name_it(collective);
}

void shoali_collective_close(shoali_collective *collective)
{
    shoali_free(collective->params);
    memset(collective, 0, sizeof *collective);
}

/* ---------------------------------------------------------------- building */

static bool carries(uint32_t traits, shoal_op_kind kind)
{
    switch (kind) {
    case SHOAL_ALL_REDUCE:
    case SHOAL_BARRIER:
        return (traits & SHOALI_COLL_ROOTED) == 0;
    case SHOAL_REDUCE_SCATTER:
    case SHOAL_ALL_GATHER:
        return (traits & SHOALI_COLL_SHARDED) != 0;
    case SHOAL_BROADCAST:
        return (traits & SHOALI_COLL_ROOTED) != 0;
    }
    return false;
}

static const char *kind_name(shoal_op_kind kind)
{
    static const char *const names[] = {
        [SHOAL_ALL_REDUCE] = "an all-reduce", [SHOAL_REDUCE_SCATTER] = "a reduce-scatter",
        [SHOAL_ALL_GATHER] = "an all-gather", [SHOAL_BROADCAST] = "a broadcast",
        [SHOAL_BARRIER] = "a barrier",
    };
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "this operation";
}

/* An error that lists the rows which can carry kind by a schedule. */
static shoal_status cannot_carry(const shoali_collective *collective, shoal_op_kind kind)
{
    char able[160] = "";
    size_t used = 0;
    for (size_t i = 0; i < ROWS; i++)
        if (carries(table[i]->traits, kind) && table[i]->build != NULL && used < sizeof able)
            used += (size_t)snprintf(able + used, sizeof able - used, "%s%s", used > 0 ? ", " : "",
                                     table[i]->name);
    shoal_status status =
        carries(collective->traits, kind)
            ? shoali_fail(SHOAL_EINVAL,
                          "collective '%s' has no schedule that could be computed with: what it "
                          "sends depends on what it finds",
                          collective->spec)
            : shoali_fail(SHOAL_EINVAL, "collective '%s' cannot carry %s", collective->spec,
                          kind_name(kind));
    shoali_error_advice("Use one of: %s.", able);
    return status;
}

static shoal_status check_sizes(const shoali_collective *collective,
                                const shoal_schedule_args *args)
{
    if (args->size == 0 || args->size > SHOALI_MEMBERS_MAX || args->me >= args->size ||
        args->root >= args->size)
        return shoali_fail(SHOAL_EINVAL,
                           "member %u (root %u) of %u: an operation has 1 to %d members", args->me,
                           args->root, args->size, SHOALI_MEMBERS_MAX);
    if (args->contributors == 0 || args->contributors > args->size)
        return shoali_fail(SHOAL_EINVAL, "%u contributors among %u members", args->contributors,
                           args->size);
    if (args->contributors < args->size && (collective->traits & SHOALI_COLL_DEDICATED) == 0)
        return shoali_fail(SHOAL_EINVAL,
                           "collective '%s' has no use for the %u members that contribute nothing",
                           collective->spec, args->size - args->contributors);
    return SHOAL_OK;
}

shoal_status shoali_collective_build(const shoali_collective *collective, shoal_op_kind kind,
                                     const shoal_schedule_args *args, shoal_arena *arena,
                                     shoal_schedule *schedule_out)
{
    const shoali_collective_row *row = collective->row;
    shoal_schedule_args own = *args;
    shoal_schedule built = {0};
    own.params = collective->params;
    if (!carries(collective->traits, kind) || row->build == NULL)
        return cannot_carry(collective, kind);
    SHOALI_TRY(check_sizes(collective, args));
    SHOALI_TRY(row->build(&own, arena, &built));
    built.me = args->me;
    built.slots = (collective->traits & SHOALI_COLL_SLOTS) != 0;
    if (args->size == 1)
        built.count = 0;
    shoali_schedule_filter(&built, kind);
    *schedule_out = built;
    return SHOAL_OK;
}

shoal_status shoali_collective_takes(const shoali_collective *collective, uint32_t members)
{
    const uint32_t no_list = SHOALI_COLL_FLOW | SHOALI_COLL_RATED | SHOALI_COLL_ROOTED |
                             SHOALI_COLL_DEDICATED;
    const shoal_schedule_args args = {.size = members, .contributors = members};
    shoal_schedule schedule;
    if ((collective->traits & no_list) != 0)
        return SHOAL_OK;
    shoal_arena *arena = shoali_arena_create(4096);
    if (arena == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = shoali_collective_build(collective, SHOAL_ALL_REDUCE, &args, arena,
                                                  &schedule);
    shoali_arena_destroy(arena);
    return status;
}

shoal_status shoali_collective_among(const char *spec, uint32_t members, bool all, char *out)
{
    shoali_collective opened;
    snprintf(out, SHOALI_COLLECTIVE_SPEC, "%s", spec);
    if (spec[shoali_spec_name_len(spec)] == '\0') /* the default keys: no need to look */
        return SHOAL_OK;
    SHOALI_TRY(shoali_collective_open(spec, &opened));
    const uint32_t whole = SHOALI_COLL_RATED | SHOALI_COLL_SITES;
    shoal_status status = !all && (opened.traits & whole) != 0
                              ? SHOAL_EINVAL
                              : shoali_collective_takes(&opened, members);
    snprintf(out, SHOALI_COLLECTIVE_SPEC, "%s",
             status == SHOAL_EINVAL ? opened.row->name : opened.spec);
    shoali_collective_close(&opened);
    return status == SHOAL_EINVAL ? SHOAL_OK : status;
}

void shoali_steps_begin(shoal_arena *arena, shoali_steps *steps_out)
{
    *steps_out = (shoali_steps){.arena = arena};
}

void shoali_steps_add(shoali_steps *steps, shoal_step step)
{
    if (steps->count == steps->capacity && !steps->failed) {
        uint32_t capacity = steps->capacity == 0 ? 32 : 2 * steps->capacity;
        shoal_step *bigger = shoali_arena_array(steps->arena, capacity, sizeof *bigger);
        steps->failed = bigger == NULL;
        if (bigger != NULL && steps->count > 0)
            memcpy(bigger, steps->steps, steps->count * sizeof *bigger);
        steps->steps = bigger;
        steps->capacity = capacity;
    }
    if (!steps->failed)
        steps->steps[steps->count++] = step;
}

shoal_status shoali_steps_end(const shoali_steps *steps, uint32_t blocks, uint32_t rounds,
                              shoal_schedule *schedule_out)
{
    if (steps->failed)
        return SHOAL_ENOMEM;
    *schedule_out = (shoal_schedule){
        .steps = steps->steps, .count = steps->count, .blocks = blocks, .rounds = (uint16_t)rounds};
    return SHOAL_OK;
}

shoal_status shoali_read_list(const char *what, const char *text, uint32_t min, uint32_t max,
                              uint32_t capacity, uint32_t *values_out, uint32_t *count_out)
{
    uint32_t count = 0;
    for (const char *at = text;; at++) {
        char *end;
        unsigned long value = strtoul(at, &end, 10);
        bool digits = *at >= '0' && *at <= '9'; /* strtoul would take a sign or a blank */
        if (!digits || value < min || value > max || (*end != '/' && *end != '\0'))
            return shoali_fail(SHOAL_EINVAL,
                               "%s=%s: expected numbers from %u to %u with '/' between them", what,
                               text, min, max);
        if (count == capacity)
            return shoali_fail(SHOAL_EINVAL, "%s=%s: more than %u numbers", what, text, capacity);
        values_out[count++] = (uint32_t)value;
        at = end;
        if (*at == '\0')
            break;
    }
    *count_out = count;
    return SHOAL_OK;
}

shoal_status shoali_check_site(const char *row, int64_t site, uint32_t members)
{
    if (site == 0 || (members > (uint64_t)site && members % (uint64_t)site == 0))
        return SHOAL_OK;
    return shoali_fail(SHOAL_EINVAL, "%s:site=%lld: %u members are not two or more whole sites",
                       row, (long long)site, members);
}

/* ---------------------------------------------------------------- what a list says */

void shoali_block_range(size_t count, uint32_t blocks, uint32_t block, size_t *offset_out,
                        size_t *count_out)
{
    size_t each = count / blocks, longer = count % blocks;
    *offset_out = block * each + (block < longer ? block : longer);
    *count_out = each + (block < longer ? 1 : 0);
}

void shoali_schedule_range(const shoal_schedule *schedule, size_t count, uint32_t block,
                           size_t *offset_out, size_t *count_out)
{
    *offset_out = 0;
    *count_out = count;
    if (!schedule->slots)
        shoali_block_range(count, schedule->blocks, block, offset_out, count_out);
}

bool shoali_schedule_inside(const shoal_schedule *schedule, const shoal_step *step)
{
    return schedule->site > 0 && step->kind != SHOAL_OWN &&
           schedule->me / schedule->site == step->peer / schedule->site;
}

static bool keeps(shoal_op_kind kind, const shoal_step *step)
{
    if (kind == SHOAL_REDUCE_SCATTER)
        return step->leg == SHOAL_PUSH;
    return kind != SHOAL_ALL_GATHER || step->leg == SHOAL_PULL;
}

void shoali_schedule_filter(shoal_schedule *schedule, shoal_op_kind kind)
{
    uint32_t kept = 0;
    uint16_t first = UINT16_MAX, last = 0;
    if (kind != SHOAL_REDUCE_SCATTER && kind != SHOAL_ALL_GATHER)
        return;
    for (uint32_t i = 0; i < schedule->count; i++) {
        shoal_step step = schedule->steps[i];
        if (!keeps(kind, &step))
            continue;
        schedule->steps[kept++] = step;
        if (step.kind == SHOAL_OWN)
            continue;
        first = step.round < first ? step.round : first;
        last = step.round > last ? step.round : last;
    }
    for (uint32_t i = 0; i < kept; i++) {
        shoal_step *step = &schedule->steps[i];
        step->round = step->kind == SHOAL_OWN ? 0 : (uint16_t)(step->round - first + 1);
    }
    schedule->count = kept;
    schedule->rounds = last == 0 ? 0 : (uint16_t)(last - first + 1);
}

/* Elements that a step covers. Its blocks are consecutive, so all but slots are one range. */
static uint64_t step_elems(const shoal_schedule *schedule, const shoal_step *step, size_t count)
{
    size_t first, last, last_count, unused;
    if (schedule->slots)
        return (uint64_t)count * step->block_count;
    shoali_block_range(count, schedule->blocks, step->block, &first, &unused);
    shoali_block_range(count, schedule->blocks, step->block + step->block_count - 1, &last,
                       &last_count);
    return last + last_count - first;
}

void shoali_schedule_cost(const shoal_schedule *schedule, size_t count, shoali_cost *cost_out)
{
    shoali_cost cost = {.rounds = schedule->rounds};
    for (uint32_t i = 0; i < schedule->count; i++) {
        const shoal_step *step = &schedule->steps[i];
        uint64_t elems = step_elems(schedule, step, count);
        bool receives = step->kind == SHOAL_RECV_ADD || step->kind == SHOAL_RECV_SET;
        if (step->kind == SHOAL_SEND) {
            cost.sent_elems += elems;
            cost.sends += step->block_count;
        }
        if (receives) {
            cost.received_elems += elems;
            cost.receives += step->block_count;
        }
        bool coded = !shoali_schedule_inside(schedule, step);
        if (step->kind == SHOAL_OWN ||
            (step->kind == SHOAL_SEND && step->leg == SHOAL_PUSH && coded))
            cost.encoded_elems += elems;
        if (step->kind == SHOAL_OWN || (receives && coded))
            cost.decoded_elems += elems;
        if (step->kind == SHOAL_RECV_ADD || (schedule->slots && step->kind != SHOAL_SEND))
            cost.added_elems += elems;
    }
    *cost_out = cost;
}
