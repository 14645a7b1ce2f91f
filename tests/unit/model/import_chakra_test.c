/* SPDX-License-Identifier: Apache-2.0 */
#include "model/import.h"
#include "support/check.h"

/* Metadata {version "1"}, then a collective node (id 1, "g", type 7, comm_type 0, comm_size 300)
 * and a computing one ("c", type 4, 5 us), written down from the format's definition. */
static const uint8_t by_hand[] = {
    3,    0x0a, 1,    '1',                                                            /* metadata */
    38,   0x08, 1,    0x12, 1,    'g', 0x18, 7,                                       /* node */
    0x52, 13,   0x0a, 9,    'c',  'o', 'm',  'm',  '_', 't',  'y', 'p', 'e', 0x48, 0, /* its kind */
    0x52, 14,   0x0a, 9,    'c',  'o', 'm',  'm',  '_', 's',  'i', 'z', 'e', 0x48, 0xac,
    0x02, 9,    0x08, 2,    0x12, 1,   'c',  0x18, 4,   0x38, 5};

static void bytes_by_hand(void **state)
{
    (void)state;
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_workload w;
    assert_ok(shoali_chakra_parse("t.et", by_hand, sizeof by_hand, arena, &w));
    assert_int_equal(w.row_count, 2);
    assert_int_equal(w.rows[0].phase[SHOALI_PHASE_WEIGHT_GRAD].comm, SHOALI_COMM_ALL_REDUCE);
    assert_true(w.rows[0].phase[SHOALI_PHASE_WEIGHT_GRAD].bytes == 300);
    assert_true(w.rows[1].phase[SHOALI_PHASE_FORWARD].compute_ns == 5000);
    assert_status(shoali_chakra_parse("t.et", by_hand, sizeof by_hand - 1, arena, &w),
                  SHOAL_ECORRUPT);
    assert_error_has("t.et: message 3 is cut off");
    assert_status(shoali_chakra_parse("t.et", by_hand, 4, arena, &w), SHOAL_ECORRUPT);
    assert_error_has("no nodes");
    shoali_arena_destroy(arena);
}

/* What a workload says is what comes back: sums per phase and every collective, in order. */
static void there_and_back(void **state)
{
    (void)state;
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_workload w, back;
    char *bytes = NULL;
    size_t len = 0;
    assert_ok(shoali_workload_load(SHOAL_SOURCE_DIR "/examples/network/gpt3.txt", arena, &w));
    FILE *out = open_memstream(&bytes, &len);
    shoali_chakra_print(&w, out);
    fclose(out);
    assert_ok(shoali_chakra_parse("t.et", (const uint8_t *)bytes, len, arena, &back));
    free(bytes);
    for (int p = 0; p < SHOALI_PHASES; p++) {
        double ns[2] = {0}, sent[2] = {0};
        for (uint32_t r = 0; r < w.row_count; r++)
            ns[0] += w.rows[r].phase[p].compute_ns, sent[0] += w.rows[r].phase[p].bytes;
        for (uint32_t r = 0; r < back.row_count; r++)
            ns[1] += back.rows[r].phase[p].compute_ns, sent[1] += back.rows[r].phase[p].bytes;
        assert_true(ns[0] == ns[1] && sent[0] == sent[1]);
    }
    shoali_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(bytes_by_hand), CHECK_TEST(there_and_back)};
    return CHECK_RUN(tests);
}
