/* SPDX-License-Identifier: Apache-2.0 */
/* Updates through a codec that loses. Both ends of an edge keep the sender's image: what the
 * receiver knows of it. An update is what the image lacks; both ends add what the codec left of it.
 * The first one of an edge is the whole model as it is.
 *
 *   image   what the neighbour knows of this replica
 *   change  what travels to it: PARAM - image, then what the codec left of that
 *   theirs  paired: what this worker knows of the neighbour's replica
 *
 * Paired (every update of one side meets one of the other): an average moves PARAM by the weighted
 * differences of images, theirs - image, and the images with it, at both ends by the same numbers
 * in the same order, so they stay the same, bit for bit. What one side gains the other loses: the
 * mean of all is conserved. An element that no update has brought for long is averaged once, not
 * again and again with the same old numbers, so this is stable with any codec that leaves less
 * error than there was.
 *
 * Not paired (backup, staleness): only the receiver knows which updates it used, so images follow
 * the updates alone, and those of a neighbour are the updates in its queue. An average still moves
 * PARAM by differences, but of what lies there again and again: the codec has to be a faithful one
 * (SHOALI_SYNC_FAITHFUL). */
#include "sync/hop.h"

enum { FIRST_SLOT = SHOALI_SLOT + 1, IMAGE = 0, CHANGE, THEIRS };

static uint32_t each(bool paired)
{
    return paired ? THEIRS + 1 : THEIRS;
}

uint32_t shoali_hop_image_slots(uint32_t edges, bool paired)
{
    return edges * each(paired);
}

static uint32_t slot_of(const shoali_hop_queue *queue, const shoali_hop_edge *edge, uint32_t which)
{
    return FIRST_SLOT + (uint32_t)(edge - queue->edges) * each(queue->paired) + which;
}

uint32_t shoali_hop_image(const shoali_hop_queue *queue, const shoali_hop_edge *edge)
{
    return slot_of(queue, edge, IMAGE);
}

static void mix(const shoali_hop_queue *queue, uint32_t dst, shoali_mix_term a, shoali_mix_term b,
                shoali_actions *actions)
{
    const shoali_mix_term terms[2] = {a, b};
    shoali_act_mix(actions, dst, 0, queue->world->count, terms, 2);
}

static void copy(const shoali_hop_queue *queue, uint32_t dst, uint32_t src, shoali_actions *actions)
{
    shoali_act_mix(actions, dst, 0, queue->world->count, &(shoali_mix_term){src, 1}, 1);
}

uint32_t shoali_hop_image_change(const shoali_hop_queue *queue, const shoali_hop_edge *edge,
                                 uint64_t number, shoali_actions *actions)
{
    const uint32_t change = slot_of(queue, edge, CHANGE), image = slot_of(queue, edge, IMAGE);
    if (number == 0)
        copy(queue, change, SHOALI_PARAM, actions);
    else
        mix(queue, change, (shoali_mix_term){SHOALI_PARAM, 1}, (shoali_mix_term){image, -1},
            actions);
    return change;
}

/* dst = base + update, the same sum wherever it is made; the first update is all of it. */
static void add(const shoali_hop_queue *queue, uint32_t dst, uint32_t base, uint32_t update,
                uint64_t number, shoali_actions *actions)
{
    if (number > 0)
        mix(queue, dst, (shoali_mix_term){base, 1}, (shoali_mix_term){update, 1}, actions);
    else if (dst != update)
        copy(queue, dst, update, actions);
}

void shoali_hop_image_sent(const shoali_hop_queue *queue, const shoali_hop_edge *edge,
                           uint64_t number, shoali_actions *actions)
{
    const uint32_t image = slot_of(queue, edge, IMAGE);
    add(queue, image, image, slot_of(queue, edge, CHANGE), number, actions);
}

void shoali_hop_image_came(const shoali_hop_queue *queue, uint32_t slot, uint32_t before,
                           uint64_t number, shoali_actions *actions)
{
    if (!queue->paired)
        add(queue, slot, before, slot, number, actions);
}

/* The images of an edge take their average, as both ends do. */
static void meet(const shoali_hop_queue *queue, const shoali_hop_edge *edge,
                 shoali_actions *actions)
{
    const uint32_t image = slot_of(queue, edge, IMAGE), theirs = slot_of(queue, edge, THEIRS);
    const uint32_t before = slot_of(queue, edge, CHANGE); /* nothing is under way */
    const float w = edge->weight, rest = 1 - w;
    copy(queue, before, image, actions);
    mix(queue, image, (shoali_mix_term){image, rest}, (shoali_mix_term){theirs, w}, actions);
    mix(queue, theirs, (shoali_mix_term){theirs, rest}, (shoali_mix_term){before, w}, actions);
}

void shoali_hop_images_meet(const shoali_hop_queue *queue, uint64_t iteration,
                            shoali_actions *actions)
{
    shoali_mix_term *terms = queue->terms;
    uint32_t count = 0, slot;
    uint64_t tag, number = iteration - queue->world->iteration;
    for (uint32_t i = 0; i < queue->edge_count; i++) {
        const shoali_hop_edge *edge = &queue->edges[i];
        const uint32_t theirs = slot_of(queue, edge, THEIRS);
        if (edge->gone || !shoali_hop_queue_find(queue, edge, iteration, false, &slot, &tag))
            continue;
        add(queue, theirs, theirs, slot, number, actions);
        terms[count++] = (shoali_mix_term){theirs, edge->weight};
        terms[count++] = (shoali_mix_term){slot_of(queue, edge, IMAGE), -edge->weight};
    }
    if (count == 0)
        return;
    terms[count++] = (shoali_mix_term){SHOALI_PARAM, 1};
    shoali_act_mix(actions, SHOALI_PARAM, 0, queue->world->count, terms, count);
    for (uint32_t i = 0; i < queue->edge_count; i++)
        if (!queue->edges[i].gone)
            meet(queue, &queue->edges[i], actions);
}
