/* SPDX-License-Identifier: Apache-2.0 */
#include "data/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "data/input.h"
#include "data/sequence.h"

enum { HEAD_BYTES = 40, PIECE_TOKENS = 1 << 21 };
static const char magic[8] = {'S', 'H', 'O', 'A', 'L', 'T', 'O', 'K'};

/* ---------------------------------------------------------------- writing */

shoal_status shoali_tokens_begin(const char *path, shoali_token_writer *w)
{
    static const uint8_t head[HEAD_BYTES];
    w->count = 0;
    SHOALI_TRY(shoali_new_file_open(path, &w->file));
    (void)fwrite(head, 1, sizeof head, w->file.file);
    return SHOAL_OK;
}

void shoali_tokens_append(shoali_token_writer *w, const shoali_ids *ids)
{
    (void)fwrite(ids->ids, sizeof *ids->ids, ids->count, w->file.file); /* commit tells */
    w->count += ids->count;
}

static void put_double_word(uint8_t *to, uint64_t value)
{
    shoali_put_word(to, (uint32_t)value);
    shoali_put_word(to + 4, (uint32_t)(value >> 32));
}

shoal_status shoali_tokens_finish(shoali_token_writer *w, const shoali_tokenizer *tokenizer,
                                  uint32_t length)
{
    uint8_t head[HEAD_BYTES] = {0};
    memcpy(head, magic, sizeof magic);
    shoali_put_word(head + 8, 1);
    shoali_put_word(head + 12, shoali_tokenizer_count(tokenizer));
    put_double_word(head + 16, w->count);
    put_double_word(head + 24, shoali_tokenizer_mark(tokenizer));
    shoali_put_word(head + 32, length);
    if (fseek(w->file.file, 0, SEEK_SET) == 0)
        (void)fwrite(head, 1, sizeof head, w->file.file);
    return shoali_new_file_commit(&w->file);
}

/* ---------------------------------------------------------------- reading */

static uint64_t double_word(const uint8_t *b)
{
    return shoali_word(b) | (uint64_t)shoali_word(b + 4) << 32;
}

static shoal_status corrupt(const char *path, uint64_t offset, const char *what)
{
    return shoali_fail(SHOAL_ECORRUPT, "%s, byte %" PRIu64 ": %s", path, offset, what);
}

/* bytes >= HEAD_BYTES. */
static shoal_status check_head(const char *path, const uint8_t *head, uint64_t bytes,
                               const shoali_tokenizer *tokenizer)
{
    const uint32_t length = shoali_word(head + 32);
    const uint64_t tokens = double_word(head + 16);
    if (memcmp(head, magic, sizeof magic) != 0)
        return corrupt(path, 0, "no file of tokens: it does not start with SHOALTOK");
    if (shoali_word(head + 8) != 1)
        return corrupt(path, 8, "not of version 1, which this program reads");
    if (length == 0 || length > SHOALI_SEQUENCE_FRAMES_MAX)
        return corrupt(path, 32, "the length of a sample is not 1 to 65536");
    if (tokens > (bytes - HEAD_BYTES) / sizeof(uint16_t) ||
        tokens * sizeof(uint16_t) != bytes - HEAD_BYTES)
        return corrupt(path, 16, "the file is not as long as its tokens");
    if (tokens <= length || (tokens - 1) / length > UINT32_MAX)
        return corrupt(path, 16, "less than one sample of tokens, or more than 2^32");
    if (shoali_word(head + 12) != shoali_tokenizer_count(tokenizer) ||
        double_word(head + 24) != shoali_tokenizer_mark(tokenizer))
        return shoali_fail(SHOAL_ECORRUPT,
                           "%s was made by another tokenizer (%u tokens) than the tokenizer.json "
                           "beside it (%u)",
                           path, shoali_word(head + 12), shoali_tokenizer_count(tokenizer));
    return SHOAL_OK;
}

static shoal_status map_file(const char *path, shoali_map *map)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot open %s", path);
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < HEAD_BYTES) {
        close(fd);
        return corrupt(path, 0, "no regular file of at least 40 bytes");
    }
    void *memory = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
    const int error = errno;
    close(fd);
    if (memory == MAP_FAILED)
        return shoali_fail_os(SHOAL_EIO, error, "cannot map %s", path);
    *map = (shoali_map){memory, (size_t)info.st_size};
    return SHOAL_OK;
}

/* All are looked at once; their pages go back on the way. */
static shoal_status check_tokens(const char *path, const shoali_map *map, const uint16_t *tokens,
                                 uint64_t count, uint32_t classes)
{
    (void)madvise(map->memory, map->bytes, MADV_SEQUENTIAL);
    for (uint64_t i = 0; i < count; i++) {
        if (i % PIECE_TOKENS == PIECE_TOKENS - 1)
            (void)madvise(map->memory, sizeof *tokens * i, MADV_DONTNEED);
        if (tokens[i] >= classes)
            return shoali_fail(SHOAL_ECORRUPT, "%s, byte %" PRIu64 ": token %u of %u", path,
                               HEAD_BYTES + 2 * i, tokens[i], classes);
    }
    (void)madvise(map->memory, map->bytes, MADV_DONTNEED);
    (void)madvise(map->memory, map->bytes, MADV_RANDOM);
    return SHOAL_OK;
}

static shoal_status load_split(const char *dir, const char *name, shoali_dataset *d,
                               const shoali_tokenizer *tokenizer, shoali_map *map,
                               shoali_split *split)
{
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
        return shoali_fail(SHOAL_EINVAL, "path is too long: %s", dir);
    SHOALI_TRY(map_file(path, map));
    SHOALI_TRY(check_head(path, map->memory, map->bytes, tokenizer));
    const uint8_t *head = map->memory;
    const uint64_t count = double_word(head + 16);
    split->stream = (const uint16_t *)(const void *)(head + HEAD_BYTES);
    split->length = shoali_word(head + 32);
    split->count = (uint32_t)((count - 1) / split->length);
    d->height = split->length > d->height ? split->length : d->height;
    return check_tokens(path, map, split->stream, count, d->classes);
}

static shoal_status weigh(const shoali_tokenizer *tokenizer, shoali_dataset *d)
{
    uint32_t *weights = shoali_arena_array(d->arena, d->classes, sizeof *weights);
    if (weights == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < d->classes; i++)
        weights[i] = shoali_tokenizer_weight(tokenizer, i);
    d->token_bytes = weights;
    return SHOAL_OK;
}

static shoal_status load_tokens(const char *dir, shoali_dataset *d)
{
    char path[4096];
    shoali_tokenizer *tokenizer = NULL;
    if ((size_t)snprintf(path, sizeof path, "%s/tokenizer.json", dir) >= sizeof path)
        return shoali_fail(SHOAL_EINVAL, "path is too long: %s", dir);
    SHOALI_TRY(shoali_tokenizer_open(path, &tokenizer));
    d->channels = d->width = 1;
    d->classes = shoali_tokenizer_count(tokenizer);
    d->sequences = d->tokens = true;
    shoal_status status = weigh(tokenizer, d);
    if (status == SHOAL_OK)
        status = load_split(dir, "train.shoaltok", d, tokenizer, &d->maps[0], &d->train);
    if (status == SHOAL_OK)
        status = load_split(dir, "test.shoaltok", d, tokenizer, &d->maps[1], &d->test);
    shoali_tokenizer_close(tokenizer);
    return status;
}

const shoali_loader_row shoali_loader_tokens = {
    .name = "tokens",
    .help = "train.shoaltok, test.shoaltok and tokenizer.json (docs/data.md)",
    .probe = "train.shoaltok",
    .load = load_tokens,
};

/* ---------------------------------------------------------------- using */

/* Somebody may write into a file that is mapped: what is no token is 0 then. */
void shoali_dataset_fill_tokens(const shoali_dataset *d, const shoali_split *split,
                                const uint32_t *indices, uint32_t count, uint32_t frames,
                                float *x_out, uint32_t *labels_out, uint32_t *lengths_out)
{
    for (uint32_t n = 0; n < count; n++, x_out += frames, labels_out += frames) {
        const uint16_t *from = split->stream + (uint64_t)indices[n] * split->length;
        for (uint32_t t = 0; t < split->length; t++) {
            x_out[t] = from[t] < d->classes ? from[t] : 0;
            labels_out[t] = from[t + 1] < d->classes ? from[t + 1] : 0;
        }
        memset(x_out + split->length, 0, (frames - split->length) * sizeof *x_out);
        lengths_out[n] = split->length;
    }
}

double shoali_dataset_bits_per_byte(const shoali_dataset *d, const shoali_split *split,
                                    uint64_t samples, double loss)
{
    uint64_t bytes = 0;
    if (d->token_bytes == NULL || samples > split->count)
        return (double)NAN;
    const uint64_t tokens = samples * split->length;
    for (uint64_t i = 1; i <= tokens; i++)
        bytes += split->stream[i] < d->classes ? d->token_bytes[split->stream[i]] : 0;
    return bytes > 0 ? loss * (double)tokens / M_LN2 / (double)bytes : (double)NAN;
}
