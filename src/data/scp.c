/* SPDX-License-Identifier: Apache-2.0 */
/* Speech as Kaldi and HTK keep it: train.scp and test.scp, a line for each utterance, "NAME PATH"
 * or "NAME PATH:OFFSET" (relative paths start at the directory); the frames are Kaldi's or HTK's
 * (feature_file.h). Labels stand in train.ali and test.ali, a line for each utterance: "NAME LABEL
 * LABEL ...", one whole number per frame, as Kaldi's int vectors in text form. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/read_file.h"
#include "data/feature_file.h"
#include "data/sequence.h"

enum { PATH_BYTES = 4096, LIST_BYTES_MAX = 1 << 30 };
static const size_t archive_bytes_max = (size_t)1 << 36;

/* A line of a list: its name, and what follows it. Both end in 0. */
typedef struct line {
    const char *name;
    char *rest;
    uint32_t number;
} line;

typedef struct list {
    char path[PATH_BYTES];
    char *text; /* shoali_free */
    line *lines;
    uint32_t count;
} list;

/* ---------------------------------------------------------------- lists */

static shoal_status path_in(char out[PATH_BYTES], const char *dir, const char *name,
                            const char *suffix)
{
    if (snprintf(out, PATH_BYTES, "%s/%s%s", dir, name, suffix) < PATH_BYTES)
        return SHOAL_OK;
    return shoali_fail(SHOAL_EINVAL, "path is too long: %s", dir);
}

static shoal_status bad_line(const list *l, uint32_t number, const char *reason)
{
    return shoali_fail(SHOAL_ECORRUPT, "%s, line %u: %s", l->path, number, reason);
}

/* "NAME REST" */
static shoal_status cut_line(const list *l, char *text, uint32_t number, line *out)
{
    text += strspn(text, " \t");
    char *end = text + strcspn(text, " \t\r");
    if (end == text || *end == '\0')
        return bad_line(l, number, "a name, a blank and something behind it is expected");
    char *rest = end + strspn(end, " \t");
    *end = '\0';
    for (size_t n = strlen(rest); n > 0 && (rest[n - 1] == '\r' || rest[n - 1] == ' '); n--)
        rest[n - 1] = '\0';
    *out = (line){text, rest, number};
    return SHOAL_OK;
}

static shoal_status open_list(const char *dir, const char *split, const char *suffix,
                              shoal_arena *arena, list *l)
{
    size_t bytes = 0, most = 1;
    SHOALI_TRY(path_in(l->path, dir, split, suffix));
    SHOALI_TRY(shoali_read_file(l->path, LIST_BYTES_MAX, &l->text, &bytes));
    if (memchr(l->text, '\0', bytes) != NULL)
        return shoali_fail(SHOAL_ECORRUPT, "%s is no text: it holds a byte 0", l->path);
    for (size_t i = 0; i < bytes; i++)
        most += l->text[i] == '\n';
    l->lines = shoali_arena_array(arena, most, sizeof *l->lines);
    if (l->lines == NULL)
        return SHOAL_ENOMEM;
    uint32_t number = 0;
    for (char *at = l->text, *next; at != NULL && *at != '\0'; at = next) {
        next = strchr(at, '\n');
        if (next != NULL)
            *next++ = '\0';
        number++;
        if (at[strspn(at, " \t\r")] != '\0')
            SHOALI_TRY(cut_line(l, at, number, &l->lines[l->count++]));
    }
    return l->count > 0 ? SHOAL_OK : shoali_fail(SHOAL_ECORRUPT, "%s names no utterance", l->path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const line *)a)->name, ((const line *)b)->name);
}

/* ---------------------------------------------------------------- frames */

/* The file that was read last: archives hold many utterances. */
typedef struct archive {
    char path[PATH_BYTES], *bytes;
    size_t len_bytes;
} archive;

static shoal_status open_archive(archive *a, const char *dir, const char *name)
{
    char path[PATH_BYTES];
    if (name[0] == '/')
        SHOALI_TRY(path_in(path, "", name + 1, ""));
    else
        SHOALI_TRY(path_in(path, dir, name, ""));
    if (a->bytes != NULL && strcmp(a->path, path) == 0)
        return SHOAL_OK;
    shoali_free(a->bytes);
    a->bytes = NULL;
    SHOALI_TRY(shoali_read_file(path, archive_bytes_max, &a->bytes, &a->len_bytes));
    memcpy(a->path, path, sizeof path);
    return SHOAL_OK;
}

/* "PATH" or "PATH:OFFSET". */
static shoal_status read_frames(archive *a, const char *dir, const list *l, line *utterance,
                                shoal_arena *arena, shoali_feature_matrix *m)
{
    char *colon = strrchr(utterance->rest, ':'), *end = NULL;
    unsigned long long offset = 0;
    if (colon != NULL && colon[1] >= '0' && colon[1] <= '9') {
        offset = strtoull(colon + 1, &end, 10);
        if (*end != '\0')
            return bad_line(l, utterance->number, "no number behind the colon");
        *colon = '\0';
    }
    if (strchr(utterance->rest, '|') != NULL)
        return bad_line(l, utterance->number, "commands are not run; write the features to a file");
    SHOALI_TRY(open_archive(a, dir, utterance->rest));
    return shoali_feature_matrix_read(a->path, (const uint8_t *)a->bytes, a->len_bytes,
                                      (size_t)offset, arena, m);
}

/* ---------------------------------------------------------------- labels */

static shoal_status read_labels(const list *l, const line *utterance, uint32_t frames,
                                uint16_t *labels, uint32_t *classes)
{
    const char *at = utterance->rest;
    for (uint32_t t = 0; t < frames; t++) {
        char *end = NULL;
        unsigned long label = strtoul(at, &end, 10);
        if (end == at || label >= SHOALI_DATA_CLASSES_MAX || *at == '-')
            return shoali_fail(SHOAL_ECORRUPT,
                               "%s, line %u: label %u of %u is missing or not in 0 .. %d", l->path,
                               utterance->number, t + 1, frames, SHOALI_DATA_CLASSES_MAX - 1);
        labels[t] = (uint16_t)label;
        *classes = label + 1 > *classes ? (uint32_t)label + 1 : *classes;
        at = end + strspn(end, " \t");
    }
    return *at == '\0'
               ? SHOAL_OK
               : bad_line(l, utterance->number, "more labels than the utterance has frames");
}

/* ---------------------------------------------------------------- a split */

typedef struct split_lists {
    list scp, ali;
    archive archive;
} split_lists;

static shoal_status join(split_lists *in, shoal_arena *arena, const shoali_feature_matrix *m,
                         shoali_sequences *s)
{
    uint32_t *lengths = shoali_arena_array(arena, s->count, sizeof *lengths);
    uint16_t *labels = shoali_arena_array(arena, (size_t)s->frames, sizeof *labels);
    float *x = shoali_arena_array(arena, (size_t)s->frames * s->values, sizeof *x);
    if (lengths == NULL || labels == NULL || x == NULL)
        return SHOAL_ENOMEM;
    s->lengths = lengths;
    s->labels = labels;
    s->x = x;
    qsort(in->ali.lines, in->ali.count, sizeof *in->ali.lines, by_name);
    for (uint32_t i = 0; i < s->count; i++) {
        const size_t count = (size_t)m[i].frames * m[i].values;
        const line *own = bsearch(&in->scp.lines[i], in->ali.lines, in->ali.count, sizeof *own,
                                  by_name);
        if (own == NULL)
            return shoali_fail(SHOAL_ECORRUPT, "%s has no labels of %s", in->ali.path,
                               in->scp.lines[i].name);
        SHOALI_TRY(read_labels(&in->ali, own, m[i].frames, labels, &s->classes));
        memcpy(x, m[i].x, count * sizeof *x);
        lengths[i] = m[i].frames;
        labels += m[i].frames;
        x += count;
    }
    return SHOAL_OK;
}

static shoal_status read_split(split_lists *in, const char *dir, const char *name,
                               shoal_arena *arena, shoali_sequences *s)
{
    SHOALI_TRY(open_list(dir, name, ".scp", arena, &in->scp));
    SHOALI_TRY(open_list(dir, name, ".ali", arena, &in->ali));
    shoali_feature_matrix *m = shoali_arena_array(arena, in->scp.count, sizeof *m);
    if (m == NULL)
        return SHOAL_ENOMEM;
    *s = (shoali_sequences){.count = in->scp.count};
    for (uint32_t i = 0; i < in->scp.count; i++) {
        SHOALI_TRY(read_frames(&in->archive, dir, &in->scp, &in->scp.lines[i], arena, &m[i]));
        s->frames += m[i].frames;
        if (m[i].values != m[0].values)
            return shoali_fail(SHOAL_ECORRUPT, "%s, line %u: frames of %u values, before of %u",
                               in->scp.path, in->scp.lines[i].number, m[i].values, m[0].values);
    }
    s->values = m[0].values;
    return join(in, arena, m, s);
}

static shoal_status load_split(const char *dir, const char *name, shoal_arena *arena,
                               shoali_sequences *s)
{
    split_lists *in = shoali_alloc(sizeof *in);
    if (in == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = read_split(in, dir, name, arena, s);
    shoali_free(in->scp.text);
    shoali_free(in->ali.text);
    shoali_free(in->archive.bytes);
    shoali_free(in);
    return status;
}

static shoal_status load_scp(const char *dir, shoali_dataset *dataset)
{
    shoali_sequences train = {0}, test = {0};
    SHOALI_TRY(load_split(dir, "train", dataset->arena, &train));
    SHOALI_TRY(load_split(dir, "test", dataset->arena, &test));
    return shoali_sequences_use(dataset, &train, &test);
}

const shoali_loader_row shoali_loader_scp = {
    .name = "scp",
    .help = "train.scp and test.scp of Kaldi or HTK features, labels in .ali "
            "(docs/sequence-models.md)",
    .probe = "train.scp",
    .load = load_scp,
};
