/* SPDX-License-Identifier: Apache-2.0 */
/* WordPiece from tokenizer.json of Hugging Face's `tokenizers`, and back:
 *
 *     {"added_tokens": [{"id": 100, "content": "[UNK]", "special": true, ...}, ...],
 *      "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
 *                     "strip_accents": null, "lowercase": true},
 *      "pre_tokenizer": {"type": "BertPreTokenizer"},
 *      "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
 *      "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
 *                "max_input_chars_per_word": 100, "vocab": {"[PAD]": 0, ...}}}
 *
 * and from BERT's vocab.txt, a token per line, whose manners tokenizer_config.json beside it says.
 * What a post-processor, truncation and padding do is about samples, which are cut elsewhere. */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/read_file.h"
#include "data/tokenizer_read.h"

typedef shoali_tokenizer_reader reader;

enum { CHARACTERS_USUAL = 100, CONFIG_BYTES_MAX = 1 << 20 };

bool shoali_pieces_are(const json_t *model)
{
    return shoali_tokenizer_is_type(model, "WordPiece") ||
           (json_object_get(model, "type") == NULL && /* as old files have it */
            json_object_get(model, "max_input_chars_per_word") != NULL);
}

/* ---------------------------------------------------------------- tokenizer.json */

static const char *text_of(const json_t *part, const char *key, const char *usual)
{
    const json_t *value = json_object_get(part, key);
    return value == NULL ? usual : json_string_value(value);
}

/* A switch that is null is as `usual`. */
static shoal_status flag_of(const reader *r, const json_t *part, const char *key, bool usual,
                            bool *out)
{
    const json_t *value = json_object_get(part, key);
    *out = value == NULL || json_is_null(value) ? usual : json_is_true(value);
    return value == NULL || json_is_null(value) || json_is_boolean(value)
               ? SHOAL_OK
               : shoali_tokenizer_bad(r, "no true or false", key);
}

static shoal_status read_normalizer(const reader *r, shoali_bert_manner *m)
{
    const json_t *part = json_object_get(r->root, "normalizer");
    if (shoali_tokenizer_absent(part))
        return SHOAL_OK;
    if (!shoali_tokenizer_is_type(part, "BertNormalizer"))
        return shoali_tokenizer_refuse(r, "its normalizer is not of type BertNormalizer");
    SHOALI_TRY(flag_of(r, part, "clean_text", true, &m->clean));
    SHOALI_TRY(flag_of(r, part, "handle_chinese_chars", true, &m->chinese));
    SHOALI_TRY(flag_of(r, part, "lowercase", true, &m->lower));
    return flag_of(r, part, "strip_accents", m->lower, &m->strip);
}

static shoal_status read_characters(const reader *r, shoali_bert_manner *m)
{
    const json_t *value = json_object_get(r->model, "max_input_chars_per_word");
    const json_int_t most = value != NULL ? json_integer_value(value) : CHARACTERS_USUAL;
    if (most < 1 || most > SHOALI_BERT_CHARACTERS_MAX)
        return shoali_tokenizer_refuse(r, "its max_input_chars_per_word is not 1 .. 4096");
    m->characters_max = (uint32_t)most;
    return SHOAL_OK;
}

static shoal_status check_parts(const reader *r, const char *prefix)
{
    static const char *const after[] = {"BertProcessing", "TemplateProcessing"};
    const json_t *decoder = json_object_get(r->root, "decoder");
    const json_t *processor = json_object_get(r->root, "post_processor");
    if (!shoali_tokenizer_is_type(json_object_get(r->root, "pre_tokenizer"), "BertPreTokenizer"))
        return shoali_tokenizer_refuse(r, "its pre_tokenizer is not of type BertPreTokenizer");
    if (!shoali_tokenizer_is_type(decoder, "WordPiece"))
        return shoali_tokenizer_refuse(r, "its decoder is not of type WordPiece");
    const char *other = text_of(decoder, "prefix", prefix);
    if (other == NULL || strcmp(other, prefix) != 0)
        return shoali_tokenizer_refuse(r, "its decoder has another prefix than its model");
    if (!shoali_tokenizer_absent(processor) && !shoali_tokenizer_is_type(processor, after[0]) &&
        !shoali_tokenizer_is_type(processor, after[1]))
        return shoali_tokenizer_refuse(
            r, "its post_processor is neither of type BertProcessing nor TemplateProcessing");
    return SHOAL_OK;
}

static shoal_status read_vocabulary(const reader *r, const json_t *vocab)
{
    const char *text;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)vocab, text, value)
    {
        const uint32_t id = (uint32_t)json_integer_value(value);
        const size_t length = strlen(text);
        if (length >= SHOALI_TOKENIZER_TOKEN_MAX || r->t->tokens[id].text != NULL)
            return shoali_tokenizer_bad(r, "a token that is too long, or whose id is another's",
                                        text);
        if (length > 0 && !shoali_tokenizer_set(r->t, id, text, length))
            return SHOAL_ENOMEM;
    }
    return SHOAL_OK;
}

static shoal_status check_added(const reader *r, const json_t *added)
{
    size_t i;
    json_t *one;
    json_array_foreach(added, i, one)
    {
        const char *text = json_string_value(json_object_get(one, "content"));
        const json_int_t id = json_integer_value(json_object_get(one, "id"));
        const char *listed = r->t->tokens[id].text;
        if (text == NULL || (listed != NULL && strcmp(listed, text) != 0))
            return shoali_tokenizer_bad(r, "an added token has the id of another", text);
        const json_t *normalized = json_object_get(one, "normalized");
        if (normalized != NULL ? json_is_true(normalized)
                               : !json_is_true(json_object_get(one, "special")))
            return shoali_tokenizer_refuse(r, "it has an added token that is \"normalized\"");
    }
    return SHOAL_OK;
}

/* What ends a text. */
static uint32_t end_of(const shoali_tokenizer *t)
{
    static const char end[] = "[SEP]";
    return shoali_tokenizer_find(t, end, sizeof end - 1);
}

static shoal_status fill(reader *r, const json_t *vocab, const json_t *added)
{
    shoali_bert_manner manner = {0};
    bool cleanup = true;
    const char *prefix = text_of(r->model, "continuing_subword_prefix", "##");
    const char *unknown = text_of(r->model, "unk_token", "[UNK]");
    if (prefix == NULL || unknown == NULL || strlen(prefix) > 64)
        return shoali_tokenizer_refuse(
            r, "its model has a prefix or a token for unknown words that is no text");
    SHOALI_TRY(check_parts(r, prefix));
    SHOALI_TRY(read_normalizer(r, &manner));
    SHOALI_TRY(read_characters(r, &manner));
    SHOALI_TRY(flag_of(r, json_object_get(r->root, "decoder"), "cleanup", true, &cleanup));
    SHOALI_TRY(read_vocabulary(r, vocab));
    shoali_tokenizer_index(r->t); /* before some of them are added ones */
    SHOALI_TRY(check_added(r, added));
    SHOALI_TRY(shoali_tokenizer_read_added(r, added, vocab));
    r->t->end = end_of(r->t);
    return shoali_pieces_set(r->t, &manner, prefix, unknown, cleanup);
}

shoal_status shoali_pieces_read(reader *r, shoali_tokenizer **tokenizer_out)
{
    const json_t *vocab = json_object_get(r->model, "vocab");
    const json_t *added = json_object_get(r->root, "added_tokens");
    if (json_object_size(vocab) == 0 || (added != NULL && !json_is_array(added)))
        return shoali_fail(SHOAL_ECORRUPT, "%s: its model lacks \"vocab\"", r->name);
    const uint32_t count = shoali_tokenizer_count_ids(vocab, added);
    if (count == 0)
        return shoali_tokenizer_refuse(r, "an id is not below 65536: tokens are kept as 16 bits");
    SHOALI_TRY(shoali_tokenizer_create(count, 0, &r->t));
    const shoal_status status = fill(r, vocab, added);
    if (status == SHOAL_OK)
        *tokenizer_out = r->t;
    else
        shoali_tokenizer_close(r->t);
    return status;
}

/* ---------------------------------------------------------------- vocab.txt */

/* What a file of tokens leaves unsaid. */
typedef struct manners {
    shoali_bert_manner text;
    char unknown[64];
} manners;

static bool is_plain(const char *line, size_t length)
{
    uint32_t c = 0;
    for (size_t at = 0; at < length;) {
        const size_t step = shoali_utf8_next(line + at, length - at, &c);
        if (c == 0 || (c == 0xFFFD && step == 1))
            return false;
        at += step;
    }
    return length < SHOALI_TOKENIZER_TOKEN_MAX;
}

/* Length of the line at a place, without what ends it; *next_out: the next line's place. */
static size_t line_at(const char *text, size_t len_bytes, size_t at, size_t *next_out)
{
    const char *end = memchr(text + at, '\n', len_bytes - at);
    size_t length = end != NULL ? (size_t)(end - text) - at : len_bytes - at;
    *next_out = at + length + 1;
    while (length > 0 && text[at + length - 1] == '\r')
        length--;
    return length;
}

static shoal_status read_lines(const char *name, const char *text, size_t len_bytes,
                               shoali_tokenizer *t)
{
    uint32_t id = 0;
    for (size_t at = 0, next = 0; at < len_bytes; at = next, id++) {
        const size_t length = line_at(text, len_bytes, at, &next);
        if (!is_plain(text + at, length))
            return shoali_fail(SHOAL_ECORRUPT, "%s: line %u is no token in UTF-8", name, id + 1);
        if (length > 0 && !shoali_tokenizer_set(t, id, text + at, length))
            return SHOAL_ENOMEM;
    }
    shoali_tokenizer_index(t);
    for (id = 0; id < t->count; id++) {
        const shoali_token *one = &t->tokens[id];
        if (one->text != NULL && shoali_tokenizer_find(t, one->text, one->len_bytes) != id)
            return shoali_fail(SHOAL_ECORRUPT, "%s: \"%.60s\" is there twice", name, one->text);
    }
    return SHOAL_OK;
}

/* BERT's tokens that are no text. */
static shoal_status add_special(shoali_tokenizer *t, const char *unknown)
{
    const char *const special[] = {unknown, "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
    enum { COUNT = sizeof special / sizeof *special };
    t->added = shoali_arena_array(t->arena, COUNT, sizeof *t->added);
    if (t->added == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0; i < COUNT; i++) {
        const uint32_t id = shoali_tokenizer_find(t, special[i], strlen(special[i]));
        if (id == SHOALI_NO_TOKEN || t->tokens[id].added)
            continue;
        t->tokens[id].added = t->tokens[id].special = true;
        t->added[t->added_count++] = (shoali_added){id, false};
    }
    t->end = end_of(t);
    return SHOAL_OK;
}

static shoal_status parse_lines(const char *name, const char *text, size_t len_bytes,
                                const manners *m, shoali_tokenizer **tokenizer_out)
{
    shoali_tokenizer *t = NULL;
    uint32_t count = 0;
    for (size_t at = 0, next = 0; at < len_bytes && count <= SHOALI_TOKENS_MAX; at = next, count++)
        (void)line_at(text, len_bytes, at, &next);
    if (count == 0 || count > SHOALI_TOKENS_MAX)
        return shoali_fail(SHOAL_EINVAL,
                           "%s: a vocabulary has 1 to %d lines: tokens are kept as 16 "
                           "bits",
                           name, SHOALI_TOKENS_MAX);
    SHOALI_TRY(shoali_tokenizer_create(count, 0, &t));
    shoal_status status = read_lines(name, text, len_bytes, t);
    if (status == SHOAL_OK)
        status = add_special(t, m->unknown);
    if (status == SHOAL_OK)
        status = shoali_pieces_set(t, &m->text, "##", m->unknown, true);
    if (status == SHOAL_OK)
        *tokenizer_out = t;
    else
        shoali_tokenizer_close(t);
    return status;
}

static const manners usual = {{true, true, true, true, CHARACTERS_USUAL}, "[UNK]"};

shoal_status shoali_tokenizer_parse_vocab(const char *name, const char *text, size_t len_bytes,
                                          shoali_tokenizer **tokenizer_out)
{
    return parse_lines(name, text, len_bytes, &usual, tokenizer_out);
}

/* As `transformers` takes them from tokenizer_config.json. */
static shoal_status take_config(const char *path, const json_t *config, manners *m)
{
    const reader r = {.name = path, .root = config};
    bool basic = true;
    const char *unknown = text_of(config, "unk_token", m->unknown);
    SHOALI_TRY(flag_of(&r, config, "do_basic_tokenize", true, &basic));
    if (!basic)
        return shoali_tokenizer_refuse(&r, "do_basic_tokenize is false");
    SHOALI_TRY(flag_of(&r, config, "do_lower_case", true, &m->text.lower));
    SHOALI_TRY(flag_of(&r, config, "tokenize_chinese_chars", true, &m->text.chinese));
    SHOALI_TRY(flag_of(&r, config, "strip_accents", m->text.lower, &m->text.strip));
    if (unknown == NULL || strlen(unknown) >= sizeof m->unknown)
        return shoali_tokenizer_refuse(&r, "its unk_token is no short text");
    if (unknown != m->unknown)
        snprintf(m->unknown, sizeof m->unknown, "%s", unknown);
    return SHOAL_OK;
}

static shoal_status read_config(const char *vocab_path, manners *m)
{
    static const char file[] = "tokenizer_config.json";
    const char *slash = strrchr(vocab_path, '/');
    const size_t folder = slash != NULL ? (size_t)(slash - vocab_path) + 1 : 0;
    char path[PATH_MAX], *text = NULL;
    size_t length = 0;
    json_t *config = NULL;
    if (folder + sizeof file > sizeof path)
        return SHOAL_OK;
    memcpy(path, vocab_path, folder);
    memcpy(path + folder, file, sizeof file);
    if (access(path, F_OK) != 0)
        return SHOAL_OK;
    SHOALI_TRY(shoali_read_file(path, CONFIG_BYTES_MAX, &text, &length));
    shoal_status status = shoali_json_parse(path, text, length, &config);
    shoali_free(text);
    if (status == SHOAL_OK)
        status = take_config(path, config, m);
    json_decref(config);
    return status;
}

shoal_status shoali_pieces_open(const char *path, const char *text, size_t len_bytes,
                                shoali_tokenizer **tokenizer_out)
{
    manners m = usual;
    SHOALI_TRY(read_config(path, &m));
    return parse_lines(path, text, len_bytes, &m, tokenizer_out);
}

/* ---------------------------------------------------------------- writing */

json_t *shoali_pieces_to_json(const shoali_tokenizer *t, json_t *added, json_t *vocab)
{
    const shoali_bert_manner *m = shoali_bert_text_manner(t->pieces.text);
    json_t *normalizer = json_pack("{s:s, s:b, s:b, s:b, s:b}", "type", "BertNormalizer",
                                   "clean_text", m->clean, "handle_chinese_chars", m->chinese,
                                   "strip_accents", m->strip, "lowercase", m->lower);
    json_t *model = json_pack("{s:s, s:s, s:s, s:i, s:o}", "type", "WordPiece", "unk_token",
                              t->tokens[t->pieces.unknown].text, "continuing_subword_prefix",
                              t->pieces.prefix, "max_input_chars_per_word", (int)m->characters_max,
                              "vocab", vocab);
    return json_pack("{s:s, s:n, s:n, s:o, s:o, s:{s:s}, s:n, s:{s:s, s:s, s:b}, s:o}", "version",
                     "1.0", "truncation", "padding", "added_tokens", added, "normalizer",
                     normalizer, "pre_tokenizer", "type", "BertPreTokenizer", "post_processor",
                     "decoder", "type", "WordPiece", "prefix", t->pieces.prefix, "cleanup",
                     t->pieces.cleanup, "model", model);
}
