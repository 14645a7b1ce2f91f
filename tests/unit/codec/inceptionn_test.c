/* SPDX-License-Identifier: Apache-2.0 */
/* The element code against the golden vectors that software, BPF and hardware share, and against
 * the rule written once more in double arithmetic; the stream layouts against hand-made bytes. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "codec/inceptionn.h"
#include "kernel/kernel.h"

static const uint32_t bounds[] = {6, 8, 10};

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---------------------------------------------------------------- elements */

static void golden_vectors(void **state)
{
    (void)state;
    FILE *file = fopen(SHOAL_SOURCE_DIR "/innet/vectors/inceptionn.txt", "r");
    assert_non_null(file);
    char line[256], payload[16];
    unsigned k, tag, in, decoded, count = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%u %u %x %15s %x", &k, &tag, &in, payload, &decoded), 5);
        shoali_inc_rule rule = shoali_inc_rule_make(k, 0, false);
        uint16_t got;
        assert_int_equal(shoali_inc_classify(&rule, float_of(in), &got), tag);
        unsigned want = (unsigned)strtoul(payload, NULL, 16);
        if (tag == SHOALI_INC_BYTE) {
            assert_int_equal(got >> 8, want);
            assert_int_equal(bits_of(shoali_inc_value(&rule, (uint16_t)(want << 8))), decoded);
        } else if (tag == SHOALI_INC_WORD) {
            assert_int_equal(got, want);
            assert_int_equal(bits_of(shoali_inc_value(&rule, got)), decoded);
        } else {
            assert_int_equal(decoded, tag == SHOALI_INC_RAW ? in : 0);
        }
        count++;
    }
    fclose(file);
    assert_int_equal(count, 54);
}

/* ---------------------------------------------------------------- packets */

static void read_words(FILE *file, const char *format, uint32_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(fscanf(file, format, &out[i]), 1);
}

static void check_packet(const shoali_inc_loops *loops, uint32_t k, bool strict, const uint32_t *in,
                         size_t count, const uint32_t *coded, size_t coded_bytes,
                         const uint32_t *decoded)
{
    shoali_inc_rule rule = shoali_inc_rule_make(k, 0, strict);
    uint8_t bytes[512];
    float floats[64];
    memcpy(floats, in, count * sizeof *floats);
    assert_int_equal(loops->encode(&rule, floats, count, bytes), coded_bytes);
    for (size_t i = 0; i < coded_bytes; i++)
        assert_int_equal(bytes[i], coded[i]);
    assert_int_equal(loops->decode(&rule, bytes, coded_bytes, floats, count, false), coded_bytes);
    assert_memory_equal(floats, decoded, count * sizeof *floats);
}

/* The packets that the hardware is tested with. */
static void golden_packets(void **state)
{
    (void)state;
    FILE *file = fopen(SHOAL_SOURCE_DIR "/innet/vectors/inceptionn_packets.txt", "r");
    assert_non_null(file);
    char line[256];
    uint32_t k, strict, count, bytes, packets = 0, in[64], coded[512], decoded[64];
    for (int i = 0; i < 2; i++) /* comments */
        assert_non_null(fgets(line, sizeof line, file));
    for (; fscanf(file, "%u %u %u", &k, &strict, &count) == 3; packets++) {
        assert_true(count <= 64);
        read_words(file, "%x", in, count);
        assert_int_equal(fscanf(file, "%u", &bytes), 1);
        assert_true(bytes <= 512);
        read_words(file, "%x", coded, bytes);
        read_words(file, "%x", decoded, count);
        check_packet(&shoali_inc_ref_interleaved, k, strict != 0, in, count, coded, bytes, decoded);
#if defined(__x86_64__)
        if (shoali_kernel()->avx2) {
            shoali_inc_avx2_init();
            check_packet(&shoali_inc_avx2_interleaved, k, strict != 0, in, count, coded, bytes,
                         decoded);
        }
#endif
    }
    fclose(file);
    assert_int_equal(packets, 72);
}

/* The published rule in double: class by magnitude, payload truncated toward zero. */
static unsigned class_in_double(double a, unsigned k, bool strict, double *decoded_out)
{
    double byte = floor(a * 128) / 128, word = floor(a * 32768) / 32768;
    *decoded_out = 0;
    if (!(a < 1))
        return SHOALI_INC_RAW;
    if (a < ldexp(1, -(int)k))
        return SHOALI_INC_ZERO;
    bool small = a < ldexp(1, -(int)k / 2) && (!strict || a - byte < ldexp(1, -(int)k));
    *decoded_out = small ? byte : word;
    return small ? SHOALI_INC_BYTE : SHOALI_INC_WORD;
}

static void check_element(unsigned k, unsigned power, bool strict, float x)
{
    shoali_inc_rule rule = shoali_inc_rule_make(k, power, strict);
    double want, a = ldexp(fabs((double)x), (int)power);
    unsigned tag = class_in_double(a, k, strict, &want);
    uint16_t payload;
    assert_int_equal(shoali_inc_classify(&rule, x, &payload), tag);
    if (tag == SHOALI_INC_RAW)
        return;
    if (tag == SHOALI_INC_BYTE)
        payload &= 0xff00;
    if (tag == SHOALI_INC_ZERO)
        assert_int_equal(payload, 0);
    double got = ldexp((double)shoali_inc_value(&rule, payload), (int)power);
    assert_true(got == (x < 0 ? -want : want));
    assert_false(got == 0 && signbit(got)); /* +0.0 only */
    double bound = ldexp(1, -(int)k);
    assert_true(a - want < (strict || bound > 0x1p-7 ? bound : 0x1p-7));
}

static void elements_follow_the_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < 200000; i++) {
        uint64_t r = shoali_rng_u64(check_seed(), 1, i);
        unsigned k = bounds[r % 3], power = (unsigned)(r >> 8) % 17;
        bool strict = (r >> 16 & 1) != 0;
        uint32_t bits = (uint32_t)(r >> 32);
        if ((r >> 17 & 3) != 0) /* most of them around the thresholds */
            bits = (bits & 0x807fffffu) | (127u - power - (uint32_t)(r >> 20) % 13u) << 23;
        if ((r >> 24 & 3) == 0)
            bits &= 0xffff0000u; /* exact boundaries */
        if (!isnan(float_of(bits)))
            check_element(k, power, strict, float_of(bits));
    }
}

static void a_negative_zero_byte_decodes_to_plus_zero(void **state)
{
    (void)state;
    shoali_inc_rule rule = shoali_inc_rule_make(10, 3, false);
    assert_int_equal(bits_of(shoali_inc_value(&rule, 0x8000)), 0);
}

/* ---------------------------------------------------------------- layouts */

static void interleaved_bytes(void **state)
{
    (void)state;
    /* word, byte, raw, zero; the last group holds two elements */
    const float src[10] = {0.75f, -0.02f, -1.5f, 0.0f, 0.03f, 0, 0, 0x1p-12f, 0, -0.3f};
    const uint8_t want[] = {0x36, 0x01, 0x00, 0x60, 0x82, 0x00, 0x00,
                            0xc0, 0xbf, 0x03, 0x08, 0x00, 0x66, 0xa6};
    uint8_t coded[64];
    shoali_inc_rule rule = shoali_inc_rule_make(10, 0, false);
    assert_int_equal(shoali_inc_ref_interleaved.encode(&rule, src, 10, coded), sizeof want);
    assert_memory_equal(coded, want, sizeof want);
}

/* Bits 0-3 are elements 0-3, bits 4-7 elements 8-11, bits 16-19 elements 4-7. */
static void planes_bytes(void **state)
{
    (void)state;
    const float src[10] = {0.75f, -0.02f, -1.5f, 0.0f, 0.03f, 0, 0, 0x1p-12f, 0, -0.3f};
    const uint8_t want[] = {0x23, 0x00, 0x01, 0x00, 0x25, 0x00, 0x00, 0x00, 0x60,
                            0x82, 0xa6, 0x03, 0x00, 0x66, 0x00, 0x00, 0xc0, 0xbf};
    uint8_t coded[64];
    shoali_inc_rule rule = shoali_inc_rule_make(10, 0, false);
    assert_int_equal(shoali_inc_ref_planes.encode(&rule, src, 10, coded), sizeof want);
    assert_memory_equal(coded, want, sizeof want);
    for (size_t count = 0; count < 40; count++)
        for (size_t j = 0; j < 32; j++)
            assert_int_equal(shoali_inc_stride_bits(count) >> j & 1, shoali_inc_element(j) < count);
}

/* ---------------------------------------------------------------- vector loops */

/* Ten elements leave 6 tags of the second group, and 22 bits of each bitmap, without an element. */
static void check_spare_tags(const shoali_inc_loops *loops, size_t first_bit, size_t end_bit,
                             const bool *used)
{
    const float src[10] = {0.75f, -0.02f, -1.5f, 0.0f, 0.03f, 0, 0, 0x1p-12f, 0, -0.3f};
    shoali_inc_rule rule = shoali_inc_rule_make(10, 0, false);
    uint8_t coded[128] = {0};
    float got[10];
    size_t length = loops->encode(&rule, src, 10, coded);
    assert_int_equal(loops->decode(&rule, coded, sizeof coded, got, 10, false), length);
    for (size_t bit = first_bit; bit < end_bit; bit++) {
        if (used[bit - first_bit])
            continue;
        coded[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(loops->decode(&rule, coded, sizeof coded, got, 10, false),
                         SHOALI_INC_CORRUPT);
        coded[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void tags_without_an_element_are_corrupt(void **state)
{
    (void)state;
    bool used[64], of_group[16] = {true, true, true, true};
    for (size_t j = 0; j < 64; j++)
        used[j] = shoali_inc_element(j % 32) < 10;
    check_spare_tags(&shoali_inc_ref_planes, 0, 64, used);
    check_spare_tags(&shoali_inc_ref_interleaved, 80, 96, of_group);
#if defined(__x86_64__)
    if (shoali_kernel_row(1) == NULL)
        return;
    shoali_inc_avx2_init();
    check_spare_tags(&shoali_inc_avx2_planes, 0, 64, used);
    check_spare_tags(&shoali_inc_avx2_interleaved, 80, 96, of_group);
#elif defined(__aarch64__)
    shoali_inc_neon_init();
    check_spare_tags(&shoali_inc_neon_planes, 0, 64, used);
#endif
}

#if defined(__x86_64__) || defined(__aarch64__)
enum { MOST = 2200, BYTES = MOST * 4 + MOST / 4 + 128 };

/* Around the thresholds of some rule, so that all four classes and their borders come up; `runs` of
 * zeros between. */
static float rich(uint64_t stream, size_t i, unsigned raw_in_16)
{
    uint64_t r = shoali_rng_u64(check_seed(), stream, i);
    uint64_t run = shoali_rng_u64(check_seed(), stream + 1, i / 40);
    if (run % 4 == 0)
        return (run >> 8 & 1) != 0 ? -0.0f : 0.0f;
    uint32_t exponent = (r >> 8) % 16 < raw_in_16 ? 127 + (uint32_t)(r >> 12) % 129
                                                  : 126 - (uint32_t)(r >> 12) % 30;
    uint32_t mantissa = (r & 7) == 0 ? 0 : (r & 7) == 1 ? 0x7fffff : (uint32_t)(r >> 20) & 0x7fffff;
    return float_of((uint32_t)(r >> 63) << 31 | exponent << 23 | mantissa);
}

/* memcmp, but one NaN is as good as another: adding may change which. */
static bool same(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bits_of(a[i]) != bits_of(b[i]) && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static void fill_sum(float *sum)
{
    for (size_t i = 0; i < MOST; i++)
        sum[i] = i % 5 == 0 ? -0.0f : (float)i * 0.01f - 3;
}

/* Both decoders on the same bytes: the same verdict, and the same bits when it is good. */
static void compare_decoders(const shoali_inc_loops *ref, const shoali_inc_loops *vector,
                             const shoali_inc_rule *rule, const uint8_t *bytes, size_t length,
                             size_t count)
{
    static float want[MOST], got[MOST];
    for (int add = 0; add < 2; add++) {
        fill_sum(want);
        fill_sum(got);
        uint8_t *copy = malloc(length + 1); /* exact, for the address sanitizer; odd */
        memcpy(copy + 1, bytes, length);
        size_t want_used = ref->decode(rule, copy + 1, length, want, count, add != 0);
        size_t got_used = vector->decode(rule, copy + 1, length, got, count, add != 0);
        free(copy);
        assert_int_equal(got_used, want_used);
        if (want_used != SHOALI_INC_CORRUPT)
            assert_true(same(got, want, MOST));
    }
}

static void compare_loops(const shoali_inc_loops *ref, const shoali_inc_loops *vector)
{
    static float src[MOST];
    static uint8_t want[BYTES], got[BYTES];
    for (uint64_t round = 0; round < 600; round++) {
        uint64_t r = shoali_rng_u64(check_seed(), 40, round);
        size_t count = round < 100 ? round : round < 130 ? 1024 * (1 + round % 2) : r % MOST;
        uint32_t power = round % 3 == 1 ? 0 : (uint32_t)(r >> 20) % 17; /* 0: no RAW at the end */
        shoali_inc_rule rule = shoali_inc_rule_make(bounds[(r >> 16) % 3], power,
                                                    (r >> 28 & 1) != 0);
        for (size_t i = 0; i < count; i++)
            src[i] = rich(1000 + 2 * round, i, round % 3 == 0 ? 1 : round % 3 == 1 ? 0 : 9);
        size_t length = ref->encode(&rule, src, count, want);
        assert_int_equal(vector->encode(&rule, src, count, got), length);
        assert_memory_equal(got, want, length);
        compare_decoders(ref, vector, &rule, want, length, count);
        compare_decoders(ref, vector, &rule, want, length - (length > 0 ? (r >> 32) % length : 0),
                         count);
        for (size_t i = 0; i < 4 && length > 0; i++)
            want[shoali_rng_below(check_seed(), 41 + round, i, length)] ^= (uint8_t)(r >> 8 * i);
        compare_decoders(ref, vector, &rule, want, length, count);
    }
}
#endif

static void vector_loops_equal_the_plain_ones(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (shoali_kernel_row(1) == NULL)
        skip();
    shoali_inc_avx2_init();
    compare_loops(&shoali_inc_ref_interleaved, &shoali_inc_avx2_interleaved);
    compare_loops(&shoali_inc_ref_planes, &shoali_inc_avx2_planes);
    compare_loops(&shoali_inc_ref_zmap, &shoali_inc_avx2_zmap);
#elif defined(__aarch64__)
    shoali_inc_neon_init();
    compare_loops(&shoali_inc_ref_planes, &shoali_inc_neon_planes);
    compare_loops(&shoali_inc_ref_zmap, &shoali_inc_neon_zmap);
#else
    skip();
#endif
}

/* ---------------------------------------------------------------- the row */

static shoal_codec *open_codec(const char *spec)
{
    shoal_codec *codec;
    assert_ok(shoal_codec_open(spec, &codec));
    return codec;
}

static void faithful_is_strict_off(void **state)
{
    (void)state;
    shoal_codec *a = open_codec("inceptionn:faithful,ef=off"),
                *b = open_codec("inceptionn:strict=off,ef=off"),
                *c = open_codec("inceptionn:strict,ef=off");
    assert_string_equal(shoal_codec_spec(a), shoal_codec_spec(b));
    assert_true(a->hash == b->hash && a->hash != c->hash);
    assert_true(shoal_codec_error_bound(a) == 0x1p-7 && shoal_codec_error_bound(c) == 0x1p-10);
    assert_false(a->error_feedback);
    shoal_codec_close(a), shoal_codec_close(b), shoal_codec_close(c);
}

static void only_auto_prescale_measures(void **state)
{
    (void)state;
    const uint32_t both = SHOAL_CODEC_MEASURE | SHOAL_CODEC_PER_TENSOR;
    shoal_codec *constant = open_codec("inceptionn:prescale=4"),
                *automatic = open_codec("inceptionn:prescale=auto");
    assert_int_equal(shoal_codec_traits(constant) & both, 0);
    assert_int_equal(shoal_codec_measure_count(constant), 0);
    assert_true(shoal_codec_error_bound(constant) == 0x1p-14);
    assert_int_equal(shoal_codec_traits(automatic) & both, both);
    assert_int_equal(shoal_codec_measure_count(automatic), 1);
    shoal_codec_at at = {.parts = 1};
    uint8_t bytes[64];
    size_t written;
    assert_status(shoal_codec_encode(automatic, &at, (const float[1]){1}, 1, bytes, 64, &written),
                  SHOAL_EINVAL);
    assert_error_has("shared values");
    shoal_codec_close(constant), shoal_codec_close(automatic);
}

/* rms 2^-14 against strict 2^-10: a prescale of 2^4, and the bytes of prescale=4. */
static void auto_prescale_is_the_power_of_two_below_bound_over_rms(void **state)
{
    (void)state;
    shoal_codec *four = open_codec("inceptionn:prescale=4"),
                *automatic = open_codec("inceptionn:prescale=auto");
    float src[64], shared;
    for (size_t i = 0; i < 64; i++)
        src[i] = i % 2 == 0 ? 0x1p-14f : -0x1p-14f;
    shoal_tensor tensor = {.key = 7, .count = 64, .lr_scale = 1};
    assert_ok(shoal_codec_measure(automatic, &tensor, src, &shared));
    assert_true(shared == 0x1p-14f);
    uint8_t a[512], b[512];
    size_t a_bytes, b_bytes;
    const float rms[4] = {shared, shared * 0.6f, 0.9f * shared, shared * 1.0001f};
    const bool equal[4] = {true, true, true, false};
    for (size_t i = 0; i < 4; i++) {
        shoal_codec_at at = {.tensor = &tensor, .parts = 1, .shared = &rms[i]};
        assert_ok(shoal_codec_encode(four, &at, src, 64, a, sizeof a, &a_bytes));
        assert_ok(shoal_codec_encode(automatic, &at, src, 64, b, sizeof b, &b_bytes));
        assert_int_equal(a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0, equal[i]);
    }
    shoal_codec_close(four), shoal_codec_close(automatic);
}

/* Any shared value must give a power that both ends agree on, and no shift out of range. */
static void strange_shared_values_are_safe(void **state)
{
    (void)state;
    shoal_codec *automatic = open_codec("inceptionn:prescale=auto");
    const float strange[] = {0, -0.0f, -1, NAN, INFINITY, -INFINITY, 0x1p-149f, 0x1.fffffep127f};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        const float src[4] = {0.5f, -0.001f, INFINITY, 3e38f};
        shoal_tensor tensor = {.key = 7, .count = 4, .lr_scale = 1};
        shoal_codec_at at = {.tensor = &tensor, .parts = 1, .shared = &strange[i]};
        uint8_t bytes[64];
        float back[4];
        size_t written, consumed;
        assert_ok(shoal_codec_encode(automatic, &at, src, 4, bytes, sizeof bytes, &written));
        assert_ok(shoal_codec_decode(automatic, &at, bytes, written, back, 4, false, &consumed));
        assert_int_equal(written, consumed);
        assert_true(back[2] == INFINITY && back[3] == 3e38f);
        assert_true(fabsf(back[1] - src[1]) < 0x1p-10f && fabsf(back[0] - src[0]) < 0x1p-10f);
    }
    shoal_codec_close(automatic);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(golden_vectors),
        CHECK_TEST(golden_packets),
        CHECK_TEST(elements_follow_the_rule),
        CHECK_TEST(a_negative_zero_byte_decodes_to_plus_zero),
        CHECK_TEST(interleaved_bytes),
        CHECK_TEST(planes_bytes),
        CHECK_TEST(tags_without_an_element_are_corrupt),
        CHECK_TEST(vector_loops_equal_the_plain_ones),
        CHECK_TEST(faithful_is_strict_off),
        CHECK_TEST(only_auto_prescale_measures),
        CHECK_TEST(auto_prescale_is_the_power_of_two_below_bound_over_rms),
        CHECK_TEST(strange_shared_values_are_safe),
    };
    return CHECK_RUN(tests);
}
