/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <jansson.h>

#include "base/log.h"

static char line[8192];
static int lines;

static void collect(void *ctx, shoali_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    lines++;
    snprintf(line, sizeof line, "%s", text);
}

static int setup(void **state)
{
    (void)state;
    lines = 0;
    shoali_log_set_sink(collect, NULL);
    shoali_log_set_level(SHOALI_LOG_WARN);
    shoali_log_set_json(false);
    shoali_log_set_rank(-1, -1);
    return 0;
}

static void levels_filter(void **state)
{
    (void)state;
    shoali_log(INFO, "quiet");
    assert_int_equal(lines, 0);
    shoali_log(WARN, "loud");
    shoali_log(ERROR, "louder");
    assert_int_equal(lines, 2);
    shoali_log_set_level(SHOALI_LOG_TRACE);
    shoali_log(TRACE, "all");
    assert_int_equal(lines, 3);
    assert_true(shoali_log_on(SHOALI_LOG_TRACE));
}

static void text_lines_carry_rank_and_level(void **state)
{
    (void)state;
    shoali_log(WARN, "value %d", 42);
    assert_non_null(strstr(line, " W value 42"));
    shoali_log_set_rank(3, 8);
    shoali_log(ERROR, "value %d", 43);
    assert_memory_equal(line, "shoal ", 6);
    assert_non_null(strstr(line, " E r3/8 value 43"));
}

static void text_stays_one_clean_line(void **state)
{
    (void)state;
    shoali_log(WARN, "a\nb\x1b[31m \xff \xc3\xa4 \xe2\x82");
    assert_non_null(strstr(line, "W a b [31m ? \xc3\xa4 ??"));
}

static void json_lines_parse_whatever_they_hold(void **state)
{
    (void)state;
    char hostile[256];
    for (int i = 0; i < 255; i++)
        hostile[i] = (char)(i + 1);
    hostile[255] = '\0';
    shoali_log_set_json(true);
    shoali_log_set_rank(1, 2);
    shoali_log(WARN, "%s", hostile);
    json_t *json = json_loads(line, 0, NULL);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "level")), "warn");
    assert_int_equal(json_integer_value(json_object_get(json, "rank")), 1);
    assert_int_equal(json_integer_value(json_object_get(json, "size")), 2);
    assert_non_null(
        strstr(json_string_value(json_object_get(json, "text")), " !\"#$%&'()*+,-./0123"));
    json_decref(json);
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    char text[5000];
    memset(text, '"', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    shoali_log_set_json(true);
    shoali_log(WARN, "%s", text);
    json_t *json = json_loads(line, 0, NULL);
    assert_non_null(json);
    assert_int_equal(strlen(json_string_value(json_object_get(json, "text"))), 1023);
    json_decref(json);
}

/* Whatever is shown, and in which form. */
static void warnings_are_copied_as_json(void **state)
{
    (void)state;
    char text[4096];
    FILE *file = tmpfile();
    assert_non_null(file);
    shoali_log_set_level(SHOALI_LOG_ERROR);
    shoali_log_set_copy(fileno(file));
    assert_true(shoali_log_on(SHOALI_LOG_WARN));
    assert_false(shoali_log_on(SHOALI_LOG_INFO));
    shoali_log_set_rank(1, 2);
    shoali_log(WARN, "a \"quoted\" one");
    shoali_log(INFO, "not this");
    assert_int_equal(lines, 0);
    shoali_log(ERROR, "shown as well");
    assert_int_equal(lines, 1);
    shoali_log_set_copy(-1);
    shoali_log(ERROR, "nor this");
    rewind(file);
    for (int i = 0; i < 2; i++) {
        assert_non_null(fgets(text, sizeof text, file));
        json_t *object = json_loads(text, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(object, "text")),
                            i == 0 ? "a \"quoted\" one" : "shown as well");
        assert_int_equal(json_integer_value(json_object_get(object, "rank")), 1);
        json_decref(object);
    }
    assert_null(fgets(text, sizeof text, file));
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(levels_filter, setup),
        cmocka_unit_test_setup(text_lines_carry_rank_and_level, setup),
        cmocka_unit_test_setup(text_stays_one_clean_line, setup),
        cmocka_unit_test_setup(json_lines_parse_whatever_they_hold, setup),
        cmocka_unit_test_setup(long_texts_are_cut, setup),
        cmocka_unit_test_setup(warnings_are_copied_as_json, setup),
    };
    return CHECK_RUN(tests);
}
