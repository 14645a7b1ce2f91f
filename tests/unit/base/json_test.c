/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <unistd.h>

#include "base/json.h"

static shoal_status parse(const char *text, json_t **json_out)
{
    return shoali_json_parse("test.json", text, strlen(text), json_out);
}

static void errors_say_file_line_and_column(void **state)
{
    (void)state;
    json_t *json;
    assert_status(parse("{\n  \"a\": 1,\n  \"b\" 2\n}", &json), SHOAL_ECORRUPT);
    assert_error_has("test.json:3:");
}

static void hostile_texts_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "{",
        "[1,2",
        "{\"a\":1}x",
        "{\"a\":1,\"a\":2}",
        "{\"a\":\"\xff\"}",
        "{\"a\":nan}",
        "{\"a\":1e999}",
        "{\"a\":\"\\u0000\"}",
        "\xef\xbb\xbf{}",
        "{\"a\":99999999999999999999}",
        "[1,]",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        json_t *json = NULL;
        assert_status(parse(texts[i], &json), SHOAL_ECORRUPT);
        assert_null(json);
    }
}

static void depth_is_bounded(void **state)
{
    (void)state;
    enum { DEPTH = 200000 };
    char *text = malloc(DEPTH);
    json_t *json;
    memset(text, '[', DEPTH);
    assert_status(shoali_json_parse("deep", text, DEPTH, &json), SHOAL_ECORRUPT);
    assert_error_has("depth");
    free(text);
}

static void size_is_bounded(void **state)
{
    (void)state;
    json_t *json;
    assert_status(shoali_json_parse("big", "{}", (size_t)1 << 30, &json), SHOAL_ECORRUPT);
    assert_error_has("at most");
}

/* Small text, large memory: an empty list takes 3 bytes and 180. Marks in strings are no values. */
static void values_are_bounded(void **state)
{
    (void)state;
    enum { LISTS = 1100000 };
    char *text = malloc(3 * LISTS + 8);
    json_t *json = NULL;
    assert_non_null(text);
    text[0] = '[';
    for (size_t i = 0; i < LISTS; i++)
        memcpy(text + 1 + 3 * i, i + 1 < LISTS ? "[]," : "[]]", 3);
    assert_status(shoali_json_parse("many", text, 3 * LISTS + 1, &json), SHOAL_ECORRUPT);
    assert_error_has("many: JSON of more than 2097152 values");
    memset(text, ',', 3 * LISTS);
    memcpy(text, "[\"\\\"", 4);
    memcpy(text + 3 * LISTS, "\\\\\"]", 4);
    assert_ok(shoali_json_parse("string", text, 3 * LISTS + 4, &json));
    json_decref(json);
    free(text);
}

static void files_are_read_whole(void **state)
{
    (void)state;
    char path[] = "/tmp/shoal-json-XXXXXX";
    int fd = mkstemp(path);
    json_t *json = NULL;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "{\"n\": 5}", 8), 8);
    close(fd);
    assert_ok(shoali_json_load(path, &json));
    assert_int_equal(json_integer_value(json_object_get(json, "n")), 5);
    json_decref(json);
    unlink(path);

    assert_status(shoali_json_load(path, &json), SHOAL_EIO);
    assert_error_has("No such file");
    assert_status(shoali_json_load("/dev/zero", &json), SHOAL_EIO);
    assert_error_has("not a regular file");
}

static void typed_members_are_checked(void **state)
{
    (void)state;
    json_t *json;
    uint64_t whole = 0, whole_fallback = 11;
    double real = 0, real_fallback = 0.5;
    const char *text = NULL;
    assert_ok(
        parse("{\"n\": 5, \"minus\": -1, \"x\": 0.25, \"s\": \"ring\", \"list\": []}", &json));

    assert_ok(shoali_json_u64(json, "n", 1, 5, NULL, &whole));
    assert_int_equal(whole, 5);
    assert_ok(shoali_json_u64(json, "absent", 1, 5, &whole_fallback, &whole));
    assert_int_equal(whole, 11);
    assert_status(shoali_json_u64(json, "absent", 1, 5, NULL, &whole), SHOAL_ECORRUPT);
    assert_error_has("\"absent\" is missing");
    assert_status(shoali_json_u64(json, "n", 6, 9, &whole_fallback, &whole), SHOAL_ECORRUPT);
    assert_error_has("must be 6 .. 9");
    assert_status(shoali_json_u64(json, "minus", 0, UINT64_MAX, NULL, &whole), SHOAL_ECORRUPT);
    assert_status(shoali_json_u64(json, "x", 0, 1, NULL, &whole), SHOAL_ECORRUPT);
    assert_error_has("a number; it must be an integer");
    assert_status(
        shoali_json_u64(json_object_get(json, "list"), "n", 0, 1, &whole_fallback, &whole),
        SHOAL_ECORRUPT);
    assert_error_has("found an array");

    assert_ok(shoali_json_double(json, "x", 0, 1, NULL, &real));
    assert_true(real == 0.25);
    assert_ok(shoali_json_double(json, "n", 0, 5, NULL, &real));
    assert_true(real == 5);
    assert_ok(shoali_json_double(json, "absent", 0, 1, &real_fallback, &real));
    assert_true(real == 0.5);
    assert_status(shoali_json_double(json, "x", 1, 2, NULL, &real), SHOAL_ECORRUPT);
    assert_status(shoali_json_double(json, "s", 1, 2, &real_fallback, &real), SHOAL_ECORRUPT);

    assert_ok(shoali_json_string(json, "s", NULL, &text));
    assert_string_equal(text, "ring");
    assert_ok(shoali_json_string(json, "absent", "other", &text));
    assert_string_equal(text, "other");
    assert_status(shoali_json_string(json, "n", "other", &text), SHOAL_ECORRUPT);
    assert_status(shoali_json_string(NULL, "n", "other", &text), SHOAL_ECORRUPT);
    assert_error_has("found nothing");
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(errors_say_file_line_and_column),
        CHECK_TEST(hostile_texts_are_refused),
        CHECK_TEST(depth_is_bounded),
        CHECK_TEST(size_is_bounded),
        CHECK_TEST(values_are_bounded),
        CHECK_TEST(files_are_read_whole),
        CHECK_TEST(typed_members_are_checked),
    };
    return CHECK_RUN(tests);
}
