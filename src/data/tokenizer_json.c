/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json of Hugging Face's `tokenizers`, of which byte-level BPE is read (and WordPiece by
 * pieces_json.c):
 *
 *     {"added_tokens": [{"id": 256, "content": "<|endoftext|>", "special": true, ...}],
 *      "normalizer": null, "post_processor": null,
 *      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
 *      "decoder": {"type": "ByteLevel"},
 *      "model": {"type": "BPE", "vocab": {"!": 33, ...}, "merges": ["a b", ...]}}
 *
 * or the pre-tokenizer {"type": "Sequence", "pretokenizers": [{"type": "Split", "invert": false,
 * "behavior": "Isolated", "pattern": {"Regex": R}}, {"type": "ByteLevel", "use_regex": false}]}. A
 * vocabulary's texts show each byte as a character: printable ones as themselves, the others, in
 * order, as U+0100 and on. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/read_file.h"
#include "data/tokenizer_read.h"
#include "data/tokenizer_text.h"

enum { FILE_BYTES_MAX = 32 << 20, TEXT_MAX = SHOALI_TOKENIZER_TOKEN_MAX };

typedef shoali_tokenizer_reader reader;

shoal_status shoali_tokenizer_refuse(const reader *r, const char *what)
{
    (void)shoali_fail(SHOAL_EINVAL, "%s: %s", r->name, what);
    shoali_error_advice("Byte-level BPE as GPT-2's and WordPiece as BERT's are read: docs/data.md "
                        "says what of them.");
    return SHOAL_EINVAL;
}

bool shoali_tokenizer_is_type(const json_t *part, const char *type)
{
    const char *said = json_string_value(json_object_get(part, "type"));
    return said != NULL && strcmp(said, type) == 0;
}

bool shoali_tokenizer_absent(const json_t *value)
{
    return value == NULL || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_number(value) && json_number_value(value) == 0);
}

/* ---------------------------------------------------------------- what is not done */

static shoal_status check_parts(const reader *r)
{
    static const char *const none[] = {"normalizer", "truncation", "padding"};
    static const char *const plain[] = {"continuing_subword_prefix", "end_of_word_suffix",
                                        "dropout", "byte_fallback"};
    char text[160];
    if (!shoali_tokenizer_is_type(r->model, "BPE"))
        return shoali_tokenizer_refuse(r, "its model is neither of type BPE nor WordPiece");
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (!shoali_tokenizer_absent(json_object_get(r->root, none[i]))) {
            snprintf(text, sizeof text, "it has a member \"%s\" that is not null", none[i]);
            return shoali_tokenizer_refuse(r, text);
        }
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (!shoali_tokenizer_absent(json_object_get(r->model, plain[i]))) {
            snprintf(text, sizeof text, "its model has a \"%s\"", plain[i]);
            return shoali_tokenizer_refuse(r, text);
        }
    if (!shoali_tokenizer_is_type(json_object_get(r->root, "decoder"), "ByteLevel"))
        return shoali_tokenizer_refuse(r, "its decoder is not of type ByteLevel");
    const json_t *after = json_object_get(r->root, "post_processor");
    if (!shoali_tokenizer_absent(after) && !shoali_tokenizer_is_type(after, "ByteLevel"))
        return shoali_tokenizer_refuse(
            r, "its post_processor is not of type ByteLevel, which adds no tokens");
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- words */

static shoal_status check_byte_level(const reader *r, const json_t *part)
{
    const json_t *prefix = json_object_get(part, "add_prefix_space");
    if (!shoali_tokenizer_is_type(part, "ByteLevel"))
        return shoali_tokenizer_refuse(
            r, "its pre_tokenizer is neither ByteLevel nor a Split and ByteLevel");
    if (prefix == NULL || json_is_true(prefix)) /* without it, it is true */
        return shoali_tokenizer_refuse(r, "its pre_tokenizer has add_prefix_space");
    return SHOAL_OK;
}

/* Oniguruma's \h is a hexadecimal digit, PCRE2's a blank. */
static bool means_something_else(const char *pattern)
{
    for (const char *at = pattern; (at = strchr(at, '\\')) != NULL && at[1] != '\0'; at += 2)
        if (strchr("hHKRX", at[1]) != NULL)
            return true;
    return false;
}

static shoal_status read_split(const reader *r, const json_t *split, const char **pattern_out)
{
    const char *behavior = json_string_value(json_object_get(split, "behavior"));
    const json_t *pattern = json_object_get(split, "pattern");
    *pattern_out = json_string_value(json_object_get(pattern, "Regex"));
    if (!shoali_tokenizer_is_type(split, "Split") || behavior == NULL ||
        strcmp(behavior, "Isolated") != 0 ||
        !shoali_tokenizer_absent(json_object_get(split, "invert")))
        return shoali_tokenizer_refuse(r,
                                       "its pre_tokenizer is no Split with the behavior Isolated");
    if (*pattern_out == NULL || means_something_else(*pattern_out))
        return shoali_tokenizer_refuse(
            r, "its pre_tokenizer's Split has a pattern that is no Regex which is read");
    return SHOAL_OK;
}

static shoal_status read_words(reader *r)
{
    const char *pattern = NULL;
    const json_t *before = json_object_get(r->root, "pre_tokenizer"), *level = before;
    if (shoali_tokenizer_is_type(before, "Sequence")) {
        const json_t *list = json_object_get(before, "pretokenizers");
        if (json_array_size(list) != 2)
            return shoali_tokenizer_refuse(r, "its pre_tokenizer is a Sequence of other than two");
        SHOALI_TRY(read_split(r, json_array_get(list, 0), &pattern));
        level = json_array_get(list, 1);
    }
    SHOALI_TRY(check_byte_level(r, level));
    if (!json_is_false(json_object_get(level, "use_regex"))) {
        if (pattern != NULL)
            return shoali_tokenizer_refuse(
                r, "its pre_tokenizer splits twice: use_regex after a Split");
        pattern = shoali_words_gpt2;
    }
    return pattern != NULL ? shoali_words_create(pattern, &r->t->words) : SHOAL_OK;
}

/* ---------------------------------------------------------------- vocabulary and merges */

shoal_status shoali_tokenizer_bad(const reader *r, const char *what, const char *which)
{
    return shoali_fail(SHOAL_ECORRUPT, "%s: %s: \"%.60s\"", r->name, what, which);
}

/* Ids below; 0: one is out of bounds. */
uint32_t shoali_tokenizer_count_ids(const json_t *vocab, const json_t *added)
{
    json_int_t most = -1, id;
    const char *text;
    json_t *value;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)vocab, text, value)
    {
        id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= SHOALI_TOKENS_MAX)
            return 0;
        most = id > most ? id : most;
    }
    json_array_foreach(added, i, value)
    {
        const json_t *number = json_object_get(value, "id");
        id = json_is_integer(number) ? json_integer_value(number) : -1;
        if (id < 0 || id >= SHOALI_TOKENS_MAX)
            return 0;
        most = id > most ? id : most;
    }
    return (uint32_t)(most + 1);
}

/* An added token is its content; all others show bytes as characters. */
static shoal_status read_vocabulary(reader *r, const json_t *vocab)
{
    const char *text;
    json_t *value;
    char bytes[TEXT_MAX];
    json_object_foreach((json_t *)(uintptr_t)vocab, text, value)
    {
        const uint32_t id = (uint32_t)json_integer_value(value);
        size_t length = 0;
        if (r->t->tokens[id].added && strcmp(r->t->tokens[id].text, text) == 0)
            continue;
        if (r->t->tokens[id].text != NULL)
            return shoali_tokenizer_bad(r, "an id has two tokens, one of them", text);
        if (!shoali_text_to_bytes(text, bytes, sizeof bytes, &length) || length == 0)
            return shoali_tokenizer_bad(r, "a token is not made of bytes shown as characters",
                                        text);
        if (!shoali_tokenizer_set(r->t, id, bytes, length))
            return SHOAL_ENOMEM;
    }
    return SHOAL_OK;
}

static shoal_status read_added_one(reader *r, const json_t *one, const json_t *vocab)
{
    static const char *const odd[] = {"single_word", "lstrip", "rstrip"};
    const char *text = json_string_value(json_object_get(one, "content"));
    const uint32_t id = (uint32_t)json_integer_value(json_object_get(one, "id"));
    const json_t *listed = json_object_get(vocab, text != NULL ? text : "");
    const json_t *normalized = json_object_get(one, "normalized");
    const bool special = json_is_true(json_object_get(one, "special"));
    if (text == NULL || text[0] == '\0' || strlen(text) >= TEXT_MAX || r->t->tokens[id].added)
        return shoali_tokenizer_bad(r, "an added token without content, or twice",
                                    text != NULL ? text : "");
    if (listed != NULL && json_integer_value(listed) != id)
        return shoali_tokenizer_bad(r, "an added token has another id in the vocabulary", text);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        if (json_is_true(json_object_get(one, odd[i]))) {
            char what[160];
            snprintf(what, sizeof what, "its added token \"%.60s\" has %s", text, odd[i]);
            return shoali_tokenizer_refuse(r, what);
        }
    if (!shoali_tokenizer_set(r->t, id, text, strlen(text)))
        return SHOAL_ENOMEM;
    r->t->tokens[id].added = true;
    r->t->tokens[id].special = special;
    r->t->added[r->t->added_count++] = (shoali_added){
        id, normalized != NULL ? json_is_true(normalized) : !special};
    if (strcmp(text, SHOALI_END_TEXT) == 0 ||
        (r->t->end == SHOALI_NO_TOKEN && strcmp(text, "</s>") == 0))
        r->t->end = id;
    return SHOAL_OK;
}

shoal_status shoali_tokenizer_read_added(reader *r, const json_t *added, const json_t *vocab)
{
    size_t i;
    json_t *one;
    r->t->added = shoali_arena_array(r->t->arena, json_array_size(added) + 1, sizeof *r->t->added);
    if (r->t->added == NULL)
        return SHOAL_ENOMEM;
    json_array_foreach(added, i, one)
    {
        SHOALI_TRY(read_added_one(r, one, vocab));
    }
    return SHOAL_OK;
}

/* Left and right of a merge: "a b" or ["a", "b"]; as bytes behind one another. */
static bool halves_of(const json_t *merge, char *bytes, size_t *left_out, size_t *length_out)
{
    char text[TEXT_MAX];
    const char *left = json_string_value(json_array_get(merge, 0));
    const char *right = json_string_value(json_array_get(merge, 1));
    if (json_is_string(merge) && json_string_length(merge) < sizeof text) {
        snprintf(text, sizeof text, "%s", json_string_value(merge));
        char *blank = strchr(text, ' ');
        if (blank == NULL || strchr(blank + 1, ' ') != NULL)
            return false;
        *blank = '\0';
        left = text;
        right = blank + 1;
    } else if (json_array_size(merge) != 2) {
        return false;
    }
    size_t right_length = 0;
    if (left == NULL || right == NULL || !shoali_text_to_bytes(left, bytes, TEXT_MAX, left_out) ||
        !shoali_text_to_bytes(right, bytes + *left_out, TEXT_MAX - *left_out, &right_length))
        return false;
    *length_out = *left_out + right_length;
    return *left_out > 0 && right_length > 0;
}

static shoal_status read_merges(reader *r, const json_t *merges)
{
    size_t i, left, length;
    json_t *one;
    char bytes[TEXT_MAX];
    json_array_foreach(merges, i, one)
    {
        if (!halves_of(one, bytes, &left, &length))
            return shoali_fail(SHOAL_ECORRUPT, "%s: merge %zu is no pair of tokens", r->name, i);
        const shoali_merge merge = {
            .left = shoali_tokenizer_find(r->t, bytes, left),
            .right = shoali_tokenizer_find(r->t, bytes + left, length - left),
            .rank = (uint32_t)i,
            .id = shoali_tokenizer_find(r->t, bytes, length)};
        if (merge.left == SHOALI_NO_TOKEN || merge.right == SHOALI_NO_TOKEN ||
            merge.id == SHOALI_NO_TOKEN)
            return shoali_fail(SHOAL_ECORRUPT,
                               "%s: merge %zu is of or into a token that the vocabulary lacks",
                               r->name, i);
        if (shoali_merges_find(r->t, merge.left, merge.right) != NULL)
            return shoali_fail(SHOAL_ECORRUPT, "%s: merge %zu is there twice", r->name, i);
        shoali_merges_add(r->t, merge);
    }
    return SHOAL_OK;
}

/* A token for what has none never occurs where each byte has one. */
static shoal_status check_unknown(const reader *r)
{
    if (shoali_tokenizer_absent(json_object_get(r->model, "unk_token")))
        return SHOAL_OK;
    for (int i = 0; i < 256; i++)
        if (r->t->byte_ids[i] == SHOALI_NO_TOKEN)
            return shoali_tokenizer_refuse(
                r, "its model has an unk_token, and not all bytes have tokens");
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- all of it */

static shoal_status fill(reader *r, const json_t *vocab, const json_t *merges, const json_t *added)
{
    SHOALI_TRY(shoali_tokenizer_read_added(r, added, vocab));
    SHOALI_TRY(read_vocabulary(r, vocab));
    shoali_tokenizer_index(r->t);
    SHOALI_TRY(read_merges(r, merges));
    r->t->whole_words = json_is_true(json_object_get(r->model, "ignore_merges"));
    SHOALI_TRY(check_unknown(r));
    return read_words(r);
}

static shoal_status read_root(reader *r, shoali_tokenizer **tokenizer_out)
{
    r->model = json_object_get(r->root, "model");
    if (shoali_tokenizer_is_type(r->model, SHOALI_CHARACTERS_TYPE))
        return shoali_tokenizer_of_characters(tokenizer_out);
    if (shoali_pieces_are(r->model))
        return shoali_pieces_read(r, tokenizer_out);
    SHOALI_TRY(check_parts(r));
    const json_t *vocab = json_object_get(r->model, "vocab");
    const json_t *merges = json_object_get(r->model, "merges");
    const json_t *added = json_object_get(r->root, "added_tokens");
    if (json_object_size(vocab) == 0 || !json_is_array(merges) ||
        (added != NULL && !json_is_array(added)))
        return shoali_fail(SHOAL_ECORRUPT, "%s: its model lacks \"vocab\" or \"merges\"", r->name);
    const uint32_t count = shoali_tokenizer_count_ids(vocab, added);
    if (count == 0)
        return shoali_tokenizer_refuse(r, "an id is not below 65536: tokens are kept as 16 bits");
    if (json_array_size(merges) > SHOALI_TOKENS_MAX)
        return shoali_tokenizer_refuse(r, "it has more merges than 65536");
    SHOALI_TRY(shoali_tokenizer_create(count, (uint32_t)json_array_size(merges), &r->t));
    shoal_status status = fill(r, vocab, merges, added);
    if (status == SHOAL_OK)
        *tokenizer_out = r->t;
    else
        shoali_tokenizer_close(r->t);
    return status;
}

shoal_status shoali_tokenizer_parse(const char *name, const char *json, size_t len_bytes,
                                    shoali_tokenizer **tokenizer_out)
{
    json_t *root = NULL;
    SHOALI_TRY(shoali_json_parse(name, json, len_bytes, &root));
    reader r = {.name = name, .root = root};
    shoal_status status = read_root(&r, tokenizer_out);
    json_decref(root);
    return status;
}

shoal_status shoali_tokenizer_open(const char *path, shoali_tokenizer **tokenizer_out)
{
    char *text = NULL;
    size_t length = 0;
    const size_t end = strlen(path);
    SHOALI_TRY(shoali_read_file(path, FILE_BYTES_MAX, &text, &length));
    shoal_status status = end > 4 && strcmp(path + end - 4, ".txt") == 0
                              ? shoali_pieces_open(path, text, length, tokenizer_out)
                              : shoali_tokenizer_parse(path, text, length, tokenizer_out);
    shoali_free(text);
    return status;
}
