/* SPDX-License-Identifier: Apache-2.0 */
/* shoal_colours: which class for which image, and the six files of CIFAR-10. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/new_file.h"
#include "base/rng.h"
#include "data/shapes.h"
#include "shoal/data.h"

enum { TRAIN_FILES = 5, FILES = TRAIN_FILES + 1, PER_STEP = 128, COUNT_MAX = 10000000 };

/* A file: images first .. end - 1 of its split. */
typedef struct part {
    shoali_new_file file;
    uint64_t stream; /* the split's */
    uint32_t done, end;
} part;

struct shoal_colours {
    shoal_arena *arena; /* everything below lives here */
    uint64_t seed;
    double hard;
    uint64_t drawn, total;
    uint32_t current;  /* file that is being written; FILES: all are whole */
    part parts[FILES]; /* data_batch_1 .. 5, test_batch */
};

static shoal_status open_part(shoal_colours *c, const char *dir, uint32_t i, uint32_t train,
                              uint32_t test)
{
    char path[4096];
    part *p = &c->parts[i];
    const bool testing = i == TRAIN_FILES;
    int len = testing ? snprintf(path, sizeof path, "%s/test_batch.bin", dir)
                      : snprintf(path, sizeof path, "%s/data_batch_%u.bin", dir, i + 1);
    if (len < 0 || (size_t)len >= sizeof path)
        return shoali_fail(SHOAL_EINVAL, "the path of file %u is too long", i + 1);
    p->stream = shoali_mix(0x636F6C6F757273, testing); /* "colours" */
    p->done = testing ? 0 : (uint32_t)((uint64_t)train * i / TRAIN_FILES);
    p->end = testing ? test : (uint32_t)((uint64_t)train * (i + 1) / TRAIN_FILES);
    return shoali_new_file_open(path, &p->file);
}

static shoal_status fill(shoal_colours *c, const shoal_colours_desc *desc)
{
    uint32_t train = desc->train_count != 0 ? desc->train_count : 40000;
    uint32_t test = desc->test_count != 0 ? desc->test_count : 8000;
    c->seed = desc->seed != 0 ? desc->seed : 1;
    c->hard = desc->hard != 0 ? desc->hard : 0.6;
    c->total = (uint64_t)train + test;
    if (train < TRAIN_FILES || train > COUNT_MAX || test > COUNT_MAX)
        return shoali_fail(SHOAL_EINVAL, "%u and %u images; %d to %d to train, at most %d to test",
                           train, test, TRAIN_FILES, COUNT_MAX, COUNT_MAX);
    if (!(c->hard >= 0.1 && c->hard <= 4))
        return shoali_fail(SHOAL_EINVAL, "hard is %g; it must be 0.1 .. 4", c->hard);
    if (mkdir(desc->dir, 0777) != 0 && errno != EEXIST)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot make the directory %s", desc->dir);
    for (uint32_t i = 0; i < FILES; i++)
        SHOALI_TRY(open_part(c, desc->dir, i, train, test));
    return SHOAL_OK;
}

shoal_status shoal_colours_open(const shoal_colours_desc *desc, shoal_colours **colours_out)
{
    if (desc == NULL || desc->size != sizeof *desc || desc->dir == NULL || colours_out == NULL)
        return shoali_fail(
            SHOAL_EINVAL,
            "shoal_colours_open needs a descriptor of this version's size and a directory");
    shoal_arena *arena = shoali_arena_create(4096);
    shoal_colours *colours = arena != NULL ? shoali_arena_alloc(arena, sizeof *colours) : NULL;
    if (colours == NULL) {
        shoali_arena_destroy(arena);
        return SHOAL_ENOMEM;
    }
    colours->arena = arena;
    shoal_status status = fill(colours, desc);
    if (status != SHOAL_OK)
        shoal_colours_close(colours);
    else
        *colours_out = colours;
    return status;
}

void shoal_colours_close(shoal_colours *colours)
{
    if (colours == NULL)
        return;
    for (uint32_t i = 0; i < FILES; i++)
        shoali_new_file_discard(&colours->parts[i].file);
    shoali_arena_destroy(colours->arena);
}

static void draw_next(shoal_colours *c, part *p)
{
    uint8_t image[SHOALI_SHAPE_BYTES];
    uint32_t kind = (uint32_t)shoali_rng_below(c->seed, p->stream, p->done, SHOALI_SHAPE_CLASSES);
    shoali_shape_draw(kind, c->hard, c->seed, shoali_mix(p->stream, p->done), image);
    fputc((int)kind, p->file.file); /* a failure is reported by the commit */
    fwrite(image, 1, sizeof image, p->file.file);
    p->done++;
    c->drawn++;
}

/* The first training file last: where it is, all six are whole. */
static shoal_status commit(shoal_colours *c)
{
    for (uint32_t i = FILES; i-- > 0;)
        SHOALI_TRY(shoali_new_file_commit(&c->parts[i].file));
    return SHOAL_OK;
}

shoal_status shoal_colours_step(shoal_colours *c, shoal_data_progress *progress_out)
{
    if (c->current == FILES)
        return shoali_fail(SHOAL_EINVAL, "these colours are finished already");
    for (int i = 0; i < PER_STEP && c->current < FILES; i++) {
        draw_next(c, &c->parts[c->current]);
        while (c->current < FILES && c->parts[c->current].done == c->parts[c->current].end)
            c->current++;
    }
    *progress_out = (shoal_data_progress){.done = c->drawn, .total = c->total};
    return c->current < FILES ? SHOAL_PENDING : commit(c);
}
