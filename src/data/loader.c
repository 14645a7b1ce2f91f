/* SPDX-License-Identifier: Apache-2.0 */
#include "data/loader.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/rng.h"

#define SHOAL_LOADER(name) extern const shoali_loader_row shoali_loader_##name;
#include "data/loaders.def"
#undef SHOAL_LOADER

static const shoali_loader_row *const rows[] = {
#define SHOAL_LOADER(name) &shoali_loader_##name,
#include "data/loaders.def"
#undef SHOAL_LOADER
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0], PATH_BYTES = 4096 };

const shoali_loader_row *shoali_loader_at(size_t i)
{
    return i < ROW_COUNT ? rows[i] : NULL;
}

/* ---------------------------------------------------------------- finding the format */

static bool find(const char *dir, const char *name, char path[PATH_BYTES])
{
    static const char *const ends[] = {"", ".gz"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        int len = snprintf(path, PATH_BYTES, "%s/%s%s", dir, name, ends[i]);
        if (len > 0 && len < PATH_BYTES && access(path, F_OK) == 0)
            return true;
    }
    return false;
}

const char *shoali_data_path(shoal_arena *arena, const char *dir, const char *name)
{
    char path[PATH_BYTES];
    if (find(dir, name, path))
        return shoali_arena_strdup(arena, path);
    (void)shoali_fail(SHOAL_EIO, "%s holds neither %s nor %s.gz", dir, name, name);
    return NULL;
}

static shoal_status unknown_format(const char *dir)
{
    char known[256] = "";
    size_t used = 0;
    if (access(dir, R_OK | X_OK) != 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot read the data directory %s", dir);
    for (size_t i = 0; i < ROW_COUNT && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s (%s)", i == 0 ? "" : ", ",
                                 rows[i]->probe, rows[i]->name);
    (void)shoali_fail(SHOAL_EINVAL, "no data set in %s; looked for %s", dir, known);
    shoali_error_advice("Generate one: shoal data digits --out %s", dir);
    return SHOAL_EINVAL;
}

/* ---------------------------------------------------------------- opening */

/* Mean and deviation per channel of the train split, in units where a pixel is 0 .. 1. Sums are
 * exact integers. */
static void measure(shoali_dataset *d)
{
    size_t pixels = (size_t)d->height * d->width;
    for (uint32_t c = 0; c < d->channels; c++) {
        uint64_t sum = 0, squares = 0;
        for (size_t n = 0; n < d->train.count; n++) {
            const uint8_t *plane = d->train.pixels + (n * d->channels + c) * pixels;
            for (size_t i = 0; i < pixels; i++) {
                sum += plane[i];
                squares += (uint64_t)plane[i] * plane[i];
            }
        }
        double values = (double)pixels * d->train.count, mean = (double)sum / values;
        double variance = (double)squares / values - mean * mean;
        d->mean[c] = (float)(mean / 255.0);
        d->inv_deviation[c] = variance > 0 ? (float)(255.0 / sqrt(variance)) : 1.0f;
    }
}

static shoal_status load(const char *dir, shoali_dataset *dataset)
{
    char path[PATH_BYTES];
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (find(dir, rows[i]->probe, path)) {
            dataset->format = rows[i]->name;
            SHOALI_TRY(rows[i]->load(dir, dataset));
            if (!dataset->sequences && dataset->ids == 0)
                measure(dataset);
            return SHOAL_OK;
        }
    return unknown_format(dir);
}

shoal_status shoali_dataset_open(const char *dir, shoali_dataset **dataset_out)
{
    shoal_arena *arena = shoali_arena_create(1 << 16);
    shoali_dataset *dataset = arena != NULL ? shoali_arena_alloc(arena, sizeof *dataset) : NULL;
    shoal_status status = SHOAL_ENOMEM;
    if (dataset != NULL) {
        dataset->arena = arena;
        status = load(dir, dataset);
    }
    if (status == SHOAL_OK)
        *dataset_out = dataset;
    else if (dataset != NULL)
        shoali_dataset_close(dataset);
    else
        shoali_arena_destroy(arena);
    return status;
}

void shoali_dataset_close(shoali_dataset *dataset)
{
    if (dataset == NULL)
        return;
    for (int i = 0; i < 2; i++)
        if (dataset->maps[i].memory != NULL)
            munmap(dataset->maps[i].memory, dataset->maps[i].bytes);
    shoali_arena_destroy(dataset->arena);
}

/* ---------------------------------------------------------------- batches */

/* Where a sample is cut, and whether it is mirrored. */
typedef struct cut {
    int64_t top, left;
    bool mirror;
} cut;

static cut cut_of(const shoali_dataset *d, const shoali_crop *crop, uint64_t serial)
{
    uint32_t rooms[2] = {d->height - crop->height, d->width - crop->width};
    const uint64_t stream = shoali_mix(0x63726F70, serial); /* "crop" */
    cut made = {rooms[0] / 2, rooms[1] / 2, false};
    if (crop->random) {
        const uint64_t more = 2 * (uint64_t)crop->pad + 1;
        made.top = (int64_t)shoali_rng_below(crop->seed, stream, 0, rooms[0] + more) - crop->pad;
        made.left = (int64_t)shoali_rng_below(crop->seed, stream, 1, rooms[1] + more) - crop->pad;
    }
    if (crop->mirror)
        made.mirror = shoali_rng_below(crop->seed, stream, 2, 2) == 1;
    return made;
}

/* A row that may lie outside. */
static void fill_padded(const shoali_dataset *d, const uint8_t *plane, const shoali_crop *crop,
                        cut where, int64_t row, float scale, float shift, float *x)
{
    const bool inside = row >= 0 && row < d->height;
    for (uint32_t i = 0; i < crop->width; i++) {
        const int64_t at = where.left + (where.mirror ? crop->width - 1 - i : i);
        const bool there = inside && at >= 0 && at < d->width;
        x[i] = (there ? (float)plane[row * d->width + at] : 0.0f) * scale + shift;
    }
}

static float *fill_sample(const shoali_dataset *d, const uint8_t *pixels, const shoali_crop *crop,
                          cut where, float *x)
{
    for (uint32_t c = 0; c < d->channels; c++) {
        float scale = d->inv_deviation[c] / 255.0f, shift = -d->mean[c] * d->inv_deviation[c];
        const uint8_t *plane = pixels + (size_t)c * d->height * d->width;
        for (uint32_t row = 0; row < crop->height; row++, x += crop->width) {
            if (crop->pad > 0) {
                fill_padded(d, plane, crop, where, where.top + row, scale, shift, x);
                continue;
            }
            const uint8_t *from = plane + (where.top + row) * d->width + where.left;
            for (uint32_t i = 0; !where.mirror && i < crop->width; i++)
                x[i] = (float)from[i] * scale + shift;
            for (uint32_t i = 0; where.mirror && i < crop->width; i++)
                x[i] = (float)from[crop->width - 1 - i] * scale + shift;
        }
    }
    return x;
}

static void fill_pairs(const shoali_split *split, uint32_t sample, uint32_t room, float *x)
{
    const uint64_t first = split->starts[sample], count = split->starts[sample + 1] - first;
    memcpy(x, split->frames + 2 * first, 2 * count * sizeof *x);
    for (uint64_t i = count; i < room; i++) {
        x[2 * i] = -1;
        x[2 * i + 1] = 0;
    }
}

void shoali_dataset_fill(const shoali_dataset *dataset, const shoali_split *split,
                         const uint32_t *indices, uint32_t count, uint64_t first_serial,
                         const shoali_crop *crop, float *x_out, uint32_t *labels_out)
{
    size_t sample = (size_t)dataset->channels * dataset->height * dataset->width;
    for (uint32_t n = 0; n < count && dataset->pairs; n++) {
        fill_pairs(split, indices[n], crop->height, x_out + 2 * (size_t)n * crop->height);
        labels_out[n] = split->labels[indices[n]];
    }
    for (uint32_t n = 0; n < count && dataset->ids > 0 && !dataset->pairs; n++) {
        memcpy(x_out + n * sample, split->frames + indices[n] * sample, sample * sizeof *x_out);
        labels_out[n] = split->labels[indices[n]];
    }
    for (uint32_t n = 0; n < count && dataset->ids == 0; n++) {
        cut where = cut_of(dataset, crop, first_serial + n);
        x_out = fill_sample(dataset, split->pixels + indices[n] * sample, crop, where, x_out);
        labels_out[n] = split->labels[indices[n]];
    }
}
