/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"
/* check.h first: cmocka's includes */
#include "base/rng.h"
#include "support/scratch_dir.h"
#include "support/tinydata.h"

static char model_path[300];
const char *tiny_dir;
const char *const tiny_model = model_path;

static void put_u32(FILE *file, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        fputc((int)(value >> shift & 0xff), file);
}

static FILE *create(const char *dir, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    return file;
}

static void write_split(const char *dir, const char *images_name, const char *labels_name,
                        uint32_t count, uint64_t seed)
{
    shoali_rng rng = {seed, 77, 0};
    FILE *images = create(dir, images_name), *labels = create(dir, labels_name);
    put_u32(images, 0x803);
    put_u32(images, count);
    put_u32(images, TINY_SIDE);
    put_u32(images, TINY_SIDE);
    put_u32(labels, 0x801);
    put_u32(labels, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t label = (uint32_t)(shoali_rng_next(&rng) % TINY_CLASSES);
        fputc((int)label, labels);
        for (uint32_t at = 0; at < TINY_SIDE * TINY_SIDE; at++) {
            int bright = at / TINY_SIDE == label ? 90 : 0;
            fputc(bright + (int)(shoali_rng_next(&rng) % 120), images);
        }
    }
    assert_int_equal(fclose(images), 0);
    assert_int_equal(fclose(labels), 0);
}

void tiny_data_write(const char *dir, uint64_t seed)
{
    write_split(dir, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", TINY_TRAIN, seed);
    write_split(dir, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", TINY_TEST, seed + 1);
}

void tiny_model_write(const char *dir, bool norm)
{
    FILE *file = create(dir, "model.json");
    fprintf(file,
            "{\"name\": \"tiny\", \"input\": [1, %d, %d], \"layers\": [\"flatten\", "
            "\"dense:out=16\", %s\"tanh\", "
            "\"dense:out=%d\"]}\n",
            TINY_SIDE, TINY_SIDE, norm ? "\"batchnorm\", " : "", TINY_CLASSES);
    assert_int_equal(fclose(file), 0);
}

int tiny_set_up(void **state)
{
    (void)state;
    tiny_dir = scratch_dir_make();
    tiny_data_write(tiny_dir, check_seed());
    tiny_model_write(tiny_dir, false);
    snprintf(model_path, sizeof model_path, "%s/model.json", tiny_dir);
    return 0;
}

int tiny_tear_down(void **state)
{
    (void)state;
    scratch_dir_remove();
    return 0;
}
