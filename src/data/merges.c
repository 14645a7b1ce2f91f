/* SPDX-License-Identifier: Apache-2.0 */
/* The merges of a byte-level BPE: a table by pairs, and joining what is in a word. A heap holds the
 * pairs that may be joined, by rank and then by place; entries whose pair is gone are passed over.
 *
 *     h e l l o      heap: (h e) 3, (l l) 5
 *     he l l o       (l l) 5; (he l) has no merge
 *     he ll o        */
#include "base/error.h"
#include "data/tokenizer_inner.h"

static uint32_t slot_of(const shoali_tokenizer *t, uint32_t left, uint32_t right)
{
    const uint64_t key = (uint64_t)left << 32 | right;
    return (uint32_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (t->merge_slots - 1);
}

static shoali_merge *place_of(const shoali_tokenizer *t, uint32_t left, uint32_t right)
{
    uint32_t slot = slot_of(t, left, right);
    while (t->merges[slot].id != SHOALI_NO_TOKEN &&
           (t->merges[slot].left != left || t->merges[slot].right != right))
        slot = (slot + 1) & (t->merge_slots - 1);
    return &t->merges[slot];
}

void shoali_merges_add(shoali_tokenizer *t, shoali_merge merge)
{
    *place_of(t, merge.left, merge.right) = merge;
}

const shoali_merge *shoali_merges_find(const shoali_tokenizer *t, uint32_t left, uint32_t right)
{
    const shoali_merge *place = t->merge_count > 0 ? place_of(t, left, right) : NULL;
    return place != NULL && place->id != SHOALI_NO_TOKEN ? place : NULL;
}

void shoali_merges_in_order(const shoali_tokenizer *t, shoali_merge *out)
{
    for (uint32_t i = 0; i < t->merge_slots; i++)
        if (t->merges[i].id != SHOALI_NO_TOKEN)
            out[t->merges[i].rank] = t->merges[i];
}

/* ---------------------------------------------------------------- a heap of candidates */

static bool sooner(const shoali_candidate *a, const shoali_candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(shoali_candidate *heap, size_t *count, shoali_candidate one)
{
    size_t i = (*count)++;
    for (; i > 0 && sooner(&one, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = one;
}

static shoali_candidate pop(shoali_candidate *heap, size_t *count)
{
    const shoali_candidate top = heap[0], last = heap[--*count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < *count; i = child) {
        if (child + 1 < *count && sooner(&heap[child + 1], &heap[child]))
            child++;
        if (!sooner(&heap[child], &last))
            break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

/* ---------------------------------------------------------------- a word */

static shoal_status grow(shoali_tokenizer *t, size_t symbols)
{
    if (symbols <= t->symbol_room)
        return SHOAL_OK;
    /* each join takes one symbol away and makes at most two candidates */
    const size_t room = symbols < 64 ? 64 : symbols, heap_room = 3 * room;
    shoali_free(t->symbols);
    shoali_free(t->heap);
    t->symbol_room = 0;
    t->symbols = shoali_alloc_array(room, sizeof *t->symbols);
    t->heap = shoali_alloc_array(heap_room, sizeof *t->heap);
    if (t->symbols == NULL || t->heap == NULL)
        return SHOAL_ENOMEM;
    t->symbol_room = room;
    return SHOAL_OK;
}

static void offer(shoali_tokenizer *t, size_t *count, int32_t left)
{
    const int32_t right = left >= 0 ? t->symbols[left].next : -1;
    if (right < 0)
        return;
    const shoali_merge *merge = shoali_merges_find(t, t->symbols[left].id, t->symbols[right].id);
    if (merge != NULL)
        push(t->heap, count, (shoali_candidate){merge->rank, (uint32_t)left, merge->id});
}

static void join_all(shoali_tokenizer *t, size_t length)
{
    size_t waiting = 0;
    for (size_t i = 0; i + 1 < length; i++)
        offer(t, &waiting, (int32_t)i);
    while (waiting > 0) {
        const shoali_candidate best = pop(t->heap, &waiting);
        shoali_symbol *left = &t->symbols[best.at];
        const int32_t right = left->id != SHOALI_NO_TOKEN ? left->next : -1;
        if (right < 0)
            continue;
        const shoali_merge *merge = shoali_merges_find(t, left->id, t->symbols[right].id);
        if (merge == NULL || merge->id != best.id)
            continue;
        left->id = merge->id;
        left->next = t->symbols[right].next;
        t->symbols[right].id = SHOALI_NO_TOKEN;
        if (left->next >= 0)
            t->symbols[left->next].before = (int32_t)best.at;
        offer(t, &waiting, left->before);
        offer(t, &waiting, (int32_t)best.at);
    }
}

static shoal_status id_of(const shoali_tokenizer *t, char byte, uint32_t *id_out)
{
    *id_out = t->byte_ids[(uint8_t)byte];
    return *id_out != SHOALI_NO_TOKEN
               ? SHOAL_OK
               : shoali_fail(SHOAL_EINVAL, "the vocabulary has no token for the byte 0x%02x",
                             (uint8_t)byte);
}

static shoal_status start(shoali_tokenizer *t, const char *word, size_t length)
{
    uint32_t id = 0;
    SHOALI_TRY(grow(t, length));
    for (size_t i = 0; i < length; i++) {
        SHOALI_TRY(id_of(t, word[i], &id));
        t->symbols[i] = (shoali_symbol){id, (int32_t)i - 1, i + 1 < length ? (int32_t)i + 1 : -1};
    }
    return SHOAL_OK;
}

shoal_status shoali_merges_apply(shoali_tokenizer *t, const char *word, size_t len_bytes,
                                 shoali_ids *ids)
{
    const uint32_t whole = t->whole_words ? shoali_tokenizer_find(t, word, len_bytes)
                                          : SHOALI_NO_TOKEN;
    SHOALI_TRY(shoali_ids_reserve(ids, len_bytes));
    if (whole != SHOALI_NO_TOKEN) {
        ids->ids[ids->count++] = (uint16_t)whole;
        return SHOAL_OK;
    }
    for (size_t i = 0; t->merge_count == 0 && i < len_bytes; i++) {
        uint32_t id = 0;
        SHOALI_TRY(id_of(t, word[i], &id));
        ids->ids[ids->count++] = (uint16_t)id;
    }
    if (t->merge_count == 0)
        return SHOAL_OK;
    SHOALI_TRY(start(t, word, len_bytes));
    join_all(t, len_bytes);
    for (int32_t i = 0; i >= 0 && len_bytes > 0; i = t->symbols[i].next)
        ids->ids[ids->count++] = (uint16_t)t->symbols[i].id;
    return SHOAL_OK;
}
