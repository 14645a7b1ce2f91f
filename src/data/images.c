/* SPDX-License-Identifier: Apache-2.0 */
/* Images of one's own into IDX files: [count][channels][height][width] bytes under the names
 * {train,t10k}-images-idx4-ubyte, labels of 32 bits in ...-labels-idx1-int, the classes' names in
 * classes.txt. The file that says that a data set is there comes last. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/new_file.h"
#include "base/rng.h"
#include "data/image_source.h"
#include "data/loader.h"

enum { PATH_BYTES = 4096, FILES = 5 };
static const char *const names[FILES] = {"classes.txt", "t10k-labels-idx1-int",
                                         "t10k-images-idx4-ubyte", "train-labels-idx1-int",
                                         "train-images-idx4-ubyte"};
enum { CLASSES, TEST_LABELS, TEST_IMAGES, TRAIN_LABELS, TRAIN_IMAGES };

typedef struct maker {
    const shoal_images_desc *desc;
    shoali_image_source source;
    shoali_new_file files[FILES];
    uint32_t counts[2]; /* train, test */
    uint32_t channels, height, width;
    char first[PATH_BYTES]; /* whose shape all have */
    bool made_folder;
} maker;

/* ---------------------------------------------------------------- who is for tests */

/* The k-th largest of a class's draws decides, so that a share is as exact as it can be. */
static void divide_class(maker *m, uint32_t label, uint32_t *members)
{
    shoali_image *images = m->source.images;
    const uint64_t seed = m->desc->seed != 0 ? m->desc->seed : 1;
    const double share = m->desc->test != 0 ? m->desc->test : 0.1;
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->source.count; i++)
        if (images[i].label == label) {
            images[i].split = SHOALI_IMAGE_TRAIN;
            members[count++] = i;
        }
    uint32_t tests = (uint32_t)lround(share * count);
    tests = tests == 0 && count > 1 ? 1 : tests >= count && count > 0 ? count - 1 : tests;
    for (uint32_t i = 0; i < tests; i++) { /* Fisher and Yates, as far as needed */
        const uint32_t j = i + (uint32_t)shoali_rng_below(seed, shoali_mix(0x73706C6974, label), i,
                                                          count - i);
        const uint32_t kept = members[i];
        members[i] = members[j];
        members[j] = kept;
        images[members[i]].split = SHOALI_IMAGE_TEST;
    }
}

static shoal_status divide(maker *m)
{
    const shoali_image_source *s = &m->source;
    uint32_t *members = shoali_alloc_array(s->count, sizeof *members);
    if (members == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t c = 0; !s->divided && c < s->class_count; c++)
        divide_class(m, c, members);
    shoali_free(members);
    for (uint32_t i = 0; i < s->count; i++)
        m->counts[s->images[i].split == SHOALI_IMAGE_TEST]++;
    return m->counts[0] > 0 && m->counts[1] > 0
               ? SHOAL_OK
               : shoali_fail(SHOAL_EINVAL,
                             "%s has %u images to train on and %u to test; both are needed, so a "
                             "class needs two",
                             m->desc->from, m->counts[0], m->counts[1]);
}

static shoal_status check_classes(const maker *m)
{
    char known[200] = "";
    size_t used = 0;
    const shoali_image_source *s = &m->source;
    if (m->desc->classes == 0 || m->desc->classes == s->class_count)
        return SHOAL_OK;
    for (uint32_t c = 0; c < s->class_count && used < sizeof known - 1; c++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", c > 0 ? ", " : "",
                                 s->classes[c]);
    return shoali_fail(SHOAL_EINVAL, "%s has %u classes (%s), %u were expected", m->desc->from,
                       s->class_count, known, m->desc->classes);
}

/* ---------------------------------------------------------------- one image */

/* Brought to the shape that all have: the one asked for, or the first one's. */
static shoal_status fit(maker *m, const char *name, shoali_picture *p)
{
    const shoal_images_desc *d = m->desc;
    if (d->channels != 0)
        SHOALI_TRY(shoali_picture_recolour(p, d->channels));
    if (d->height != 0)
        SHOALI_TRY(shoali_picture_resize(p, d->height, d->width, d->fit == SHOAL_IMAGES_CROP));
    if (m->channels == 0) {
        m->channels = p->channels;
        m->height = p->height;
        m->width = p->width;
        snprintf(m->first, sizeof m->first, "%s", name);
    }
    if (p->channels != m->channels) {
        (void)shoali_fail(SHOAL_EINVAL, "%s is %s, %s is %s", name,
                          p->channels == 1 ? "grey" : "in colour", m->first,
                          m->channels == 1 ? "grey" : "in colour");
        shoali_error_advice("Say what all should be: --channels 1 or --channels 3.");
        return SHOAL_EINVAL;
    }
    if (p->height == m->height && p->width == m->width && p->height <= SHOALI_DATA_SIDE_MAX &&
        p->width <= SHOALI_DATA_SIDE_MAX)
        return SHOAL_OK;
    (void)shoali_fail(SHOAL_EINVAL, "%s is %u x %u, %s is %u x %u (at most %d)", name, p->height,
                      p->width, m->first, m->height, m->width, SHOALI_DATA_SIDE_MAX);
    shoali_error_advice("Say how large all should be: --size HEIGHTxWIDTH.");
    return SHOAL_EINVAL;
}

static shoal_status read_fitting(maker *m, uint32_t i, shoali_picture *p)
{
    char name[PATH_BYTES];
    shoali_image_source_name(&m->source, i, name, sizeof name);
    SHOALI_TRY(shoali_image_source_read(&m->source, i, p));
    shoal_status status = fit(m, name, p);
    if (status != SHOAL_OK)
        shoali_picture_free(p);
    return status;
}

/* ---------------------------------------------------------------- files */

static void put_big(FILE *file, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        fputc((int)(value >> shift & 255), file);
}

/* Failures of writing are told by the commit. */
static void write_image(maker *m, uint32_t i, const shoali_picture *p)
{
    const bool test = m->source.images[i].split == SHOALI_IMAGE_TEST;
    FILE *images = m->files[test ? TEST_IMAGES : TRAIN_IMAGES].file;
    const size_t plane = (size_t)p->height * p->width;
    for (size_t c = 0; c < p->channels; c++)
        for (size_t at = 0; at < plane; at++)
            fputc(p->pixels[at * p->channels + c], images);
    put_big(m->files[test ? TEST_LABELS : TRAIN_LABELS].file, m->source.images[i].label);
}

static void write_heads(const maker *m)
{
    for (int test = 0; test < 2; test++) {
        FILE *images = m->files[test ? TEST_IMAGES : TRAIN_IMAGES].file,
             *labels = m->files[test ? TEST_LABELS : TRAIN_LABELS].file;
        put_big(images, 0x00000804);
        put_big(images, m->counts[test]);
        put_big(images, m->channels);
        put_big(images, m->height);
        put_big(images, m->width);
        put_big(labels, 0x00000C01);
        put_big(labels, m->counts[test]);
    }
}

static shoal_status refuse_other_data(const char *dir)
{
    char path[PATH_BYTES];
    for (size_t i = 0; shoali_loader_at(i) != NULL; i++) {
        const int length = snprintf(path, sizeof path, "%s/%s", dir, shoali_loader_at(i)->probe);
        if (length >= PATH_BYTES)
            return shoali_fail(SHOAL_EINVAL, "the path of %.200s is too long", dir);
        if (access(path, F_OK) == 0)
            return shoali_fail(SHOAL_EINVAL, "%s holds a data set already (%s); take another --out",
                               dir, shoali_loader_at(i)->probe);
    }
    return SHOAL_OK;
}

static shoal_status open_files(maker *m)
{
    char path[PATH_BYTES];
    SHOALI_TRY(refuse_other_data(m->desc->dir));
    m->made_folder = mkdir(m->desc->dir, 0777) == 0;
    if (!m->made_folder && errno != EEXIST)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot make the directory %s", m->desc->dir);
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", m->desc->dir, names[i]);
        SHOALI_TRY(shoali_new_file_open(path, &m->files[i]));
    }
    return SHOAL_OK;
}

static shoal_status write_files(maker *m)
{
    for (uint32_t i = 0; i < m->source.count; i++) {
        shoali_picture p;
        SHOALI_TRY(read_fitting(m, i, &p));
        if (i == 0)
            write_heads(m);
        write_image(m, i, &p);
        shoali_picture_free(&p);
    }
    for (uint32_t c = 0; c < m->source.class_count; c++)
        fprintf(m->files[CLASSES].file, "%s\n", m->source.classes[c]);
    for (int i = 0; i < FILES; i++)
        SHOALI_TRY(shoali_new_file_commit(&m->files[i]));
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- the public side */

static shoal_status check_desc(const shoal_images_desc *d)
{
    if (d == NULL || d->size != sizeof *d || d->from == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_images_desc: size is not sizeof, or from is "
                                         "missing; start from SHOAL_IMAGES_DESC_INIT");
    if (d->height > SHOALI_DATA_SIDE_MAX || d->width > SHOALI_DATA_SIDE_MAX ||
        (d->height == 0) != (d->width == 0) ||
        (d->channels != 0 && d->channels != 1 && d->channels != 3) ||
        !(d->test >= 0 && d->test < 1))
        return shoali_fail(
            SHOAL_EINVAL,
            "%u x %u pixels of %u channels, %g of them for tests: sides are 1 to %d, "
            "channels 1 or 3, and the share is below 1",
            d->height, d->width, d->channels, d->test, SHOALI_DATA_SIDE_MAX);
    return SHOAL_OK;
}

static void describe(const maker *m, shoal_images_info *info)
{
    info->train = m->counts[0];
    info->test = m->counts[1];
    info->classes = m->source.class_count;
    info->channels = m->channels;
    info->height = m->height;
    info->width = m->width;
}

static shoal_status make(maker *m)
{
    SHOALI_TRY(shoali_image_source_open(m->desc, &m->source));
    SHOALI_TRY(check_classes(m));
    SHOALI_TRY(divide(m));
    SHOALI_TRY(open_files(m));
    return write_files(m);
}

shoal_status shoal_images_make(const shoal_images_desc *desc, shoal_images_info *info_out)
{
    SHOALI_TRY(check_desc(desc));
    if (desc->dir == NULL || info_out == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_images_make needs a directory, and info");
    maker *m = shoali_alloc(sizeof *m);
    if (m == NULL)
        return SHOAL_ENOMEM;
    m->desc = desc;
    shoal_status status = make(m);
    for (int i = 0; i < FILES; i++)
        shoali_new_file_discard(&m->files[i]);
    if (status != SHOAL_OK && m->made_folder)
        (void)rmdir(desc->dir);
    if (status == SHOAL_OK) {
        *info_out = (shoal_images_info){.size = sizeof *info_out};
        describe(m, info_out);
    }
    shoali_image_source_close(&m->source);
    shoali_free(m);
    return status;
}

/* ---------------------------------------------------------------- looking */

typedef struct teller {
    void (*tell)(void *ctx, const char *text);
    void *ctx;
    uint32_t count;
} teller;

static void tell(teller *t)
{
    t->count++;
    if (t->tell != NULL)
        t->tell(t->ctx, shoal_last_error()->text);
}

/* All images, whatever is wrong with one; only a lack of memory ends it. */
static shoal_status look_at_images(maker *m, teller *t)
{
    SHOALI_TRY(shoali_image_source_open(m->desc, &m->source));
    if (check_classes(m) != SHOAL_OK)
        tell(t);
    for (uint32_t i = 0; i < m->source.count; i++) {
        shoali_picture p = {0};
        shoal_status status = read_fitting(m, i, &p);
        shoali_picture_free(&p);
        if (status == SHOAL_ENOMEM)
            return status;
        if (status != SHOAL_OK)
            tell(t);
    }
    const shoal_status status = divide(m);
    if (status == SHOAL_EINVAL)
        tell(t);
    return status == SHOAL_ENOMEM ? status : SHOAL_OK;
}

/* A class that no training sample has is no error of the files, but surely none that was meant. */
static shoal_status look_at_classes(const shoali_dataset *d, uint32_t expected, teller *t)
{
    if (expected != 0 && expected != d->classes) {
        (void)shoali_fail(SHOAL_EINVAL, "it has %u classes, %u were expected", d->classes,
                          expected);
        tell(t);
    }
    if (d->sequences || d->ids > 0)
        return SHOAL_OK;
    uint32_t *counts = shoali_alloc_array(d->classes, sizeof *counts);
    if (counts == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < d->train.count; i++)
        counts[d->train.labels[i]]++;
    for (uint32_t c = 0; c < d->classes; c++)
        if (counts[c] == 0) {
            (void)shoali_fail(SHOAL_EINVAL, "no training sample is of class %u", c);
            tell(t);
        }
    shoali_free(counts);
    return SHOAL_OK;
}

static shoal_status look_at_data(const shoal_images_desc *desc, teller *t, shoal_images_info *info)
{
    shoali_dataset *d = NULL;
    if (desc->labels != NULL || desc->height != 0 || desc->channels != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "%s is a data set already: labels, size and channels are said of what "
                           "becomes one",
                           desc->from);
    shoal_status status = shoali_dataset_open(desc->from, &d);
    if (status == SHOAL_ECORRUPT)
        tell(t);
    if (status != SHOAL_OK)
        return status == SHOAL_ECORRUPT ? SHOAL_OK : status;
    snprintf(info->format, sizeof info->format, "%s", d->format);
    info->train = d->train.count;
    info->test = d->test.count;
    info->classes = d->classes;
    info->channels = d->channels;
    info->height = d->height;
    info->width = d->width;
    status = look_at_classes(d, desc->classes, t);
    shoali_dataset_close(d);
    return status;
}

shoal_status shoal_images_check(const shoal_images_desc *desc,
                                void (*told)(void *ctx, const char *text), void *ctx,
                                shoal_images_info *info_out)
{
    teller t = {told, ctx, 0};
    shoal_images_info info = {.size = sizeof info};
    SHOALI_TRY(check_desc(desc));
    maker *m = shoali_alloc(sizeof *m);
    if (m == NULL)
        return SHOAL_ENOMEM;
    m->desc = desc;
    const bool made = refuse_other_data(desc->from) != SHOAL_OK;
    shoal_status status = made ? look_at_data(desc, &t, &info) : look_at_images(m, &t);
    if (!made)
        describe(m, &info);
    shoali_image_source_close(&m->source);
    shoali_free(m);
    info.problems = t.count;
    if (status == SHOAL_OK)
        *info_out = info;
    return status;
}
