/* SPDX-License-Identifier: Apache-2.0 */
/* Hop: decentralised SGD without a global step. A worker in iteration k sends x_k to its neighbours
 * and computes the gradient at x_k meanwhile; then x = mean of its own and their x_k, and its
 * optimiser steps from there. Tokens bound how far it may be ahead of a neighbour.
 *
 *              COMPUTE            REDUCE (asked)         UPDATE      ENTER (asked)         ENDING
 *   BEFORE     -> REDUCE          .                      .           .                     .
 *   AFTER      .                  .                      -> ENTER    .                     .
 *   FINISH     in COMPUTE: tell the neighbours, -> ENDING (finale.c answers it)
 *   TAG j t    book               ready: mix, GO(apply)  book        book                  book
 *   OP_DONE    book, next take    ready: mix, GO(apply)  book        window: as ITER       book
 *   ITER j t   book               book                   book        tokens: k rises,      .
 *                                                                    tell, put, GO(next)
 *   j is gone  its edges are cut; then as OP_DONE
 *   STOP       goodbye, CANCEL all -> LEAVING: GO(stop) once no operation is open
 *
 * What comes after REDUCE is UPDATE, after ENTER it is COMPUTE. `serial` sends x after the update
 * and reduces in ENTER, before the tokens; BEFORE then is GO at once.
 *
 * Ready, with d neighbours that are there:
 *   standard     all d updates of iteration k; Metropolis weights: the mean of all is conserved
 *   backup=b     d - b of them (at least one); plain mean of those that came, oneself included
 *   staleness=s  d - b neighbours whose newest update is of k - s or later; a new one of tag t
 *                weighs t - (k - s) + 1, one's own s + 1, one that was used before nothing
 * Tokens: with o's iteration I(o) as last heard, k may rise while I(o) + tokens > k for all o that
 * hear this worker: Iter(w) - Iter(o) <= tokens. A straggler sees all tokens pile up: it may jump
 * by J <= min_o I(o) - k, which nobody can be waiting for, and takes the mean of its neighbours'
 * models of iteration k + J - 1.
 *
 * A codec with losses: replicas move by differences of images (hop_images.c), and REDUCE waits
 * until one's own updates have arrived, which they mostly do while the gradient is computed.
 *
 * Update queues: nobody is announced more than 1 + tokens updates that it may still need (one
 * iteration ahead without tokens); more is a protocol error, as is a token too many. */
#include "sync/hop.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "sync/graph.h"
#include "sync/rift.h"

enum { ITER = 1, TAG, BOTH, ACK, NO_MORE, MESSAGE_BYTES = 8 };
typedef enum phase { COMPUTE, REDUCE, UPDATE, ENTER, ENDING, LEAVING, OVER } phase;
#define DEFAULT_TOKENS 10

static const shoali_key keys[] = {
    {"graph", SHOALI_KEY_TEXT, offsetof(shoali_hop_params, graph), 0, 0, NULL, "ring",
     "ring, chords, double_ring, complete, parity, a file with lines of two workers; directed: "
     "one_way, exponential, a file with lines \"a > b\""},
    {"tokens", SHOALI_KEY_INT, offsetof(shoali_hop_params, tokens), 0, 1000, NULL, "0",
     "iterations ahead of a neighbour that hears this worker; 0: 10 where backup or staleness need "
     "them, 1 on directed graphs, else none"},
    {"backup", SHOALI_KEY_INT, offsetof(shoali_hop_params, backup), 0, 1000, NULL, "0",
     "neighbours whose update need not be waited for"},
    {"staleness", SHOALI_KEY_INT, offsetof(shoali_hop_params, staleness), 0, 1000, NULL, "0",
     "iterations by which a neighbour's update may be older than one's own"},
    {"weights", SHOALI_KEY_CHOICE, offsetof(shoali_hop_params, weights), 0, 0, "linear|plain",
     "linear", "of stale updates: by their age, or all the same"},
    {"skip", SHOALI_KEY_INT, offsetof(shoali_hop_params, skip), 0, 1000, NULL, "0",
     "a worker that lags may jump so many iterations at once; needs backup or staleness"},
    {"trigger", SHOALI_KEY_INT, offsetof(shoali_hop_params, trigger), 2, 1000, NULL, "2",
     "iterations behind all neighbours before it jumps"},
    {"serial", SHOALI_KEY_FLAG, offsetof(shoali_hop_params, serial), 0, 0, NULL, "off",
     "send after the update and wait, instead of sending before the gradient"},
    {"notify_ack", SHOALI_KEY_FLAG, offsetof(shoali_hop_params, notify_ack), 0, 0, NULL, "off",
     "the older protocol: send again only once the last update was used"},
};

typedef struct machine {
    shoali_finale finale;
    shoali_hop_queue queue;
    const shoali_world *world;
    const shoali_hop_params *params;
    uint64_t iteration, tokens;
    bool reduced; /* iteration's updates are in PARAM */
    phase phase;
} machine;

/* ---------------------------------------------------------------- the world */

/* Every update of a neighbour enters one mean. */
static bool is_standard(const shoali_hop_params *p)
{
    return p->backup == 0 && p->staleness == 0;
}

uint64_t shoali_hop_tokens(const shoali_hop_params *p)
{
    if (p->tokens > 0)
        return (uint64_t)p->tokens;
    return !is_standard(p) ? DEFAULT_TOKENS : shoali_graph_is_directed(p->graph) ? 1 : 0;
}

/* Without tokens whose updates one waits for is an iteration ahead at most, if it waits as well. */
static uint32_t capacity(const shoali_hop_params *p)
{
    bool ahead = !is_standard(p) || shoali_graph_is_directed(p->graph);
    return 1 + (ahead ? (uint32_t)shoali_hop_tokens(p) : 1);
}

/* 0 also if the graph is none: START says so. */
static uint32_t degree(const shoali_world *world, uint32_t *heard_out)
{
    const shoali_hop_params *p = world->params;
    uint32_t count, heard = 0;
    bool ok = shoali_graph_around(p->graph, world->workers, world->me, NULL, &count, &heard) ==
              SHOAL_OK;
    if (heard_out != NULL)
        *heard_out = ok ? heard : 0;
    return ok ? count : 0;
}

static size_t head_bytes(void)
{
    return (sizeof(machine) + 63) / 64 * 64;
}

size_t shoali_hop_state_size(const shoali_world *world)
{
    size_t finale = (shoali_finale_bytes(world) + 63) / 64 * 64;
    const shoali_hop_params *p = world->params;
    uint32_t edges = shoali_graph_is_file(p->graph) ? world->workers : degree(world, NULL);
    return head_bytes() + finale + shoali_hop_queue_bytes(edges, capacity(p));
}

uint32_t shoali_hop_slots(const shoali_world *world)
{
    uint32_t heard;
    (void)degree(world, &heard);
    return shoali_hop_queue_slots(heard, capacity(world->params), world->coding == SHOALI_LOSSY,
                                  is_standard(world->params));
}

uint32_t shoali_hop_max_staleness(const void *params)
{
    return (uint32_t)((const shoali_hop_params *)params)->staleness;
}

/* Per edge, times the graph's diameter. */
uint32_t shoali_hop_max_gap(const shoali_world *world)
{
    const shoali_hop_params *p = world->params;
    shoali_graph graph;
    uint64_t tokens = shoali_hop_tokens(p), edge = 1;
    if (p->backup > 0)
        edge = tokens;
    else if (p->staleness > 0)
        edge = (uint64_t)p->staleness + 1 < tokens ? (uint64_t)p->staleness + 1 : tokens;
    if (shoali_graph_open(p->graph, world->workers, &graph) != SHOAL_OK)
        return 0;
    uint64_t gap = edge * shoali_graph_diameter(&graph);
    shoali_graph_close(&graph);
    return (uint32_t)gap;
}

/* ---------------------------------------------------------------- messages and ends */

static void tell(const machine *m, uint8_t kind, uint64_t value, shoali_actions *actions)
{
    uint8_t bytes[MESSAGE_BYTES] = {kind};
    for (int i = 1; i < MESSAGE_BYTES; i++)
        bytes[i] = (uint8_t)(value >> (8 * (i - 1)));
    for (uint32_t i = 0; i < m->queue.edge_count; i++)
        if (!m->queue.edges[i].gone)
            shoali_act_send(actions, m->queue.edges[i].peer, bytes, sizeof bytes);
}

static void fail(machine *m, shoal_status status, const char *text, shoali_actions *actions)
{
    shoali_finale_fail(&m->finale, status, text, actions);
    m->phase = OVER;
}

static void go(machine *m, phase next, const shoal_verdict *verdict, shoali_actions *actions)
{
    m->phase = next;
    shoali_act_go(actions, verdict);
}

/* ---------------------------------------------------------------- reduce */

/* Whose updates come here. */
static bool is_heard(const shoali_hop_edge *edge)
{
    return edge->heard && !edge->gone;
}

static uint32_t there(const machine *m)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->queue.edge_count; i++)
        count += is_heard(&m->queue.edges[i]);
    return count;
}

static bool fresh_enough(const machine *m, const shoali_hop_edge *edge)
{
    uint32_t slot;
    uint64_t tag;
    if (m->params->staleness == 0)
        return shoali_hop_queue_find(&m->queue, edge, m->iteration, false, &slot, &tag);
    return edge->newest > 0 && edge->newest - 1 + (uint64_t)m->params->staleness >= m->iteration;
}

static bool ready_to_reduce(const machine *m)
{
    uint32_t count = there(m), ready = 0, backup = (uint32_t)m->params->backup;
    uint32_t need = count > backup ? count - backup : count > 0;
    for (uint32_t i = 0; i < m->queue.edge_count; i++)
        ready += is_heard(&m->queue.edges[i]) && fresh_enough(m, &m->queue.edges[i]);
    return ready >= need && shoali_hop_queue_settled(&m->queue);
}

/* Of an update with this tag in iteration k. */
static float weight(const machine *m, const shoali_hop_edge *edge, uint64_t tag, uint64_t k)
{
    const shoali_hop_params *p = m->params;
    if (is_standard(p))
        return edge->weight;
    if (p->staleness == 0 || p->weights == SHOALI_HOP_PLAIN)
        return 1;
    int64_t age = (int64_t)tag - (int64_t)k + p->staleness + 1;
    return (float)(age > 0 ? age : 1);
}

/* The neighbours' updates for iteration k as terms; their weights summed to *sum_out. What each of
 * them has of this replica stands edge_count terms further on. */
static uint32_t collect(const machine *m, uint64_t k, float *sum_out)
{
    const bool lossy = m->world->coding == SHOALI_LOSSY;
    uint32_t count = 0, slot;
    uint64_t tag;
    *sum_out = 0;
    for (uint32_t i = 0; i < m->queue.edge_count; i++) {
        const shoali_hop_edge *edge = &m->queue.edges[i];
        bool any = m->params->staleness > 0;
        if (lossy && edge->gone) /* who knows what it has */
            continue;
        if (!shoali_hop_queue_find(&m->queue, edge, k, any, &slot, &tag))
            continue;
        float w = weight(m, edge, tag, k);
        uint32_t image = shoali_hop_image(&m->queue, edge);
        m->queue.terms[m->queue.edge_count + count] = (shoali_mix_term){image, 0};
        m->queue.terms[count++] = (shoali_mix_term){slot, w};
        *sum_out += w;
    }
    return count;
}

/* PARAM = weighted mean over count terms, whose weights add up to sum, and itself. Where a codec
 * loses, PARAM moves by the weighted differences between theirs and what they know of it: what they
 * do not know yet stays in it. Without losses that is the mean. */
static void mix(const machine *m, uint32_t count, float sum, float own, shoali_actions *actions)
{
    shoali_mix_term *terms = m->queue.terms;
    uint32_t all = count;
    sum += own;
    for (uint32_t i = 0; i < count; i++)
        terms[i].weight /= sum;
    if (m->world->coding == SHOALI_LOSSY) {
        for (uint32_t i = 0; i < count; i++, all++)
            terms[all] = (shoali_mix_term){terms[m->queue.edge_count + i].tensor, -terms[i].weight};
        terms[all++] = (shoali_mix_term){SHOALI_PARAM, 1};
    } else if (own != 0) {
        terms[all++] = (shoali_mix_term){SHOALI_PARAM, own / sum};
    }
    shoali_act_mix(actions, SHOALI_PARAM, 0, m->world->count, terms, all);
}

static void average(const machine *m, shoali_actions *actions)
{
    const shoali_hop_params *p = m->params;
    float sum, own = 1;
    uint32_t count = collect(m, m->iteration, &sum);
    if (is_standard(p))
        own = 1 - sum;
    else if (p->staleness > 0 && p->weights == SHOALI_HOP_LINEAR)
        own = (float)(p->staleness + 1);
    if (count > 0)
        mix(m, count, sum, own, actions);
}

static void reduce(machine *m, shoali_actions *actions)
{
    const shoali_hop_params *p = m->params;
    if (m->world->coding == SHOALI_LOSSY && is_standard(p))
        shoali_hop_images_meet(&m->queue, m->iteration, actions);
    else
        average(m, actions);
    m->reduced = true;
    shoali_hop_queue_drop(&m->queue, p->staleness > 0 ? UINT64_MAX : m->iteration + 1, false);
    if (p->notify_ack)
        tell(m, ACK, m->iteration, actions);
}

/* ---------------------------------------------------------------- the next iteration */

/* How many iterations to go on by: more than one is a jump. */
static uint64_t stride(const machine *m)
{
    const shoali_hop_params *p = m->params;
    uint64_t behind = UINT64_MAX;
    for (uint32_t i = 0; i < m->queue.edge_count; i++) {
        const shoali_hop_edge *edge = &m->queue.edges[i];
        uint64_t ahead = edge->iter > m->iteration ? edge->iter - m->iteration : 0;
        behind = !edge->gone && ahead < behind ? ahead : behind;
    }
    if (p->skip < 2 || behind == UINT64_MAX || behind < (uint64_t)p->trigger)
        return 1;
    return behind < (uint64_t)p->skip ? behind : (uint64_t)p->skip;
}

static bool has_tokens(const machine *m, uint64_t next)
{
    for (uint32_t i = 0; i < m->queue.edge_count; i++) {
        const shoali_hop_edge *edge = &m->queue.edges[i];
        if (edge->gone || !edge->hears)
            continue;
        if (m->tokens > 0 && !edge->finished && edge->iter + m->tokens < next)
            return false;
        if (m->params->notify_ack && edge->acked < m->queue.sent)
            return false;
    }
    return true;
}

/* A jump lands on the neighbours' models of the iteration before. */
static void renew(machine *m, uint64_t next, shoali_actions *actions)
{
    float sum;
    uint32_t count = collect(m, next - 1, &sum);
    if (count > 0)
        mix(m, count, sum, 0, actions);
}

static void enter(machine *m, shoali_actions *actions)
{
    uint64_t next = m->iteration + stride(m);
    bool parallel = !m->params->serial;
    if (!has_tokens(m, next) || (parallel && !shoali_hop_queue_may_put(&m->queue)))
        return;
    if (next > m->iteration + 1)
        renew(m, next, actions);
    m->iteration = next;
    m->reduced = false;
    tell(m, parallel ? BOTH : ITER, next, actions);
    if (parallel)
        shoali_hop_queue_put(&m->queue, next, actions);
    go(m, COMPUTE, &(shoal_verdict){.iteration = next}, actions);
}

/* serial: x is sent as soon as there is room, once an iteration. */
static void send_serial(machine *m, shoali_actions *actions)
{
    if (m->queue.sent > m->iteration - m->world->iteration || !shoali_hop_queue_may_put(&m->queue))
        return;
    tell(m, TAG, m->iteration, actions);
    shoali_hop_queue_put(&m->queue, m->iteration, actions);
}

/* Updates with lower tags will not enter any mean. */
static uint64_t oldest_useful(const machine *m)
{
    uint64_t s = (uint64_t)m->params->staleness;
    if (m->phase >= ENDING)
        return UINT64_MAX;
    if (s > 0)
        return m->iteration > s ? m->iteration - s : 0;
    return m->iteration + m->reduced;
}

/* Whatever has changed: go on if that is enough, and ask for more updates. */
static void proceed(machine *m, shoali_actions *actions)
{
    const shoal_verdict apply = {.apply = true, .grad_scale = 1, .iteration = m->iteration};
    bool serial = m->params->serial;
    if (m->phase == OVER)
        return;
    if (m->phase == LEAVING && m->queue.open == 0 && !m->finale.open)
        go(m, OVER, &(shoal_verdict){.stop = true, .iteration = m->iteration}, actions);
    else if (m->phase == ENTER && serial)
        send_serial(m, actions);
    if (m->phase == REDUCE && ready_to_reduce(m)) {
        reduce(m, actions);
        go(m, UPDATE, &apply, actions);
    } else if (m->phase == ENTER) {
        bool sent = m->queue.sent > m->iteration - m->world->iteration;
        if (serial && !m->reduced && sent && ready_to_reduce(m))
            reduce(m, actions);
        if (!serial || m->reduced)
            enter(m, actions);
    }
    shoali_hop_queue_drop(&m->queue, oldest_useful(m), m->params->staleness > 0);
    if (m->phase < LEAVING)
        shoali_hop_queue_take(&m->queue, m->iteration, actions);
}

/* ---------------------------------------------------------------- events */

static void on_message(machine *m, const shoali_event *event, shoali_actions *actions)
{
    shoali_hop_edge *edge = shoali_hop_queue_edge(&m->queue, event->message.peer);
    uint64_t value = 0;
    if (edge == NULL || event->message.len_bytes != MESSAGE_BYTES)
        return;
    uint8_t kind = event->message.bytes[0];
    for (int i = 1; i < MESSAGE_BYTES; i++)
        value |= (uint64_t)event->message.bytes[i] << (8 * (i - 1));
    if ((kind == ITER || kind == BOTH) && value > edge->iter)
        edge->iter = value;
    if (kind == ACK && value + 1 > m->world->iteration + edge->acked)
        edge->acked = value + 1 - m->world->iteration;
    edge->finished |= kind == NO_MORE;
    if (!edge->heard || (kind != TAG && kind != BOTH))
        return;
    bool fits = shoali_hop_queue_tag(&m->queue, edge, value);
    bool ending = m->phase >= ENDING;
    if (!fits ||
        (!ending && shoali_hop_queue_count(&m->queue, edge, m->iteration) > m->queue.capacity))
        fail(m, SHOAL_ECORRUPT, "a neighbour sent more updates than its tokens allow", actions);
}

static void on_op_done(machine *m, const shoali_event *event, shoali_actions *actions)
{
    shoal_status status = event->op.status;
    bool going = status == SHOAL_EPEER || status == SHOAL_ECANCELLED || m->phase >= LEAVING;
    if (!shoali_hop_queue_done(&m->queue, event->op.id, status == SHOAL_OK, actions))
        return;
    if (status != SHOAL_OK && !going)
        fail(m, status, event->op.text, actions);
}

static void on_gone(machine *m, uint32_t peer, shoali_actions *actions)
{
    const shoali_hop_params *p = m->world->params;
    shoal_status status = shoali_rift_check(p->graph, &m->finale);
    if (status != SHOAL_OK) {
        shoali_finale_cut(&m->finale, status, shoal_last_error()->text, actions);
        m->phase = OVER;
        return;
    }
    shoali_hop_edge *edge = shoali_hop_queue_edge(&m->queue, peer);
    if (edge == NULL)
        return;
    edge->gone = true;
    shoali_hop_queue_cancel(&m->queue, edge, actions);
}

static void on_stop(machine *m, shoali_actions *actions)
{
    (void)shoali_finale_leave(&m->finale, actions);
    m->phase = LEAVING;
    shoali_hop_queue_cancel(&m->queue, NULL, actions);
}

static void on_start(machine *m, const shoali_world *world, shoali_actions *actions)
{
    const shoali_hop_params *p = world->params;
    uint8_t *memory = (uint8_t *)m + head_bytes();
    shoal_status status = SHOAL_OK;
    shoali_graph graph;
    m->world = world;
    m->params = p;
    m->iteration = world->iteration;
    m->tokens = shoali_hop_tokens(p);
    shoali_finale_start(&m->finale, world, 0, memory);
    if (world->workers > SHOALI_FINALE_WORKERS || world->servers > 0)
        status = shoali_fail(SHOAL_EINVAL, "%u workers and %u servers", world->workers,
                             world->servers);
    if (status == SHOAL_OK && world->me == 0) { /* one look at the whole is enough */
        status = shoali_graph_open(p->graph, world->workers, &graph);
        if (status == SHOAL_OK)
            shoali_graph_close(&graph);
    }
    if (status == SHOAL_OK)
        status = shoali_hop_queue_start(&m->queue, world, p->graph, degree(world, NULL),
                                        capacity(p), is_standard(p),
                                        memory + (shoali_finale_bytes(world) + 63) / 64 * 64);
    if (status != SHOAL_OK) {
        fail(m, status, shoal_last_error()->text, actions);
        return;
    }
    if (!p->serial) {
        tell(m, TAG, m->iteration, actions);
        shoali_hop_queue_put(&m->queue, m->iteration, actions);
    }
}

static void on_own_event(machine *m, const shoali_event *event, shoali_actions *actions)
{
    const shoal_verdict apply = {.apply = true, .grad_scale = 1, .iteration = m->iteration};
    switch (event->kind) {
    case SHOALI_EV_BEFORE:
        if (m->params->serial)
            go(m, UPDATE, &apply, actions);
        else
            m->phase = REDUCE;
        break;
    case SHOALI_EV_AFTER:
        m->phase = ENTER;
        break;
    case SHOALI_EV_MESSAGE:
        on_message(m, event, actions);
        break;
    case SHOALI_EV_OP_DONE:
        on_op_done(m, event, actions);
        break;
    case SHOALI_EV_STOP:
        on_stop(m, actions);
        break;
    default: /* READY, TIMER */
        break;
    }
}

shoal_status shoali_hop_on_event(void *state, const shoali_event *event, shoali_actions *actions)
{
    machine *m = state;
    uint32_t peer;
    if (m->phase == OVER || event->kind == SHOALI_EV_READY)
        return SHOAL_OK;
    if (event->kind == SHOALI_EV_START) {
        on_start(m, event->world, actions);
    } else {
        if (event->kind == SHOALI_EV_FINISH) {
            m->phase = ENDING;
            m->finale.iteration = m->iteration;
            tell(m, NO_MORE, 0, actions);
        }
        shoali_finale_news news = shoali_finale_event(&m->finale, event, &peer, actions);
        if (news == SHOALI_SOMEBODY_LEFT)
            on_gone(m, peer, actions);
        else if (news == SHOALI_NOT_MINE)
            on_own_event(m, event, actions);
    }
    proceed(m, actions);
    return SHOAL_OK;
}

static shoal_status check(const void *any)
{
    const shoali_hop_params *p = any;
    bool loose = !is_standard(p);
    if (p->skip > 0 && !loose)
        return shoali_fail(SHOAL_EINVAL, "hop: skip leaves updates out, so it needs backup or "
                                         "staleness as well");
    if (p->skip > 0 && p->serial)
        return shoali_fail(SHOAL_EINVAL, "hop: serial and skip exclude each other");
    if (p->notify_ack && (loose || p->tokens > 0 || p->serial))
        return shoali_fail(SHOAL_EINVAL, "hop: notify_ack goes with nothing else");
    return SHOAL_OK;
}

static uint32_t traits_with(const void *any)
{
    const shoali_hop_params *p = any;
    const uint32_t always = shoali_hop_traits(p);
    const bool changes = (always & SHOALI_SYNC_CHANGES) != 0;
    return always | (is_standard(p) || !changes ? 0 : SHOALI_SYNC_FAITHFUL) |
           (p->skip > 1 ? 0 : SHOALI_SYNC_APART); /* who jumps was in no iteration between */
}

const shoali_sync_row shoali_sync_hop = {
    .name = "hop",
    .paper = "Luo et al., ASPLOS 2019; losses survived (undirected graphs), exact mean at the end. "
             "Slower than all_reduce where degree x model bytes / rate exceeds the compute time",
    .traits = SHOALI_SYNC_SURVIVES | SHOALI_SYNC_APART | SHOALI_SYNC_MODELS | SHOALI_SYNC_CHANGES,
    .traits_with = traits_with,
    .fits = shoali_hop_fits,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(shoali_hop_params)},
    .check = check,
    .state_size = shoali_hop_state_size,
    .slots = shoali_hop_slots,
    .graph = shoali_hop_graph,
    .max_staleness = shoali_hop_max_staleness,
    .max_gap = shoali_hop_max_gap,
    .on_event = shoali_hop_on_event,
};
