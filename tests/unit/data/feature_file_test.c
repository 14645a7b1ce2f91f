/* SPDX-License-Identifier: Apache-2.0 */
/* Kaldi's and HTK's frames from bytes written out by hand; every truncation is refused. */
#include "data/feature_file.h"

#include <math.h>

#include "support/check.h"

static void refused(const void *bytes, size_t len_bytes, size_t offset, const char *part)
{
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_feature_matrix m;
    assert_non_null(arena);
    assert_status(shoali_feature_matrix_read("some.ark", bytes, len_bytes, offset, arena, &m),
                  SHOAL_ECORRUPT);
    assert_error_has("some.ark");
    assert_error_has(part);
    shoali_arena_destroy(arena);
}

static void reads(const void *bytes, size_t len_bytes, size_t offset, uint32_t frames,
                  uint32_t values, const float *want)
{
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_feature_matrix m;
    assert_non_null(arena);
    assert_ok(shoali_feature_matrix_read("some.ark", bytes, len_bytes, offset, arena, &m));
    assert_int_equal(m.frames, frames);
    assert_int_equal(m.values, values);
    for (uint32_t i = 0; i < frames * values; i++)
        assert_true(fabsf(m.x[i] - want[i]) <= 1e-5f);
    shoali_arena_destroy(arena);
    for (size_t cut = offset; cut < len_bytes; cut++)
        refused(bytes, cut, offset, ""); /* sizes never exceed what is there */
}

/* "utt " and what stands behind it. */
#define HEAD "utt \0B"
#define SIZES(frames, values) "\4" frames "\0\0\0\4" values "\0\0\0"
#define BYTES(text) (text), sizeof(text) - 1

static void plain_matrices(void **state)
{
    (void)state;
    static const float want[] = {1, -2, 0.5f, 3, 4, -0.25f};
    reads(BYTES(HEAD "FM " SIZES("\2", "\3") "\0\0\x80\x3f\0\0\0\xc0\0\0\0\x3f"
                                             "\0\0\x40\x40\0\0\x80\x40\0\0\x80\xbe"),
          4, 2, 3, want);
    reads(BYTES(HEAD "DM " SIZES("\1", "\2") "\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\xc0"), 4, 1, 2,
          want);
}

/* From 10 to 10 + 65535 / 65535 * 2: quarters are u16 of that range. */
static void compressed_matrices(void **state)
{
    (void)state;
    static const char range[] = "\0\0\x20\x41\0\0\0\x40";
    char cm[64] = HEAD "CM ", *at = cm + 9;
    memcpy(at, range, 8);
    memcpy(at + 8, "\4\0\0\0\1\0\0\0", 8);
    /* p0 = 10, p25 = 10.5, p75 = 11.5, p100 = 12 (65535 / 4 = 16384, rounded) */
    memcpy(at + 16, "\0\0\0\x40\xff\xbf\xff\xff", 8);
    memcpy(at + 24, "\0\x40\x80\xff", 4);
    static const float want[] = {10, 10.50001f, 11.0f, 12};
    reads(cm, 9 + 28, 4, 4, 1, want);
    char cm2[64] = HEAD "CM2 ";
    memcpy(cm2 + 10, range, 8);
    memcpy(cm2 + 18, "\1\0\0\0\2\0\0\0\0\0\xff\xff", 12);
    static const float ends[] = {10, 12};
    reads(cm2, 30, 4, 1, 2, ends);
    char cm3[64] = HEAD "CM3 ";
    memcpy(cm3 + 10, range, 8);
    memcpy(cm3 + 18, "\2\0\0\0\1\0\0\0\0\xff", 10);
    reads(cm3, 28, 4, 2, 1, ends);
}

static void htk_files(void **state)
{
    (void)state;
    static const float want[] = {1, -2, 0.5f, 3};
    reads(BYTES("\0\0\0\2\0\1\x86\xa0\0\x8\0\x6"
                "\x3f\x80\0\0\xc0\0\0\0\x3f\0\0\0\x40\x40\0\0"),
          0, 2, 2, want);
    /* _C: A = 100, 200; B = 0, 100; x = (v + B) / A; a CRC follows */
    static const float packed[] = {-3.2f, 1};
    reads(BYTES("\0\0\0\5\0\1\x86\xa0\0\x4\x14\x6"
                "\x42\xc8\0\0\x43\x48\0\0\0\0\0\0\x42\xc8\0\0"
                "\xfe\xc0\0\x64"),
          0, 1, 2, packed);
}

static void nonsense_is_named(void **state)
{
    (void)state;
    refused(BYTES(HEAD "XM " SIZES("\1", "\1") "\0\0\0\0"), 4, "no matrix of Kaldi's");
    refused(BYTES(HEAD "CM4 0123456789abcdef0123"), 4, "no matrix of Kaldi's");
    refused(BYTES(HEAD "FM \3\1\0\0\0\4\1\0\0\0\0\0\0\0"), 4, "no sizes");
    refused(BYTES(HEAD "FM " SIZES("\0", "\1") "\0\0\0\0"), 4, "0 frames");
    refused(BYTES(HEAD "FM \4\xff\xff\xff\x7f\4\1\0\0\0\0\0\0\0"), 4, "2147483647 frames");
    refused(BYTES(HEAD "FM " SIZES("\1", "\1") "\0\0\x80\x7f"), 4, "not finite");
    refused(BYTES(HEAD "FM " SIZES("\2", "\1") "\0\0\0\0"), 4, "take 8 bytes, 4 are left");
    refused(BYTES("\0\0\0\2\0\1\x86\xa0\0\x2\0\0\0\0\0\0"), 0, "nor HTK's"); /* a waveform */
    refused(BYTES("\0\0\0\2\0\1\x86\xa0\0\x3\0\x6\0\0\0\0\0\0"), 0, "nor HTK's");
    refused(BYTES("\0\0\0\4\0\1\x86\xa0\0\x4\x4\x6"), 0, "without frames");
    refused(BYTES("abc"), 99, "nothing at byte 99");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CHECK_TEST(plain_matrices),
        CHECK_TEST(compressed_matrices),
        CHECK_TEST(htk_files),
        CHECK_TEST(nonsense_is_named),
    };
    return CHECK_RUN(tests);
}
