/* SPDX-License-Identifier: Apache-2.0 */
/* ASTRA-sim 1.0 text workloads: one layer per line, twelve fields (planning.md 3.2); ASTRA-sim's
 * own files begin with a line that names the parallelism and one with the number of layers. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/read_file.h"
#include "model/import.h"

enum { FIELDS = 12, NAME_MAX_BYTES = 128 };

static const char *const kind_names[] = {"none",       "reduce_scatter", "all_gather",
                                         "all_reduce", "all_to_all",     "send"};
static const char *const file_names[] = {"NONE", "REDUCESCATTER", "ALLGATHER", "ALLREDUCE",
                                         "ALLTOALL"};

const char *shoali_comm_kind_name(shoali_comm_kind kind)
{
    return kind_names[kind];
}

const char *shoali_phase_name(shoali_phase_kind phase)
{
    static const char *const names[] = {"forward", "input_grad", "weight_grad"};
    return names[phase];
}

/* A piece of the text: [at, at + len). */
typedef struct word {
    const char *at;
    size_t len;
} word;

typedef struct lines {
    const char *name, *at, *end;
    uint32_t number; /* of the line just taken */
} lines;

/* Split the next line into at most FIELDS + 1 words; false at the end of the text. */
static bool next_line(lines *l, word *words, uint32_t *count)
{
    if (l->at == l->end)
        return false;
    l->number++;
    for (*count = 0; l->at < l->end && *l->at != '\n';) {
        const char *begin = l->at;
        while (l->at < l->end && !isspace((unsigned char)*l->at))
            l->at++;
        if (l->at > begin && *count <= FIELDS)
            words[(*count)++] = (word){begin, (size_t)(l->at - begin)};
        while (l->at < l->end && *l->at != '\n' && isspace((unsigned char)*l->at))
            l->at++;
    }
    l->at += l->at < l->end;
    return true;
}

static shoal_status refuse(const lines *l, const char *what, word found)
{
    int len = found.len > 32 ? 32 : (int)found.len;
    return shoali_fail(SHOAL_ECORRUPT, "%s:%u: %s; found '%.*s'", l->name, l->number, what, len,
                       found.at);
}

/* A whole number that a double holds exactly. */
static bool whole(word w, double *out)
{
    uint64_t value = 0;
    if (w.len == 0 || w.len > 15)
        return false;
    for (size_t i = 0; i < w.len; i++) {
        if (!isdigit((unsigned char)w.at[i]))
            return false;
        value = value * 10 + (uint64_t)(w.at[i] - '0');
    }
    *out = (double)value;
    return true;
}

static shoal_status read_phase(const lines *l, const word *words, shoali_phase *out)
{
    size_t kind = 0;
    if (!whole(words[0], &out->compute_ns))
        return refuse(l, "a compute time must be a whole number of ns below 1e15", words[0]);
    while (kind < 5 && (strlen(file_names[kind]) != words[1].len ||
                        strncasecmp(file_names[kind], words[1].at, words[1].len) != 0))
        kind++;
    if (kind == 5)
        return refuse(l, "known: NONE, REDUCESCATTER, ALLGATHER, ALLREDUCE, ALLTOALL", words[1]);
    out->comm = (shoali_comm_kind)kind;
    if (!whole(words[2], &out->bytes))
        return refuse(l, "a size must be a whole number of bytes below 1e15", words[2]);
    return SHOAL_OK;
}

static shoal_status copy_word(word w, shoal_arena *arena, const char **out)
{
    size_t len = w.len < NAME_MAX_BYTES ? w.len : NAME_MAX_BYTES - 1;
    char *copy = shoali_arena_alloc(arena, len + 1);
    if (copy == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0; i < len; i++)
        copy[i] = isgraph((unsigned char)w.at[i]) ? w.at[i] : '?';
    *out = copy;
    return SHOAL_OK;
}

static shoal_status read_row(const lines *l, const word *words, uint32_t count, shoal_arena *arena,
                             shoali_workload_row *out)
{
    if (count != FIELDS)
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s:%u: %u fields; a row has 12: name -1, then time, collective and "
                           "bytes of forward, input gradient and weight gradient, then update",
                           l->name, l->number, count);
    SHOALI_TRY(copy_word(words[0], arena, &out->name));
    for (uint32_t p = 0; p < SHOALI_PHASES; p++)
        SHOALI_TRY(read_phase(l, &words[2 + 3 * p], &out->phase[p]));
    return SHOAL_OK;
}

static uint32_t count_lines(const char *text, size_t len_bytes)
{
    uint32_t count = 1;
    for (size_t i = 0; i < len_bytes; i++)
        count += text[i] == '\n';
    return count;
}

/* ASTRA-sim's header; rows_out: what it promises. */
static shoal_status read_header(lines *l, word *words, uint32_t *count, shoal_arena *arena,
                                const char **parallelism_out, double *rows_out)
{
    SHOALI_TRY(copy_word(words[0], arena, parallelism_out));
    if (!next_line(l, words, count) || *count != 1 || !whole(words[0], rows_out))
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s:2: after the parallelism stands the number of layers", l->name);
    if (!next_line(l, words, count))
        *count = 0;
    return SHOAL_OK;
}

shoal_status shoali_workload_parse(const char *name, const char *text, size_t len_bytes,
                                   shoal_arena *arena, shoali_workload *out)
{
    lines l = {.name = name, .at = text, .end = text + len_bytes};
    word words[FIELDS + 1];
    uint32_t count = 0, capacity = count_lines(text, len_bytes);
    double promised = -1;
    *out = (shoali_workload){.parallelism = ""};
    if (len_bytes > SHOALI_IMPORT_TEXT_MAX || capacity > SHOALI_WORKLOAD_ROWS_MAX)
        return shoali_fail(SHOAL_ECORRUPT, "%s: more than %d layers", name,
                           SHOALI_WORKLOAD_ROWS_MAX);
    out->rows = shoali_arena_array(arena, capacity, sizeof *out->rows);
    if (out->rows == NULL)
        return SHOAL_ENOMEM;
    bool more = next_line(&l, words, &count);
    if (more && count > 0 && count != FIELDS && isupper((unsigned char)words[0].at[0])) {
        SHOALI_TRY(read_header(&l, words, &count, arena, &out->parallelism, &promised));
        more = count > 0;
    }
    for (; more; more = next_line(&l, words, &count)) {
        SHOALI_TRY(read_row(&l, words, count, arena, &out->rows[out->row_count]));
        out->row_count++;
    }
    if (out->row_count == 0)
        return shoali_fail(SHOAL_ECORRUPT, "%s: no layers", name);
    if (promised >= 0 && promised != out->row_count)
        return shoali_fail(SHOAL_ECORRUPT, "%s: %u layers; its header says %.0f", name,
                           out->row_count, promised);
    return SHOAL_OK;
}

shoal_status shoali_workload_load(const char *path, shoal_arena *arena, shoali_workload *out)
{
    char *text;
    size_t len_bytes;
    SHOALI_TRY(shoali_read_file(path, SHOALI_IMPORT_TEXT_MAX, &text, &len_bytes));
    shoal_status status = shoali_workload_parse(path, text, len_bytes, arena, out);
    shoali_free(text);
    return status;
}
