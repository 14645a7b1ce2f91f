/* SPDX-License-Identifier: Apache-2.0 */
/* The example of docs/add-collective.md is the compiled file, and keeps what the page promises. */
#include "support/check.h"
#include "support/enginecase.h"
#include "support/prove.h"

extern const shoali_collective_row shoali_collective_tree;

/* Caller frees. */
static char *read_file(const char *path)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", SHOAL_SOURCE_DIR, path);
    FILE *file = fopen(whole, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 16);
    size_t len = fread(text, 1, (1 << 16) - 1, file);
    assert_in_range(len, 1, (1 << 16) - 2);
    fclose(file);
    return text;
}

static void the_page_shows_the_file(void **state)
{
    (void)state;
    char *page = read_file("docs/add-collective.md");
    char *code = read_file("tests/support/example_collective.c");
    char *shown = strstr(page, "```c\n/* SPDX");
    assert_non_null(shown);
    shown += strlen("```c\n");
    char *end = strstr(shown, "```");
    assert_non_null(end);
    *end = '\0';
    assert_string_equal(shown, code);
    free(page);
    free(code);
}

static void the_example_is_proved(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 17; size++)
        prove_row(&shoali_collective_tree, size);
}

static void the_example_costs_what_it_says(void **state)
{
    (void)state;
    shoali_collective tree = {.row = &shoali_collective_tree, .spec = "tree"};
    for (uint32_t size = 2, log2_size = 1; size <= 17; size++) {
        shoali_cost cost;
        prove_lists lists;
        shoal_arena *arena = shoali_arena_create(4096);
        log2_size += size > UINT32_C(1) << log2_size ? 1 : 0;
        assert_ok(prove_build(&tree, SHOAL_ALL_REDUCE, size, size, 0, arena, &lists));
        shoali_schedule_cost(&lists.list[0], 10, &cost);
        assert_int_equal(cost.sent_elems, 10 * log2_size);
        assert_int_equal(cost.received_elems, 10 * log2_size);
        assert_int_equal(cost.added_elems, 10 * log2_size);
        assert_int_equal(cost.rounds, 2 * log2_size);
        shoali_arena_destroy(arena);
    }
}

static void the_engine_runs_the_example(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 7; size++) {
        engine_run run;
        engine_case c = {.collective = "ring", /* opened in its place, see below */
                         .kind = SHOAL_ALL_REDUCE,
                         .size = size,
                         .count = 500,
                         .input_seed = size,
                         .order_seed = check_seed() + size};
        assert_true(engine_run_open(&c, &run));
        run.collective.row = &shoali_collective_tree;
        run.collective.traits = shoali_collective_tree.traits;
        engine_run_go(&run);
        engine_run_assert_ok(&run);
        engine_run_assert_exact(&run);
        engine_run_close(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_page_shows_the_file),
        CHECK_TEST(the_example_is_proved),
        CHECK_TEST(the_example_costs_what_it_says),
        CHECK_TEST(the_engine_runs_the_example),
    };
    return CHECK_RUN(tests);
}
