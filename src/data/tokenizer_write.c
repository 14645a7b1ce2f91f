/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer as tokenizer.json, and the two that need no file. */
#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/new_file.h"
#include "data/tokenizer_inner.h"
#include "data/tokenizer_text.h"

/* ---------------------------------------------------------------- bytes as characters */

static bool shown_as_itself(unsigned int byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

/* The character of a byte, and the byte of a character (256: none). */
static unsigned int character_of(unsigned int byte)
{
    unsigned int others = 0;
    if (shown_as_itself(byte))
        return byte;
    for (unsigned int b = 0; b < byte; b++)
        others += !shown_as_itself(b);
    return 256 + others;
}

static unsigned int byte_of(unsigned int character)
{
    if (character < 256)
        return shown_as_itself(character) ? character : 256;
    unsigned int byte = 0, others = character - 256;
    for (; byte < 256; byte++)
        if (!shown_as_itself(byte) && others-- == 0)
            break;
    return byte;
}

/* jansson gives valid UTF-8: all of the table has one or two bytes. */
bool shoali_text_to_bytes(const char *text, char *bytes_out, size_t room, size_t *len_bytes_out)
{
    size_t used = 0;
    for (const uint8_t *at = (const uint8_t *)text; *at != '\0'; at++) {
        unsigned int character = *at;
        if (character >= 0xE0 || (character >= 0x80 && at[1] == '\0'))
            return false;
        if (character >= 0x80)
            character = (character & 0x1F) << 6 | (*++at & 0x3F);
        const unsigned int byte = byte_of(character);
        if (byte == 256 || used == room)
            return false;
        bytes_out[used++] = (char)(uint8_t)byte;
    }
    *len_bytes_out = used;
    return true;
}

void shoali_bytes_to_text(const char *bytes, size_t len_bytes, char *text_out)
{
    for (size_t i = 0; i < len_bytes; i++) {
        const unsigned int c = character_of((uint8_t)bytes[i]);
        if (c >= 0x80)
            *text_out++ = (char)(uint8_t)(0xC0 | c >> 6);
        *text_out++ = (char)(uint8_t)(c >= 0x80 ? 0x80 | (c & 0x3F) : c);
    }
    *text_out = '\0';
}

/* ---------------------------------------------------------------- writing */

/* NULL: no memory. */
static json_t *shown(const shoali_token *one)
{
    char *text = shoali_alloc(2 * (size_t)one->len_bytes + 1);
    if (text == NULL)
        return NULL;
    shoali_bytes_to_text(one->text, one->len_bytes, text);
    json_t *json = json_string(text);
    shoali_free(text);
    return json;
}

static json_t *vocabulary(const shoali_tokenizer *t)
{
    json_t *vocab = json_object();
    for (uint32_t id = 0; id < t->count; id++) {
        const shoali_token *one = &t->tokens[id];
        if (one->text == NULL || (t->pieces.text != NULL && one->added &&
                                  shoali_tokenizer_find(t, one->text, one->len_bytes) != id))
            continue; /* WordPiece's words are never tokens that were only added */
        json_t *text = one->added || t->pieces.text != NULL ? json_string(one->text) : shown(one);
        (void)json_object_set_new(vocab, text != NULL ? json_string_value(text) : "",
                                  json_integer(id));
        json_decref(text);
    }
    return vocab;
}

static json_t *merge_list(const shoali_tokenizer *t)
{
    json_t *list = json_array();
    shoali_merge *merges = shoali_alloc_array((size_t)t->merge_count + 1, sizeof *merges);
    for (uint32_t i = 0; merges != NULL && i < t->merge_count; i++) {
        if (i == 0)
            shoali_merges_in_order(t, merges);
        (void)json_array_append_new(list, json_pack("[o, o]", shown(&t->tokens[merges[i].left]),
                                                    shown(&t->tokens[merges[i].right])));
    }
    shoali_free(merges);
    return list;
}

static json_t *added_list(const shoali_tokenizer *t)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < t->added_count; i++) {
        const uint32_t id = t->added[i].id;
        (void)json_array_append_new(list, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id",
                                                    (int)id, "content", t->tokens[id].text,
                                                    "single_word", 0, "lstrip", 0, "rstrip", 0,
                                                    "normalized", t->added[i].normalized, "special",
                                                    t->tokens[id].special));
    }
    return list;
}

static json_t *byte_level(bool regex)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                     "trim_offsets", 1, "use_regex", regex);
}

static json_t *pre_tokenizer(const shoali_tokenizer *t)
{
    const char *pattern = t->words != NULL ? shoali_words_pattern(t->words) : NULL;
    if (pattern == NULL || strcmp(pattern, shoali_words_gpt2) == 0)
        return byte_level(pattern != NULL);
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers",
                     "type", "Split", "pattern", "Regex", pattern, "behavior", "Isolated", "invert",
                     0, byte_level(false));
}

static json_t *as_json(const shoali_tokenizer *t)
{
    if (t->characters)
        return json_pack("{s:s, s:{s:s}}", "version", "1.0", "model", "type",
                         SHOALI_CHARACTERS_TYPE);
    if (t->pieces.text != NULL)
        return shoali_pieces_to_json(t, added_list(t), vocabulary(t));
    return json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:n, s:o, s:{s:s, s:n, s:n, s:n, s:n, s:b, "
                     "s:b, s:b, s:o, s:o}}",
                     "version", "1.0", "truncation", "padding", "added_tokens", added_list(t),
                     "normalizer", "pre_tokenizer", pre_tokenizer(t), "post_processor", "decoder",
                     byte_level(true), "model", "type", "BPE", "dropout", "unk_token",
                     "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                     "byte_fallback", 0, "ignore_merges", t->whole_words, "vocab", vocabulary(t),
                     "merges", merge_list(t));
}

shoal_status shoali_tokenizer_write(const shoali_tokenizer *t, const char *path)
{
    shoali_new_file out;
    json_t *json = as_json(t);
    char *text = shoali_json_text(json, JSON_INDENT(1));
    json_decref(json);
    if (text == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory for %s", path);
    shoal_status status = shoali_new_file_open(path, &out);
    if (status == SHOAL_OK) {
        (void)fprintf(out.file, "%s\n", text);
        status = shoali_new_file_commit(&out);
    }
    shoali_free(text);
    return status;
}
