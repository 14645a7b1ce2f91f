/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a run, one by one. */
#include "shoal/run.h"

#include "shoal/train.h"
#include "support/check.h"
#include "support/scratch_dir.h"
#include "support/tinydata.h"

static void options_one_by_one(void **state)
{
    (void)state;
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    shoal_train *train = NULL;
    shoal_run *run = NULL;
    char out[256];
    snprintf(out, sizeof out, "%s/run", tiny_dir);
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.out = out;
    desc.no_overlap = true;
    desc.options = "{\"export\": [\"A\", \"B\"], \"nothing\": []}";
    assert_status(shoal_run_open(out, &run), SHOAL_EIO);
    assert_ok(shoal_train_create(NULL, &desc, &train));
    shoal_train_destroy(train);
    assert_ok(shoal_run_open(out, &run));
    const char *name, *value;
    char exports[8] = "";
    int seen = 0, switches = 0;
    for (uint32_t i = 0; (value = shoal_run_option(run, i, &name)) != NULL; i++) {
        if (strcmp(name, "export") == 0)
            strcat(exports, value);
        assert_string_not_equal(name, "nothing");
        seen += strcmp(name, "batch") == 0 && strcmp(value, "64") == 0;
        switches += strcmp(name, "no-overlap") == 0 && value[0] == '\0';
    }
    assert_string_equal(exports, "AB");
    assert_true(seen == 1 && switches == 1);
    assert_non_null(strstr(shoal_run_json(run), "\"shoal-run-1\""));
    shoal_run_close(run);
    shoal_run_close(NULL);
    assert_status(shoal_run_open(NULL, &run), SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(options_one_by_one)};
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
