/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies into both sides of OmniReduce, of blocks and of rows. The input is a first byte that picks
 * the form, then records: who takes what, a length, a place, bytes that are put there over the
 * body that would be right. Nothing is read or written out of bounds, and sides stay
 * consistent. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "collective/omni_form.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

enum { WORKERS = 2, UNIT = 2, UNITS = 15, COUNT = UNIT * UNITS, SLOTS = 2 };

/* A body as its sender made it; exactly as long as it is. */
typedef struct body {
    uint8_t *bytes;
    size_t len_bytes;
    uint32_t round;
} body;

typedef struct sides {
    shoali_omni_layout l;
    shoali_omni_aggregator a;
    shoali_omni_worker w[WORKERS];
    float x[WORKERS][COUNT];
    body said[WORKERS][SLOTS], told[SLOTS];
} sides;

/* Kept without the room that it was made in. */
static void keep(body *to, const uint8_t *made, size_t len_bytes, uint32_t round)
{
    free(to->bytes);
    *to = (body){.bytes = malloc(len_bytes), .len_bytes = len_bytes, .round = round};
    if (to->bytes == NULL)
        abort();
    memcpy(to->bytes, made, len_bytes);
}

static shoal_status make(sides *s, bool pairs, shoal_arena *arena)
{
    static const uint32_t rows[WORKERS][4] = {{0, 3, 4, 11}, {3, 8, 9, 14}};
    for (uint32_t w = 0; w < WORKERS; w++)
        for (uint32_t i = 0; i < 4 * UNIT; i++)
            s->x[w][rows[w][i / UNIT] * UNIT + i % UNIT] = 1;
    SHOALI_TRY(pairs ? shoali_omni_lay_out_pairs(COUNT, UNIT, 3 * UNIT, SLOTS, WORKERS, 1, &s->l)
                     : shoali_omni_lay_out(COUNT, UNIT, 2, SLOTS, WORKERS, 1, &s->l));
    for (uint32_t w = 0; w < WORKERS; w++)
        SHOALI_TRY(
            pairs ? shoali_omni_pairs_worker_init(&s->w[w], &s->l, s->x[w], rows[w], 4, true, arena)
                  : shoali_omni_worker_init(&s->w[w], &s->l, s->x[w], true, arena));
    return pairs ? shoali_omni_pairs_aggregator_init(&s->a, &s->l, 0, arena)
                 : shoali_omni_aggregator_init(&s->a, &s->l, 0, arena);
}

static void begin(sides *s)
{
    const shoali_omni_form *form = s->l.form;
    for (uint32_t w = 0; w < WORKERS; w++)
        for (uint32_t slot = 0; slot < s->l.slots; slot++) {
            bool flagged;
            uint8_t *made = malloc(form->contribution_bytes(&s->l, form->first_most(&s->l, slot)));
            if (made == NULL)
                abort();
            const uint32_t k = form->first(&s->w[w], slot, made, &flagged);
            keep(&s->said[w][slot], made, form->contribution_bytes(&s->l, k), 0);
            free(made);
        }
}

static void end_round(sides *s, uint32_t slot)
{
    const shoali_omni_form *form = s->l.form;
    const uint32_t round = s->a.slots[slot].round, most = form->sum_most(&s->a, slot);
    uint8_t *made = malloc(form->result_bytes(&s->l, most));
    if (made == NULL || most > form->longest(&s->l))
        abort();
    const uint32_t k = form->sum(&s->a, slot, made);
    if (k > most)
        abort();
    keep(&s->told[slot], made, form->result_bytes(&s->l, k), round);
    free(made);
    for (uint32_t w = 0; w < WORKERS; w++)
        free(form->give_back(&s->a, slot, w));
}

/* bytes is the aggregator's until it is given back. */
static void contribute(sides *s, uint32_t worker, uint32_t slot, uint8_t *bytes, size_t len_bytes)
{
    const shoali_omni_form *form = s->l.form;
    const uint32_t k = form->owed_units(&s->a, slot, worker, len_bytes);
    if (k == SHOALI_OMNI_NONE || form->take(&s->a, slot, worker, bytes, k) != SHOAL_OK) {
        free(bytes);
        return;
    }
    if (form->owes(&s->a, slot, worker))
        abort();
    if (shoali_omni_aggregator_ready(&s->a, slot))
        end_round(s, slot);
}

static void answer(sides *s, uint32_t worker, uint32_t slot, uint32_t round, const uint8_t *bytes,
                   size_t len_bytes)
{
    const shoali_omni_form *form = s->l.form;
    const uint32_t k = form->result_units(&s->l, slot, len_bytes);
    uint32_t units = 0;
    bool flagged;
    if (k == SHOALI_OMNI_NONE || !shoali_omni_worker_claim(&s->w[worker], slot, round))
        return;
    uint8_t *made = malloc(form->contribution_bytes(&s->l, form->reply_most(&s->l, k)));
    if (made == NULL)
        abort();
    if (form->result(&s->w[worker], slot, round, bytes, k, made, &units, &flagged) == SHOAL_OK &&
        units > 0)
        keep(&s->said[worker][slot], made, form->contribution_bytes(&s->l, units), round + 1);
    free(made);
}

/* The next body that this side could get, with the input's bytes over some of it. */
static void record(sides *s, uint8_t choice, uint8_t at, const uint8_t *over, size_t over_bytes)
{
    const uint32_t worker = choice % WORKERS, slot = choice / 4 % s->l.slots;
    const bool up = (choice & 2) != 0;
    const body *from = up ? &s->said[worker][slot] : &s->told[slot];
    const size_t len_bytes = (choice & 128) != 0 ? over_bytes : from->len_bytes;
    uint8_t *bytes = malloc(len_bytes + 1);
    if (bytes == NULL || (from->bytes == NULL && (choice & 128) == 0)) {
        free(bytes);
        return;
    }
    for (size_t i = 0; i < len_bytes; i++)
        bytes[i] = (choice & 128) != 0 ? over[i] : from->bytes[i];
    for (size_t i = 0; i < over_bytes && at + i < len_bytes && (choice & 128) == 0; i++)
        bytes[len_bytes - 1 - at - i] ^= over[i];
    if (up) {
        contribute(s, worker, slot, bytes, len_bytes);
        return;
    }
    answer(s, worker, slot, (choice & 64) != 0 ? at : from->round, bytes, len_bytes);
    free(bytes);
}

static void check(const sides *s)
{
    uint32_t open = 0;
    for (uint32_t slot = 0; slot < s->l.slots; slot++)
        open += s->a.slots[slot].open > 0;
    if (open != s->a.open)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    static sides s;
    shoal_arena *arena = shoali_arena_create(4096);
    memset(&s, 0, sizeof s);
    if (arena == NULL || len_bytes == 0 || make(&s, bytes[0] & 1, arena) != SHOAL_OK) {
        shoali_arena_destroy(arena);
        return 0;
    }
    begin(&s);
    for (size_t at = 1; at + 3 <= len_bytes;) {
        size_t over = bytes[at + 2] % 64;
        over = over < len_bytes - at - 3 ? over : len_bytes - at - 3;
        record(&s, bytes[at], bytes[at + 1], bytes + at + 3, over);
        check(&s);
        at += 3 + over;
    }
    for (uint32_t slot = 0; slot < s.l.slots; slot++) {
        for (uint32_t w = 0; w < WORKERS; w++) {
            free(s.said[w][slot].bytes);
            free(s.a.slots[slot].body[w]);
        }
        free(s.told[slot].bytes);
    }
    shoali_arena_destroy(arena);
    return 0;
}
