/* SPDX-License-Identifier: Apache-2.0 */
#include "data/tokenizer.h"

#include <string.h>

#include "base/error.h"
#include "data/tokenizer_inner.h"

enum { FIRST_IDS = 1024 };

/* ---------------------------------------------------------------- ids */

shoal_status shoali_ids_reserve(shoali_ids *ids, size_t more)
{
    if (more <= ids->capacity - ids->count)
        return SHOAL_OK;
    size_t room = ids->capacity > 0 ? ids->capacity : FIRST_IDS;
    while (room - ids->count < more)
        room *= 2;
    uint16_t *grown = shoali_realloc(ids->ids, ids->capacity * sizeof *ids->ids,
                                     room * sizeof *ids->ids);
    if (grown == NULL)
        return SHOAL_ENOMEM;
    ids->ids = grown;
    ids->capacity = room;
    return SHOAL_OK;
}

void shoali_ids_free(shoali_ids *ids)
{
    shoali_free(ids->ids);
    *ids = (shoali_ids){0};
}

/* ---------------------------------------------------------------- making one */

static uint32_t slots_for(uint32_t count)
{
    uint32_t slots = 16;
    while (slots / 2 < count)
        slots *= 2;
    return slots;
}

static shoal_status take_memory(shoali_tokenizer *t, uint32_t merges)
{
    t->text_slots = slots_for(t->count);
    t->merge_slots = slots_for(merges);
    t->tokens = shoali_arena_array(t->arena, t->count, sizeof *t->tokens);
    t->by_text = shoali_arena_array(t->arena, t->text_slots, sizeof *t->by_text);
    t->merges = shoali_arena_array(t->arena, t->merge_slots, sizeof *t->merges);
    if (t->tokens == NULL || t->by_text == NULL || t->merges == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < t->text_slots; i++)
        t->by_text[i] = SHOALI_NO_TOKEN;
    for (uint32_t i = 0; i < t->merge_slots; i++)
        t->merges[i].id = SHOALI_NO_TOKEN;
    for (uint32_t i = 0; i < 256; i++)
        t->byte_ids[i] = SHOALI_NO_TOKEN;
    return SHOAL_OK;
}

shoal_status shoali_tokenizer_create(uint32_t count, uint32_t merges,
                                     shoali_tokenizer **tokenizer_out)
{
    shoali_tokenizer *t = shoali_alloc(sizeof *t);
    if (t == NULL)
        return SHOAL_ENOMEM;
    t->count = count;
    t->end = SHOALI_NO_TOKEN;
    t->merge_count = merges;
    t->arena = shoali_arena_create(1 << 14);
    shoal_status status = t->arena != NULL ? take_memory(t, merges) : SHOAL_ENOMEM;
    if (status == SHOAL_OK)
        *tokenizer_out = t;
    else
        shoali_tokenizer_close(t);
    return status;
}

void shoali_tokenizer_close(shoali_tokenizer *t)
{
    if (t == NULL)
        return;
    shoali_words_destroy(t->words);
    shoali_bert_text_destroy(t->pieces.text);
    shoali_free(t->symbols);
    shoali_free(t->heap);
    shoali_arena_destroy(t->arena);
    shoali_free(t);
}

bool shoali_tokenizer_set(shoali_tokenizer *t, uint32_t id, const char *text, size_t len_bytes)
{
    char *copy = shoali_arena_alloc(t->arena, len_bytes + 1);
    if (copy == NULL)
        return false;
    memcpy(copy, text, len_bytes);
    t->tokens[id].text = copy;
    t->tokens[id].len_bytes = (uint32_t)len_bytes;
    return true;
}

/* FNV-1a, 64 bits. */
static uint64_t mark_of(uint64_t mark, const void *bytes, size_t len_bytes)
{
    for (size_t i = 0; i < len_bytes; i++)
        mark = (mark ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001B3);
    return mark;
}
static const uint64_t first_mark = UINT64_C(0xCBF29CE484222325);

static uint32_t *slot_of(const shoali_tokenizer *t, const char *text, size_t len_bytes)
{
    const uint64_t hash = mark_of(first_mark, text, len_bytes);
    uint32_t slot = (uint32_t)(hash ^ hash >> 32) & (t->text_slots - 1);
    for (;; slot = (slot + 1) & (t->text_slots - 1)) {
        const uint32_t id = t->by_text[slot];
        if (id == SHOALI_NO_TOKEN || (t->tokens[id].len_bytes == len_bytes &&
                                      memcmp(t->tokens[id].text, text, len_bytes) == 0))
            return &t->by_text[slot];
    }
}

void shoali_tokenizer_index(shoali_tokenizer *t)
{
    for (uint32_t id = 0; id < t->count; id++) {
        const shoali_token *one = &t->tokens[id];
        if (one->text == NULL || one->added)
            continue;
        *slot_of(t, one->text, one->len_bytes) = id;
        if (one->len_bytes == 1)
            t->byte_ids[(uint8_t)one->text[0]] = id;
    }
}

uint32_t shoali_tokenizer_find(const shoali_tokenizer *t, const char *text, size_t len_bytes)
{
    return *slot_of(t, text, len_bytes);
}

shoal_status shoali_tokenizer_of_characters(shoali_tokenizer **tokenizer_out)
{
    static const char other[] = "\xEF\xBF\xBD"; /* U+FFFD */
    shoali_tokenizer *t = NULL;
    const uint32_t count = (uint32_t)strlen(shoali_characters) + 1;
    SHOALI_TRY(shoali_tokenizer_create(count, 0, &t));
    bool ok = shoali_tokenizer_set(t, 0, other, sizeof other - 1);
    for (uint32_t i = 1; i < count; i++)
        ok = ok && shoali_tokenizer_set(t, i, &shoali_characters[i - 1], 1);
    if (!ok) {
        shoali_tokenizer_close(t);
        return SHOAL_ENOMEM;
    }
    t->characters = true;
    *tokenizer_out = t;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- asking */

uint32_t shoali_tokenizer_count(const shoali_tokenizer *t)
{
    return t->count;
}

uint32_t shoali_tokenizer_end(const shoali_tokenizer *t)
{
    return t->end;
}

bool shoali_tokenizer_is_characters(const shoali_tokenizer *t)
{
    return t->characters;
}

bool shoali_tokenizer_is_pieces(const shoali_tokenizer *t)
{
    return t->pieces.text != NULL;
}

const char *shoali_tokenizer_text(const shoali_tokenizer *t, uint32_t id, size_t *len_bytes_out)
{
    const bool known = id < t->count && t->tokens[id].text != NULL;
    *len_bytes_out = known ? t->tokens[id].len_bytes : 0;
    return known ? t->tokens[id].text : "";
}

const char *shoali_tokenizer_piece(const shoali_tokenizer *t, uint32_t id, bool first,
                                   size_t *len_bytes_out)
{
    return t->pieces.text != NULL ? shoali_pieces_text(t, id, first, len_bytes_out)
                                  : shoali_tokenizer_text(t, id, len_bytes_out);
}

uint32_t shoali_tokenizer_weight(const shoali_tokenizer *t, uint32_t id)
{
    if (id >= t->count || t->tokens[id].text == NULL || t->tokens[id].special)
        return 0;
    size_t length = t->tokens[id].len_bytes;
    if (t->pieces.text != NULL)
        (void)shoali_pieces_text(t, id, false, &length);
    return t->characters ? 1 : (uint32_t)length;
}

/* What else decides of WordPiece. */
static uint64_t mark_of_pieces(const shoali_pieces *p, uint64_t mark)
{
    const shoali_bert_manner *m = shoali_bert_text_manner(p->text);
    const uint32_t about[] = {m->clean,          m->chinese, m->strip,  m->lower,
                              m->characters_max, p->unknown, p->cleanup};
    mark = mark_of(mark, about, sizeof about);
    return mark_of(mark, p->prefix, p->prefix_bytes);
}

uint64_t shoali_tokenizer_mark(const shoali_tokenizer *t)
{
    uint64_t mark = mark_of(first_mark, &t->count, sizeof t->count);
    mark = mark_of(mark, &t->end, sizeof t->end);
    for (uint32_t i = 0; i < t->count; i++) {
        const uint32_t about[3] = {t->tokens[i].len_bytes, t->tokens[i].added,
                                   t->tokens[i].text != NULL};
        mark = mark_of(mark, about, sizeof about);
        mark = mark_of(mark, t->tokens[i].text, t->tokens[i].len_bytes);
    }
    for (uint32_t i = 0; i < t->merge_slots; i++)
        if (t->merges[i].id != SHOALI_NO_TOKEN)
            mark = mark_of(mark, &t->merges[i], sizeof t->merges[i]);
    const char *pattern = t->words != NULL ? shoali_words_pattern(t->words) : "";
    mark = mark_of(mark, &t->whole_words, sizeof t->whole_words);
    if (t->pieces.text != NULL)
        mark = mark_of_pieces(&t->pieces, mark);
    return mark_of(mark, pattern, strlen(pattern));
}

/* ---------------------------------------------------------------- encoding */

typedef struct encoder {
    shoali_tokenizer *t;
    shoali_ids *ids;
} encoder;

static shoal_status add_word(void *ctx, const char *word, size_t len_bytes)
{
    const encoder *e = ctx;
    return shoali_merges_apply(e->t, word, len_bytes, e->ids);
}

static shoal_status add_plain(encoder *e, const char *text, size_t len_bytes)
{
    if (len_bytes == 0)
        return SHOAL_OK;
    if (e->t->pieces.text != NULL)
        return shoali_pieces_apply(e->t, text, len_bytes, e->ids);
    if (e->t->words == NULL)
        return shoali_merges_apply(e->t, text, len_bytes, e->ids);
    return shoali_words_cut(e->t->words, text, len_bytes, add_word, e);
}

/* The longest added token of a kind that a text starts with; SHOALI_NO_TOKEN: none. */
static uint32_t added_at(const shoali_tokenizer *t, bool normalized, const char *text, size_t left)
{
    uint32_t best = SHOALI_NO_TOKEN, longest = 0;
    for (uint32_t i = 0; i < t->added_count; i++) {
        const shoali_token *one = &t->tokens[t->added[i].id];
        if (t->added[i].normalized == normalized && one->len_bytes > longest &&
            one->len_bytes <= left && memcmp(one->text, text, one->len_bytes) == 0) {
            best = t->added[i].id;
            longest = one->len_bytes;
        }
    }
    return best;
}

/* Cut at added tokens: first at those that normalising would not touch, then at the others. */
static shoal_status add_part(encoder *e, const char *text, size_t len_bytes, int pass)
{
    if (pass == 2)
        return add_plain(e, text, len_bytes);
    size_t done = 0;
    for (size_t at = 0; at < len_bytes && e->t->added_count > 0;) {
        const uint32_t id = added_at(e->t, pass == 1, text + at, len_bytes - at);
        if (id == SHOALI_NO_TOKEN) {
            at++;
            continue;
        }
        SHOALI_TRY(add_part(e, text + done, at - done, pass + 1));
        SHOALI_TRY(shoali_ids_reserve(e->ids, 1));
        e->ids->ids[e->ids->count++] = (uint16_t)id;
        done = at += e->t->tokens[id].len_bytes;
    }
    return add_part(e, text + done, len_bytes - done, pass + 1);
}

static shoal_status add_characters(const char *text, size_t len_bytes, shoali_ids *ids)
{
    uint8_t *clean = shoali_alloc(len_bytes);
    shoal_status status = clean != NULL ? shoali_ids_reserve(ids, len_bytes) : SHOAL_ENOMEM;
    const size_t count = status == SHOAL_OK ? shoali_characters_clean(text, len_bytes, clean) : 0;
    for (size_t i = 0; i < count; i++)
        ids->ids[ids->count++] = clean[i];
    shoali_free(clean);
    return status;
}

shoal_status shoali_tokenizer_encode(shoali_tokenizer *t, const char *text, size_t len_bytes,
                                     bool special, shoali_ids *ids)
{
    encoder e = {.t = t, .ids = ids};
    if (len_bytes > SHOALI_TOKENIZER_TEXT_MAX)
        return shoali_fail(SHOAL_EINVAL, "a text of %zu bytes; one has at most %d", len_bytes,
                           SHOALI_TOKENIZER_TEXT_MAX);
    if (t->characters)
        return add_characters(text, len_bytes, ids);
    return add_part(&e, text, len_bytes, special ? 0 : 2);
}
