/* SPDX-License-Identifier: Apache-2.0 */
/* WordPiece: the longest token that a word begins with, then the longest of the rest among tokens
 * behind a prefix, and so on; a word that cannot be cut so is unknown as a whole.
 *
 *     unaffable      un, ##aff, ##able
 *     unaffablex     [UNK], without a token ##x */
#include <string.h>

#include "base/error.h"
#include "data/tokenizer_inner.h"

/* A blank in front of each token, which text of words has. */
static bool put_blanks(shoali_tokenizer *t)
{
    for (uint32_t id = 0; id < t->count; id++) {
        shoali_token *one = &t->tokens[id];
        if (one->text == NULL)
            continue;
        char *copy = shoali_arena_alloc(t->arena, (size_t)one->len_bytes + 2);
        if (copy == NULL)
            return false;
        copy[0] = ' ';
        memcpy(copy + 1, one->text, one->len_bytes);
        one->text = copy + 1;
        t->pieces.longest = one->len_bytes > t->pieces.longest ? one->len_bytes : t->pieces.longest;
    }
    return true;
}

shoal_status shoali_pieces_set(shoali_tokenizer *t, const shoali_bert_manner *manner,
                               const char *prefix, const char *unknown, bool cleanup)
{
    shoali_pieces *p = &t->pieces;
    p->prefix = shoali_arena_strdup(t->arena, prefix);
    p->prefix_bytes = (uint32_t)strlen(prefix);
    p->word = shoali_arena_alloc(t->arena, p->prefix_bytes + 4 * (size_t)manner->characters_max);
    p->cleanup = cleanup;
    p->unknown = shoali_tokenizer_find(t, unknown, strlen(unknown));
    if (p->unknown == SHOALI_NO_TOKEN)
        return shoali_fail(SHOAL_EINVAL, "the vocabulary lacks \"%.60s\", for unknown words",
                           unknown);
    if (p->prefix == NULL || p->word == NULL || !put_blanks(t))
        return SHOAL_ENOMEM;
    return shoali_bert_text_create(manner, &p->text);
}

/* ---------------------------------------------------------------- encoding */

typedef struct encoder {
    shoali_tokenizer *t;
    shoali_ids *ids;
} encoder;

static bool continues(char byte)
{
    return ((uint8_t)byte & 0xC0) == 0x80;
}

/* The longest token at the front of a word's rest, or behind the prefix; 0: none. */
static size_t longest_at(const shoali_tokenizer *t, const char *rest, size_t left, bool inside,
                         uint32_t *id_out)
{
    const shoali_pieces *p = &t->pieces;
    const size_t front = inside ? p->prefix_bytes : 0;
    size_t length = left < p->longest ? left : p->longest;
    memcpy(p->word, p->prefix, front);
    memcpy(p->word + front, rest, length);
    for (; length > 0; length--) {
        if (length < left && continues(rest[length]))
            continue;
        *id_out = shoali_tokenizer_find(t, p->word, front + length);
        if (*id_out != SHOALI_NO_TOKEN)
            return length;
    }
    return 0;
}

static shoal_status add_word(void *ctx, const char *word, size_t len_bytes)
{
    const encoder *e = ctx;
    shoali_ids *ids = e->ids;
    const size_t before = ids->count;
    size_t at = 0, length = 1;
    uint32_t id = 0;
    SHOALI_TRY(shoali_ids_reserve(ids, len_bytes + 1));
    for (; word != NULL && at < len_bytes && length > 0; at += length) {
        length = longest_at(e->t, word + at, len_bytes - at, at > 0, &id);
        ids->ids[ids->count++] = (uint16_t)id;
    }
    if (word == NULL || length == 0) {
        ids->count = before;
        ids->ids[ids->count++] = (uint16_t)e->t->pieces.unknown;
    }
    return SHOAL_OK;
}

shoal_status shoali_pieces_apply(shoali_tokenizer *t, const char *text, size_t len_bytes,
                                 shoali_ids *ids)
{
    encoder e = {.t = t, .ids = ids};
    return shoali_bert_text_cut(t->pieces.text, text, len_bytes, add_word, &e);
}

/* ---------------------------------------------------------------- decoding */

/* No blank stands before these. */
static bool joins(const shoali_token *one)
{
    static const char *const starts[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(one->text, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

const char *shoali_pieces_text(const shoali_tokenizer *t, uint32_t id, bool first,
                               size_t *len_bytes_out)
{
    const shoali_pieces *p = &t->pieces;
    const char *text = shoali_tokenizer_text(t, id, len_bytes_out);
    if (first || id >= t->count || t->tokens[id].text == NULL)
        return text;
    if (strncmp(text, p->prefix, p->prefix_bytes) == 0) {
        *len_bytes_out -= p->prefix_bytes;
        return text + p->prefix_bytes;
    }
    if (p->cleanup && joins(&t->tokens[id]))
        return text;
    *len_bytes_out += 1;
    return text - 1;
}
