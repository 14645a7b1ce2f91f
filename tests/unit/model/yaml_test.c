/* SPDX-License-Identifier: Apache-2.0 */
#include "model/yaml.h"

#include "support/check.h"

static shoal_status parse(const char *text, json_t **json)
{
    return shoali_yaml_parse("f.yml", text, strlen(text), json);
}

static void values_become_json(void **state)
{
    (void)state;
    json_t *json = NULL;
    assert_ok(parse("# comment\na: [1, -2, 3.5, 1e3, x1, '7']\nb:\n  - c: true\n", &json));
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, "{\"a\":[1,-2,3.5,1000.0,\"x1\",\"7\"],\"b\":[{\"c\":\"true\"}]}");
    free(text);
    json_decref(json);
}

static void what_is_refused(void **state)
{
    (void)state;
    json_t *json;
    static const struct {
        const char *text, *error;
    } bad[] = {{"", "empty"},
               {"a: [1, 2", "f.yml:2:"},
               {"a: 1\na: 2\n", "f.yml:2: this key occurs twice"},
               {"a: &x [1]\nb: *x\n", "f.yml:2: aliases are not read"},
               {"a: 1\n---\nb: 2\n", "more than one document"},
               {"[[[[[[[[[[1]]]]]]]]]]", "nested too deeply"},
               {"? [a]\n: 1\n", "a key must be a word"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_status(parse(bad[i].text, &json), SHOAL_ECORRUPT);
        assert_error_has(bad[i].error);
    }
    assert_status(shoali_yaml_parse("big", "", (size_t)2 << 20, &json), SHOAL_ECORRUPT);
    assert_error_has("at most");
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(values_become_json), CHECK_TEST(what_is_refused)};
    return CHECK_RUN(tests);
}
