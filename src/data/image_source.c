/* SPDX-License-Identifier: Apache-2.0 */
#include "data/image_source.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/read_file.h"
#include "data/array_file.h"
#include "data/loader.h"
#include "data/table_file.h"

enum { PATH_BYTES = 4096 };
static const size_t file_most = (size_t)1 << 30, array_most = (size_t)1 << 36;

void shoali_image_source_close(shoali_image_source *s)
{
    shoali_free(s->images);
    shoali_arena_destroy(s->arena);
    *s = (shoali_image_source){0};
}

static shoal_status add(shoali_image_source *s, shoali_image image)
{
    if (s->count == s->room) {
        const size_t more = s->room == 0 ? 256 : 2 * (size_t)s->room;
        shoali_image *grown = more > UINT32_MAX / 2
                                  ? NULL
                                  : shoali_realloc(s->images, s->room * sizeof image,
                                                   more * sizeof image);
        if (grown == NULL)
            return shoali_fail(SHOAL_ENOMEM, "no memory for %zu images", more);
        s->images = grown;
        s->room = (uint32_t)more;
    }
    s->images[s->count++] = image;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- folders */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names in a folder, sorted by their bytes, whatever the locale; hidden ones are left out. The
 * array is the caller's (shoali_free), the names are the arena's. */
static shoal_status read_names(shoali_image_source *s, DIR *dir, const char ***names, size_t *count)
{
    size_t room = 0;
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        if (*count == room) {
            const size_t more = room == 0 ? 64 : 2 * room;
            const char **grown = shoali_realloc(*names, room * sizeof *grown, more * sizeof *grown);
            if (grown == NULL)
                return SHOAL_ENOMEM;
            *names = grown;
            room = more;
        }
        if (((*names)[*count] = shoali_arena_strdup(s->arena, entry->d_name)) == NULL)
            return SHOAL_ENOMEM;
        (*count)++;
    }
    if (*count > 0)
        qsort(*names, *count, sizeof **names, by_name);
    return SHOAL_OK;
}

static shoal_status list(shoali_image_source *s, const char *path, const char ***names_out,
                         size_t *count_out)
{
    DIR *dir = opendir(path);
    *names_out = NULL;
    *count_out = 0;
    if (dir == NULL)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot read the folder %s", path);
    shoal_status status = read_names(s, dir, names_out, count_out);
    closedir(dir);
    return status;
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool is_picture(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 ||
                           strcasecmp(dot, ".jpeg") == 0);
}

static shoal_status join(const char *dir, const char *name, char path[PATH_BYTES])
{
    const int length = snprintf(path, PATH_BYTES, "%s/%s", dir, name);
    return length < PATH_BYTES ? SHOAL_OK
                               : shoali_fail(SHOAL_EINVAL, "a path below %.200s is too long", dir);
}

static shoal_status add_file(shoali_image_source *s, const char *path, uint32_t label,
                             uint8_t split)
{
    const char *kept = shoali_arena_strdup(s->arena, path);
    return kept != NULL
               ? add(s, (shoali_image){.path = kept, .label = (uint16_t)label, .split = split})
               : SHOAL_ENOMEM;
}

static shoal_status read_class(shoali_image_source *s, const char *dir, uint32_t label,
                               uint8_t split)
{
    const char **names;
    size_t count;
    char path[PATH_BYTES];
    const uint32_t before = s->count;
    shoal_status status = list(s, dir, &names, &count);
    for (size_t i = 0; i < count && status == SHOAL_OK; i++) {
        status = join(dir, names[i], path);
        if (status == SHOAL_OK && is_picture(names[i]) && !is_folder(path))
            status = add_file(s, path, label, split);
    }
    shoali_free(names);
    if (status == SHOAL_OK && s->count == before)
        status = shoali_fail(SHOAL_EINVAL,
                             "%s holds no .png, .jpg or .jpeg file: each class needs images", dir);
    return status;
}

/* Of the first split its name makes a class; others may only have these. */
static shoal_status class_of(shoali_image_source *s, const char *dir, const char *name, bool first,
                             uint32_t *label_out)
{
    for (uint32_t c = 0; c < s->class_count; c++)
        if (strcmp(s->classes[c], name) == 0) {
            *label_out = c;
            return SHOAL_OK;
        }
    if (!first)
        return shoali_fail(SHOAL_EINVAL, "%s has a class %s that the training images lack", dir,
                           name);
    if (s->class_count == SHOALI_DATA_CLASSES_MAX)
        return shoali_fail(SHOAL_EINVAL, "%s has more than %d classes", dir,
                           SHOALI_DATA_CLASSES_MAX);
    s->classes[s->class_count] = shoali_arena_strdup(s->arena, name);
    *label_out = s->class_count++;
    return s->classes[*label_out] != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static shoal_status read_classes(shoali_image_source *s, const char *dir, bool first, uint8_t split)
{
    const char **names;
    size_t count;
    char path[PATH_BYTES];
    const uint32_t before = s->count;
    shoal_status status = list(s, dir, &names, &count);
    for (size_t i = 0; i < count && status == SHOAL_OK; i++) {
        uint32_t label = 0;
        status = join(dir, names[i], path);
        if (status != SHOAL_OK || !is_folder(path))
            continue;
        status = class_of(s, dir, names[i], first, &label);
        if (status == SHOAL_OK)
            status = read_class(s, path, label, split);
    }
    shoali_free(names);
    if (status == SHOAL_OK && s->count == before)
        status = shoali_fail(SHOAL_EINVAL,
                             "%s holds no folders of images: there should be one per class, "
                             "DIR/cat/1.png",
                             dir);
    return status;
}

/* train/ beside test/, val/ or validation/ says what is for tests. */
static shoal_status read_folder(shoali_image_source *s, const char *from)
{
    static const char *const tests[] = {"test", "val", "validation"};
    char train[PATH_BYTES], test[PATH_BYTES];
    s->classes = shoali_arena_array(s->arena, SHOALI_DATA_CLASSES_MAX, sizeof *s->classes);
    if (s->classes == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(join(from, "train", train));
    for (size_t i = 0; is_folder(train) && i < sizeof tests / sizeof *tests; i++) {
        SHOALI_TRY(join(from, tests[i], test));
        if (!is_folder(test))
            continue;
        s->divided = true;
        SHOALI_TRY(read_classes(s, train, true, SHOALI_IMAGE_TRAIN));
        return read_classes(s, test, false, SHOALI_IMAGE_TEST);
    }
    return read_classes(s, from, true, SHOALI_IMAGE_ANY);
}

/* ---------------------------------------------------------------- arrays and tables */

/* Classes that are numbers. */
static shoal_status name_classes(shoali_image_source *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        s->class_count = s->images[i].label >= s->class_count ? s->images[i].label + 1u
                                                              : s->class_count;
    s->classes = shoali_arena_array(s->arena, s->class_count, sizeof *s->classes);
    for (uint32_t c = 0; s->classes != NULL && c < s->class_count; c++) {
        char name[12];
        snprintf(name, sizeof name, "%u", c);
        if ((s->classes[c] = shoali_arena_strdup(s->arena, name)) == NULL)
            return SHOAL_ENOMEM;
    }
    return s->classes != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static bool are_channels(uint64_t size)
{
    return size == 1 || size == 3;
}

/* [n][h][w], [n][h][w][c] or [n][c][h][w] of bytes. */
static shoal_status take_shape(shoali_image_source *s, const char *what, const shoali_array *a)
{
    const uint64_t *z = a->sizes;
    const bool last = a->dims == 4 && are_channels(z[3]),
               first = a->dims == 4 && !last && are_channels(z[1]);
    if (a->value_bytes != 1 || a->is_signed || !(a->dims == 3 || last || first))
        return shoali_fail(SHOAL_EINVAL,
                           "%s: %u dimensions of %u-byte values; images are unsigned bytes in "
                           "[n][height][width], with [1 or 3] behind or [n][1 or 3] before",
                           what, a->dims, a->value_bytes);
    const uint64_t channels = last    ? z[3]
                              : first ? z[1]
                                      : 1,
                   height = first ? z[2] : z[1], width = first ? z[3] : z[2];
    if (height > SHOALI_DATA_SIDE_MAX || width > SHOALI_DATA_SIDE_MAX || z[0] > INT32_MAX)
        return shoali_fail(SHOAL_EINVAL, "%s: %llu images of %llu x %llu; at most %d a side", what,
                           (unsigned long long)z[0], (unsigned long long)height,
                           (unsigned long long)width, SHOALI_DATA_SIDE_MAX);
    if (s->count > 0 && (s->channels != channels || s->height != height || s->width != width))
        return shoali_fail(SHOAL_EINVAL,
                           "%s: images for tests of %llu x %llu x %llu, those for training are %u "
                           "x %u x %u",
                           what, (unsigned long long)channels, (unsigned long long)height,
                           (unsigned long long)width, s->channels, s->height, s->width);
    s->channels = (uint32_t)channels;
    s->height = (uint32_t)height;
    s->width = (uint32_t)width;
    s->planes = first;
    return SHOAL_OK;
}

static shoal_status add_arrays(shoali_image_source *s, const char *what, const shoali_array *x,
                               const shoali_array *y, uint8_t split)
{
    SHOALI_TRY(take_shape(s, what, x));
    if (y->count != x->sizes[0])
        return shoali_fail(SHOAL_EINVAL, "%s: %llu labels for %llu images", what,
                           (unsigned long long)y->count, (unsigned long long)x->sizes[0]);
    const uint64_t bytes = x->count / x->sizes[0];
    for (uint64_t i = 0; i < x->sizes[0]; i++) {
        const int64_t label = shoali_array_at(y, i);
        if (label < 0 || label >= SHOALI_DATA_CLASSES_MAX)
            return shoali_fail(
                SHOAL_EINVAL, "%s: image %llu has the label %lld; 0 to %d are classes", what,
                (unsigned long long)i, (long long)label, SHOALI_DATA_CLASSES_MAX - 1);
        SHOALI_TRY(add(s, (shoali_image){.pixels = x->values + i * bytes,
                                         .label = (uint16_t)label,
                                         .split = split}));
    }
    return SHOAL_OK;
}

static const shoali_array *named(const shoali_array *arrays, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcasecmp(arrays[i].name, name) == 0)
            return &arrays[i];
    return NULL;
}

/* The names of Keras, MedMNIST and people. */
static shoal_status read_npz(shoali_image_source *s, const char *what, const uint8_t *bytes,
                             size_t len_bytes)
{
    static const char *const sets[][4] = {
        {"x_train", "y_train", "x_test", "y_test"},
        {"train_images", "train_labels", "test_images", "test_labels"}};
    static const char *const pairs[][2] = {
        {"x", "y"}, {"images", "labels"}, {"data", "labels"}, {"data", "target"}};
    shoali_array arrays[SHOALI_ARRAYS_MAX] = {{.dims = 0}};
    uint32_t count = 0;
    SHOALI_TRY(shoali_arrays_read(what, bytes, len_bytes, s->arena, arrays, &count));
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        const shoali_array *all[4];
        bool there = true;
        for (size_t j = 0; j < 4; j++)
            there = (all[j] = named(arrays, count, sets[i][j])) != NULL && there;
        if (!there)
            continue;
        s->divided = true;
        SHOALI_TRY(add_arrays(s, what, all[0], all[1], SHOALI_IMAGE_TRAIN));
        return add_arrays(s, what, all[2], all[3], SHOALI_IMAGE_TEST);
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const shoali_array *x = named(arrays, count, pairs[i][0]),
                           *y = named(arrays, count, pairs[i][1]);
        if (x != NULL && y != NULL)
            return add_arrays(s, what, x, y, SHOALI_IMAGE_ANY);
    }
    return shoali_fail(SHOAL_EINVAL,
                       "%s: no pair of arrays x_train and y_train (with x_test, y_test), "
                       "train_images and train_labels, x and y, or images and labels",
                       what);
}

static shoal_status keep_file(shoali_image_source *s, const char *path, const uint8_t **bytes_out,
                              size_t *len_bytes_out)
{
    char *bytes = NULL;
    SHOALI_TRY(shoali_read_file(path, array_most, &bytes, len_bytes_out));
    char *kept = shoali_arena_alloc(s->arena, *len_bytes_out + 1);
    if (kept != NULL)
        memcpy(kept, bytes, *len_bytes_out + 1);
    shoali_free(bytes);
    *bytes_out = (const uint8_t *)kept;
    return kept != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static shoal_status read_npy(shoali_image_source *s, const char *from, const char *labels,
                             const uint8_t *bytes, size_t len_bytes)
{
    shoali_array x, y;
    if (labels == NULL)
        return shoali_fail(SHOAL_EINVAL,
                           "%s has images alone: give their labels by --labels "
                           "FILE.npy",
                           from);
    SHOALI_TRY(shoali_array_read(from, bytes, len_bytes, &x));
    SHOALI_TRY(keep_file(s, labels, &bytes, &len_bytes));
    SHOALI_TRY(shoali_array_read(labels, bytes, len_bytes, &y));
    return add_arrays(s, from, &x, &y, SHOALI_IMAGE_ANY);
}

static uint32_t square_side(uint32_t values)
{
    uint32_t side = 1;
    while ((uint64_t)side * side < values)
        side++;
    return side * side == values ? side : 0;
}

/* How big images of so many values are: a square, grey or of three planes, unless it is said. */
static shoal_status read_csv(shoali_image_source *s, const char *what, const uint8_t *bytes,
                             size_t len_bytes)
{
    shoali_table t;
    SHOALI_TRY(shoali_table_read(what, (const char *)bytes, len_bytes, s->arena, &t));
    const uint32_t grey = square_side(t.values),
                   colour = t.values % 3 == 0 ? square_side(t.values / 3) : 0;
    if (grey == 0 && colour == 0)
        return shoali_fail(
            SHOAL_EINVAL,
            "%s: %u pixels a row are neither a square nor three; save such images as "
            ".npy",
            what, t.values);
    s->channels = grey > 0 ? 1 : 3;
    s->height = s->width = grey > 0 ? grey : colour;
    s->planes = true;
    for (uint32_t row = 0; row < t.rows; row++)
        SHOALI_TRY(add(s, (shoali_image){.pixels = t.pixels + (size_t)row * t.values,
                                         .label = t.labels[row]}));
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- the source */

static bool ends_in(const char *text, const char *end)
{
    const size_t length = strlen(text), of = strlen(end);
    return length > of && strcasecmp(text + length - of, end) == 0;
}

static shoal_status read_source(shoali_image_source *s, const shoal_images_desc *desc)
{
    const char *from = desc->from;
    const uint8_t *bytes = NULL;
    size_t len_bytes = 0;
    if (desc->labels != NULL && !ends_in(from, ".npy"))
        return shoali_fail(SHOAL_EINVAL, "labels are given apart for an .npy alone, %s is none",
                           from);
    if (access(from, R_OK) != 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot read %s", from);
    if (is_folder(from))
        return read_folder(s, from);
    if (!ends_in(from, ".npz") && !ends_in(from, ".npy") && !ends_in(from, ".csv"))
        return shoali_fail(SHOAL_EINVAL,
                           "%s is neither a folder of images nor an .npz, .npy or .csv", from);
    SHOALI_TRY(keep_file(s, from, &bytes, &len_bytes));
    SHOALI_TRY(ends_in(from, ".npz")   ? read_npz(s, from, bytes, len_bytes)
               : ends_in(from, ".npy") ? read_npy(s, from, desc->labels, bytes, len_bytes)
                                       : read_csv(s, from, bytes, len_bytes));
    return name_classes(s);
}

shoal_status shoali_image_source_open(const shoal_images_desc *desc,
                                      shoali_image_source *source_out)
{
    *source_out = (shoali_image_source){.arena = shoali_arena_create(1 << 16)};
    return source_out->arena != NULL ? read_source(source_out, desc) : SHOAL_ENOMEM;
}

void shoali_image_source_name(const shoali_image_source *s, uint32_t i, char *out, size_t out_bytes)
{
    if (s->images[i].path != NULL)
        snprintf(out, out_bytes, "%s", s->images[i].path);
    else
        snprintf(out, out_bytes, "image %u", i);
}

static shoal_status from_array(const shoali_image_source *s, const uint8_t *pixels,
                               shoali_picture *p)
{
    const size_t plane = (size_t)s->height * s->width, c = s->channels;
    *p = (shoali_picture){s->channels, s->height, s->width, shoali_alloc_array(plane, c)};
    if (p->pixels == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0; i < plane * c; i++)
        p->pixels[i] = s->planes ? pixels[i % c * plane + i / c] : pixels[i];
    return SHOAL_OK;
}

shoal_status shoali_image_source_read(const shoali_image_source *s, uint32_t i,
                                      shoali_picture *picture_out)
{
    const shoali_image *image = &s->images[i];
    char *bytes = NULL;
    size_t len_bytes = 0;
    if (image->path == NULL)
        return from_array(s, image->pixels, picture_out);
    SHOALI_TRY(shoali_read_file(image->path, file_most, &bytes, &len_bytes));
    shoal_status status = shoali_picture_decode(image->path, (const uint8_t *)bytes, len_bytes,
                                                picture_out);
    shoali_free(bytes);
    return status;
}
