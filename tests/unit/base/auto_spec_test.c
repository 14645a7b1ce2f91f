/* SPDX-License-Identifier: Apache-2.0 */
/* What `--codec auto` may be asked for, and how it is refused. */
#include "support/check.h"

#include "base/auto_spec.h"

static shoali_auto_spec parsed(const char *spec)
{
    shoali_auto_spec asked;
    assert_ok(shoali_auto_spec_parse(spec, &asked));
    return asked;
}

static void what_it_takes(void **state)
{
    (void)state;
    shoali_auto_spec asked = parsed("auto");
    assert_true(asked.error == 0);
    assert_null(asked.allow);
    asked = parsed("auto:allow=eden:bits=2,ef+bf16");
    assert_true(asked.error == 0);
    assert_string_equal(asked.allow, "eden:bits=2,ef+bf16");
    asked = parsed("auto:error=2^-4,every=7,allow=terngrad");
    assert_true(asked.error == 0.0625);
    assert_int_equal(asked.every, 7);
    assert_string_equal(asked.allow, "terngrad");
    asked = parsed("auto:error=1");
    assert_int_equal(asked.every, 50);
    assert_null(asked.allow);
    assert_true(shoali_auto_spec_named("auto") && shoali_auto_spec_named("auto:x"));
    assert_false(shoali_auto_spec_named("autos") || shoali_auto_spec_named("aut"));
}

static void the_list(void **state)
{
    (void)state;
    char spec[SHOALI_AUTO_ITEM_BYTES];
    shoali_auto_spec asked = parsed("auto:allow=eden:bits=2,ef+bf16");
    const char *at = asked.allow;
    assert_ok(shoali_auto_spec_next(&asked, &at, spec));
    assert_string_equal(spec, "eden:bits=2,ef");
    assert_ok(shoali_auto_spec_next(&asked, &at, spec));
    assert_string_equal(spec, "bf16");
    assert_null(at);
    static const char *const bad[] = {"auto:allow=", "auto:allow=+bf16", "auto:allow=bf16+"};
    for (int i = 0; i < 3; i++) {
        shoal_status status = SHOAL_OK;
        asked = parsed(bad[i]);
        at = asked.allow;
        while (status == SHOAL_OK && at != NULL)
            status = shoali_auto_spec_next(&asked, &at, spec);
        assert_status(status, SHOAL_EINVAL);
        assert_error_has("joined by +");
    }
}

static void what_it_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "auto:",        "auto:deny=fp16",  "auto:error=1.5",         "auto:error=-1",
        "auto:error=x", "auto:every=5",    "auto:error=0.1,every=0", "auto:error=0,every=5",
        "auto:error",   "auto:error=0.1,", "auto:error=0.1,fp16"};
    shoali_auto_spec asked;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_status(shoali_auto_spec_parse(bad[i], &asked), SHOAL_EINVAL);
        assert_error_has(bad[i]);
        assert_error_has("allow=CODEC+CODEC");
    }
    asked = parsed("auto:error=0.1");
    assert_status(shoali_auto_spec_no_transform(&asked, "powersgd"), SHOAL_EINVAL);
    assert_error_has("powersgd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_takes),
        cmocka_unit_test(the_list),
        cmocka_unit_test(what_it_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
