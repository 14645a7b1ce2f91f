/* SPDX-License-Identifier: Apache-2.0 */
/* Learning merges (Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with
 * Subword Units", ACL 2016, algorithm 1), over bytes and within words. Counts of pairs are kept up:
 * a merge visits only the words that its pair was ever in.
 *
 *     words  low x 5, lowest x 2, newest x 6      (e s) 8, (s t) 8, (w e) 8, (l o) 7 ...
 *     among equals the smaller ids: (e s), then (es t), ... */
#include <string.h>

#include "base/error.h"
#include "data/tokenizer_inner.h"
#include "data/tokenizer_text.h"

enum { WORD_MAX = 1024, LEAST = 2, BYTES = 256 }; /* longer words are none of a language */

typedef struct word {
    size_t first; /* of its symbols */
    uint32_t length;
    uint64_t count;
} word;

typedef struct pair {
    uint32_t key; /* left << 16 | right */
    uint32_t
        words; /* newest entry of the list of words that it was in; 0: none, the slot is free */
    int64_t count;
} pair;

typedef struct entry {
    uint32_t word, older;
} entry;

/* Arrays that grow; room in elements. */
struct shoali_bpe_trainer {
    shoali_words *cutter;
    uint32_t wanted;
    uint16_t *symbols;
    word *words;
    uint32_t *slots; /* [slot_count] word + 1 by its bytes' hash; 0: free */
    pair *pairs;
    entry *entries;
    size_t symbol_count, symbol_room, word_count, word_room, slot_count;
    size_t pair_count, pair_slots, entry_count, entry_room;
};

/* Room for one element more, of `size` bytes. */
static bool more(void **array, size_t count, size_t *room, size_t need, size_t size)
{
    if (count + need <= *room)
        return true;
    size_t grown = *room > 0 ? *room : 1024;
    while (grown < count + need)
        grown *= 2;
    void *to = shoali_realloc(*array, *room * size, grown * size);
    if (to == NULL)
        return false;
    *array = to;
    *room = grown;
    return true;
}

/* ---------------------------------------------------------------- words */

static uint32_t *slot_of(const shoali_bpe_trainer *b, const uint16_t *symbols, size_t length)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ symbols[i]) * UINT64_C(0x100000001B3);
    for (size_t slot = (hash ^ hash >> 32) & (b->slot_count - 1);;
         slot = (slot + 1) & (b->slot_count - 1)) {
        const word *w = b->slots[slot] > 0 ? &b->words[b->slots[slot] - 1] : NULL;
        if (w == NULL || (w->length == length &&
                          memcmp(&b->symbols[w->first], symbols, length * sizeof *symbols) == 0))
            return &b->slots[slot];
    }
}

static bool grow_slots(shoali_bpe_trainer *b)
{
    if (2 * (b->word_count + 1) <= b->slot_count)
        return true;
    const size_t count = b->slot_count > 0 ? 2 * b->slot_count : 4096;
    uint32_t *slots = shoali_alloc_array(count, sizeof *slots);
    if (slots == NULL)
        return false;
    shoali_free(b->slots);
    b->slots = slots;
    b->slot_count = count;
    for (size_t i = 0; i < b->word_count; i++)
        *slot_of(b, &b->symbols[b->words[i].first], b->words[i].length) = (uint32_t)i + 1;
    return true;
}

static shoal_status add_word(void *ctx, const char *text, size_t len_bytes)
{
    shoali_bpe_trainer *b = ctx;
    uint16_t symbols[WORD_MAX];
    if (len_bytes < 2 || len_bytes > WORD_MAX)
        return SHOAL_OK;
    for (size_t i = 0; i < len_bytes; i++)
        symbols[i] = (uint8_t)text[i];
    if (!grow_slots(b))
        return SHOAL_ENOMEM;
    uint32_t *slot = slot_of(b, symbols, len_bytes);
    if (*slot > 0) {
        b->words[*slot - 1].count++;
        return SHOAL_OK;
    }
    if (b->word_count >= UINT32_MAX - 1 ||
        !more((void **)&b->words, b->word_count, &b->word_room, 1, sizeof *b->words) ||
        !more((void **)&b->symbols, b->symbol_count, &b->symbol_room, len_bytes,
              sizeof *b->symbols))
        return SHOAL_ENOMEM;
    memcpy(&b->symbols[b->symbol_count], symbols, len_bytes * sizeof *symbols);
    b->words[b->word_count++] = (word){b->symbol_count, (uint32_t)len_bytes, 1};
    b->symbol_count += len_bytes;
    *slot = (uint32_t)b->word_count;
    return SHOAL_OK;
}

shoal_status shoali_bpe_create(uint32_t count, shoali_bpe_trainer **trainer_out)
{
    if (count <= BYTES || count > SHOALI_TOKENS_MAX)
        return shoali_fail(SHOAL_EINVAL, "a vocabulary of %u tokens: it has %d to %d", count,
                           BYTES + 1, SHOALI_TOKENS_MAX);
    shoali_bpe_trainer *b = shoali_alloc(sizeof *b);
    if (b == NULL)
        return SHOAL_ENOMEM;
    b->wanted = count;
    shoal_status status = shoali_words_create(shoali_words_gpt2, &b->cutter);
    if (status == SHOAL_OK)
        *trainer_out = b;
    else
        shoali_bpe_destroy(b);
    return status;
}

void shoali_bpe_destroy(shoali_bpe_trainer *b)
{
    if (b == NULL)
        return;
    shoali_words_destroy(b->cutter);
    shoali_free(b->symbols);
    shoali_free(b->words);
    shoali_free(b->slots);
    shoali_free(b->pairs);
    shoali_free(b->entries);
    shoali_free(b);
}

shoal_status shoali_bpe_add(shoali_bpe_trainer *b, const char *text, size_t len_bytes)
{
    return shoali_words_cut(b->cutter, text, len_bytes, add_word, b);
}

/* ---------------------------------------------------------------- pairs */

static pair *pair_of(const shoali_bpe_trainer *b, uint32_t key)
{
    size_t slot = (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (b->pair_slots - 1);
    while (b->pairs[slot].words > 0 && b->pairs[slot].key != key)
        slot = (slot + 1) & (b->pair_slots - 1);
    return &b->pairs[slot];
}

static bool grow_pairs(shoali_bpe_trainer *b)
{
    if (2 * (b->pair_count + 1) <= b->pair_slots)
        return true;
    pair *old = b->pairs;
    const size_t old_slots = b->pair_slots, count = old_slots > 0 ? 2 * old_slots : 4096;
    pair *pairs = shoali_alloc_array(count, sizeof *pairs);
    if (pairs == NULL)
        return false;
    b->pairs = pairs;
    b->pair_slots = count;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].words > 0)
            *pair_of(b, old[i].key) = old[i];
    shoali_free(old);
    return true;
}

/* Count a word's pairs, times its own count; with sign -1 take them away. Words are noted for pairs
 * with `fresh` only: those of others are noted already. */
static bool count_pairs(shoali_bpe_trainer *b, uint32_t index, int sign, uint32_t fresh)
{
    const word *w = &b->words[index];
    const uint16_t *s = &b->symbols[w->first];
    for (uint32_t i = 0; i + 1 < w->length; i++) {
        if (sign > 0 && (!grow_pairs(b) || !more((void **)&b->entries, b->entry_count + 1,
                                                 &b->entry_room, 1, sizeof *b->entries)))
            return false;
        const uint32_t key = (uint32_t)s[i] << 16 | s[i + 1];
        pair *p = pair_of(b, key);
        p->count += sign * (int64_t)w->count;
        const bool note = fresh == SHOALI_NO_TOKEN || s[i] == fresh || s[i + 1] == fresh;
        if (sign < 0 || !note || (p->words > 0 && b->entries[p->words].word == index))
            continue;
        b->pair_count += p->words == 0;
        p->key = key;
        b->entries[++b->entry_count] = (entry){index, p->words};
        p->words = (uint32_t)b->entry_count;
    }
    return true;
}

static const pair *most_frequent(const shoali_bpe_trainer *b)
{
    const pair *best = NULL;
    for (size_t i = 0; i < b->pair_slots; i++) {
        const pair *p = &b->pairs[i];
        if (p->words > 0 && p->count >= LEAST &&
            (best == NULL || p->count > best->count ||
             (p->count == best->count && p->key < best->key)))
            best = p;
    }
    return best;
}

/* Join a pair in a word. */
static bool rewrite(shoali_bpe_trainer *b, uint32_t index, uint32_t key, uint16_t id)
{
    word *w = &b->words[index];
    uint16_t *s = &b->symbols[w->first];
    uint32_t used = 0;
    bool there = false;
    for (uint32_t i = 0; i + 1 < w->length && !there; i++)
        there = ((uint32_t)s[i] << 16 | s[i + 1]) == key;
    if (!there)
        return true;
    (void)count_pairs(b, index, -1, id);
    for (uint32_t i = 0; i < w->length; i++) {
        const bool join = i + 1 < w->length && ((uint32_t)s[i] << 16 | s[i + 1]) == key;
        s[used++] = join ? id : s[i];
        i += join;
    }
    w->length = used;
    return count_pairs(b, index, 1, id);
}

static bool learn(shoali_bpe_trainer *b, uint32_t *keys, uint32_t *count_out)
{
    for (uint32_t i = 0; i < b->word_count; i++)
        if (!count_pairs(b, i, 1, SHOALI_NO_TOKEN))
            return false;
    const pair *best;
    while (BYTES + *count_out + 1 < b->wanted && (best = most_frequent(b)) != NULL) {
        const uint32_t key = best->key, words = best->words;
        keys[*count_out] = key;
        const uint16_t id = (uint16_t)(BYTES + (*count_out)++);
        for (uint32_t at = words; at > 0; at = b->entries[at].older)
            if (!rewrite(b, b->entries[at].word, key, id))
                return false;
    }
    return true;
}

/* ---------------------------------------------------------------- a tokenizer of it */

static bool set_joined(shoali_tokenizer *t, uint32_t id, uint32_t left, uint32_t right)
{
    const size_t first = t->tokens[left].len_bytes, second = t->tokens[right].len_bytes;
    char *text = shoali_alloc(first + second + 1);
    if (text == NULL)
        return false;
    memcpy(text, t->tokens[left].text, first);
    memcpy(text + first, t->tokens[right].text, second);
    const bool ok = shoali_tokenizer_set(t, id, text, first + second);
    shoali_free(text);
    return ok;
}

/* Bytes, merges, the end of a text. */
static shoal_status fill(shoali_tokenizer *t, const uint32_t *keys)
{
    bool ok = true;
    t->end = t->count - 1;
    for (uint32_t i = 0; i < BYTES; i++) {
        const char byte = (char)(uint8_t)i;
        ok = ok && shoali_tokenizer_set(t, i, &byte, 1);
    }
    for (uint32_t i = 0; ok && i < t->merge_count; i++) {
        const uint32_t left = keys[i] >> 16, right = keys[i] & 0xFFFF;
        ok = set_joined(t, BYTES + i, left, right);
        shoali_merges_add(t, (shoali_merge){left, right, i, BYTES + i});
    }
    t->added = shoali_arena_array(t->arena, 1, sizeof *t->added);
    if (!ok || t->added == NULL ||
        !shoali_tokenizer_set(t, t->end, SHOALI_END_TEXT, sizeof SHOALI_END_TEXT - 1))
        return SHOAL_ENOMEM;
    t->tokens[t->end].added = t->tokens[t->end].special = true;
    t->added[t->added_count++] = (shoali_added){t->end, false};
    shoali_tokenizer_index(t);
    return t->merge_count > 0 ? shoali_words_create(shoali_words_gpt2, &t->words) : SHOAL_OK;
}

static shoal_status make(const uint32_t *keys, uint32_t count, shoali_tokenizer **tokenizer_out)
{
    shoali_tokenizer *t = NULL;
    SHOALI_TRY(shoali_tokenizer_create(BYTES + count + 1, count, &t));
    shoal_status status = fill(t, keys);
    if (status == SHOAL_OK)
        *tokenizer_out = t;
    else
        shoali_tokenizer_close(t);
    return status;
}

shoal_status shoali_tokenizer_of_bytes(shoali_tokenizer **tokenizer_out)
{
    return make(NULL, 0, tokenizer_out);
}

shoal_status shoali_bpe_learn(shoali_bpe_trainer *b, shoali_tokenizer **tokenizer_out)
{
    uint32_t count = 0;
    uint32_t *keys = shoali_alloc_array(b->wanted, sizeof *keys);
    if (keys == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = learn(b, keys, &count) ? make(keys, count, tokenizer_out) : SHOAL_ENOMEM;
    shoali_free(keys);
    return status;
}
