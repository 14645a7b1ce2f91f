/* SPDX-License-Identifier: Apache-2.0 */
/* OmniReduce on its way: bodies under way, rounds that end, what is due next. */
#include "collective/omni_flow.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "collective/engine.h"
#include "collective/feedback.h"
#include "wire/bytes.h"

/* Results of a slot that may wait for slow workers; elements that one call may work on. */
enum { RESULTS_AHEAD = 4, WORK_PER_CALL = 1 << 22 };

uint32_t shoali_omni_owner(const shoali_omni_flow *f, uint32_t slot)
{
    return f->first_aggregator + slot % f->layout.aggregators;
}

void shoali_omni_fail(shoali_omni_flow *f, shoal_status status, const char *why)
{
    if (f->failed || f->done)
        return;
    f->failed = true;
    f->status = status;
    snprintf(f->why, sizeof f->why, "%s", why);
}

bool shoali_omni_complete(const shoali_omni_flow *f)
{
    if (f->done || f->busy || f->sends + f->bodies > 0)
        return false;
    return f->failed ||
           ((!f->works || f->worker.open == 0) && (!f->aggregates || f->aggregator.open == 0));
}

void shoali_omni_end_if_complete(shoali_omni_flow *f)
{
    if (!shoali_omni_complete(f))
        return;
    f->done = true;
    if (!f->failed && f->origin_known) {
        f->status = SHOAL_ENOTFINITE;
        snprintf(f->why, sizeof f->why, "endpoint %u brought NaN or infinity", f->origin.endpoint);
    }
    f->sink.done(f->sink.ctx, &f->args.id, f->status, f->why);
}

/* ------------------------------------------------------------------ bodies */

uint8_t *shoali_omni_body(shoali_omni_flow *f, size_t bytes)
{
    uint8_t *body = shoali_scratch_get(f->scratch, bytes + SHOALI_OMNI_ORIGIN_BYTES);
    if (body == NULL)
        shoali_omni_fail(f, SHOAL_ENOMEM, "no memory for a block");
    return body;
}

static bool grow_flights(shoali_omni_flow *f)
{
    const uint32_t old = f->flight_count, fresh = old == 0 ? 64 : 2 * old;
    shoali_omni_flight *more = shoali_realloc(f->flights, old * sizeof *more, fresh * sizeof *more);
    if (more == NULL) {
        shoali_omni_fail(f, SHOAL_ENOMEM, "no memory for frames under way");
        return false;
    }
    for (uint32_t i = fresh; i-- > old;) {
        more[i].next_free = f->flight_free;
        f->flight_free = i;
    }
    f->flights = more;
    f->flight_count = fresh;
    return true;
}

/* A flight holds body until it has come back refs times; NONE: failed, the body is gone. */
static uint32_t take_off(shoali_omni_flow *f, uint8_t *body, uint32_t slot, uint32_t refs)
{
    if (f->flight_free == SHOALI_OMNI_NONE && !grow_flights(f)) {
        shoali_scratch_put(f->scratch, body);
        return SHOALI_OMNI_NONE;
    }
    const uint32_t index = f->flight_free;
    f->flight_free = f->flights[index].next_free;
    f->flights[index] = (shoali_omni_flight){.body = body, .refs = refs, .slot = slot};
    if (slot != SHOALI_OMNI_NONE)
        f->results[slot]++;
    return index;
}

static void free_flight(shoali_omni_flow *f, uint32_t index)
{
    f->flights[index] = (shoali_omni_flight){.next_free = f->flight_free};
    f->flight_free = index;
}

/* The number of its flight stands behind a body that is coming in. */
bool shoali_omni_expect(shoali_omni_flow *f, uint8_t *body, uint32_t len_bytes)
{
    const uint32_t index = take_off(f, body, SHOALI_OMNI_NONE, 1);
    if (index == SHOALI_OMNI_NONE)
        return false;
    shoali_put_u32(body + len_bytes, index);
    f->bodies++;
    return true;
}

void shoali_omni_came(shoali_omni_flow *f, const uint8_t *body, uint32_t len_bytes)
{
    free_flight(f, shoali_get_u32(body + len_bytes));
    f->bodies--;
}

void shoali_omni_wake(shoali_omni_flow *f, uint32_t slot)
{
    if (f->dirty[slot])
        return;
    f->dirty[slot] = true;
    f->queue[(f->queue_head + f->queue_count++) % f->layout.slots] = slot;
}

void shoali_omni_land(shoali_omni_flow *f, uint32_t index)
{
    shoali_omni_flight *one = &f->flights[index];
    if (--one->refs > 0)
        return;
    shoali_scratch_put(f->scratch, one->body);
    if (one->slot != SHOALI_OMNI_NONE) {
        f->results[one->slot]--;
        shoali_omni_wake(f, one->slot);
    }
    free_flight(f, index);
}

static void send_body(shoali_omni_flow *f, uint32_t to, uint32_t slot, uint32_t round, size_t bytes,
                      bool flagged, uint32_t index)
{
    const shoal_data head = {.slot = f->peers[to].slot,
                             .match = round,
                             .chunk = slot,
                             .len_bytes = (uint32_t)bytes,
                             .flags = flagged ? SHOAL_DATA_NOT_FINITE : 0};
    f->sends++;
    f->stats.sent_payload_bytes += bytes;
    f->sink.send(f->sink.ctx, to, &head, f->flights[index].body, index);
}

/* ------------------------------------------------------------------ not finite */

void shoali_omni_note_origin(shoali_omni_flow *f, const shoali_not_finite *origin)
{
    if (!f->origin_known || shoali_origin_before(origin, &f->origin))
        f->origin = *origin;
    f->origin_known = true;
}

static void note_own(shoali_omni_flow *f)
{
    const size_t element = f->worker.not_finite;
    const shoal_tensor *tensor =
        &f->args.tensors[shoali_tensor_at(f->args.tensors, f->args.tensor_count, element)];
    shoali_omni_note_origin(f, &(shoali_not_finite){.endpoint = f->args.endpoints[f->args.me],
                                                    .key = tensor->key,
                                                    .index = element - tensor->offset});
}

/* Append what is known; returns the bytes of the body. */
static size_t append_origin(const shoali_omni_flow *f, uint8_t *body, size_t bytes, bool flagged)
{
    if (!flagged)
        return bytes;
    shoali_origin_pack(&f->origin, body + bytes);
    return bytes + SHOALI_OMNI_ORIGIN_BYTES;
}

/* ------------------------------------------------------------------ moving on */

/* A contribution for the own shard. */
void shoali_omni_take(shoali_omni_flow *f, uint32_t slot, uint32_t worker, uint8_t *body,
                      uint32_t units)
{
    if (f->layout.form->take(&f->aggregator, slot, worker, body, units) != SHOAL_OK) {
        f->culprit = f->args.endpoints[worker];
        shoali_omni_fail(f, SHOAL_ECORRUPT, shoal_last_error()->text);
        shoali_scratch_put(f->scratch, body);
        return;
    }
    shoali_omni_slot *s = &f->aggregator.slots[slot];
    if (f->arrival && s->sum == NULL) {
        const uint32_t k = shoali_omni_aggregator_blocks(&f->aggregator, slot);
        s->sum = shoali_omni_body(f, shoali_omni_result_bytes(&f->layout, k));
    }
    if (f->arrival && s->sum != NULL) {
        shoali_omni_aggregator_add(&f->aggregator, slot, worker, s->sum);
        shoali_scratch_put(f->scratch,
                           shoali_omni_aggregator_give_back(&f->aggregator, slot, worker));
    }
    if (shoali_omni_aggregator_ready(&f->aggregator, slot))
        shoali_omni_wake(f, slot);
}

/* k units of this worker's for a slot: to its aggregator, which may be here. */
static void contribute(shoali_omni_flow *f, uint32_t slot, uint32_t round, uint8_t *body,
                       uint32_t k, bool flagged)
{
    const uint32_t to = shoali_omni_owner(f, slot);
    if (flagged)
        note_own(f);
    if (to == f->args.me) {
        shoali_omni_take(f, slot, f->args.me, body, k);
        return;
    }
    const size_t bytes = append_origin(f, body, f->layout.form->contribution_bytes(&f->layout, k),
                                       flagged);
    const uint32_t index = take_off(f, body, SHOALI_OMNI_NONE, 1);
    if (index == SHOALI_OMNI_NONE)
        return;
    f->stats.sent_elems += (uint64_t)k * f->layout.block;
    send_body(f, to, slot, round, bytes, flagged, index);
}

static void begin(shoali_omni_flow *f, uint32_t slot)
{
    const shoali_omni_form *form = f->layout.form;
    uint8_t *body = shoali_omni_body(
        f, form->contribution_bytes(&f->layout, form->first_most(&f->layout, slot)));
    bool flagged;
    f->begun[slot] = true;
    f->to_begin--;
    if (body == NULL)
        return;
    const uint32_t k = form->first(&f->worker, slot, body, &flagged);
    contribute(f, slot, 0, body, k, flagged);
}

void shoali_omni_take_result(shoali_omni_flow *f, uint32_t slot, uint32_t round,
                             const uint8_t *body, uint32_t k)
{
    uint32_t reply_units;
    bool flagged;
    const shoali_omni_form *form = f->layout.form;
    uint8_t *reply = shoali_omni_body(
        f, form->contribution_bytes(&f->layout, form->reply_most(&f->layout, k)));
    if (reply == NULL)
        return;
    if (form->result(&f->worker, slot, round, body, k, reply, &reply_units, &flagged) != SHOAL_OK) {
        char why[128];
        f->culprit = f->args.endpoints[shoali_omni_owner(f, slot)];
        snprintf(why, sizeof why, "endpoint %u sent a result of slot %u that cannot be", f->culprit,
                 slot);
        shoali_omni_fail(f, SHOAL_ECORRUPT, why);
        reply_units = 0;
    }
    if (reply_units > 0)
        contribute(f, slot, round + 1, reply, reply_units, flagged);
    else
        shoali_scratch_put(f->scratch, reply);
}

/* A result to all workers, the own one last: its answer may already end the next round. */
static void publish(shoali_omni_flow *f, uint32_t slot, uint32_t round, uint8_t *body, uint32_t k)
{
    const size_t bytes = append_origin(f, body, f->layout.form->result_bytes(&f->layout, k),
                                       f->origin_known);
    const bool flagged = f->origin_known;
    const uint32_t index = take_off(f, body, slot, f->layout.workers);
    for (uint32_t i = 1; index != SHOALI_OMNI_NONE && i <= f->layout.workers; i++) {
        const uint32_t to = (f->args.me + i) % f->layout.workers;
        if (to == f->args.me)
            continue;
        f->stats.sent_elems += (uint64_t)k * f->layout.block;
        send_body(f, to, slot, round, bytes, flagged, index);
    }
    if (index == SHOALI_OMNI_NONE || !f->works)
        return;
    if (!f->failed && shoali_omni_worker_claim(&f->worker, slot, round))
        shoali_omni_take_result(f, slot, round, f->flights[index].body, k);
    shoali_omni_land(f, index);
}

static void end_round(shoali_omni_flow *f, uint32_t slot)
{
    shoali_omni_aggregator *a = &f->aggregator;
    if (f->ungranted > 0 || f->results[slot] >= RESULTS_AHEAD ||
        !shoali_omni_aggregator_ready(a, slot))
        return;
    shoali_omni_slot *s = &a->slots[slot];
    const uint32_t round = s->round;
    uint8_t *body = s->sum;
    const shoali_omni_form *form = f->layout.form;
    if (body == NULL)
        body = shoali_omni_body(f, form->result_bytes(&f->layout, form->sum_most(a, slot)));
    s->sum = NULL;
    if (body == NULL)
        return;
    const uint32_t k = form->sum(a, slot, body);
    for (uint32_t w = 0; w < f->layout.workers; w++)
        shoali_scratch_put(f->scratch, form->give_back(a, slot, w));
    publish(f, slot, round, body, k);
}

/* The next slot whose first row may go; SHOALI_OMNI_NONE: there is none. */
static uint32_t beginnable(shoali_omni_flow *f)
{
    while (f->begin_from < f->layout.slots &&
           (f->begun[f->begin_from] || !f->peers[shoali_omni_owner(f, f->begin_from)].granted))
        f->begin_from++;
    return f->to_begin > 0 && f->begin_from < f->layout.slots ? f->begin_from : SHOALI_OMNI_NONE;
}

static uint64_t work_of(const shoali_omni_flow *f)
{
    return f->worker.work + f->aggregator.work;
}

/* What is due, as far as one call may work. Never entered twice: sinks may call back. */
void shoali_omni_go(shoali_omni_flow *f)
{
    if (f->busy || f->done)
        return;
    const uint64_t until = work_of(f) + WORK_PER_CALL;
    f->busy = true;
    while (!f->failed && work_of(f) < until) {
        if (f->queue_count > 0) {
            const uint32_t slot = f->queue[f->queue_head];
            f->queue_head = (f->queue_head + 1) % f->layout.slots;
            f->queue_count--;
            f->dirty[slot] = false;
            end_round(f, slot);
        } else if (f->works && beginnable(f) != SHOALI_OMNI_NONE) {
            begin(f, f->begin_from);
        } else {
            break;
        }
    }
    f->busy = false;
    shoali_omni_end_if_complete(f);
}
