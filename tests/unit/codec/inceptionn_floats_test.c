/* SPDX-License-Identifier: Apache-2.0 */
/* Layout `floats` against `interleaved`: the same values to the bit, alone and in a sum, and coding
 * them once more, as a card does on the way, loses nothing. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "codec/inceptionn.h"
#include "support/enginecase.h"

enum { MOST = 3000, BYTES = 5 * MOST };

/* All exponents from far below the thresholds to infinity, zeros of both signs, NaN, runs. */
static float drawn(uint64_t stream, size_t i)
{
    const uint64_t r = shoali_rng_u64(check_seed(), stream, i);
    const uint32_t exponent = r % 8 == 0 ? (uint32_t)(r >> 3) % 256 : 110 + (uint32_t)(r >> 3) % 20;
    const uint32_t low = r % 8 == 1 ? 0 : r % 8 == 2 ? 0x7fffff : (uint32_t)(r >> 32) & 0x7fffff;
    const uint32_t bits = ((uint32_t)(r >> 32) & 0x80000000u) | exponent << 23 | low;
    float x;
    memcpy(&x, &bits, sizeof x);
    return i / 8 % 5 == 0 ? (r % 2 == 0 ? -0.0f : 0) : x;
}

static void assert_bits(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("element %zu: %a, not %a", i, (double)a[i], (double)b[i]);
}

static void values_are_those_of_a_card(void **state)
{
    (void)state;
    static float src[MOST], want[MOST], got[MOST], sum[MOST];
    static uint8_t coded[BYTES], floats[BYTES + 1], again[BYTES];
    const uint32_t ks[] = {6, 8, 10};
    for (size_t c = 0; c < 6; c++) {
        const shoali_inc_rule rule = shoali_inc_rule_make(ks[c % 3], 0, c < 3);
        for (size_t n = 0; n < MOST; n = 3 * n + 1) {
            for (size_t i = 0; i < n; i++) {
                src[i] = drawn(c, i);
                sum[i] = drawn(100 + c, i / 3 * 5);
            }
            const size_t bytes = shoali_inc_ref_interleaved.encode(&rule, src, n, coded);
            assert_int_equal(shoali_inc_floats.encode(&rule, src, n, floats + 1), 4 * n);
            assert_int_equal(shoali_inc_ref_interleaved.decode(&rule, coded, bytes, want, n, false),
                             bytes);
            assert_int_equal(shoali_inc_floats.decode(&rule, floats + 1, 4 * n, got, n, false),
                             4 * n);
            assert_bits(got, want, n);
            /* a card between: the same floats behind it */
            const size_t card = shoali_inc_ref_interleaved.encode(&rule, got, n, again);
            assert_int_equal(shoali_inc_ref_interleaved.decode(&rule, again, card, want, n, false),
                             card);
            assert_bits(want, got, n);
            memcpy(want, sum, n * sizeof *want);
            memcpy(got, sum, n * sizeof *got);
            (void)shoali_inc_ref_interleaved.decode(&rule, coded, bytes, want, n, true);
            (void)shoali_inc_floats.decode(&rule, floats + 1, 4 * n, got, n, true);
            for (size_t i = 0; i < n; i++)
                if ((isnan(want[i]) && isnan(got[i])) || (want[i] == 0 && got[i] == 0))
                    want[i] = got[i] = 0; /* which NaN two of them give is the CPU's */
            assert_bits(got, want, n);
            if (n > 0)
                assert_true(shoali_inc_floats.decode(&rule, floats + 1, 4 * n - 1, got, n, false) ==
                            SHOALI_INC_CORRUPT);
        }
    }
}

enum { RING = 4, STEPS = 5 };

static void open_ring(engine_run *run, const char *codec, bool feedback)
{
    const engine_case c = {.collective = "ring",
                           .push = codec,
                           .size = RING,
                           .count = MOST,
                           .chunk_elems = 200,
                           .feedback = feedback,
                           .unit = 1.0f / 3000,
                           .input_seed = check_seed(),
                           .order_seed = check_seed()};
    assert_true(engine_run_open(&c, run));
}

static void step_of(engine_run *run, uint64_t step)
{
    if (step > 0)
        engine_run_again(run, step, check_seed() + step);
    else
        engine_run_go(run);
    engine_run_assert_ok(run);
}

/* With error feedback and without: what a card would make of the frames, and no replica drifts. */
static void a_ring_ends_with_the_same_bits(void **state)
{
    (void)state;
    for (int feedback = 0; feedback < 2; feedback++) {
        engine_run card, host;
        double kept = 0;
        open_ring(&card, "inceptionn:layout=interleaved", feedback);
        open_ring(&host, "inceptionn:layout=floats", feedback);
        for (uint64_t step = 0; step < STEPS; step++) {
            step_of(&card, step);
            step_of(&host, step);
            for (uint32_t m = 0; m < RING; m++) {
                assert_bits(host.bufs[m], card.bufs[m], MOST);
                assert_bits(host.bufs[m], host.bufs[0], MOST);
                if (!feedback)
                    continue;
                assert_bits(host.residuals[m][0], card.residuals[m][0], MOST);
                for (size_t i = 0; i < MOST; i++)
                    kept = fmax(kept, fabs((double)host.residuals[m][0][i]));
            }
        }
        assert_true(feedback == 0 || kept > 1e-4);
        engine_run_close(&card);
        engine_run_close(&host);
    }
}

static void a_prescale_is_refused(void **state)
{
    (void)state;
    shoal_codec *codec = NULL;
    assert_status(shoal_codec_open("inceptionn:layout=floats,prescale=auto", &codec), SHOAL_EINVAL);
    assert_error_has("leave prescale out");
    assert_status(shoal_codec_open("inceptionn:layout=floats,zmap", &codec), SHOAL_EINVAL);
    assert_ok(shoal_codec_open("inceptionn:layout=floats", &codec));
    assert_true(shoal_codec_bytes_per_elem(codec, 4) == 4);
    shoal_codec_close(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(values_are_those_of_a_card),
        CHECK_TEST(a_ring_ends_with_the_same_bits),
        CHECK_TEST(a_prescale_is_refused),
    };
    return CHECK_RUN(tests);
}
