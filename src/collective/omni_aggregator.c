/* SPDX-License-Identifier: Apache-2.0 */
/* A shard of OmniReduce's aggregation. A round of a slot is over when everyone that owed a block of
 * it has sent it: whose next block lies further is silent, so completeness follows from the next
 * numbers and never from a count of messages. Every worker owes the first row. */
#include <string.h>

#include "base/error.h"
#include "collective/omni.h"
#include "kernel/kernel.h"

static shoal_status open_slot(shoali_omni_aggregator *a, uint32_t slot, shoal_arena *arena)
{
    const shoali_omni_layout *l = a->l;
    shoali_omni_slot *s = &a->slots[slot];
    s->open = shoali_omni_width(l, slot);
    s->waiting = s->open * l->workers;
    s->cur = shoali_arena_array(arena, l->fusion, sizeof *s->cur);
    s->next = shoali_arena_array(arena, (size_t)l->workers * l->fusion, sizeof *s->next);
    s->body = shoali_arena_array(arena, l->workers, sizeof *s->body);
    s->body_blocks = shoali_arena_array(arena, l->workers, sizeof *s->body_blocks);
    if (s->cur == NULL || s->next == NULL || s->body == NULL || s->body_blocks == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < l->fusion; i++) {
        const uint32_t column = slot * l->fusion + i;
        s->cur[i] = i < s->open ? column : shoali_omni_end(l, column);
        for (uint32_t w = 0; w < l->workers; w++)
            s->next[w * l->fusion + i] = s->cur[i];
    }
    return SHOAL_OK;
}

shoal_status shoali_omni_aggregator_init(shoali_omni_aggregator *a, const shoali_omni_layout *l,
                                         uint32_t me, shoal_arena *arena)
{
    *a = (shoali_omni_aggregator){.l = l, .me = me};
    a->slots = shoali_arena_array(arena, l->slots, sizeof *a->slots);
    if (a->slots == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t slot = me; slot < l->slots; slot += l->aggregators) {
        SHOALI_TRY(open_slot(a, slot, arena));
        a->open++;
    }
    return SHOAL_OK;
}

static bool owes(const shoali_omni_layout *l, const shoali_omni_slot *s, uint32_t worker,
                 uint32_t i)
{
    return s->cur[i] < l->blocks && s->next[worker * l->fusion + i] == s->cur[i];
}

uint32_t shoali_omni_aggregator_owed(const shoali_omni_aggregator *a, uint32_t slot,
                                     uint32_t worker)
{
    const shoali_omni_slot *s = &a->slots[slot];
    uint32_t owed = 0;
    for (uint32_t i = 0; i < a->l->fusion; i++)
        owed += owes(a->l, s, worker, i);
    return owed;
}

shoal_status shoali_omni_aggregator_take(shoali_omni_aggregator *a, uint32_t slot, uint32_t worker,
                                         uint8_t *body, uint32_t k)
{
    const shoali_omni_layout *l = a->l;
    shoali_omni_slot *s = &a->slots[slot];
    uint32_t found = 0;
    for (uint32_t i = 0; i < l->fusion; i++) {
        if (!owes(l, s, worker, i))
            continue;
        const uint32_t next = shoali_omni_word(l, body, k, found++);
        if (!shoali_omni_follows(l, slot, s->cur[i], next))
            return shoali_fail(SHOAL_ECORRUPT,
                               "omnireduce: worker %u says that block %u comes after block %u",
                               worker, next, s->cur[i]);
    }
    found = 0;
    for (uint32_t i = 0; i < l->fusion; i++)
        if (owes(l, s, worker, i))
            s->next[worker * l->fusion + i] = shoali_omni_word(l, body, k, found++);
    s->body[worker] = body;
    s->body_blocks[worker] = k;
    s->waiting -= k;
    return SHOAL_OK;
}

bool shoali_omni_aggregator_ready(const shoali_omni_aggregator *a, uint32_t slot)
{
    return a->slots[slot].open > 0 && a->slots[slot].waiting == 0;
}

/* Place of column i of the slot among those that are not at their end. */
static uint32_t place_of(const shoali_omni_layout *l, const shoali_omni_slot *s, uint32_t i)
{
    uint32_t place = 0;
    for (uint32_t j = 0; j < i; j++)
        place += s->cur[j] < l->blocks;
    return place;
}

void shoali_omni_aggregator_add(shoali_omni_aggregator *a, uint32_t slot, uint32_t worker,
                                uint8_t *result)
{
    const shoali_omni_layout *l = a->l;
    shoali_omni_slot *s = &a->slots[slot];
    const uint8_t *body = s->body[worker];
    const uint32_t k = s->body_blocks[worker];
    for (uint32_t i = 0; i < k; i++) {
        const uint32_t column = shoali_omni_word(l, body, k, i) % l->columns % l->fusion;
        const uint32_t place = place_of(l, s, column);
        const float *x = (const float *)(const void *)body + (size_t)i * l->block;
        float *sum = (float *)(void *)result + (size_t)place * l->block;
        if ((s->started >> place & 1) != 0)
            shoali_kernel()->add(sum, x, l->block);
        else
            shoali_kernel()->copy(sum, x, l->block);
        s->started |= (uint64_t)1 << place;
        a->work += l->block;
    }
}

uint8_t *shoali_omni_aggregator_give_back(shoali_omni_aggregator *a, uint32_t slot, uint32_t worker)
{
    uint8_t *body = a->slots[slot].body[worker];
    a->slots[slot].body[worker] = NULL;
    return body;
}

uint32_t shoali_omni_aggregator_blocks(const shoali_omni_aggregator *a, uint32_t slot)
{
    return a->slots[slot].open;
}

/* The smallest next block of all workers; waiting counts who has it. */
static uint32_t ask(const shoali_omni_layout *l, shoali_omni_slot *s, uint32_t i)
{
    uint32_t least = UINT32_MAX, holders = 0;
    for (uint32_t w = 0; w < l->workers; w++) {
        const uint32_t next = s->next[w * l->fusion + i];
        holders = next < least ? 1 : holders + (next == least);
        least = next < least ? next : least;
    }
    if (least < l->blocks)
        s->waiting += holders;
    else
        s->open--;
    return least;
}

uint32_t shoali_omni_aggregator_sum(shoali_omni_aggregator *a, uint32_t slot, uint8_t *result)
{
    const shoali_omni_layout *l = a->l;
    shoali_omni_slot *s = &a->slots[slot];
    const uint32_t k = s->open;
    for (uint32_t w = 0; w < l->workers; w++)
        if (s->body[w] != NULL)
            shoali_omni_aggregator_add(a, slot, w, result);
    for (uint32_t i = 0, place = 0; i < l->fusion; i++) {
        if (s->cur[i] >= l->blocks)
            continue;
        shoali_omni_set_word(l, result, k, 2 * place, s->cur[i]);
        s->cur[i] = ask(l, s, i);
        shoali_omni_set_word(l, result, k, 2 * place + 1, s->cur[i]);
        place++;
    }
    s->started = 0;
    s->round++;
    if (s->open == 0)
        a->open--;
    return k;
}
