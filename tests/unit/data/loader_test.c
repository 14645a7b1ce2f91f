/* SPDX-License-Identifier: Apache-2.0 */
#include "data/loader.h"

#include <math.h>

#include "base/rng.h"
#include "support/check.h"
#include "support/scratch_dir.h"

enum { COUNT = 4, CHANNELS = 2, HEIGHT = 5, WIDTH = 7, ELEMS = CHANNELS * HEIGHT * WIDTH };

typedef struct fixture {
    uint8_t pixels[COUNT * ELEMS];
    uint16_t labels[COUNT];
    shoali_dataset set;
} fixture;

static void fill_fixture(fixture *f)
{
    for (size_t i = 0; i < sizeof f->pixels; i++)
        f->pixels[i] = (uint8_t)shoali_rng_u64(check_seed(), 1, i);
    for (uint16_t i = 0; i < COUNT; i++)
        f->labels[i] = (uint16_t)(100 + i);
    f->set = (shoali_dataset){.channels = CHANNELS,
                              .height = HEIGHT,
                              .width = WIDTH,
                              .classes = 200,
                              .train = {f->pixels, f->labels, COUNT},
                              .mean = {0.25f, 0.5f},
                              .inv_deviation = {2.0f, 4.0f}};
}

static double expected(const fixture *f, size_t sample, size_t c, size_t y, size_t x)
{
    static const double mean[] = {0.25, 0.5}, scale[] = {2, 4};
    return (f->pixels[((sample * CHANNELS + c) * HEIGHT + y) * WIDTH + x] / 255.0 - mean[c]) *
           scale[c];
}

/* Does a 3 x 4 result equal the sample cut at (top, left)? */
static bool is_cut(const fixture *f, size_t sample, const float *x, size_t top, size_t left,
                   bool mirrored)
{
    for (size_t c = 0; c < CHANNELS; c++)
        for (size_t row = 0; row < 3; row++)
            for (size_t i = 0; i < 4; i++) {
                double want = expected(f, sample, c, top + row, left + (mirrored ? 3 - i : i));
                if (fabs(x[(c * 3 + row) * 4 + i] - want) > 1e-5)
                    return false;
            }
    return true;
}

static void whole_samples_are_normalised(void **state)
{
    fixture f;
    float x[2 * ELEMS];
    uint32_t labels[2];
    const uint32_t indices[2] = {3, 1};
    const shoali_crop crop = {HEIGHT, WIDTH, false, 0, false, 1};
    (void)state;
    fill_fixture(&f);
    shoali_dataset_fill(&f.set, &f.set.train, indices, 2, 0, &crop, x, labels);
    for (size_t n = 0; n < 2; n++) {
        assert_int_equal(labels[n], 100 + indices[n]);
        for (size_t i = 0; i < ELEMS; i++)
            assert_true(fabs(x[n * ELEMS + i] - expected(&f, indices[n], i / (HEIGHT * WIDTH),
                                                         i / WIDTH % HEIGHT, i % WIDTH)) < 1e-5);
    }
}

static void the_centre_is_cut_in_evaluation(void **state)
{
    fixture f;
    float x[CHANNELS * 3 * 4];
    uint32_t label;
    const uint32_t index = 2;
    const shoali_crop crop = {3, 4, false, 0, false, 1};
    (void)state;
    fill_fixture(&f);
    for (uint64_t serial = 0; serial < 5; serial++) {
        shoali_dataset_fill(&f.set, &f.set.train, &index, 1, serial, &crop, x, &label);
        assert_true(is_cut(&f, 2, x, 1, 1, false));
    }
}

/* Every place and side comes up, each about as often as the others, and the serial alone decides.
 */
static void random_cuts_depend_on_the_serial_only(void **state)
{
    enum { DRAWS = 2400, PLACES = 3 * 4 * 2 };
    fixture f;
    float x[CHANNELS * 3 * 4], again[3 * CHANNELS * 3 * 4];
    uint32_t label, labels[3], seen[PLACES] = {0};
    const uint32_t index = 2, three[3] = {0, 1, 2};
    const shoali_crop crop = {3, 4, true, 0, true, check_seed()};
    (void)state;
    fill_fixture(&f);
    for (uint64_t serial = 0; serial < DRAWS; serial++) {
        uint32_t found = 0;
        shoali_dataset_fill(&f.set, &f.set.train, &index, 1, serial, &crop, x, &label);
        for (uint32_t place = 0; place < PLACES; place++)
            if (is_cut(&f, 2, x, place / 8, place / 2 % 4, place % 2 == 1)) {
                seen[place]++;
                found++;
            }
        assert_int_equal(found, 1);
        if (serial >= 2 && serial < 20) { /* as the last of three, it is the same */
            shoali_dataset_fill(&f.set, &f.set.train, three, 3, serial - 2, &crop, again, labels);
            assert_memory_equal(again + 2 * CHANNELS * 3 * 4, x, sizeof x);
        }
    }
    for (uint32_t place = 0; place < PLACES; place++)
        assert_in_range(seen[place], DRAWS / PLACES / 2, DRAWS / PLACES * 2);
}

static void an_empty_directory_lists_what_was_looked_for(void **state)
{
    shoali_dataset *d;
    char dir[64];
    (void)state;
    snprintf(dir, sizeof dir, "%s", scratch_dir_make());
    assert_status(shoali_dataset_open(dir, &d), SHOAL_EINVAL);
    for (size_t i = 0; shoali_loader_at(i) != NULL; i++) {
        assert_error_has(shoali_loader_at(i)->name);
        assert_error_has(shoali_loader_at(i)->probe);
    }
    assert_error_has("shoal data digits");
    scratch_dir_remove();
    assert_status(shoali_dataset_open(dir, &d), SHOAL_EIO);
    assert_error_has(dir);
}

/* Mean and deviation over the train split, checked against a second sum in double. */
static void statistics_are_those_of_the_train_split(void **state)
{
    enum { IMAGES = 6, PIXELS = 20 };
    uint8_t images[16 + IMAGES * PIXELS] = {0, 0, 8, 3, 0, 0, 0, IMAGES, 0, 0, 0, 4, 0, 0, 0, 5};
    uint8_t labels[8 + IMAGES] = {0, 0, 8, 1, 0, 0, 0, IMAGES};
    shoali_dataset *d;
    char dir[64];
    double sum = 0, squares = 0;
    (void)state;
    for (size_t i = 0; i < IMAGES * PIXELS; i++) {
        images[16 + i] = (uint8_t)shoali_rng_u64(check_seed(), 2, i);
        sum += images[16 + i] / 255.0;
    }
    double mean = sum / (IMAGES * PIXELS);
    for (size_t i = 0; i < IMAGES * PIXELS; i++)
        squares += pow(images[16 + i] / 255.0 - mean, 2);
    snprintf(dir, sizeof dir, "%s", scratch_dir_make());
    scratch_write("train-images-idx3-ubyte", images, sizeof images);
    scratch_write("train-labels-idx1-ubyte", labels, sizeof labels);
    memset(images + 16, 9, IMAGES * PIXELS);
    scratch_write("t10k-images-idx3-ubyte", images, sizeof images);
    scratch_write("t10k-labels-idx1-ubyte", labels, sizeof labels);
    assert_ok(shoali_dataset_open(dir, &d));
    assert_true(fabs(d->mean[0] - mean) < 1e-6);
    assert_true(fabs(d->inv_deviation[0] * sqrt(squares / (IMAGES * PIXELS)) - 1) < 1e-5);
    shoali_dataset_close(d);
    for (size_t k = 1; k < 12; k++) { /* memory runs out */
        (void)shoali_alloc_fail_at(k);
        shoal_status status = shoali_dataset_open(dir, &d);
        (void)shoali_alloc_fail_at(0);
        if (status == SHOAL_OK)
            shoali_dataset_close(d);
        else
            assert_int_equal(status, SHOAL_ENOMEM);
    }
    scratch_dir_remove();
}

/* A channel that is the same everywhere has no deviation to divide by: its inputs are zero. */
static void a_constant_channel_becomes_zero(void **state)
{
    enum { IMAGES = 3, PIXELS = 20 };
    uint8_t images[16 + IMAGES * PIXELS] = {0, 0, 8, 3, 0, 0, 0, IMAGES, 0, 0, 0, 4, 0, 0, 0, 5};
    uint8_t labels[8 + IMAGES] = {0, 0, 8, 1, 0, 0, 0, IMAGES};
    static const uint8_t values[] = {0, 9, 255};
    (void)state;
    for (size_t v = 0; v < sizeof values; v++) {
        shoali_dataset *d;
        char dir[64];
        float x[PIXELS];
        uint32_t label;
        const uint32_t index = 1;
        const shoali_crop crop = {.height = 4, .width = 5, .seed = 1};
        memset(images + 16, values[v], IMAGES * PIXELS);
        snprintf(dir, sizeof dir, "%s", scratch_dir_make());
        scratch_write("train-images-idx3-ubyte", images, sizeof images);
        scratch_write("train-labels-idx1-ubyte", labels, sizeof labels);
        scratch_write("t10k-images-idx3-ubyte", images, sizeof images);
        scratch_write("t10k-labels-idx1-ubyte", labels, sizeof labels);
        assert_ok(shoali_dataset_open(dir, &d));
        shoali_dataset_fill(d, &d->train, &index, 1, 0, &crop, x, &label);
        for (size_t i = 0; i < PIXELS; i++)
            assert_true(fabs((double)x[i]) < 1e-6);
        shoali_dataset_close(d);
        scratch_dir_remove();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(whole_samples_are_normalised),
        CHECK_TEST(the_centre_is_cut_in_evaluation),
        CHECK_TEST(random_cuts_depend_on_the_serial_only),
        CHECK_TEST(an_empty_directory_lists_what_was_looked_for),
        CHECK_TEST(statistics_are_those_of_the_train_split),
        CHECK_TEST(a_constant_channel_becomes_zero),
    };
    return CHECK_RUN(tests);
}
