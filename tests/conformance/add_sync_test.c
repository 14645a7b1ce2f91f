/* SPDX-License-Identifier: Apache-2.0 */
/* The example of docs/add-sync.md is the compiled file, and its machine does what its table says.
 * The suite of sync_test.c runs over it, too. */
#include "support/check.h"
#include "support/example_sync.h"
#include "support/machine.h"

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
    char *page = read_file("docs/add-sync.md");
    char *code = read_file("tests/support/example_sync.c");
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

static void every_few_iterations_all_average(void **state)
{
    (void)state;
    machine m;
    machine_open_row(&m, &example_sync_averaging, "averaging:every=2", 4, 0, 1, 2);
    assert_string_equal(machine_start(&m), "");
    assert_string_equal(machine_ready(&m, 0, 8), "");
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE), "go apply @0 /1");
    assert_string_equal(machine_event(&m, SHOALI_EV_AFTER), "go hold @1");
    (void)machine_event(&m, SHOALI_EV_BEFORE);
    assert_string_equal(machine_event(&m, SHOALI_EV_AFTER),
                        "mix SLOT0 [0,8) = 1*PARAM; op 2 [0,8) SLOT0");
    assert_string_equal(machine_done(&m, 2, SHOAL_OK, NULL),
                        "mix PARAM [0,8) = 0.25*SLOT0; go hold @2");
    machine_close(&m);
}

static void it_ends_when_somebody_leaves_or_is_lost(void **state)
{
    (void)state;
    machine m;
    machine_open_row(&m, &example_sync_averaging, "averaging:every=1", 2, 0, 1, 2);
    (void)machine_start(&m);
    (void)machine_event(&m, SHOALI_EV_BEFORE);
    (void)machine_event(&m, SHOALI_EV_AFTER);
    assert_string_equal(machine_event(&m, SHOALI_EV_STOP), "cancel 1");
    assert_string_equal(machine_done(&m, 1, SHOAL_ECANCELLED, "by me"), "go stop @1");
    machine_close(&m);
    machine_open_row(&m, &example_sync_averaging, "averaging", 2, 0, 1, 2);
    (void)machine_start(&m);
    assert_string_equal(machine_down(&m, 0, "reset"), "fail EPEER r0 worker 0 was lost: reset");
    machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_page_shows_the_file),
        CHECK_TEST(every_few_iterations_all_average),
        CHECK_TEST(it_ends_when_somebody_leaves_or_is_lost),
    };
    return CHECK_RUN(tests);
}
