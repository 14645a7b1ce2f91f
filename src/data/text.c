/* SPDX-License-Identifier: Apache-2.0 */
/* Text as sequences of characters, each labelled with the next one. Letters become small, blanks
 * and line ends are never repeated, lines of manual pages that are commands (. or ') are left out;
 * the last tenth of each file is the test set. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/read_file.h"
#include "data/sequence.h"
#include "data/tokenizer_inner.h"
#include "shoal/data.h"

/* Token 0 is every other character. */
const char shoali_characters[] =
    "\n abcdefghijklmnopqrstuvwxyz0123456789.,;:!?'\"()-/_*<>[]{}=+#@&";
enum { ALPHABET = sizeof shoali_characters, FILE_BYTES_MAX = 1 << 28, PATH_BYTES = 4096 };
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

static shoal_status read_all(reader *r)
{
    const shoal_text_desc *d = r->desc;
    size_t total = 0, most = 0;
    struct stat info;
    for (uint32_t i = 0; i < d->file_count; i++) {
        if (stat(d->files[i], &info) != 0)
            return shoali_fail_os(SHOAL_EIO, errno, "cannot read %s", d->files[i]);
        if (!S_ISREG(info.st_mode) || info.st_size > FILE_BYTES_MAX)
            return shoali_fail(SHOAL_EIO, "%s is no regular file of at most %d MiB", d->files[i],
                               FILE_BYTES_MAX >> 20);
        total += (size_t)info.st_size;
        most = (size_t)info.st_size > most ? (size_t)info.st_size : most;
    }
    uint8_t *clean_text = shoali_arena_alloc(r->arena, most);
    char *text = shoali_arena_alloc(r->arena, most);
    SHOALI_TRY(reserve(r, &r->splits[0], total));
    SHOALI_TRY(reserve(r, &r->splits[1], total));
    if (text == NULL || clean_text == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < d->file_count; i++) {
        FILE *file;
        SHOALI_TRY(shoali_open_file(d->files[i], &file));
        size_t bytes = fread(text, 1, most, file);
        bool bad = ferror(file) != 0;
        fclose(file);
        if (bad)
            return shoali_fail(SHOAL_EIO, "cannot read %s", d->files[i]);
        size_t count = shoali_characters_clean(text, bytes, clean_text),
               border = count - count / 10;
        cut(r, clean_text, 0, border, &r->splits[0]);
        cut(r, clean_text, border, count, &r->splits[1]);
    }
    return SHOAL_OK;
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

static shoal_status make(reader *r, shoal_text_info *info_out)
{
    const shoal_text_desc *d = r->desc;
    SHOALI_TRY(read_all(r));
    for (int split = 0; split < 2; split++)
        if (r->splits[split].sequences == 0)
            return shoali_fail(
                SHOAL_EINVAL,
                "%s%s less than one sequence of %u characters to %s; the last tenth is for tests",
                d->files[0], d->file_count > 1 ? " and the other files hold" : " holds", r->length,
                split == 0 ? "train on" : "test on");
    if (mkdir(d->dir, 0777) != 0 && errno != EEXIST)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot make the directory %s", d->dir);
    SHOALI_TRY(write_split(r, "test", &r->splits[1]));
    SHOALI_TRY(write_split(r, "train", &r->splits[0]));
    *info_out = (shoal_text_info){.train_sequences = r->splits[0].sequences,
                                  .test_sequences = r->splits[1].sequences,
                                  .length = r->length};
    return SHOAL_OK;
}

shoal_status shoal_text_make(const shoal_text_desc *desc, shoal_text_info *info_out)
{
    if (desc == NULL || desc->size != sizeof *desc || desc->dir == NULL || desc->file_count == 0 ||
        desc->length > SHOALI_SEQUENCE_FRAMES_MAX || info_out == NULL)
        return shoali_fail(SHOAL_EINVAL,
                           "shoal_text_desc: start from SHOAL_TEXT_DESC_INIT, name a "
                           "directory and files, length at most %d",
                           SHOALI_SEQUENCE_FRAMES_MAX);
    reader r = {.arena = shoali_arena_create(1 << 16),
                .desc = desc,
                .length = desc->length > 0 ? desc->length : 128};
    shoal_status status = r.arena != NULL ? make(&r, info_out) : SHOAL_ENOMEM;
    shoali_arena_destroy(r.arena);
    return status;
}
