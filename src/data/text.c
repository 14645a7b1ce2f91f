/* SPDX-License-Identifier: Apache-2.0 */
/* Text as sequences of characters, each labelled with the next one. Letters become small, blanks
 * and line ends are never repeated, lines of manual pages that are commands (. or ') are left out;
 * the last tenth of each file is the test set. Other tokens: text_tokens.c. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "data/documents.h"
#include "data/sequence.h"
#include "data/text.h"
#include "data/tokenizer_inner.h"
#include "shoal/data.h"

/* Token 0 is every other character. */
const char shoali_characters[] =
    "\n abcdefghijklmnopqrstuvwxyz0123456789.,;:!?'\"()-/_*<>[]{}=+#@&";
enum { ALPHABET = sizeof shoali_characters, PATH_BYTES = 4096 };
_Static_assert(ALPHABET == 64, "64 tokens");

/* Tokens of one split. */
typedef struct tokens {
    uint16_t *labels;
    float *x;
    uint32_t *lengths;
    size_t count, sequences;
} tokens;

typedef struct reader {
    shoal_arena *arena;
    const shoal_text_desc *desc;
    shoali_documents documents;
    uint32_t length;
    tokens splits[2];
} reader;

static uint16_t token_of(unsigned char c)
{
    const char *at = c != '\0' ? strchr(shoali_characters, tolower(c)) : NULL;
    return at != NULL ? (uint16_t)(at - shoali_characters + 1) : 0;
}

/* Tokens of a file's bytes, in place of them. */
size_t shoali_characters_clean(const char *text, size_t bytes, uint8_t *out)
{
    size_t used = 0;
    bool command = false, line_start = true;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        c = c == '\t' || c == '\r' ? ' ' : c;
        command = line_start ? c == '.' || c == '\'' : command;
        line_start = c == '\n';
        if (command ||
            ((c == ' ' || c == '\n') && used > 0 && out[used - 1] <= 2 && out[used - 1] > 0))
            continue;
        out[used++] = (uint8_t)token_of(c);
    }
    return used;
}

/* Whole sequences of [first, end): what remains at the end is left out. */
static void cut(const reader *r, const uint8_t *text, size_t first, size_t end, tokens *to)
{
    for (size_t at = first; at + r->length < end; at += r->length) {
        for (size_t t = 0; t < r->length; t++, to->count++) {
            to->x[to->count] = text[at + t];
            to->labels[to->count] = text[at + t + 1];
        }
        to->lengths[to->sequences++] = r->length;
    }
}

static shoal_status reserve(reader *r, tokens *to, size_t bytes)
{
    to->labels = shoali_arena_array(r->arena, bytes, sizeof *to->labels);
    to->x = shoali_arena_array(r->arena, bytes, sizeof *to->x);
    to->lengths = shoali_arena_array(r->arena, bytes / r->length + 1, sizeof *to->lengths);
    return to->labels != NULL && to->x != NULL && to->lengths != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

/* Cleaned text of a document behind what is there. */
typedef struct cleaned {
    uint8_t *text;
    size_t bytes, room;
} cleaned;

static shoal_status add_cleaned(const char *text, size_t bytes, cleaned *all)
{
    if (bytes > all->room - all->bytes) {
        const size_t room = 2 * (all->bytes + bytes);
        uint8_t *grown = shoali_realloc(all->text, all->room, room);
        if (grown == NULL)
            return SHOAL_ENOMEM;
        all->text = grown;
        all->room = room;
    }
    all->bytes += bytes > 0 ? shoali_characters_clean(text, bytes, all->text + all->bytes) : 0;
    return SHOAL_OK;
}

static shoal_status read_documents(reader *r, size_t *ends, cleaned *all, shoal_text_info *info)
{
    for (size_t i = 0; i < r->documents.count; i++) {
        char *text = NULL;
        size_t bytes = 0;
        SHOALI_TRY(shoali_document_read(r->documents.paths[i], &text, &bytes));
        info->documents += text != NULL;
        info->binary += text == NULL;
        info->bytes += text != NULL ? bytes : 0;
        const shoal_status status = text != NULL ? add_cleaned(text, bytes, all) : SHOAL_OK;
        shoali_free(text);
        SHOALI_TRY(status);
        ends[i] = all->bytes;
        if (r->desc->tell != NULL)
            r->desc->tell(r->desc->ctx, "files read", (double)i + 1, (double)r->documents.count);
    }
    return SHOAL_OK;
}

static shoal_status read_all(reader *r, shoal_text_info *info)
{
    cleaned all = {0};
    size_t *ends = shoali_arena_array(r->arena, r->documents.count, sizeof *ends);
    shoal_status status = ends != NULL ? read_documents(r, ends, &all, info) : SHOAL_ENOMEM;
    for (int split = 0; split < 2 && status == SHOAL_OK; split++)
        status = reserve(r, &r->splits[split], all.bytes);
    for (size_t i = 0, first = 0; i < r->documents.count && status == SHOAL_OK; first = ends[i++]) {
        const size_t count = ends[i] - first, border = count - count / 10;
        cut(r, all.text + first, 0, border, &r->splits[0]);
        cut(r, all.text + first, border, count, &r->splits[1]);
    }
    info->tokens = all.bytes;
    shoali_free(all.text);
    return status;
}

static shoal_status write_split(const reader *r, const char *name, const tokens *t)
{
    char path[PATH_BYTES];
    const shoali_sequences sequences = {.values = 1,
                                        .classes = ALPHABET,
                                        .count = (uint32_t)t->sequences,
                                        .tokens = true,
                                        .frames = t->count,
                                        .lengths = t->lengths,
                                        .labels = t->labels,
                                        .x = t->x};
    if (snprintf(path, sizeof path, "%s/%s.shoalseq", r->desc->dir, name) >= PATH_BYTES)
        return shoali_fail(SHOAL_EINVAL, "path is too long: %s", r->desc->dir);
    return shoali_sequences_write(path, &sequences);
}

static shoal_status write_characters(const char *dir)
{
    char path[PATH_BYTES];
    shoali_tokenizer *t = NULL;
    if (snprintf(path, sizeof path, "%s/tokenizer.json", dir) >= PATH_BYTES)
        return shoali_fail(SHOAL_EINVAL, "path is too long: %s", dir);
    SHOALI_TRY(shoali_tokenizer_of_characters(&t));
    const shoal_status status = shoali_tokenizer_write(t, path);
    shoali_tokenizer_close(t);
    return status;
}

static shoal_status make(reader *r, shoal_text_info *info_out)
{
    const shoal_text_desc *d = r->desc;
    *info_out = (shoal_text_info){0};
    SHOALI_TRY(shoali_text_find(r->arena, d, &r->documents));
    SHOALI_TRY(read_all(r, info_out));
    for (int split = 0; split < 2; split++)
        if (r->splits[split].sequences == 0)
            return shoali_fail(
                SHOAL_EINVAL,
                "%s%s less than one sequence of %u characters to %s; the last tenth is for tests",
                r->documents.paths[0],
                r->documents.count > 1 ? " and the other files hold" : " holds", r->length,
                split == 0 ? "train on" : "test on");
    SHOALI_TRY(shoali_text_folder(d->dir, "sequence"));
    SHOALI_TRY(write_characters(d->dir));
    SHOALI_TRY(write_split(r, "test", &r->splits[1]));
    SHOALI_TRY(write_split(r, "train", &r->splits[0]));
    info_out->train_sequences = r->splits[0].sequences;
    info_out->test_sequences = r->splits[1].sequences;
    info_out->length = r->length;
    info_out->vocabulary = ALPHABET;
    return SHOAL_OK;
}

shoal_status shoal_text_make(const shoal_text_desc *desc, shoal_text_info *info_out)
{
    if (desc == NULL || desc->size != sizeof *desc || desc->dir == NULL ||
        desc->length > SHOALI_SEQUENCE_FRAMES_MAX || info_out == NULL)
        return shoali_fail(SHOAL_EINVAL,
                           "shoal_text_desc: start from SHOAL_TEXT_DESC_INIT, name a "
                           "directory, length at most %d",
                           SHOALI_SEQUENCE_FRAMES_MAX);
    if (desc->tokens != NULL && strcmp(desc->tokens, "characters") != 0)
        return shoali_text_tokens(desc, info_out);
    reader r = {.arena = shoali_arena_create(1 << 16),
                .desc = desc,
                .length = desc->length > 0 ? desc->length : 128};
    shoal_status status = r.arena != NULL ? make(&r, info_out) : SHOAL_ENOMEM;
    shoali_arena_destroy(r.arena);
    return status;
}
