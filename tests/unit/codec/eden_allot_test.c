/* SPDX-License-Identifier: Apache-2.0 */
/* eden:allot=energy: allotments against dynamic programming, sizes, forged headers, bytes for
 * ever. tests/conformance/eden_energy_test.c measures the error. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "support/eden_case.h"

enum { ROW = SHOALI_EDEN_ROW, UNIT = SHOALI_EDEN_MOST, GROUP = EDEN_GROUP };

/* ---------------------------------------------------------------- allotment */

static double cost_of(const double *energy, const uint8_t *planes, size_t blocks, bool ef)
{
    double cost = 0;
    for (size_t b = 0; b < blocks; b++)
        cost += energy[b] > 0 ? energy[b] * eden_case_error(planes[b], ef) : 0;
    return cost;
}

/* The least cost of `total` planes over all allotments: knows nothing of gains or convexity. */
static double least_cost(const double *energy, size_t blocks, bool ef, size_t total)
{
    enum { MOST = 4 * SHOALI_EDEN_ROWS };
    static double best[MOST + 1], next[MOST + 1];
    for (size_t t = 0; t <= total; t++)
        best[t] = t == 0 ? 0 : INFINITY;
    for (size_t b = 0; b < blocks; b++) {
        for (size_t t = 0; t <= total; t++) {
            next[t] = INFINITY;
            for (unsigned k = 0; k <= 4 && k <= t; k++) {
                double cost = energy[b] > 0 ? energy[b] * eden_case_error(k, ef) : 0;
                next[t] = fmin(next[t], best[t - k] + cost);
            }
        }
        memcpy(best, next, sizeof best);
    }
    return best[total];
}

/* Gains are compared to 2^-8: of those that look equal the wrong one may be taken. */
static void allotments_are_the_best_there_are(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < 60; trial++) {
        const bool ef = trial % 2 == 0;
        const size_t blocks = 16 * (1 + shoali_rng_below(check_seed(), 20, trial, 4));
        const size_t total = blocks * (2 + trial % 3 % 2) - blocks / 16;
        const double spread = (double)(trial % 7);
        double energy[SHOALI_EDEN_ROWS];
        uint8_t planes[SHOALI_EDEN_ROWS];
        size_t sum = 0;
        for (size_t b = 0; b < blocks; b++)
            energy[b] = trial % 5 == 4 && b % 3 == 0
                            ? 0
                            : exp(spread * shoali_rng_normal(check_seed(), 21 + trial, b));
        shoali_eden_allot(energy, blocks, ef, total, planes);
        for (size_t b = 0; b < blocks; b++) {
            sum += planes[b];
            assert_true(planes[b] <= 4 && (ef || planes[b] >= 1 || energy[b] == 0));
        }
        assert_int_equal(sum, total);
        double want = least_cost(energy, blocks, ef, total);
        double got = cost_of(energy, planes, blocks, ef);
        if (got < want * (1 - 1e-9) || got > want * 1.002)
            fail_msg("trial %d: cost %g, %g is possible", (int)trial, got, want);
    }
}

/* One block with values among 15 without: it gets all it can take. */
static void blocks_without_energy_take_nothing(void **state)
{
    (void)state;
    static float src[UNIT], got[UNIT];
    shoal_codec *codec = eden_case_open("eden:allot=energy");
    for (size_t i = 0; i < UNIT; i++)
        src[i] = i / ROW == 7 ? eden_case_draw(0, i) : 0;
    eden_case_decode(codec, 1, eden_case_encode(codec, 1, src, UNIT), got, UNIT);
    assert_int_equal(eden_coded[2 * 7] & 7, 4);
    double error = 0;
    for (size_t i = 0; i < UNIT; i++) {
        error += pow((double)got[i] - (double)src[i], 2);
        assert_true(i / ROW == 7 || got[i] == 0);
    }
    assert_true(error / eden_case_energy(src, UNIT) < 2 * eden_case_error(4, false));
    shoal_codec_close(codec);
}

/* ---------------------------------------------------------------- sizes, refusals */

static void sizes_are_exact(void **state)
{
    (void)state;
    shoal_codec *codec = eden_case_open("eden:allot=energy"), *even = eden_case_open("eden");
    for (size_t count = 0; count < UNIT; count += 97)
        assert_int_equal(shoal_codec_bound(codec, count, 1), shoal_codec_bound(even, count, 1));
    assert_int_equal(shoal_codec_bound(codec, UNIT, 1), UNIT / 4);
    assert_int_equal(shoal_codec_bound(codec, 40 * UNIT, 1), 40 * UNIT / 4);
    assert_int_equal(shoal_codec_bound(codec, UNIT + 500, 1), UNIT / 4 + 4 + 128);
    shoal_codec_close(codec), shoal_codec_close(even);
}

static void bits_that_leave_no_choice_are_refused(void **state)
{
    (void)state;
    shoal_codec *codec;
    assert_status(shoal_codec_open("eden:bits=4,allot=energy", &codec), SHOAL_EINVAL);
    assert_status(shoal_codec_open("eden:bits=4,allot=energy,ef", &codec), SHOAL_EINVAL);
    assert_status(shoal_codec_open("eden:bits=1,allot=energy", &codec), SHOAL_EINVAL);
    assert_error_has("bits=2 or 3");
    assert_status(shoal_codec_open("eden:allot=size", &codec), SHOAL_EINVAL);
}

static shoal_status decode_forged(const shoal_codec *codec, size_t block, unsigned header)
{
    static float got[UNIT];
    const shoal_codec_at at = {.parts = 1, .seed = 3};
    size_t used, length = shoal_codec_bound(codec, UNIT, 1);
    const uint8_t was[2] = {eden_coded[2 * block], eden_coded[2 * block + 1]};
    eden_coded[2 * block] = (uint8_t)header, eden_coded[2 * block + 1] = (uint8_t)(header >> 8);
    shoal_status status = shoal_codec_decode(codec, &at, eden_coded, length, got, UNIT, false,
                                             &used);
    memcpy(eden_coded + 2 * block, was, 2);
    for (size_t i = 0; i < UNIT && status == SHOAL_OK; i++)
        assert_true(isfinite(got[i]));
    return status;
}

/* Every header that there is in place of one: only the block's own number of bits decodes, with
 * scales that are numbers. */
static void forged_headers_are_corrupt(void **state)
{
    (void)state;
    const char *const specs[] = {"eden:allot=energy", "eden:bits=1,allot=energy,ef"};
    for (size_t s = 0; s < 2; s++) {
        shoal_codec *codec = eden_case_open(specs[s]);
        (void)eden_case_encode(codec, 0, eden_case_data(2), UNIT);
        for (size_t block = 0; block < 16; block += 5) {
            const unsigned planes = eden_coded[2 * block] & 7;
            for (unsigned header = 0; header < 65536; header += 1 + header % 8 / 7 * 24) {
                bool sound = (header & 7) == planes && header >> 3 < 255u << 5;
                shoal_status status = decode_forged(codec, block, header);
                if (!sound || planes == 0)
                    assert_int_equal(status == SHOAL_OK, sound && header == 0);
                else if (header >> 3 < 200u << 5) /* beyond, values may be infinite */
                    assert_ok(status);
            }
        }
        shoal_codec_close(codec);
    }
}

/* More planes than there are levels for, the sum kept by another block: of rows over eight octaves
 * some have four. */
static void five_bits_are_corrupt(void **state)
{
    (void)state;
    shoal_codec *codec = eden_case_open("eden:allot=energy");
    size_t tried = 0, length = eden_case_encode(codec, 0, eden_case_data(2), GROUP);
    static float got[GROUP];
    const shoal_codec_at at = {.parts = 1, .seed = 3};
    for (size_t a = 0; a < SHOALI_EDEN_ROWS; a++)
        for (size_t b = 0; b < SHOALI_EDEN_ROWS; b++) {
            if ((eden_coded[2 * a] & 7) != 4 || (eden_coded[2 * b] & 7) != 2)
                continue;
            size_t used;
            eden_coded[2 * a]++, eden_coded[2 * b]--;
            assert_status(
                shoal_codec_decode(codec, &at, eden_coded, length, got, GROUP, false, &used),
                SHOAL_ECORRUPT);
            eden_coded[2 * a]--, eden_coded[2 * b]++;
            tried++;
        }
    assert_true(tried > 0);
    shoal_codec_close(codec);
}

static void values_that_are_not_finite_are_named(void **state)
{
    (void)state;
    const float strange[] = {NAN, INFINITY, -INFINITY};
    static float src[UNIT];
    shoal_codec *codec = eden_case_open("eden:allot=energy");
    const shoal_codec_at at = {.parts = 1, .first = 1000};
    size_t written;
    memcpy(src, eden_case_data(0), sizeof src);
    for (size_t i = 5; i < UNIT; i += 379) {
        char text[64];
        src[i] = strange[i % 3];
        assert_status(
            shoal_codec_encode(codec, &at, src, UNIT, eden_coded, sizeof eden_coded, &written),
            SHOAL_ENOTFINITE);
        snprintf(text, sizeof text, "element %zu is not finite", 1000 + i);
        assert_error_has(text);
        src[i] = 0;
    }
    shoal_codec_close(codec);
}

/* Squares beyond float32, and below it: as good as any. */
static void scale_does_not_matter(void **state)
{
    (void)state;
    static float src[UNIT], got[UNIT];
    static const int powers[] = {-125, -100, -50, 50, 100, 118};
    shoal_codec *codec = eden_case_open("eden:allot=energy");
    for (size_t p = 0; p < sizeof powers / sizeof *powers; p++) {
        double error = 0;
        for (size_t i = 0; i < UNIT; i++)
            src[i] = ldexpf(eden_case_data(0)[i], powers[p]);
        eden_case_decode(codec, 1, eden_case_encode(codec, 1, src, UNIT), got, UNIT);
        for (size_t i = 0; i < UNIT; i++)
            error += pow((double)got[i] - (double)src[i], 2);
        assert_true(fabs(error / eden_case_energy(src, UNIT) / 0.1605 - 1) < 0.2);
    }
    shoal_codec_close(codec);
}

/* ---------------------------------------------------------------- bytes for ever */

static uint64_t digest(const char *spec)
{
    static float src[UNIT + GROUP];
    for (size_t i = 0; i < UNIT + GROUP; i++)
        src[i] = ldexpf((float)((int64_t)(shoali_rng_u64(4, 5, i) >> 40) - (1 << 23)),
                        -30 - (int)shoali_rng_below(4, 6, i / ROW, 8));
    shoal_codec *codec = eden_case_open(spec);
    size_t length = eden_case_encode(codec, 2, src, UNIT + GROUP);
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ eden_coded[i]) * 0x100000001b3u;
    shoal_codec_close(codec);
    return hash;
}

/* Also run with SHOAL_KERNEL=ref: plain loops make the bytes that vector loops make. */
static void golden_digests(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint64_t digest;
    } golden[] = {
        {"eden:allot=energy", 0x6afc3b0f6eb94be2u},
        {"eden:bits=3,allot=energy", 0x3535213fde4f54b9u},
        {"eden:allot=energy,ef", 0xbe3ffedc55ff23eu},
        {"eden:bits=1,allot=energy,ef", 0xd608402654ae502du},
    };
    for (size_t i = 0; i < 4; i++)
        if (digest(golden[i].spec) != golden[i].digest)
            fail_msg("%s: digest %#llx", golden[i].spec,
                     (unsigned long long)digest(golden[i].spec));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(allotments_are_the_best_there_are),
        CHECK_TEST(blocks_without_energy_take_nothing),
        CHECK_TEST(sizes_are_exact),
        CHECK_TEST(bits_that_leave_no_choice_are_refused),
        CHECK_TEST(forged_headers_are_corrupt),
        CHECK_TEST(five_bits_are_corrupt),
        CHECK_TEST(values_that_are_not_finite_are_named),
        CHECK_TEST(scale_does_not_matter),
        CHECK_TEST(golden_digests),
    };
    return CHECK_RUN(tests);
}
