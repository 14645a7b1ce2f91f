/* SPDX-License-Identifier: Apache-2.0 */
/* Texts into files of tokens, one document in memory at a time: all are read once to tell which are
 * alike and which are to be tested with, once more to learn a vocabulary where one is asked for,
 * and once to be written. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/new_file.h"
#include "data/text.h"
#include "data/token_file.h"

enum { PATH_BYTES = 4096, USUAL_LENGTH = 128, SHARE = 10 };
typedef enum { TRAIN, TEST, BOTH, LEFT_OUT } part;

typedef struct document {
    const char *path;
    uint64_t hash, bytes;
    part part;
} document;

typedef struct maker {
    shoal_arena *arena;
    const shoal_text_desc *desc;
    uint32_t length;
    document *documents;
    size_t count;
    uint64_t bytes; /* of all */
    shoali_tokenizer *tokenizer;
    shoali_bpe_trainer *learner; /* NULL: the tokenizer is there */
    shoali_token_writer writers[2];
    bool writing[2];
    shoal_text_info info;
} maker;

/* ---------------------------------------------------------------- files and folders */

shoal_status shoali_text_find(shoal_arena *arena, const shoal_text_desc *desc,
                              shoali_documents *documents_out)
{
    return desc->file_count > 0
               ? shoali_documents_find(arena, desc->files, desc->file_count, documents_out)
               : shoali_documents_of_debian(arena, documents_out);
}

static shoal_status path_in(const char *dir, const char *name, char out[PATH_BYTES])
{
    return snprintf(out, PATH_BYTES, "%s/%s", dir, name) < PATH_BYTES
               ? SHOAL_OK
               : shoali_fail(SHOAL_EINVAL, "path is too long: %s", dir);
}

shoal_status shoali_text_folder(const char *dir, const char *loader)
{
    char path[PATH_BYTES];
    const shoali_loader_row *row;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot make the directory %s", dir);
    for (size_t i = 0; (row = shoali_loader_at(i)) != NULL; i++) {
        SHOALI_TRY(path_in(dir, row->probe, path));
        if (strcmp(row->name, loader) != 0 && access(path, F_OK) == 0) {
            (void)shoali_fail(SHOAL_EINVAL, "%s holds another data set, as %s says", dir,
                              row->probe);
            shoali_error_advice("Use another directory, or remove that one.");
            return SHOAL_EINVAL;
        }
    }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- which documents */

static void tell(const maker *m, const char *what, uint64_t done)
{
    if (m->desc->tell != NULL)
        m->desc->tell(m->desc->ctx, what, (double)done, (double)m->bytes);
}

static uint64_t hash_of(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (uint8_t)text[i]) * UINT64_C(0x100000001B3);
    return hash;
}

static shoal_status measure(maker *m, const shoali_documents *found)
{
    m->documents = shoali_arena_array(m->arena, found->count, sizeof *m->documents);
    if (m->documents == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0; i < found->count; i++) {
        char *text = NULL;
        size_t length = 0;
        SHOALI_TRY(shoali_document_read(found->paths[i], &text, &length));
        if (text != NULL && length > 0)
            m->documents[m->count++] = (document){found->paths[i], hash_of(text, length), length,
                                                  TRAIN};
        m->info.binary += text == NULL;
        shoali_free(text);
        if (m->desc->tell != NULL)
            m->desc->tell(m->desc->ctx, "files looked at", (double)i + 1, (double)found->count);
    }
    return SHOAL_OK;
}

static int by_hash(const void *a, const void *b)
{
    const document *one = a, *other = b;
    if (one->hash != other->hash)
        return one->hash < other->hash ? -1 : 1;
    return one->bytes != other->bytes ? (one->bytes < other->bytes ? -1 : 1)
                                      : strcmp(one->path, other->path);
}

/* In the order of their hashes, which is nobody's choice, the test set takes what fits into a tenth
 * of all bytes. Less than half of that is too little to test with: few documents, or large ones. */
static void divide(maker *m)
{
    uint64_t test = 0;
    qsort(m->documents, m->count, sizeof *m->documents, by_hash);
    for (size_t i = 0; i < m->count; i++) {
        document *d = &m->documents[i];
        const bool again = i > 0 && d->hash == d[-1].hash && d->bytes == d[-1].bytes;
        d->part = again ? LEFT_OUT : TRAIN;
        m->info.repeated += again;
        m->info.documents += !again;
        m->bytes += again ? 0 : d->bytes;
    }
    for (size_t i = 0; i < m->count; i++) {
        document *d = &m->documents[i];
        if (d->part == TRAIN && test + d->bytes <= m->bytes / SHARE) {
            d->part = TEST;
            test += d->bytes;
        }
    }
    for (size_t i = 0; i < m->count && test < m->bytes / SHARE / 2; i++)
        if (m->documents[i].part != LEFT_OUT)
            m->documents[i].part = BOTH;
}

/* Where the tokens to test with begin: no character is cut. */
static size_t border_of(const document *d, const char *text, size_t length)
{
    size_t border = d->part == TEST ? 0 : d->part == TRAIN ? length : length - length / SHARE;
    while (border > 0 && border < length && ((uint8_t)text[border] & 0xC0) == 0x80)
        border--;
    return border;
}

/* Read a document that was measured; it may have changed since. */
static shoal_status read_again(const document *d, char **text_out, size_t *length_out)
{
    SHOALI_TRY(shoali_document_read(d->path, text_out, length_out));
    if (*text_out != NULL && *length_out == d->bytes && hash_of(*text_out, d->bytes) == d->hash)
        return SHOAL_OK;
    shoali_free(*text_out);
    return shoali_fail(SHOAL_EIO, "%s changes while it is read", d->path);
}

static shoal_status each(maker *m, const char *what, void *ctx,
                         shoal_status (*use)(maker *m, void *ctx, const char *text, size_t border,
                                             size_t length))
{
    uint64_t done = 0;
    for (size_t i = 0; i < m->count; i++) {
        const document *d = &m->documents[i];
        char *text = NULL;
        size_t length = 0;
        if (d->part == LEFT_OUT)
            continue;
        SHOALI_TRY(read_again(d, &text, &length));
        const shoal_status status = use(m, ctx, text, border_of(d, text, length), length);
        shoali_free(text);
        SHOALI_TRY(status);
        tell(m, what, done += d->bytes);
    }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- the tokenizer */

static shoal_status learn_from(maker *m, void *ctx, const char *text, size_t border, size_t length)
{
    (void)m;
    (void)length;
    return shoali_bpe_add(ctx, text, border);
}

/* A learner that has read nothing yet. */
static shoal_status open_learner(maker *m, const char *count)
{
    char *end = NULL;
    const unsigned long wanted = strtoul(count, &end, 10);
    if (*count < '0' || *count > '9' || *end != '\0' || wanted > UINT32_MAX)
        return shoali_fail(SHOAL_EINVAL, "tokens \"bpe=%s\": bpe=N has a whole number", count);
    return shoali_bpe_create((uint32_t)wanted, &m->learner);
}

static shoal_status open_tokenizer(maker *m)
{
    const char *tokens = m->desc->tokens;
    if (strcmp(tokens, "bytes") == 0)
        return shoali_tokenizer_of_bytes(&m->tokenizer);
    if (strncmp(tokens, "bpe=", 4) == 0)
        return open_learner(m, tokens + 4);
    if (access(tokens, F_OK) != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "tokens \"%s\": characters, bytes, bpe=N, or the path of a "
                           "tokenizer.json or vocab.txt, and there is no such file",
                           tokens);
    SHOALI_TRY(shoali_tokenizer_open(tokens, &m->tokenizer));
    return shoali_tokenizer_is_characters(m->tokenizer)
               ? shoali_fail(SHOAL_EINVAL, "%s is that of characters: tokens \"characters\"",
                             tokens)
               : SHOAL_OK;
}

/* ---------------------------------------------------------------- writing */

/* A text's tokens and, where it ends, what says so. */
static shoal_status write_part(maker *m, int split, const char *text, size_t length, bool ends)
{
    shoali_ids ids = {0};
    const uint32_t end = shoali_tokenizer_end(m->tokenizer);
    if (length == 0)
        return SHOAL_OK;
    shoal_status status = shoali_tokenizer_encode(m->tokenizer, text, length, false, &ids);
    if (status == SHOAL_OK)
        shoali_tokens_append(&m->writers[split], &ids);
    uint16_t last = (uint16_t)end;
    const shoali_ids mark = {&last, ends && end != SHOALI_NO_TOKEN, 1};
    if (status == SHOAL_OK)
        shoali_tokens_append(&m->writers[split], &mark);
    shoali_ids_free(&ids);
    return status;
}

static shoal_status write_one(maker *m, void *ctx, const char *text, size_t border, size_t length)
{
    (void)ctx;
    SHOALI_TRY(write_part(m, TRAIN, text, border, border == length));
    return write_part(m, TEST, text + border, length - border, true);
}

static shoal_status write_sources(const maker *m)
{
    static const char *const parts[] = {"train", "test", "both: its end is tested with",
                                        "left out: another one's words"};
    char path[PATH_BYTES];
    shoali_new_file out;
    SHOALI_TRY(path_in(m->desc->dir, "sources.txt", path));
    SHOALI_TRY(shoali_new_file_open(path, &out));
    fputs("The texts of this data set, in its order. They are under their authors' licences: of a "
          "file in\n/usr/share/doc/PACKAGE, /usr/share/doc/PACKAGE/copyright says which.\n\n",
          out.file);
    for (size_t i = 0; i < m->count; i++)
        fprintf(out.file, "%s\t%llu bytes\t%s\n", m->documents[i].path,
                (unsigned long long)m->documents[i].bytes, parts[m->documents[i].part]);
    return shoali_new_file_commit(&out);
}

/* train.shoaltok comes last: with it this is a data set. */
static shoal_status finish(maker *m)
{
    char path[PATH_BYTES];
    for (int split = 0; split < 2; split++) {
        if (m->writers[split].count <= m->length)
            return shoali_fail(SHOAL_EINVAL,
                               "%s and the other files hold %llu tokens to %s, which is less than "
                               "one sequence of %u; about a tenth is for tests",
                               m->documents[0].path, (unsigned long long)m->writers[split].count,
                               split == TRAIN ? "train on" : "test on", m->length);
        m->info.tokens += m->writers[split].count;
    }
    m->info.train_sequences = (m->writers[TRAIN].count - 1) / m->length;
    m->info.test_sequences = (m->writers[TEST].count - 1) / m->length;
    SHOALI_TRY(path_in(m->desc->dir, "tokenizer.json", path));
    SHOALI_TRY(shoali_tokenizer_write(m->tokenizer, path));
    SHOALI_TRY(write_sources(m));
    for (int split = 1; split >= 0; split--) {
        m->writing[split] = false;
        SHOALI_TRY(shoali_tokens_finish(&m->writers[split], m->tokenizer, m->length));
    }
    return SHOAL_OK;
}

static shoal_status write_all(maker *m)
{
    static const char *const names[] = {"train.shoaltok", "test.shoaltok"};
    char path[PATH_BYTES];
    for (int split = 0; split < 2; split++) {
        SHOALI_TRY(path_in(m->desc->dir, names[split], path));
        SHOALI_TRY(shoali_tokens_begin(path, &m->writers[split]));
        m->writing[split] = true;
    }
    SHOALI_TRY(each(m, "bytes written", NULL, write_one));
    return finish(m);
}

static shoal_status make(maker *m)
{
    shoali_documents found = {0};
    SHOALI_TRY(open_tokenizer(m));
    SHOALI_TRY(shoali_text_find(m->arena, m->desc, &found));
    SHOALI_TRY(measure(m, &found));
    if (m->count == 0)
        return shoali_fail(SHOAL_EINVAL, "%s and the other files hold no text", found.paths[0]);
    divide(m);
    SHOALI_TRY(shoali_text_folder(m->desc->dir, "tokens"));
    if (m->learner != NULL) {
        SHOALI_TRY(each(m, "bytes counted", m->learner, learn_from));
        SHOALI_TRY(shoali_bpe_learn(m->learner, &m->tokenizer));
    }
    return write_all(m);
}

shoal_status shoali_text_tokens(const shoal_text_desc *desc, shoal_text_info *info_out)
{
    maker m = {.arena = shoali_arena_create(1 << 16),
               .desc = desc,
               .length = desc->length > 0 ? desc->length : USUAL_LENGTH};
    shoal_status status = m.arena != NULL ? make(&m) : SHOAL_ENOMEM;
    for (int split = 0; split < 2; split++)
        if (m.writing[split])
            shoali_new_file_discard(&m.writers[split].file);
    if (status == SHOAL_OK) {
        m.info.length = m.length;
        m.info.vocabulary = shoali_tokenizer_count(m.tokenizer);
        m.info.bytes = m.bytes;
        *info_out = m.info;
    }
    shoali_bpe_destroy(m.learner);
    shoali_tokenizer_close(m.tokenizer);
    shoali_arena_destroy(m.arena);
    return status;
}
