/* SPDX-License-Identifier: Apache-2.0 */
/* Update queues. Numbers of updates only rise; update s of a neighbour lives in slot s % capacity
 * of its part, from the moment it is asked for until it is dropped:
 *
 *   dropped ... | head ... arrived - 1 | arrived (take_open) ... tagged - 1 | not announced yet
 *                 here, to be used        on their way or waiting at the sender
 *
 * One take per neighbour is open at a time, so updates arrive in order. With a codec that loses,
 * one own update is under way to each neighbour (hop_images.c); the update before the one that
 * arrives still lies in its slot: there are two at least. */
#include "sync/hop.h"

#include "base/error.h"
#include "sync/graph.h"

enum { FROM_SHIFT = 47, TO_SHIFT = 33, FIRST_SLOT = SHOALI_SLOT + 1 };
#define NODE_MASK UINT64_C(0x3fff)
#define NUMBER_MASK ((UINT64_C(1) << TO_SHIFT) - 1)

static uint64_t op_id(uint32_t from, uint32_t to, uint64_t number)
{
    return (uint64_t)from << FROM_SHIFT | (uint64_t)to << TO_SHIFT | (number & NUMBER_MASK);
}

static size_t tag_count(uint32_t capacity)
{
    return (size_t)capacity + SHOALI_HOP_WINDOW;
}

static bool is_lossy(const shoali_hop_queue *queue)
{
    return queue->world->coding == SHOALI_LOSSY;
}

static uint32_t own_slots(uint32_t edges, bool lossy, bool paired)
{
    return lossy ? shoali_hop_image_slots(edges, paired) : SHOALI_HOP_WINDOW;
}

uint32_t shoali_hop_queue_slots(uint32_t heard, uint32_t capacity, bool lossy, bool paired)
{
    return 1 + own_slots(heard, lossy, paired) + heard * capacity;
}

size_t shoali_hop_queue_bytes(uint32_t edges, uint32_t capacity)
{
    size_t each = sizeof(shoali_hop_edge) + tag_count(capacity) * sizeof(uint64_t);
    return edges * (each + sizeof(shoali_neighbour)) +
           (2 * (size_t)edges + 1) * sizeof(shoali_mix_term);
}

/* Of all edges of a directed graph, which a name makes regular. */
static shoal_status directed_weight(const char *spec, const shoali_world *world, uint32_t own,
                                    float *weight_out)
{
    shoali_graph graph;
    *weight_out = (float)shoali_graph_weight(own, own);
    if (!shoali_graph_is_file(spec))
        return SHOAL_OK;
    SHOALI_TRY(shoali_graph_open(spec, world->workers, &graph));
    uint32_t most = shoali_graph_largest_degree(&graph);
    shoali_graph_close(&graph);
    *weight_out = (float)shoali_graph_weight(most, most);
    return SHOAL_OK;
}

static shoal_status weigh(shoali_hop_queue *queue, const char *graph, uint32_t heard)
{
    const shoali_world *world = queue->world;
    const bool directed = shoali_graph_is_directed(graph);
    float weight = 0;
    uint32_t theirs = 0;
    if (directed)
        SHOALI_TRY(directed_weight(graph, world, heard, &weight));
    for (uint32_t i = 0; i < queue->edge_count; i++) {
        shoali_hop_edge *edge = &queue->edges[i];
        edge->weight = weight;
        if (directed)
            continue;
        SHOALI_TRY(shoali_graph_around(graph, world->workers, edge->peer, NULL, &theirs, NULL));
        edge->weight = (float)shoali_graph_weight(heard, theirs);
    }
    return SHOAL_OK;
}

shoal_status shoali_hop_queue_start(shoali_hop_queue *queue, const shoali_world *world,
                                    const char *graph, uint32_t edges, uint32_t capacity,
                                    bool paired, void *memory)
{
    uint32_t around = 0, heard = 0;
    *queue = (shoali_hop_queue){.world = world,
                                .edges = memory,
                                .edge_count = edges,
                                .capacity = capacity,
                                .paired = paired};
    uint64_t *tags = (uint64_t *)(void *)(queue->edges + edges);
    queue->terms = (shoali_mix_term *)(void *)(tags + edges * tag_count(capacity));
    shoali_neighbour *peers = (shoali_neighbour *)(void *)(queue->terms + 2 * (size_t)edges + 1);
    SHOALI_TRY(shoali_graph_around(graph, world->workers, world->me, peers, &around, &heard));
    for (uint32_t i = 0; i < edges; i++) {
        shoali_hop_edge *edge = &queue->edges[i];
        edge->peer = peers[i].node;
        edge->heard = peers[i].heard;
        edge->hears = peers[i].hears;
        edge->iter = world->iteration;
        edge->tags = tags + i * tag_count(capacity);
    }
    return weigh(queue, graph, heard);
}

shoali_hop_edge *shoali_hop_queue_edge(const shoali_hop_queue *queue, uint32_t peer)
{
    for (uint32_t i = 0; i < queue->edge_count; i++)
        if (queue->edges[i].peer == peer)
            return &queue->edges[i];
    return NULL;
}

/* ---------------------------------------------------------------- own updates */

/* The first one is whole, and nothing may be lost of it. */
static bool is_coded(const shoali_hop_queue *queue, uint64_t number)
{
    return queue->world->coding == SHOALI_LOSSLESS || (is_lossy(queue) && number > 0);
}

bool shoali_hop_queue_may_put(const shoali_hop_queue *queue)
{
    uint32_t bit = 1u << (queue->sent % SHOALI_HOP_WINDOW);
    for (uint32_t i = 0; i < queue->edge_count && !is_lossy(queue); i++)
        if ((queue->edges[i].puts & bit) != 0)
            return false;
    return shoali_hop_queue_settled(queue);
}

bool shoali_hop_queue_settled(const shoali_hop_queue *queue)
{
    for (uint32_t i = 0; i < queue->edge_count && is_lossy(queue); i++)
        if (!queue->edges[i].gone && queue->edges[i].puts != 0)
            return false;
    return true;
}

void shoali_hop_queue_put(shoali_hop_queue *queue, uint64_t iteration, shoali_actions *actions)
{
    const shoali_world *world = queue->world;
    const shoali_mix_term param = {SHOALI_PARAM, 1};
    uint32_t place = (uint32_t)(queue->sent % SHOALI_HOP_WINDOW), copy = FIRST_SLOT + place;
    if (!is_lossy(queue))
        shoali_act_mix(actions, copy, 0, world->count, &param, 1);
    for (uint32_t i = 0; i < queue->edge_count; i++) {
        shoali_hop_edge *edge = &queue->edges[i];
        uint32_t slot;
        if (edge->gone || !edge->hears)
            continue;
        edge->puts |= 1u << place;
        queue->open++;
        slot = is_lossy(queue) ? shoali_hop_image_change(queue, edge, queue->sent, actions) : copy;
        shoali_act_put(actions, op_id(world->me, edge->peer, queue->sent), world->me, edge->peer,
                       slot, world->count, is_coded(queue, queue->sent), iteration);
    }
    queue->sent++;
}

/* ---------------------------------------------------------------- theirs */

static uint32_t slot_of(const shoali_hop_queue *queue, const shoali_hop_edge *edge, uint64_t number)
{
    uint32_t index = (uint32_t)(edge - queue->edges);
    return FIRST_SLOT + own_slots(queue->edge_count, is_lossy(queue), queue->paired) +
           index * queue->capacity + (uint32_t)(number % queue->capacity);
}

static uint64_t *tag_of(const shoali_hop_queue *queue, const shoali_hop_edge *edge, uint64_t number)
{
    return &edge->tags[number % tag_count(queue->capacity)];
}

/* Updates that are here and whose tags are known. */
static uint64_t usable(const shoali_hop_edge *edge)
{
    return edge->arrived < edge->tagged ? edge->arrived : edge->tagged;
}

void shoali_hop_queue_take(shoali_hop_queue *queue, uint64_t iteration, shoali_actions *actions)
{
    const shoali_world *world = queue->world;
    for (uint32_t i = 0; i < queue->edge_count; i++) {
        shoali_hop_edge *edge = &queue->edges[i];
        if (edge->gone || !edge->heard || edge->take_open ||
            edge->arrived - edge->head >= queue->capacity)
            continue;
        edge->take_open = true;
        queue->open++;
        shoali_act_take(actions, op_id(edge->peer, world->me, edge->arrived), world->me, edge->peer,
                        slot_of(queue, edge, edge->arrived), world->count,
                        is_coded(queue, edge->arrived), iteration);
    }
}

static void note_newest(const shoali_hop_queue *queue, shoali_hop_edge *edge)
{
    if (usable(edge) > edge->head)
        edge->newest = *tag_of(queue, edge, usable(edge) - 1) + 1;
}

static void put_done(shoali_hop_queue *queue, shoali_hop_edge *edge, uint64_t number, bool ok,
                     shoali_actions *actions)
{
    edge->puts &= ~(1u << (number % SHOALI_HOP_WINDOW));
    if (ok && !edge->gone && is_lossy(queue))
        shoali_hop_image_sent(queue, edge, number, actions);
}

static void take_done(shoali_hop_queue *queue, shoali_hop_edge *edge, bool ok,
                      shoali_actions *actions)
{
    const uint64_t number = edge->arrived;
    edge->take_open = false;
    edge->gone |= !ok; /* it is going, and will be heard of */
    edge->arrived += ok;
    if (ok && is_lossy(queue))
        shoali_hop_image_came(queue, slot_of(queue, edge, number),
                              slot_of(queue, edge, number + queue->capacity - 1), number, actions);
    note_newest(queue, edge);
}

bool shoali_hop_queue_done(shoali_hop_queue *queue, uint64_t id, bool ok, shoali_actions *actions)
{
    uint32_t from = (uint32_t)(id >> FROM_SHIFT & NODE_MASK);
    uint32_t to = (uint32_t)(id >> TO_SHIFT & NODE_MASK);
    bool put = from == queue->world->me;
    shoali_hop_edge *edge = shoali_hop_queue_edge(queue, put ? to : from);
    if (edge == NULL || (!put && to != queue->world->me) || (put ? !edge->hears : !edge->heard))
        return false;
    queue->open--;
    if (put)
        put_done(queue, edge, id & NUMBER_MASK, ok, actions);
    else
        take_done(queue, edge, ok, actions);
    return true;
}

bool shoali_hop_queue_tag(shoali_hop_queue *queue, shoali_hop_edge *edge, uint64_t tag)
{
    bool rises = edge->tagged == 0 || tag > *tag_of(queue, edge, edge->tagged - 1);
    if (!rises || edge->tagged - edge->head >= tag_count(queue->capacity))
        return false;
    *tag_of(queue, edge, edge->tagged++) = tag;
    note_newest(queue, edge);
    return true;
}

uint64_t shoali_hop_queue_count(const shoali_hop_queue *queue, const shoali_hop_edge *edge,
                                uint64_t tag)
{
    uint64_t count = 0;
    for (uint64_t s = edge->head; s < edge->tagged; s++)
        count += *tag_of(queue, edge, s) >= tag;
    return count;
}

void shoali_hop_queue_drop(shoali_hop_queue *queue, uint64_t below, bool keep_newest)
{
    for (uint32_t i = 0; i < queue->edge_count; i++) {
        shoali_hop_edge *edge = &queue->edges[i];
        uint64_t end = usable(edge);
        while (edge->head < end &&
               (*tag_of(queue, edge, edge->head) < below || (keep_newest && edge->head + 1 < end)))
            edge->head++;
    }
}

bool shoali_hop_queue_find(const shoali_hop_queue *queue, const shoali_hop_edge *edge, uint64_t tag,
                           bool any, uint32_t *slot_out, uint64_t *tag_out)
{
    for (uint64_t s = usable(edge); s-- > edge->head;)
        if (any || *tag_of(queue, edge, s) == tag) {
            *slot_out = slot_of(queue, edge, s);
            *tag_out = *tag_of(queue, edge, s);
            return true;
        }
    return false;
}

void shoali_hop_queue_cancel(shoali_hop_queue *queue, shoali_hop_edge *edge,
                             shoali_actions *actions)
{
    uint32_t me = queue->world->me;
    for (uint32_t i = 0; i < queue->edge_count; i++) {
        const shoali_hop_edge *e = &queue->edges[i];
        if (edge != NULL && e != edge)
            continue;
        if (e->take_open)
            shoali_act_cancel(actions, op_id(e->peer, me, e->arrived));
        for (uint64_t back = 1; back <= SHOALI_HOP_WINDOW && back <= queue->sent; back++)
            if ((e->puts >> ((queue->sent - back) % SHOALI_HOP_WINDOW) & 1) != 0)
                shoali_act_cancel(actions, op_id(me, e->peer, queue->sent - back));
    }
}
