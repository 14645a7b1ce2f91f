/* SPDX-License-Identifier: Apache-2.0 */
/* OmniReduce over reliable frames: only blocks that are not zero at some worker travel, and of
 * those each worker sends only its own. Two workers, one slot; W0 has blocks {4,6}, W1 {4}:
 *
 *   W0 -> b0, next 4   W1 -> b0, next 4     everyone owes the first row, zero or not
 *   A  -> b0, asks 4                        to all; both have block 4
 *   W0 -> b4, next 6   W1 -> b4, next end
 *   A  -> b4, asks 6                        W1 stays silent
 *   W0 -> b6, next end
 *   A  -> b6, asks end                      the column is finished
 *
 * Aggregators are shards: slot s belongs to aggregator s mod A. All workers are aggregators, or the
 * first `shards` of them, or with `dedicated` the members behind the workers. A frame's chunk is
 * its slot, its match the slot's round; contribution or result follows from who has the slot.
 *
 * With `input=coo` an operation that names its rows sends those instead of looking for zeros
 * (omni_pairs.c); `row` is filled in from its tensor, so that an aggregator knows it, too.
 *
 * Sums are made in order of ranks, so they repeat to the last bit; with `arrival` as contributions
 * come, which needs less memory.
 *
 * Source: Fei et al., SIGCOMM 2021, algorithm 1 (omni.h).
 * Cost:   omni_model.c: data dependent; dense co-located 2 (P-1)/P n, as the ring. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "collective/engine.h"
#include "collective/omni_flow.h"
#include "collective/shards.h"
#include "shoal/sparse.h"
#include "wire/frame.h"

typedef struct params {
    int64_t block, fusion, slots, row;
    shoali_shards_keys shards;
    int32_t input;
    bool arrival, hosts;
} params;

enum { INPUT_BLOCKS, INPUT_COO, ROW_MOST = 1 << 20 };

/* ------------------------------------------------------------------ start and end */

static bool is_aggregator(const shoali_omni_flow *f, uint32_t member)
{
    return member >= f->first_aggregator && member - f->first_aggregator < f->layout.aggregators;
}

static shoal_status lay_out(shoali_omni_flow *f)
{
    const shoali_flow_args *a = &f->args;
    const params *p = a->collective->params;
    shoali_shards shards;
    SHOALI_TRY(shoali_shards_open("omnireduce", &p->shards, a, &shards));
    f->arrival = p->arrival;
    f->first_aggregator = shards.first;
    f->works = shards.works;
    f->aggregates = shards.aggregates;
    f->pairs = p->input == INPUT_COO && p->row > 0;
    if (!f->pairs)
        SHOALI_TRY(shoali_omni_lay_out(a->count, (uint32_t)p->block, (uint32_t)p->fusion,
                                       (uint32_t)p->slots, a->contributors, shards.count,
                                       &f->layout));
    else if (p->arrival || (f->works && a->rows == NULL))
        return shoali_fail(SHOAL_EINVAL, "omnireduce:input=coo sums the rows that an operation "
                                         "names, and in order of ranks");
    else
        SHOALI_TRY(shoali_omni_lay_out_pairs(a->count, (uint32_t)p->row,
                                             (uint32_t)(p->block * p->fusion), (uint32_t)p->slots,
                                             a->contributors, shards.count, &f->layout));
    return SHOAL_OK;
}

static shoal_status make_sides(shoali_omni_flow *f)
{
    const shoali_flow_args *a = &f->args;
    const shoali_omni_layout *l = &f->layout;
    const uint32_t shard = a->me - f->first_aggregator;
    if (f->works)
        SHOALI_TRY(f->pairs
                       ? shoali_omni_pairs_worker_init(&f->worker, l, a->buf, a->rows, a->row_count,
                                                       a->check_finite, f->arena)
                       : shoali_omni_worker_init(&f->worker, l, a->buf, a->check_finite, f->arena));
    if (f->works && f->pairs && a->keep_rows)
        SHOALI_TRY(shoali_omni_pairs_note(&f->worker, f->arena));
    if (f->aggregates)
        SHOALI_TRY(f->pairs ? shoali_omni_pairs_aggregator_init(&f->aggregator, l, shard, f->arena)
                            : shoali_omni_aggregator_init(&f->aggregator, l, shard, f->arena));
    return SHOAL_OK;
}

static shoal_status make_tables(shoali_omni_flow *f)
{
    const shoali_omni_layout *l = &f->layout;
    const size_t slots = l->slots;
    f->peers = shoali_arena_array(f->arena, f->args.size, sizeof *f->peers);
    f->begun = shoali_arena_array(f->arena, slots, sizeof *f->begun);
    f->placed = shoali_arena_array(f->arena, slots * l->workers, sizeof *f->placed);
    f->results = shoali_arena_array(f->arena, slots, sizeof *f->results);
    f->dirty = shoali_arena_array(f->arena, slots, sizeof *f->dirty);
    f->queue = shoali_arena_array(f->arena, slots, sizeof *f->queue);
    if (f->peers == NULL || f->begun == NULL || f->placed == NULL || f->results == NULL ||
        f->dirty == NULL || f->queue == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(make_sides(f));
    f->to_begin = f->works ? l->slots : 0;
    f->ungranted = l->workers - (f->works ? 1 : 0);
    f->peers[f->args.me].granted = true;
    return SHOAL_OK;
}

static void omni_fini(void *state)
{
    shoali_omni_flow *f = state;
    for (uint32_t i = 0; i < f->flight_count; i++)
        shoali_scratch_put(f->scratch, f->flights[i].body);
    for (uint32_t slot = 0; f->aggregates && slot < f->layout.slots; slot++) {
        shoali_omni_slot *s = &f->aggregator.slots[slot];
        shoali_scratch_put(f->scratch, s->sum);
        for (uint32_t w = 0; s->body != NULL && w < f->layout.workers; w++)
            shoali_scratch_put(f->scratch, s->body[w]);
    }
    shoali_free(f->flights);
    shoali_scratch_destroy(f->own_scratch);
    shoali_arena_destroy(f->arena);
    memset(f, 0, sizeof *f);
}

static size_t omni_state_size(const shoali_flow_args *args)
{
    (void)args;
    return sizeof(shoali_omni_flow);
}

static shoal_status omni_start(void *state, const shoali_flow_args *args, const shoal_sink *sink,
                               uint64_t now_us)
{
    shoali_omni_flow *f = state;
    (void)now_us;
    *f = (shoali_omni_flow){.args = *args,
                            .sink = *sink,
                            .scratch = args->scratch,
                            .flight_free = SHOALI_OMNI_NONE,
                            .culprit = UINT32_MAX};
    SHOALI_TRY(lay_out(f));
    f->arena = shoali_arena_create(1 << 16);
    if (f->scratch == NULL)
        f->scratch = f->own_scratch = shoali_scratch_create();
    shoal_status status = f->arena != NULL && f->scratch != NULL ? make_tables(f) : SHOAL_ENOMEM;
    if (status != SHOAL_OK) {
        f->aggregates = false; /* its tables may be half made, and hold nothing yet */
        omni_fini(f);
    }
    return status;
}

/* ------------------------------------------------------------------ events */

static bool omni_with(const void *state, uint32_t peer)
{
    const shoali_omni_flow *f = state;
    if (peer >= f->args.size || peer == f->args.me)
        return false;
    return (f->works && is_aggregator(f, peer)) || (f->aggregates && peer < f->layout.workers);
}

static void omni_granted(void *state, uint32_t peer, uint32_t slot)
{
    shoali_omni_flow *f = state;
    if (!f->done && omni_with(f, peer) && !f->peers[peer].granted) {
        f->peers[peer].granted = true;
        f->peers[peer].slot = slot;
        f->begin_from = 0;
        if (f->aggregates && peer < f->layout.workers && --f->ungranted == 0)
            for (uint32_t own = f->aggregator.me; own < f->layout.slots;
                 own += f->layout.aggregators)
                shoali_omni_wake(f, own);
    }
    shoali_omni_go(f);
}

/* Without the origin that a flagged one ends with; SIZE_MAX: it is too short for that. */
static size_t body_bytes(const shoal_data *head)
{
    const size_t extra = (head->flags & SHOAL_DATA_NOT_FINITE) != 0 ? SHOALI_OMNI_ORIGIN_BYTES : 0;
    return head->len_bytes >= extra ? head->len_bytes - extra : SIZE_MAX;
}

/* Units of a contribution; NONE: it is not owed now. */
static uint32_t contribution_units(const shoali_omni_flow *f, uint32_t peer, const shoal_data *head)
{
    return peer < f->layout.workers
               ? f->layout.form->owed_units(&f->aggregator, head->chunk, peer, body_bytes(head))
               : SHOALI_OMNI_NONE;
}

static bool contribution_fits(const shoali_omni_flow *f, uint32_t peer, const shoal_data *head)
{
    return head->match == f->aggregator.slots[head->chunk].round &&
           contribution_units(f, peer, head) != SHOALI_OMNI_NONE &&
           !f->placed[head->chunk * f->layout.workers + peer];
}

static uint32_t result_units(const shoali_omni_flow *f, const shoal_data *head)
{
    return f->layout.form->result_units(&f->layout, head->chunk, body_bytes(head));
}

static uint8_t *omni_place(void *state, uint32_t peer, const shoal_data *head)
{
    shoali_omni_flow *f = state;
    if (f->failed || f->done || head->chunk >= f->layout.slots || peer >= f->args.size ||
        peer == f->args.me || (head->flags & ~SHOAL_DATA_NOT_FINITE) != 0)
        return NULL;
    const uint32_t owner = shoali_omni_owner(f, head->chunk);
    if (owner == f->args.me
            ? !contribution_fits(f, peer, head)
            : !f->works || owner != peer || result_units(f, head) == SHOALI_OMNI_NONE)
        return NULL;
    uint8_t *body = shoali_omni_body(f, head->len_bytes);
    if (body == NULL)
        return NULL;
    if (owner != f->args.me && !shoali_omni_worker_claim(&f->worker, head->chunk, head->match)) {
        shoali_scratch_put(f->scratch, body);
        return NULL;
    }
    if (!shoali_omni_expect(f, body, head->len_bytes))
        return NULL;
    if (owner == f->args.me)
        f->placed[head->chunk * f->layout.workers + peer] = true;
    return body;
}

static void arrived(shoali_omni_flow *f, uint32_t peer, const shoal_data *head, uint8_t *body)
{
    const bool mine = shoali_omni_owner(f, head->chunk) == f->args.me;
    shoali_omni_came(f, body, head->len_bytes);
    f->stats.received_payload_bytes += head->len_bytes;
    if (mine)
        f->placed[head->chunk * f->layout.workers + peer] = false;
    if (f->failed) {
        shoali_scratch_put(f->scratch, body);
        return;
    }
    if ((head->flags & SHOAL_DATA_NOT_FINITE) != 0) {
        const shoali_not_finite origin = shoali_origin_unpack(body + head->len_bytes -
                                                              SHOALI_OMNI_ORIGIN_BYTES);
        shoali_omni_note_origin(f, &origin);
    }
    const uint32_t k = mine ? contribution_units(f, peer, head) : result_units(f, head);
    f->stats.received_elems += (uint64_t)k * f->layout.block;
    if (mine) {
        shoali_omni_take(f, head->chunk, peer, body, k);
        return;
    }
    shoali_omni_take_result(f, head->chunk, head->match, body, k);
    shoali_scratch_put(f->scratch, body);
}

static void omni_frames(void *state, uint32_t peer, const shoal_data *heads, uint8_t *const *bodies,
                        size_t count)
{
    shoali_omni_flow *f = state;
    const bool outer = !f->busy;
    f->busy = true; /* what an answer calls back must not end the flow under the next frame */
    for (size_t i = 0; i < count; i++)
        arrived(f, peer, &heads[i], bodies[i]);
    f->busy = !outer;
    shoali_omni_go(f);
}

static void omni_unplace(void *state, uint32_t peer, const shoal_data *head, uint8_t *body)
{
    shoali_omni_flow *f = state;
    shoali_omni_came(f, body, head->len_bytes);
    if (shoali_omni_owner(f, head->chunk) == f->args.me)
        f->placed[head->chunk * f->layout.workers + peer] = false;
    else
        shoali_omni_worker_unclaim(&f->worker, head->chunk, head->match);
    shoali_scratch_put(f->scratch, body);
    shoali_omni_go(f);
}

static void omni_sent(void *state, uint32_t peer, uint64_t cookie)
{
    shoali_omni_flow *f = state;
    (void)peer;
    f->sends--;
    shoali_omni_land(f, (uint32_t)cookie);
    shoali_omni_go(f);
}

static void omni_job(void *state, uint64_t cookie, shoal_status status)
{
    (void)state, (void)cookie, (void)status; /* it asks for none */
}

static void omni_control(void *state, uint32_t peer, uint16_t kind, const void *bytes,
                         size_t len_bytes)
{
    (void)state, (void)peer, (void)kind, (void)bytes, (void)len_bytes; /* nor sends any */
}

static void omni_timer(void *state, uint64_t now_us)
{
    (void)now_us;
    shoali_omni_go(state);
}

static uint64_t omni_next_wake_us(const void *state)
{
    const shoali_omni_flow *f = state;
    bool due = !f->failed && f->queue_count > 0;
    for (uint32_t slot = f->begin_from;
         !due && f->to_begin > 0 && !f->failed && slot < f->layout.slots; slot++)
        due = !f->begun[slot] && f->peers[shoali_omni_owner(f, slot)].granted;
    return !f->done && (due || shoali_omni_complete(f)) ? 0 : UINT64_MAX;
}

static void omni_fail(void *state, shoal_status status, const char *why)
{
    shoali_omni_flow *f = state;
    shoali_omni_fail(f, status, why);
    shoali_omni_end_if_complete(f);
}

/* Contributions of all workers to the own slots, and a result that still leaves while the next is
 * summed. */
static uint64_t omni_memory(const void *state)
{
    const shoali_omni_flow *f = state;
    const shoali_omni_layout *l = &f->layout;
    if (!f->aggregates)
        return 0;
    const uint64_t own = (l->slots + l->aggregators - 1) / l->aggregators;
    return own * (l->workers * l->form->contribution_bytes(l, l->fusion) +
                  2 * l->form->result_bytes(l, l->form->longest(l)) +
                  (uint64_t)l->workers * l->fusion * sizeof(uint32_t));
}

static void omni_stats(const void *state, shoali_flow_stats *stats_out)
{
    const shoali_omni_flow *f = state;
    const uint64_t share = f->aggregates ? shoali_omni_share(&f->layout, f->aggregator.me) : 0;
    *stats_out = f->stats;
    stats_out->dense_elems = (f->works ? f->layout.count - share : 0) +
                             share * (f->layout.workers - (f->works ? 1 : 0));
}

static uint32_t omni_culprit(const void *state)
{
    return ((const shoali_omni_flow *)state)->culprit;
}

static bool omni_not_finite(const void *state, shoali_not_finite *origin_out)
{
    const shoali_omni_flow *f = state;
    *origin_out = f->origin;
    return f->origin_known;
}

static const uint32_t *omni_rows(void *state, size_t *count_out)
{
    shoali_omni_flow *f = state;
    return shoali_omni_pairs_came(&f->worker, f->arena, count_out);
}

/* ------------------------------------------------------------------ what it waits for */

/* An aggregator's slot that is not finished, and a worker that owes it something. */
static bool waits_for_worker(const shoali_omni_flow *f, uint32_t *slot_out, uint32_t *worker_out)
{
    for (uint32_t slot = f->aggregator.me; f->aggregates && slot < f->layout.slots;
         slot += f->layout.aggregators)
        for (uint32_t w = 0; w < f->layout.workers; w++)
            if (w != f->args.me && f->layout.form->owes(&f->aggregator, slot, w)) {
                *slot_out = slot;
                *worker_out = w;
                return true;
            }
    return false;
}

static uint32_t missing_grant(const shoali_omni_flow *f)
{
    for (uint32_t m = 0; m < f->args.size; m++)
        if (omni_with(f, m) && !f->peers[m].granted)
            return m;
    return SHOALI_OMNI_NONE;
}

static void omni_describe(const void *state, char *text, size_t text_bytes, uint32_t *peer_out)
{
    const shoali_omni_flow *f = state;
    uint32_t slot, missing = missing_grant(f);
    *peer_out = missing;
    if (missing != SHOALI_OMNI_NONE) {
        snprintf(text, text_bytes, "waits for endpoint %u to enter", f->args.endpoints[missing]);
        return;
    }
    if (waits_for_worker(f, &slot, peer_out)) {
        snprintf(text, text_bytes, "slot %u, round %u: waits for blocks of endpoint %u", slot,
                 f->aggregator.slots[slot].round, f->args.endpoints[*peer_out]);
        return;
    }
    for (slot = 0; f->works && slot < f->layout.slots; slot++) {
        const uint32_t from = shoali_omni_owner(f, slot), rounds = f->worker.rounds[slot];
        if (from == f->args.me || (rounds != 0 && rounds == f->worker.taken[slot]))
            continue;
        *peer_out = from;
        snprintf(text, text_bytes, "slot %u, round %u: waits for the sum of endpoint %u", slot,
                 f->worker.taken[slot], f->args.endpoints[from]);
        return;
    }
    snprintf(text, text_bytes, "waits for the transport (%u sends, %u receives under way)",
             f->sends, f->bodies);
}

static const shoali_flow_row omni_flow = {
    .name = "omnireduce",
    .transports = SHOALI_FLOW_STREAM,
    .state_size = omni_state_size,
    .start = omni_start,
    .receives_from = omni_with,
    .sends_to = omni_with,
    .on_granted = omni_granted,
    .place = omni_place,
    .on_frames = omni_frames,
    .unplace = omni_unplace,
    .on_sent = omni_sent,
    .on_job = omni_job,
    .on_control = omni_control,
    .on_timer = omni_timer,
    .next_wake_us = omni_next_wake_us,
    .fail = omni_fail,
    .memory = omni_memory,
    .stats = omni_stats,
    .not_finite = omni_not_finite,
    .culprit = omni_culprit,
    .rows = omni_rows,
    .describe = omni_describe,
    .fini = omni_fini,
};

extern const shoali_collective_row shoali_collective_omnireduce;

static const shoali_key keys[] = {
    {"block", SHOALI_KEY_INT, offsetof(params, block), 1, 1 << 16, NULL, "256",
     "elements of a block: the least that travels or stays"},
    {"fusion", SHOALI_KEY_INT, offsetof(params, fusion), 1, SHOALI_OMNI_FUSION_MAX, NULL, "4",
     "most blocks in one message, of neighbouring columns"},
    {"slots", SHOALI_KEY_INT, offsetof(params, slots), 1, 4096, NULL, "4",
     "messages under way between a worker and each aggregator"},
    SHOALI_SHARDS_KEYS(params, shards),
    {"arrival", SHOALI_KEY_FLAG, offsetof(params, arrival), 0, 0, NULL, "off",
     "sum in order of arrival, not of ranks: does not repeat to the last bit"},
    {"input", SHOALI_KEY_CHOICE, offsetof(params, input), 0, 0, "blocks|coo", "blocks",
     "coo: key-value pairs, (index, row), of operations that name their rows; the others blocks"},
    {"hosts", SHOALI_KEY_FLAG, offsetof(params, hosts), 0, 0, NULL, "off",
     "ranks of one host sum among themselves first, and one of them speaks for all"},
    {"row", SHOALI_KEY_INT, offsetof(params, row), 0, ROW_MOST, NULL, "0",
     "elements of a row of coo; 0: the columns of the operation's tensor"},
};

/* Rows of the one matrix, or of the length that the caller has given. */
static void with_rows(void *params_inout, const uint32_t *rows, size_t count,
                      const shoal_tensor *tensors, uint32_t tensor_count)
{
    params *p = params_inout;
    const uint32_t cols = tensor_count == 1 ? tensors->cols : 0;
    if (rows == NULL)
        p->row = 0;
    else if (p->input == INPUT_COO && p->row == 0 && count == (size_t)tensors->rows * cols)
        p->row = cols <= ROW_MOST ? cols : 0;
}

/* Inside a host its first member aggregates: only there its sum is needed. */
static void stages(const void *params_in, char *inside_out, char *between_out, size_t spec_bytes)
{
    const params *p = params_in;
    const shoali_schema *schema = &shoali_collective_omnireduce.schema;
    params inside = *p, between = *p;
    between.hosts = inside.hosts = false;
    inside.shards = (shoali_shards_keys){.shards = 1};
    shoali_spec_format("omnireduce", schema, &inside, inside_out, spec_bytes);
    shoali_spec_format("omnireduce", schema, &between, between_out, spec_bytes);
}

static uint32_t traits_with(const void *params_in)
{
    const params *p = params_in;
    return shoali_shards_traits(&p->shards) | (p->input == INPUT_COO ? SHOALI_COLL_ROWS : 0) |
           (p->hosts ? SHOALI_COLL_HOSTS : 0);
}

const shoali_collective_row shoali_collective_omnireduce = {
    .name = "omnireduce",
    .paper = "Fei et al., SIGCOMM 2021",
    .traits = SHOALI_COLL_DEDICATED | SHOALI_COLL_FLOW | SHOALI_COLL_SERVED | SHOALI_COLL_ROWS |
              SHOALI_COLL_HOSTS,
    .stages = stages,
    .traits_with = traits_with,
    .schema = {keys, sizeof keys / sizeof keys[0], sizeof(params)},
    .flow = &omni_flow,
    .with_rows = with_rows,
};

shoal_status shoal_sparse_describe(const char *collective, size_t count, uint32_t workers,
                                   uint32_t members, shoal_sparse_desc *desc_out)
{
    shoali_collective opened;
    uint32_t shards;
    SHOALI_TRY(shoali_collective_open(collective, &opened));
    const params *p = opened.params;
    shoal_status status = SHOAL_EINVAL;
    if (opened.row != &shoali_collective_omnireduce || workers == 0 || members < workers)
        (void)shoali_fail(SHOAL_EINVAL, "'%s' for %u workers of %u members is no sparse collective",
                          collective, workers, members);
    else
        status = shoali_shards_count("omnireduce", &p->shards, workers, members, &shards);
    if (status == SHOAL_OK)
        *desc_out = (shoal_sparse_desc){.size = sizeof *desc_out,
                                        .count = count,
                                        .block = (uint32_t)p->block,
                                        .fusion = (uint32_t)p->fusion,
                                        .slots = (uint32_t)p->slots,
                                        .workers = workers,
                                        .aggregators = shards,
                                        .dedicated = p->shards.dedicated,
                                        .head_bytes = SHOALI_FRAME_BYTES};
    shoali_collective_close(&opened);
    return status;
}
