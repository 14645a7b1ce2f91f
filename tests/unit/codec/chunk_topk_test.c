/* SPDX-License-Identifier: Apache-2.0 */
/* chunk_topk: bytes by hand; the largest of each chunk, in two levels that are means. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "shoal/codec.h"

enum { N = 10000 };

static size_t round_trip(const char *spec, const float *src, size_t count, float *got,
                         uint8_t *coded)
{
    shoal_codec *codec;
    size_t written, used;
    const shoal_codec_at at = {.parts = 1};
    assert_ok(shoal_codec_open(spec, &codec));
    size_t bound = shoal_codec_bound(codec, count, 1);
    assert_ok(shoal_codec_encode(codec, &at, src, count, coded, bound, &written));
    assert_ok(shoal_codec_decode(codec, &at, coded, written, got, count, false, &used));
    assert_int_equal(used, written);
    shoal_codec_close(codec);
    return written;
}

static void bytes_by_hand(void **state)
{
    (void)state;
    static float src[4096], got[4096];
    uint8_t coded[64];
    src[1] = -1, src[4095] = 3, src[0x123] = 1;
    const uint8_t want[] = {0x01, 0x30, 0x12, 0xff, 0x0f, 0, 0, 0x80, 0x3f, 0, 0, 0x40, 0x40, 0x21};
    assert_int_equal(round_trip("chunk_topk:k=3", src, 4096, got, coded), sizeof want);
    assert_memory_equal(coded, want, sizeof want);
    assert_memory_equal(got, src, sizeof src);
}

static void the_largest_of_each_chunk_arrive(void **state)
{
    (void)state;
    static float src[N], got[N], exact[N];
    static uint8_t coded[4 * N];
    for (size_t i = 0; i < N; i++)
        src[i] = (float)shoali_rng_normal(check_seed(), 1, i);
    size_t bytes = 2 * (8 + 96 + 16) + 8 + 3 * 29 / 2 + 1 + 8;
    assert_int_equal(round_trip("chunk_topk", src, N, got, coded), bytes);
    round_trip("chunk_topk:q=32", src, N, exact, coded);
    for (size_t chunk = 0; chunk < N; chunk += 4096) {
        size_t end = chunk + 4096 < N ? chunk + 4096 : N, sent = 0;
        float least = INFINITY, most = 0;
        double was = 0, is = 0;
        for (size_t i = chunk; i < end; i++)
            if (got[i] != 0) {
                assert_true(exact[i] == src[i] && signbit(got[i]) == signbit(src[i]));
                least = fminf(least, fabsf(src[i])), most = fmaxf(most, fabsf(src[i]));
                was += fabs((double)src[i]), is += fabs((double)got[i]);
                assert_true(fabsf(got[i] - src[i]) < 1.0f);
                sent++;
            }
        assert_int_equal(sent, end - chunk == 4096 ? 64 : 29);
        assert_true(fabs(is / was - 1) < 0.03); /* means */
        for (size_t i = chunk; i < end; i++)
            assert_true(got[i] != 0 || fabsf(src[i]) <= least);
    }
}

static shoal_status decode_of(const uint8_t *coded, size_t len_bytes, size_t count)
{
    static float got[4096];
    shoal_codec *codec;
    size_t used;
    const shoal_codec_at at = {.parts = 1};
    assert_ok(shoal_codec_open("chunk_topk:k=3", &codec));
    shoal_status status = shoal_codec_decode(codec, &at, coded, len_bytes, got, count, false,
                                             &used);
    shoal_codec_close(codec);
    return status;
}

/* Indices ascend, each once, below the number of elements, and what is left of the last two bytes
 * is zero: else two senders' sums of the same bytes could differ. */
static void indices_that_no_encoder_writes_are_refused(void **state)
{
    (void)state;
    const uint8_t good[] = {0x01, 0x30, 0x12, 0xff, 0x0f, 0, 0, 0x80, 0x3f, 0, 0, 0x40, 0x40, 0x21};
    static const struct {
        uint8_t indices[5]; /* 12 bits each */
        size_t count;
    } bad[] = {
        {{0x01, 0x10, 0x00, 0xff, 0x0f}, 4096}, /* 1 1 4095 */
        {{0x01, 0x30, 0x12, 0x23, 0x01}, 4096}, /* 1 0x123 0x123 */
        {{0x24, 0x31, 0x12, 0xff, 0x0f}, 4096}, /* 0x124 0x123 4095 */
        {{0x01, 0x30, 0x12, 0xff, 0x1f}, 4096}, /* a bit behind the last */
        {{0x01, 0x30, 0x12, 0xff, 0x0f}, 4095}, /* the last one is element 4095 */
    };
    uint8_t coded[sizeof good];
    assert_ok(decode_of(good, sizeof good, 4096));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(coded, good, sizeof good);
        memcpy(coded, bad[i].indices, sizeof bad[i].indices);
        assert_status(decode_of(coded, sizeof coded, bad[i].count), SHOAL_ECORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bytes_by_hand),
        CHECK_TEST(the_largest_of_each_chunk_arrive),
        CHECK_TEST(indices_that_no_encoder_writes_are_refused),
    };
    return CHECK_RUN(tests);
}
