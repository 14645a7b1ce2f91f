/* SPDX-License-Identifier: Apache-2.0 */
#include "support/scaled_case.h"

#include <math.h>

#include "base/rng.h"
#include "kernel/kernel.h"
#include "support/check.h"

enum { MOST = 1024 };

void scaled_round_trip(const char *spec, uint64_t stream, const float *src, size_t count,
                       float *got, uint8_t *coded_out)
{
    shoal_codec *codec;
    size_t written, used;
    assert_ok(shoal_codec_open(spec, &codec));
    size_t bound = shoal_codec_bound(codec, count, 1);
    uint8_t *coded = malloc(bound + 1);
    const shoal_codec_at at = {.parts = 1, .seed = 8, .stream = stream};
    assert_ok(shoal_codec_encode(codec, &at, src, count, coded, bound, &written));
    assert_ok(shoal_codec_decode(codec, &at, coded, written, got, count, false, &used));
    assert_int_equal(used, written);
    if (coded_out != NULL)
        memcpy(coded_out, coded, written);
    free(coded);
    shoal_codec_close(codec);
}

static void compare_once(const shoali_scaled_format *ref, const shoali_scaled_format *vector,
                         const shoali_scaled_noise *noise, const float *src, size_t n)
{
    uint8_t want[MOST + 32], got[MOST + 32];
    float a[MOST], b[MOST];
    const size_t bytes = (n + ref->group - 1) / ref->group * ref->group_bytes;
    const float per_scale = ref->largest > 0 ? ref->largest / 4 : 1;
    if (ref->sums != NULL) {
        ref->sums(src, n, 0.5f, a);
        vector->sums(src, n, 0.5f, b);
        assert_memory_equal(a, b, 8 * sizeof *a);
    }
    memset(want, 0xaa, sizeof want);
    memset(got, 0xaa, sizeof got);
    ref->put(src, n, per_scale, noise, want);
    vector->put(src, n, per_scale, noise, got);
    assert_memory_equal(want, got, sizeof want);
    for (size_t i = 0; i < bytes; i += 3)
        want[i] = (uint8_t)shoali_rng_u64(check_seed(), 3, i + n); /* codes that no encoder makes */
    for (int add = 0; add < 2; add++) {
        for (size_t i = 0; i < n; i++)
            a[i] = b[i] = (float)i;
        ref->get(want, n, 0.37f, a, add != 0);
        vector->get(want, n, 0.37f, b, add != 0);
        assert_memory_equal(a, b, n * sizeof *a);
    }
}

void scaled_compare(const shoali_scaled_format *ref, const shoali_scaled_format *vector,
                    bool stochastic)
{
    float src[MOST];
    for (size_t n = 0; n <= MOST; n += n < 300 ? 1 : 181) {
        const shoali_scaled_noise noise = {
            .key = {1, (uint32_t)n}, .first = 1024, .on = stochastic};
        for (size_t i = 0; i < n; i++) {
            int power = (int)shoali_rng_below(check_seed(), 2, i + n, 14) - 12;
            src[i] = (float)ldexp(shoali_rng_normal(check_seed(), 1, i + n),
                                  i % 3 == 0 ? power : 0);
            src[i] = fminf(4, fmaxf(-4, src[i]));
            if (i % 11 == 5)
                src[i] = i % 2 == 0 ? -4.0f : -0.0f;
        }
        compare_once(ref, vector, &noise, src, n);
    }
}
