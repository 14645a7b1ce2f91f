/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"
#include "support/hex.h"

#include "base/rng.h"
#include "wire/frame.h"

static FILE *open_golden(const char *path)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/tests/%s", SHOAL_SOURCE_DIR, path);
    FILE *file = fopen(whole, "r");
    assert_non_null(file);
    return file;
}

static void golden_frames_encode_and_decode(void **state)
{
    (void)state;
    char line[512];
    int rows = 0;
    FILE *file = open_golden("golden/frames.txt");
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned kind, flags, slot, match, chunk, len, summed, crc;
        char hex[128];
        uint8_t golden[SHOALI_FRAME_BYTES], encoded[SHOALI_FRAME_BYTES];
        shoali_frame got;
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%u %u %u %u %u %u %u %u %127s", &kind, &flags, &slot, &match,
                                &chunk, &len, &summed, &crc, hex),
                         9);
        assert_int_equal(hex_parse(hex, golden, sizeof golden), sizeof golden);
        shoali_frame frame = {
            (uint16_t)kind, summed != 0, crc, {slot, match, chunk, len, (uint16_t)flags, false}};
        shoali_frame_encode(&frame, encoded);
        assert_memory_equal(encoded, golden, sizeof golden);
        assert_ok(shoali_frame_decode(golden, &got));
        assert_int_equal(got.kind, kind);
        assert_int_equal(got.summed, summed);
        assert_int_equal(got.body_crc, crc);
        assert_int_equal(got.head.slot, slot);
        assert_int_equal(got.head.match, match);
        assert_int_equal(got.head.chunk, chunk);
        assert_int_equal(got.head.len_bytes, len);
        assert_int_equal(got.head.flags, flags);
        rows++;
    }
    fclose(file);
    assert_true(rows >= 6);
}

static void golden_errors_stay_refused(void **state)
{
    (void)state;
    char line[512];
    int rows = 0;
    FILE *file = open_golden("golden_errors/frames.txt");
    while (fgets(line, sizeof line, file) != NULL) {
        char status[16], hex[128];
        uint8_t bytes[SHOALI_FRAME_BYTES];
        shoali_frame untouched = {.kind = 4711};
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%15s %127s", status, hex), 2);
        assert_int_equal(hex_parse(hex, bytes, sizeof bytes), sizeof bytes);
        shoal_status got = shoali_frame_decode(bytes, &untouched);
        if (strcmp(shoal_status_name(got), status) != 0)
            fail_msg("%s gave %s", line, shoal_status_name(got));
        assert_int_equal(untouched.kind, 4711);
        rows++;
    }
    fclose(file);
    assert_true(rows >= 14);
}

static void every_flipped_bit_is_noticed(void **state)
{
    (void)state;
    shoali_frame frame = {1, true, 0x1234567, {1, 2, 3, 400, 1, false}}, got;
    uint8_t bytes[SHOALI_FRAME_BYTES];
    shoali_frame_encode(&frame, bytes);
    for (int bit = 0; bit < 8 * SHOALI_FRAME_BYTES; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(shoali_frame_decode(bytes, &got), SHOAL_OK);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_ok(shoali_frame_decode(bytes, &got));
}

static void random_frames_survive(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 2, 0};
    for (int i = 0; i < 2000; i++) {
        shoali_frame got, frame = {.kind = 1, .summed = shoali_rng_next(&rng) % 2 != 0};
        uint8_t bytes[SHOALI_FRAME_BYTES];
        frame.body_crc = frame.summed ? (uint32_t)shoali_rng_next(&rng) : 0;
        frame.head = (shoal_data){
            (uint32_t)shoali_rng_next(&rng),
            (uint32_t)shoali_rng_next(&rng),
            (uint32_t)shoali_rng_next(&rng),
            (uint32_t)(shoali_rng_next(&rng) % (SHOALI_FRAME_MAX_BODY_BYTES + 1)),
            (uint16_t)shoali_rng_next(&rng),
            false};
        shoali_frame_encode(&frame, bytes);
        assert_ok(shoali_frame_decode(bytes, &got));
        assert_memory_equal(&got.head.slot, &frame.head.slot, 4 * sizeof(uint32_t));
        assert_int_equal(got.head.flags, frame.head.flags);
        assert_int_equal(got.body_crc, frame.body_crc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(golden_frames_encode_and_decode),
        CHECK_TEST(golden_errors_stay_refused),
        CHECK_TEST(every_flipped_bit_is_noticed),
        CHECK_TEST(random_frames_survive),
    };
    return CHECK_RUN(tests);
}
