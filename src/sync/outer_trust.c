/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/outer_trust.h"

#include <math.h>

/* Names of broadcasts: the call's, and the worker above what calls count with (meeting.c). */
enum { WORKER_SHIFT = 54 };
static const uint64_t WORKER_BITS = UINT64_C(127) << WORKER_SHIFT;

enum { MOVED = SHOALI_OUTER_MOVED, LEFT = SHOALI_SLOT + SHOALI_OUTER_SLOTS, THEIRS };

uint32_t shoali_outer_trust_slots(const shoali_world *world)
{
    return 1 + world->workers;
}

uint64_t shoali_outer_trust_base(uint64_t id)
{
    return id & ~WORKER_BITS;
}

static uint64_t name_of(uint64_t call, uint32_t worker)
{
    return call | (uint64_t)(worker + 1) << WORKER_SHIFT;
}

static bool loses(const shoali_outer *o)
{
    return o->options.coded && o->world->coding == SHOALI_LOSSY;
}

void shoali_outer_trust_moved(const shoali_outer *o, shoali_actions *actions)
{
    const shoali_mix_term both[] = {{MOVED, 1}, {LEFT, 1}};
    if (loses(o) && !o->lost)
        shoali_act_mix(actions, MOVED, o->offset, o->count, both, 2);
}

void shoali_outer_trust_send(shoali_outer *o, const shoali_call *call, shoali_actions *actions)
{
    const shoali_mix_term own = {MOVED, 1};
    shoali_act_mix(actions, THEIRS + o->world->me, o->offset, o->count, &own, 1);
    o->judged_count = call->member_count;
    for (uint32_t i = 0; i < call->member_count; i++) {
        o->judged[i] = call->members[i];
        shoali_act_op(actions, &(shoali_sync_op){.id = name_of(call->id, call->members[i]),
                                                 .kind = SHOALI_SYNC_BROADCAST,
                                                 .members = call->members,
                                                 .member_count = call->member_count,
                                                 .contributors = call->member_count,
                                                 .root = i,
                                                 .tensor = THEIRS + call->members[i],
                                                 .offset = o->offset,
                                                 .count = o->count,
                                                 .push_coded = o->options.coded,
                                                 .pull_coded = o->options.coded,
                                                 .within_us = o->within_us,
                                                 .iteration = o->iteration});
        o->open++;
    }
}

void shoali_outer_trust_spoil(const shoali_outer *o, uint64_t id, shoali_actions *actions)
{
    const uint32_t worker = (uint32_t)((id & WORKER_BITS) >> WORKER_SHIFT) - 1;
    const shoali_mix_term nothing = {THEIRS + worker, NAN};
    if ((id & WORKER_BITS) != 0)
        shoali_act_mix(actions, THEIRS + worker, o->offset, o->count, &nothing, 1);
}

void shoali_outer_trust_judge(const shoali_outer *o, shoali_actions *actions)
{
    shoali_mix_term terms[SHOALI_TRUST_WORKERS];
    const shoali_mix_term left[] = {{MOVED, 1}, {THEIRS + o->world->me, -1}};
    if (loses(o))
        shoali_act_mix(actions, LEFT, o->offset, o->count, left, 2);
    for (uint32_t i = 0; i < o->judged_count; i++)
        terms[i] = (shoali_mix_term){THEIRS + o->judged[i], 1};
    shoali_act_trust(actions, &(shoali_action){.mix = {.dst = MOVED,
                                                       .terms = terms,
                                                       .term_count = o->judged_count,
                                                       .offset = o->offset,
                                                       .count = o->count,
                                                       .me = o->world->me,
                                                       .first = THEIRS,
                                                       .iteration = o->iteration}});
}

void shoali_outer_trust_tell(const shoali_outer *o, shoali_outer_word word, shoali_actions *actions)
{
    for (uint32_t i = 0; i < o->judged_count; i++)
        word(actions, name_of(o->base_id, o->judged[i]));
}
