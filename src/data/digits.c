/* SPDX-License-Identifier: Apache-2.0 */
/* shoal_digits: which glyph for which image, and the four IDX files. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/new_file.h"
#include "base/rng.h"
#include "data/distort.h"
#include "data/faces.h"
#include "shoal/data.h"

enum {
    IMAGE_BYTES = SHOALI_DIGIT_SIDE * SHOALI_DIGIT_SIDE,
    PER_STEP = 256,
    TEST_EVERY = 5,
    COUNT_MAX = 10000000
};

/* A split: the faces it may use and its two files. */
typedef struct part {
    const shoali_face **faces;
    uint32_t face_count;
    uint32_t count, done;
    uint64_t stream;
    shoali_new_file images, labels;
} part;

struct shoal_digits {
    shoal_arena *arena; /* everything below lives here */
    uint64_t seed;
    double hard;
    shoali_faces all;
    part parts[2]; /* train, test */
};

/* ---------------------------------------------------------------- opening */

static void write_head(FILE *file, uint32_t dims, uint32_t count)
{
    const uint32_t words[4] = {0x00000800u | dims, count, SHOALI_DIGIT_SIDE, SHOALI_DIGIT_SIDE};
    for (uint32_t i = 0; i <= dims; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            fputc((int)(words[i] >> shift & 255), file);
}

static shoal_status open_file(const char *dir, const char *prefix, const char *name, uint32_t dims,
                              uint32_t count, shoali_new_file *out)
{
    char path[4096];
    int len = snprintf(path, sizeof path, "%s/%s-%s-ubyte", dir, prefix, name);
    if (len < 0 || (size_t)len >= sizeof path)
        return shoali_fail(SHOAL_EINVAL, "the path of %s is too long", prefix);
    SHOALI_TRY(shoali_new_file_open(path, out));
    write_head(out->file, dims, count);
    return SHOAL_OK;
}

static shoal_status open_part(shoal_digits *d, const char *dir, const char *prefix, uint32_t count,
                              bool test)
{
    part *p = &d->parts[test];
    p->count = count;
    p->stream = shoali_mix(0x646967697473, test); /* "digits" */
    p->faces = shoali_arena_array(d->arena, d->all.count, sizeof *p->faces);
    if (p->faces == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < d->all.count; i++)
        if ((i % TEST_EVERY == TEST_EVERY - 1) == test)
            p->faces[p->face_count++] = &d->all.faces[i];
    SHOALI_TRY(open_file(dir, prefix, "images-idx3", 3, count, &p->images));
    return open_file(dir, prefix, "labels-idx1", 1, count, &p->labels);
}

static shoal_status fill(shoal_digits *d, const shoal_digits_desc *desc)
{
    uint32_t train = desc->train_count != 0 ? desc->train_count : 40000;
    uint32_t test = desc->test_count != 0 ? desc->test_count : 8000;
    d->seed = desc->seed != 0 ? desc->seed : 1;
    d->hard = desc->hard != 0 ? desc->hard : 1;
    if (train > COUNT_MAX || test > COUNT_MAX)
        return shoali_fail(SHOAL_EINVAL, "%u and %u images; at most %d each", train, test,
                           COUNT_MAX);
    if (!(d->hard >= 0.1 && d->hard <= 4))
        return shoali_fail(SHOAL_EINVAL, "hard is %g; it must be 0.1 .. 4", d->hard);
    SHOALI_TRY(shoali_faces_load(d->arena, &d->all));
    if (mkdir(desc->dir, 0777) != 0 && errno != EEXIST)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot make the directory %s", desc->dir);
    SHOALI_TRY(open_part(d, desc->dir, "train", train, false));
    return open_part(d, desc->dir, "t10k", test, true);
}

shoal_status shoal_digits_open(const shoal_digits_desc *desc, shoal_digits **digits_out)
{
    if (desc == NULL || desc->size != sizeof *desc || desc->dir == NULL || digits_out == NULL)
        return shoali_fail(
            SHOAL_EINVAL,
            "shoal_digits_open needs a descriptor of this version's size and a directory");
    shoal_arena *arena = shoali_arena_create(1 << 20);
    shoal_digits *digits = arena != NULL ? shoali_arena_alloc(arena, sizeof *digits) : NULL;
    if (digits == NULL) {
        shoali_arena_destroy(arena);
        return SHOAL_ENOMEM;
    }
    digits->arena = arena;
    shoal_status status = fill(digits, desc);
    if (status != SHOAL_OK)
        shoal_digits_close(digits);
    else
        *digits_out = digits;
    return status;
}

void shoal_digits_close(shoal_digits *digits)
{
    if (digits == NULL)
        return;
    for (int i = 0; i < 2; i++) {
        shoali_new_file_discard(&digits->parts[i].images);
        shoali_new_file_discard(&digits->parts[i].labels);
    }
    shoali_arena_destroy(digits->arena);
}

/* ---------------------------------------------------------------- drawing */

static void draw_next(shoal_digits *d, part *p)
{
    uint8_t image[IMAGE_BYTES];
    uint64_t stream = shoali_mix(p->stream, p->done);
    uint64_t face = shoali_rng_below(d->seed, p->stream, 2 * (uint64_t)p->done, p->face_count);
    uint64_t digit = shoali_rng_below(d->seed, p->stream, 2 * (uint64_t)p->done + 1, 10);
    shoali_distort(&p->faces[face]->digits[digit], d->hard, d->seed, stream, image);
    fwrite(image, 1, sizeof image, p->images.file); /* a failure is reported by the commit */
    fputc((int)digit, p->labels.file);
    p->done++;
}

/* Training files last: where they are, all four are whole. */
static shoal_status commit(shoal_digits *d)
{
    for (int i = 1; i >= 0; i--) {
        SHOALI_TRY(shoali_new_file_commit(&d->parts[i].labels));
        SHOALI_TRY(shoali_new_file_commit(&d->parts[i].images));
    }
    return SHOAL_OK;
}

shoal_status shoal_digits_step(shoal_digits *d, shoal_digits_progress *progress_out)
{
    part *train = &d->parts[0], *test = &d->parts[1];
    if (train->images.file == NULL)
        return shoali_fail(SHOAL_EINVAL, "these digits are finished already");
    for (int i = 0; i < PER_STEP && test->done < test->count; i++)
        draw_next(d, train->done < train->count ? train : test);
    *progress_out = (shoal_digits_progress){.done = (uint64_t)train->done + test->done,
                                            .total = (uint64_t)train->count + test->count,
                                            .train_fonts = train->face_count,
                                            .test_fonts = test->face_count};
    return test->done < test->count ? SHOAL_PENDING : commit(d);
}
