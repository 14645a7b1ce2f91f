/* SPDX-License-Identifier: Apache-2.0 */
/* CIFAR's binary versions: records of labels (one byte; CIFAR-100: coarse, then fine) and 3 planes
 * of 32 x 32 bytes. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "data/input.h"
#include "data/loader.h"

enum { SIDE = 32, PIXEL_BYTES = 3 * SIDE * SIDE, FILES_MAX = 5 };

typedef struct layout {
    size_t label_bytes; /* the class is the last of them */
    uint32_t classes;
} layout;

/* Records of one file, behind those that the split holds already. */
typedef struct target {
    uint8_t *pixels;
    uint16_t *labels;
    uint32_t count;
} target;

static shoal_status read_records(shoali_input *in, layout l, uint32_t count, target *to)
{
    uint8_t labels[2];
    for (uint32_t i = 0; i < count; i++, to->count++) {
        SHOALI_TRY(shoali_input_read(in, labels, l.label_bytes));
        uint8_t label = labels[l.label_bytes - 1];
        if (label >= l.classes)
            return shoali_input_corrupt(in, in->offset - 1, "record %u has class %u of %u", i,
                                        label, l.classes);
        to->labels[to->count] = label;
        SHOALI_TRY(
            shoali_input_read(in, to->pixels + (size_t)to->count * PIXEL_BYTES, PIXEL_BYTES));
    }
    return shoali_input_end(in);
}

/* Records by the file's size; the files are never compressed as published. */
static shoal_status count_records(const shoali_input *in, layout l, uint32_t *count_out)
{
    uint64_t record = l.label_bytes + PIXEL_BYTES;
    if (in->compressed)
        return shoali_input_corrupt(in, 0, "compressed; unpack it first");
    if (in->most == 0 || in->most % record != 0 || in->most / record > UINT32_MAX / FILES_MAX)
        return shoali_input_corrupt(in, in->most,
                                    "%llu bytes are no whole number of records of %llu",
                                    (unsigned long long)in->most, (unsigned long long)record);
    *count_out = (uint32_t)(in->most / record);
    return SHOAL_OK;
}

typedef struct opened {
    shoali_input inputs[FILES_MAX];
    uint32_t counts[FILES_MAX];
    uint32_t files;
} opened;

static shoal_status open_files(const char *const *paths, layout l, opened *o)
{
    while (o->files < FILES_MAX && paths[o->files] != NULL) {
        SHOALI_TRY(shoali_input_open(paths[o->files], &o->inputs[o->files]));
        uint32_t file = o->files++; /* from here on it is closed whatever happens */
        SHOALI_TRY(count_records(&o->inputs[file], l, &o->counts[file]));
    }
    return SHOAL_OK;
}

static shoal_status read_files(opened *o, layout l, shoal_arena *arena, shoali_split *split)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < o->files; i++)
        total += o->counts[i];
    target to = {.pixels = shoali_arena_array(arena, total, PIXEL_BYTES),
                 .labels = shoali_arena_array(arena, total, sizeof(uint16_t))};
    if (to.pixels == NULL || to.labels == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < o->files; i++)
        SHOALI_TRY(read_records(&o->inputs[i], l, o->counts[i], &to));
    *split = (shoali_split){.pixels = to.pixels, .labels = to.labels, .count = to.count};
    return SHOAL_OK;
}

static shoal_status load_split(const char *const *paths, layout l, shoal_arena *arena,
                               shoali_split *split)
{
    opened o = {.files = 0};
    shoal_status status = open_files(paths, l, &o);
    if (status == SHOAL_OK)
        status = read_files(&o, l, arena, split);
    for (uint32_t i = 0; i < o.files; i++)
        shoali_input_close(&o.inputs[i]);
    return status;
}

static void describe(shoali_dataset *d, layout l)
{
    d->channels = 3;
    d->height = d->width = SIDE;
    d->classes = l.classes;
    d->natural = true;
}

/* data_batch_1.bin .. data_batch_5.bin as far as they are there (a part of the set is a set), and
 * test_batch.bin. */
static shoal_status load_cifar10(const char *dir, shoali_dataset *d)
{
    const layout l = {1, 10};
    const char *train[FILES_MAX + 1] = {NULL}, *test[2] = {NULL};
    for (int i = 0; i < FILES_MAX; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i + 1);
        train[i] = shoali_data_path(d->arena, dir, name);
        if (train[i] == NULL)
            break;
    }
    test[0] = shoali_data_path(d->arena, dir, "test_batch.bin");
    if (train[0] == NULL || test[0] == NULL)
        return shoal_last_error()->status;
    describe(d, l);
    SHOALI_TRY(load_split(train, l, d->arena, &d->train));
    return load_split(test, l, d->arena, &d->test);
}

static shoal_status load_cifar100(const char *dir, shoali_dataset *d)
{
    const layout l = {2, 100};
    const char *train[2] = {shoali_data_path(d->arena, dir, "train.bin"), NULL}, *test[2] = {NULL};
    if (train[0] != NULL)
        test[0] = shoali_data_path(d->arena, dir, "test.bin");
    if (train[0] == NULL || test[0] == NULL)
        return shoal_last_error()->status;
    describe(d, l);
    SHOALI_TRY(load_split(train, l, d->arena, &d->train));
    return load_split(test, l, d->arena, &d->test);
}

const shoali_loader_row shoali_loader_cifar10 = {
    .name = "cifar10",
    .help = "CIFAR-10, binary version",
    .probe = "data_batch_1.bin",
    .load = load_cifar10,
};
const shoali_loader_row shoali_loader_cifar100 = {
    .name = "cifar100",
    .help = "CIFAR-100, binary version, fine labels",
    .probe = "train.bin",
    .load = load_cifar100,
};
