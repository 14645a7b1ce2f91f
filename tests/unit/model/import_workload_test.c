/* SPDX-License-Identifier: Apache-2.0 */
#include "model/import.h"

#include "support/check.h"

static shoal_status parse(const char *text, shoal_arena *arena, shoali_workload *out)
{
    return shoali_workload_parse("w.txt", text, strlen(text), arena, out);
}

static void rows_with_and_without_header(void **state)
{
    (void)state;
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_workload w;
    assert_ok(parse("q -1 93 NONE 0 94 allreduce 805306368 95 ALLGATHER 16 10\n"
                    "k -1 1 ReduceScatter 7 2 ALLTOALL 8 3 NONE 0 0",
                    arena, &w));
    assert_int_equal(w.row_count, 2);
    assert_string_equal(w.parallelism, "");
    assert_string_equal(w.rows[0].name, "q");
    assert_int_equal(w.rows[0].phase[1].comm, SHOALI_COMM_ALL_REDUCE);
    assert_true(w.rows[0].phase[1].bytes == 805306368 && w.rows[0].phase[2].compute_ns == 95);
    assert_int_equal(w.rows[0].phase[2].comm, SHOALI_COMM_ALL_GATHER);
    assert_int_equal(w.rows[1].phase[0].comm, SHOALI_COMM_REDUCE_SCATTER);
    assert_ok(parse("HYBRID_DATA_MODEL\r\n1\r\nq -1 1 NONE 0 2 NONE 0 3 NONE 0 10\r\n", arena, &w));
    assert_int_equal(w.row_count, 1);
    assert_string_equal(w.parallelism, "HYBRID_DATA_MODEL");
    shoali_arena_destroy(arena);
}

static void broken_rows(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } bad[] = {{"", "no layers"},
               {"q -1 1 NONE 0 2 NONE 0 3 NONE 0 10\n\n", "w.txt:2: 0 fields"},
               {"q -1 1 NONE 0 2 NONE 0 3 NONE 0\n", "w.txt:1: 11 fields"},
               {"q -1 1 NONE 0 2 NONE 0 3 NONE 0 10 11 12\n", "13 fields"},
               {"q -1 x NONE 0 2 NONE 0 3 NONE 0 10\n", "whole number of ns below 1e15; found 'x'"},
               {"q -1 1 NONE -5 2 NONE 0 3 NONE 0 10\n", "found '-5'"},
               {"q -1 1 ALLREDUCE_DP_EP 5 2 NONE 0 3 NONE 0 10\n", "found 'ALLREDUCE_DP_EP'"},
               {"DATA\nmany\nq -1 1 NONE 0 2 NONE 0 3 NONE 0 10\n", "number of layers"},
               {"DATA\n2\nq -1 1 NONE 0 2 NONE 0 3 NONE 0 10\n", "1 layers; its header says 2"}};
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_workload w;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_status(parse(bad[i].text, arena, &w), SHOAL_ECORRUPT);
        assert_error_has(bad[i].error);
    }
    shoali_arena_destroy(arena);
}

static void the_shipped_examples(void **state)
{
    (void)state;
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_workload w;
    double sum = 0;
    assert_ok(shoali_workload_load(SHOAL_SOURCE_DIR "/examples/network/gpt3.txt", arena, &w));
    for (uint32_t r = 0; r < w.row_count; r++) {
        for (uint32_t p = 0; p < SHOALI_PHASES; p++)
            sum += w.rows[r].phase[p].compute_ns;
    }
    assert_true(sum == 684448242); /* planning.md 3.2 */
    shoali_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(rows_with_and_without_header),
                                       CHECK_TEST(broken_rows), CHECK_TEST(the_shipped_examples)};
    return CHECK_RUN(tests);
}
