/* SPDX-License-Identifier: Apache-2.0 */
/* OmniReduce of key-value pairs: each worker names the rows that it has, and nobody looks for
 * zeros. Two workers, one slot, at most two rows in a contribution; W0 has rows {1,4,6}, W1 {4}:
 *
 *   W0 -> rows 1, 4, next 6      W1 -> row 4, next none      everyone begins, even with no row
 *   A  -> rows 1, 4 summed, asks 6                           what lies below all workers' next
 *   W0 -> row 6, next none                                   W1 stays silent
 *   A  -> row 6, asks none                                   the slot is finished
 *
 * A row travels in the result as soon as nobody can bring it any more: its key is below the next
 * key of every worker. The least of those is asked for, and who has it sends what follows. A worker
 * that is asked has nothing left at the aggregator, so that one contribution of each is kept there.
 * Rows are summed from +0 in order of ranks: the bits of a plain loop over dense buffers.
 *
 * Source: Fei et al., SIGCOMM 2021, section 3.3 (block format for sparse input). */
#include <string.h>

#include "base/error.h"
#include "collective/omni_form.h"
#include "kernel/kernel.h"

/* ------------------------------------------------------------------ layout */

/* Both directions are laid out alike. */
static size_t body_bytes(const shoali_omni_layout *l, uint32_t rows)
{
    return ((size_t)rows * (l->block + 1) + 1) * sizeof(float);
}

/* Rows of a body of so many bytes; NONE: there is no such body, or it has more than most. */
static uint32_t rows_of(const shoali_omni_layout *l, size_t bytes, size_t most)
{
    const size_t one = ((size_t)l->block + 1) * sizeof(float);
    if (bytes < sizeof(float) || (bytes - sizeof(float)) % one != 0 ||
        (bytes - sizeof(float)) / one > most)
        return SHOALI_OMNI_NONE;
    return (uint32_t)((bytes - sizeof(float)) / one);
}

/* Rows of a slot, whoever has them. */
static uint32_t rows_in(const shoali_omni_layout *l, uint32_t slot)
{
    return shoali_omni_rows(l, slot);
}

static uint32_t smaller(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

static uint32_t contribution_most(const shoali_omni_layout *l, uint32_t slot)
{
    return smaller(l->fusion, rows_in(l, slot));
}

static uint32_t result_most(const shoali_omni_layout *l, uint32_t slot)
{
    return smaller((uint64_t)l->workers * l->fusion, rows_in(l, slot));
}

shoal_status shoali_omni_lay_out_pairs(size_t count, uint32_t row, uint32_t message_elems,
                                       uint32_t slots, uint32_t workers, uint32_t aggregators,
                                       shoali_omni_layout *out)
{
    const uint64_t rows = count / row, all = (uint64_t)slots * aggregators;
    if (count % row != 0 || rows >= SHOALI_OMNI_NO_KEY)
        return shoali_fail(SHOAL_EINVAL,
                           "omnireduce: %zu elements are no rows of %u, or more than 32 bits can "
                           "number",
                           count, row);
    *out = (shoali_omni_layout){.form = &shoali_omni_pairs,
                                .count = count,
                                .block = row,
                                .fusion = message_elems > row ? message_elems / row : 1,
                                .columns = smaller(all, rows),
                                .blocks = (uint32_t)rows,
                                .slots = smaller(all, rows),
                                .workers = workers,
                                .aggregators = aggregators};
    if (body_bytes(out, 1) * workers * out->fusion > INT32_MAX)
        return shoali_fail(SHOAL_EINVAL,
                           "omnireduce: rows of %u elements of %u workers make messages that are "
                           "too long; smaller ones have a smaller fusion",
                           row, workers);
    return SHOAL_OK;
}

/* Whether a key may follow `before` in a slot; NO_KEY always may. */
static bool key_follows(const shoali_omni_layout *l, uint32_t slot, int64_t before, uint32_t key)
{
    return key == SHOALI_OMNI_NO_KEY ||
           ((int64_t)key > before && key < l->blocks && key % l->slots == slot);
}

/* Keys that ascend and are the slot's, then what is said to follow. */
static bool body_fits(const shoali_omni_layout *l, uint32_t slot, const uint8_t *body, uint32_t k)
{
    int64_t before = -1;
    for (uint32_t i = 0; i < k; i++) {
        const uint32_t key = shoali_omni_word(l, body, k, i);
        if (key == SHOALI_OMNI_NO_KEY || !key_follows(l, slot, before, key))
            return false;
        before = key;
    }
    return key_follows(l, slot, before, shoali_omni_word(l, body, k, k));
}

/* ------------------------------------------------------------------ worker */

static shoal_status check_keys(const shoali_omni_layout *l, const uint32_t *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (keys[i] >= l->blocks || (i > 0 && keys[i] <= keys[i - 1]))
            return shoali_fail(SHOAL_EINVAL, "omnireduce: row %u, number %zu of the list, %s",
                               keys[i], i,
                               keys[i] >= l->blocks ? "lies behind the buffer"
                                                    : "does not lie behind the one before");
    return SHOAL_OK;
}

/* Own keys slot by slot, in each in order. */
static void deal(shoali_omni_worker *w, const uint32_t *keys, size_t count)
{
    const uint32_t slots = w->l->slots;
    uint32_t at = 0;
    for (size_t i = 0; i < count; i++)
        w->last[keys[i] % slots]++;
    for (uint32_t slot = 0; slot < slots; slot++) {
        const uint32_t here = w->last[slot];
        w->next[slot] = w->last[slot] = at;
        at += here;
    }
    for (size_t i = 0; i < count; i++)
        w->order[w->last[keys[i] % slots]++] = keys[i];
}

shoal_status shoali_omni_pairs_worker_init(shoali_omni_worker *w, const shoali_omni_layout *l,
                                           float *x, const uint32_t *keys, size_t key_count,
                                           bool check_finite, shoal_arena *arena)
{
    const uint32_t rounds = l->slots > 0 ? rows_in(l, 0) : 0;
    SHOALI_TRY(check_keys(l, keys, key_count));
    *w = (shoali_omni_worker){.l = l,
                              .x = x,
                              .check_finite = check_finite,
                              .seen_words = rounds / 64 + 1,
                              .open = l->slots,
                              .not_finite = SIZE_MAX};
    w->next = shoali_arena_array(arena, l->slots, sizeof *w->next);
    w->last = shoali_arena_array(arena, l->slots, sizeof *w->last);
    w->taken = shoali_arena_array(arena, l->slots, sizeof *w->taken);
    w->rounds = shoali_arena_array(arena, l->slots, sizeof *w->rounds);
    w->seen = shoali_arena_array(arena, (size_t)l->slots * w->seen_words, sizeof *w->seen);
    w->order = shoali_arena_array(arena, key_count, sizeof *w->order);
    if (w->next == NULL || w->last == NULL || w->taken == NULL || w->rounds == NULL ||
        w->seen == NULL || w->order == NULL)
        return SHOAL_ENOMEM;
    deal(w, keys, key_count);
    return SHOAL_OK;
}

static uint32_t next_key(const shoali_omni_worker *w, uint32_t slot)
{
    return w->next[slot] < w->last[slot] ? w->order[w->next[slot]] : SHOALI_OMNI_NO_KEY;
}

static void check(shoali_omni_worker *w, size_t at, bool *flagged)
{
    const size_t bad = shoali_kernel()->first_nonfinite(w->x + at, w->l->block);
    if (bad == w->l->block)
        return;
    *flagged = true;
    if (at + bad < w->not_finite)
        w->not_finite = at + bad;
}

/* The next rows of a slot, as many as a contribution has room for. */
static uint32_t put(shoali_omni_worker *w, uint32_t slot, uint8_t *body, bool *flagged_out)
{
    const shoali_omni_layout *l = w->l;
    const uint32_t left = w->last[slot] - w->next[slot], k = smaller(left, l->fusion);
    float *to = (float *)(void *)body;
    *flagged_out = false;
    for (uint32_t i = 0; i < k; i++) {
        const uint32_t key = w->order[w->next[slot]++];
        const size_t at = (size_t)key * l->block;
        if (w->check_finite)
            check(w, at, flagged_out);
        memcpy(to + (size_t)i * l->block, w->x + at, l->block * sizeof *to);
        shoali_omni_set_word(l, body, k, i, key);
    }
    w->work += (uint64_t)k * l->block;
    shoali_omni_set_word(l, body, k, k, next_key(w, slot));
    return k;
}

/* Rows that this worker has not sent yet stay as they are: a result lies below them. */
static shoal_status store(shoali_omni_worker *w, uint32_t slot, const uint8_t *body, uint32_t k)
{
    const shoali_omni_layout *l = w->l;
    const float *from = (const float *)(const void *)body;
    if (!body_fits(l, slot, body, k) || shoali_omni_word(l, body, k, k) > next_key(w, slot))
        return SHOAL_ECORRUPT;
    for (uint32_t i = 0; i < k; i++) {
        const uint32_t key = shoali_omni_word(l, body, k, i);
        memcpy(w->x + (size_t)key * l->block, from + (size_t)i * l->block, l->block * sizeof *from);
        if (w->came != NULL)
            w->came[key / 64] |= (uint64_t)1 << key % 64;
    }
    w->work += (uint64_t)k * l->block;
    return SHOAL_OK;
}

static shoal_status take_result(shoali_omni_worker *w, uint32_t slot, uint32_t round,
                                const uint8_t *body, uint32_t k, uint8_t *reply_out,
                                uint32_t *rows_out, bool *flagged_out)
{
    if (w->rounds[slot] != 0 && round >= w->rounds[slot])
        return SHOAL_ECORRUPT;
    SHOALI_TRY(store(w, slot, body, k));
    const uint32_t asked = shoali_omni_word(w->l, body, k, k);
    *flagged_out = false;
    *rows_out = asked != SHOALI_OMNI_NO_KEY && asked == next_key(w, slot)
                    ? put(w, slot, reply_out, flagged_out)
                    : 0;
    w->taken[slot]++;
    if (asked == SHOALI_OMNI_NO_KEY)
        w->rounds[slot] = round + 1;
    if (w->rounds[slot] == w->taken[slot])
        w->open--;
    return SHOAL_OK;
}

shoal_status shoali_omni_pairs_note(shoali_omni_worker *w, shoal_arena *arena)
{
    w->came = shoali_arena_array(arena, (size_t)w->l->blocks / 64 + 1, sizeof *w->came);
    return w->came != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

const uint32_t *shoali_omni_pairs_came(const shoali_omni_worker *w, shoal_arena *arena,
                                       size_t *count_out)
{
    const size_t words = (size_t)w->l->blocks / 64 + 1;
    size_t count = 0, at = 0;
    for (size_t i = 0; i < words; i++)
        count += (size_t)__builtin_popcountll(w->came[i]);
    uint32_t *rows = shoali_arena_array(arena, count + 1, sizeof *rows);
    for (size_t i = 0; rows != NULL && i < words; i++)
        for (uint64_t left = w->came[i]; left != 0; left &= left - 1)
            rows[at++] = (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(left);
    *count_out = count;
    return rows;
}

/* ------------------------------------------------------------------ aggregator */

static shoal_status open_slot(shoali_omni_slot *s, const shoali_omni_layout *l, shoal_arena *arena)
{
    s->open = 1;
    s->waiting = l->workers;
    s->cur = shoali_arena_array(arena, 1, sizeof *s->cur);
    s->next = shoali_arena_array(arena, l->workers, sizeof *s->next);
    s->body = shoali_arena_array(arena, l->workers, sizeof *s->body);
    s->body_blocks = shoali_arena_array(arena, l->workers, sizeof *s->body_blocks);
    s->used = shoali_arena_array(arena, l->workers, sizeof *s->used);
    return s->cur != NULL && s->next != NULL && s->body != NULL && s->body_blocks != NULL &&
                   s->used != NULL
               ? SHOAL_OK
               : SHOAL_ENOMEM;
}

shoal_status shoali_omni_pairs_aggregator_init(shoali_omni_aggregator *a,
                                               const shoali_omni_layout *l, uint32_t me,
                                               shoal_arena *arena)
{
    *a = (shoali_omni_aggregator){.l = l, .me = me};
    a->slots = shoali_arena_array(arena, l->slots, sizeof *a->slots);
    a->keys = shoali_arena_array(arena, (size_t)l->workers * l->fusion, sizeof *a->keys);
    if (a->slots == NULL || a->keys == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t slot = me; slot < l->slots; slot += l->aggregators) {
        SHOALI_TRY(open_slot(&a->slots[slot], l, arena));
        a->open++;
    }
    return SHOAL_OK;
}

/* At first everybody's next is 0, as is what is asked for; from then on it lies behind it until a
 * result asks for it. */
static bool owes(const shoali_omni_aggregator *a, uint32_t slot, uint32_t worker)
{
    const shoali_omni_slot *s = &a->slots[slot];
    return s->open > 0 && s->next[worker] == s->cur[0];
}

static uint32_t owed_units(const shoali_omni_aggregator *a, uint32_t slot, uint32_t worker,
                           size_t bytes)
{
    const uint32_t k = rows_of(a->l, bytes, contribution_most(a->l, slot));
    return owes(a, slot, worker) && (k > 0 || a->slots[slot].round == 0) ? k : SHOALI_OMNI_NONE;
}

static shoal_status take(shoali_omni_aggregator *a, uint32_t slot, uint32_t worker, uint8_t *body,
                         uint32_t k)
{
    const shoali_omni_layout *l = a->l;
    shoali_omni_slot *s = &a->slots[slot];
    const uint32_t next = shoali_omni_word(l, body, k, k);
    if (!body_fits(l, slot, body, k) || (k == 0 && next != SHOALI_OMNI_NO_KEY) ||
        (s->round > 0 && shoali_omni_word(l, body, k, 0) != s->cur[0]))
        return shoali_fail(SHOAL_ECORRUPT,
                           "omnireduce: worker %u sent rows of slot %u that cannot be", worker,
                           slot);
    s->next[worker] = next;
    s->body[worker] = body;
    s->body_blocks[worker] = k;
    s->used[worker] = 0;
    s->waiting--;
    return SHOAL_OK;
}

static uint32_t sum_most(const shoali_omni_aggregator *a, uint32_t slot)
{
    const shoali_omni_slot *s = &a->slots[slot];
    uint32_t rows = 0;
    for (uint32_t w = 0; w < a->l->workers; w++)
        rows += s->body[w] != NULL ? s->body_blocks[w] - s->used[w] : 0;
    return rows;
}

/* The first key of a worker that is in no result yet. */
static uint32_t head_of(const shoali_omni_layout *l, const shoali_omni_slot *s, uint32_t worker)
{
    const uint32_t k = s->body_blocks[worker];
    return s->body[worker] != NULL && s->used[worker] < k
               ? shoali_omni_word(l, s->body[worker], k, s->used[worker])
               : SHOALI_OMNI_NO_KEY;
}

static uint32_t least_head(const shoali_omni_layout *l, const shoali_omni_slot *s)
{
    uint32_t least = SHOALI_OMNI_NO_KEY;
    for (uint32_t w = 0; w < l->workers; w++) {
        const uint32_t head = head_of(l, s, w);
        least = head < least ? head : least;
    }
    return least;
}

/* One row: what all workers have of it, in order of ranks. */
static void add_row(const shoali_omni_layout *l, shoali_omni_slot *s, uint32_t key, float *sum)
{
    memset(sum, 0, l->block * sizeof *sum);
    for (uint32_t w = 0; w < l->workers; w++)
        if (head_of(l, s, w) == key) {
            const float *rows = (const float *)(const void *)s->body[w];
            shoali_kernel()->add(sum, rows + (size_t)s->used[w]++ * l->block, l->block);
        }
}

static void ask(const shoali_omni_layout *l, shoali_omni_slot *s)
{
    uint32_t least = SHOALI_OMNI_NO_KEY;
    for (uint32_t w = 0; w < l->workers; w++) {
        s->waiting = s->next[w] < least ? 1 : s->waiting + (s->next[w] == least);
        least = s->next[w] < least ? s->next[w] : least;
    }
    s->cur[0] = least;
    if (least == SHOALI_OMNI_NO_KEY)
        s->open = s->waiting = 0;
}

static uint32_t sum(shoali_omni_aggregator *a, uint32_t slot, uint8_t *result)
{
    const shoali_omni_layout *l = a->l;
    shoali_omni_slot *s = &a->slots[slot];
    float *to = (float *)(void *)result;
    uint32_t k = 0;
    ask(l, s);
    for (uint32_t key; (key = least_head(l, s)) < s->cur[0]; k++) {
        add_row(l, s, key, to + (size_t)k * l->block);
        a->keys[k] = key;
    }
    for (uint32_t i = 0; i < k; i++)
        shoali_omni_set_word(l, result, k, i, a->keys[i]);
    shoali_omni_set_word(l, result, k, k, s->cur[0]);
    a->work += (uint64_t)k * l->block;
    s->round++;
    if (s->open == 0)
        a->open--;
    return k;
}

static uint8_t *give_back(shoali_omni_aggregator *a, uint32_t slot, uint32_t worker)
{
    const shoali_omni_slot *s = &a->slots[slot];
    return s->used[worker] < s->body_blocks[worker]
               ? NULL
               : shoali_omni_aggregator_give_back(a, slot, worker);
}

/* ------------------------------------------------------------------ form */

static uint32_t reply_most(const shoali_omni_layout *l, uint32_t k)
{
    (void)k;
    return l->fusion;
}

static uint32_t result_units(const shoali_omni_layout *l, uint32_t slot, size_t bytes)
{
    return rows_of(l, bytes, result_most(l, slot));
}

static uint32_t longest(const shoali_omni_layout *l)
{
    return l->workers * l->fusion;
}

const shoali_omni_form shoali_omni_pairs = {
    .contribution_bytes = body_bytes,
    .result_bytes = body_bytes,
    .first_most = contribution_most,
    .reply_most = reply_most,
    .result_units = result_units,
    .owed_units = owed_units,
    .first = put,
    .result = take_result,
    .owes = owes,
    .take = take,
    .give_back = give_back,
    .sum_most = sum_most,
    .sum = sum,
    .longest = longest,
};
