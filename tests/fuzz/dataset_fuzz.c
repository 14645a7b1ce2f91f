/* SPDX-License-Identifier: Apache-2.0 */
/* Data files: the first byte says which file of which format the rest replaces; the others are
 * whole. IDX, CIFAR-10, or a click log alone. Read or refused with a reason; every label of what
 * was read is a class. Files live in memory, behind links in one directory. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/clicks.h"
#include "data/loader.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

enum { FILES = 4, RECORD = 3073, CLICKS = 8 };

/* Two formats in turn: IDX with one image of 1 x 1, CIFAR-10 with one record. */
static const char *const names[2][FILES] = {
    {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
     "t10k-labels-idx1-ubyte"},
    {"data_batch_1.bin", "data_batch_2.bin", "test_batch.bin", "data_batch_3.bin"}};
static const uint8_t image[17] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 9};
static const uint8_t label[9] = {0, 0, 8, 1, 0, 0, 0, 1, 3};
static uint8_t record[RECORD];

static char dirs[2][32] = {"/tmp/shoal-fuzz-XXXXXX", "/tmp/shoal-fuzz-XXXXXX"};
static int files[2][FILES];

static void clean(void)
{
    char path[80];
    for (int f = 0; f < 2; f++) {
        for (int i = 0; i < FILES; i++) {
            snprintf(path, sizeof path, "%s/%s", dirs[f], names[f][i]);
            unlink(path);
        }
        rmdir(dirs[f]);
    }
}

static void make_links(void)
{
    char path[80], target[48];
    for (int f = 0; f < 2; f++) {
        if (mkdtemp(dirs[f]) == NULL)
            abort();
        for (int i = 0; i < FILES; i++) {
            files[f][i] = memfd_create(names[f][i], MFD_CLOEXEC);
            snprintf(path, sizeof path, "%s/%s", dirs[f], names[f][i]);
            snprintf(target, sizeof target, "/proc/%d/fd/%d", (int)getpid(), files[f][i]);
            if (files[f][i] < 0 || symlink(target, path) != 0)
                abort();
        }
    }
    atexit(clean);
}

static void set(int file, const uint8_t *bytes, size_t len_bytes)
{
    if (ftruncate(file, 0) != 0 || pwrite(file, bytes, len_bytes, 0) != (ssize_t)len_bytes)
        abort();
}

static void check(const shoali_split *split, const shoali_dataset *d)
{
    size_t pixels = (size_t)d->channels * d->height * d->width;
    if (split->count == 0 || pixels == 0)
        abort();
    volatile uint8_t last = split->pixels[split->count * pixels - 1];
    (void)last;
    for (uint32_t i = 0; i < split->count; i++)
        if (split->labels[i] >= d->classes)
            abort();
}

/* Under the name of an IDX file, whose link is there. */
static void read_clicks(const uint8_t *bytes, size_t len_bytes)
{
    shoali_clicks c;
    shoal_arena *arena = shoali_arena_create(1 << 12);
    set(files[0][0], bytes, len_bytes);
    shoal_status status = shoali_clicks_read(dirs[0], names[0][0], arena, &c);
    if (status != SHOAL_OK && shoal_last_error()->status != status)
        abort();
    for (uint64_t i = 0; status == SHOAL_OK && i < (uint64_t)c.count * c.fields; i++)
        if (c.ids[i] >= c.vocab || c.clicks[i / c.fields] > 1)
            abort();
    shoali_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    shoali_dataset *d = NULL;
    if (files[0][0] == 0)
        make_links();
    if (len_bytes == 0)
        return 0;
    if ((bytes[0] & CLICKS) != 0) {
        read_clicks(bytes + 1, len_bytes - 1);
        return 0;
    }
    int format = bytes[0] & 1, file = bytes[0] >> 1 & 3;
    for (int i = 0; i < FILES; i++)
        if (format == 1)
            set(files[1][i], record, RECORD);
        else
            set(files[0][i], i % 2 == 0 ? image : label, i % 2 == 0 ? sizeof image : sizeof label);
    set(files[format][file], bytes + 1, len_bytes - 1);
    shoal_status status = shoali_dataset_open(dirs[format], &d);
    if (status == SHOAL_OK) {
        check(&d->train, d);
        check(&d->test, d);
    } else if (d != NULL || shoal_last_error()->status != status) {
        abort();
    }
    shoali_dataset_close(d);
    return 0;
}
