/* SPDX-License-Identifier: Apache-2.0 */
/* What holds of shoal_sim_keep whatever is in the files: tests/cli/sim_run_test.py reads them. */
#include "virtual/sim_keep.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "shoal/run.h"
#include "support/check.h"
#include "support/scratch_dir.h"

static shoal_sim *make(uint64_t iterations)
{
    static const shoal_tensor small = {.key = 1, .count = 1000, .lr_scale = 1};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim *sim = NULL;
    desc.tensors = &small;
    desc.tensor_count = 1;
    desc.iterations = iterations;
    assert_ok(shoal_sim_create(&desc, &sim));
    return sim;
}

static shoal_sim_files files_in(char out[128], const char *name)
{
    shoal_sim_files files = SHOAL_SIM_FILES_INIT;
    snprintf(out, 128, "%s", scratch_path(name));
    files.out = out;
    return files;
}

static shoal_run_summary look(const char *out)
{
    shoal_run_look *at = NULL;
    shoal_run_summary summary = {.size = sizeof summary};
    assert_ok(shoal_run_look_at(out, true, &at));
    assert_ok(shoal_run_look_summary(at, &summary));
    shoal_run_look_close(at);
    return summary;
}

static void once_and_before_the_run(void **state)
{
    (void)state;
    char out[128];
    shoal_sim_files files = files_in(out, "once");
    shoal_sim *sim = make(3);
    assert_status(shoal_sim_keep(NULL, &files), SHOAL_EINVAL);
    assert_status(shoal_sim_keep(sim, NULL), SHOAL_EINVAL);
    files.size--;
    assert_status(shoal_sim_keep(sim, &files), SHOAL_EINVAL);
    files.size++;
    files.options = "[]";
    assert_status(shoal_sim_keep(sim, &files), SHOAL_EINVAL);
    files.options = "{\"compute\": \"fixed\"}";
    assert_ok(shoal_sim_keep(sim, &files));
    assert_status(shoal_sim_keep(sim, &files), SHOAL_EINVAL);
    assert_ok(shoal_sim_run(sim));
    shoal_sim_destroy(sim);
    sim = make(3);
    assert_ok(shoal_sim_run(sim));
    snprintf(out, sizeof out, "%s", scratch_path("late"));
    assert_status(shoal_sim_keep(sim, &files), SHOAL_EINVAL);
    shoal_sim_destroy(sim);
}

/* From keep to destroy; then the run is what it is. */
static void a_folder_has_one_holder(void **state)
{
    (void)state;
    char out[128];
    const shoal_sim_files files = files_in(out, "held/below");
    shoal_sim *first = make(5), *second = make(5);
    assert_ok(shoal_sim_keep(first, &files));
    assert_status(shoal_sim_keep(second, &files), SHOAL_EINVAL);
    assert_string_equal("running", look(out).state);
    assert_ok(shoal_sim_run(first));
    assert_status(shoal_sim_keep(second, &files), SHOAL_EINVAL);
    shoal_sim_destroy(first);
    const shoal_run_summary whole = look(out);
    assert_string_equal("finished", whole.state);
    assert_true(whole.simulated && !whole.resumes && whole.step == 5 && whole.steps == 5);
    assert_status(shoal_sim_keep(second, &files), SHOAL_EINVAL); /* it holds a run */
    assert_ok(shoal_sim_run(second));
    shoal_sim_destroy(second);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    char out[128], trace[128];
    shoal_status status = SHOAL_ENOMEM;
    for (uint64_t k = 1; status != SHOAL_OK; k++) {
        char name[32];
        snprintf(name, sizeof name, "k%llu", (unsigned long long)k);
        shoal_sim_files files = files_in(out, name);
        snprintf(trace, sizeof trace, "%s.json", out);
        files.trace = trace;
        shoal_sim *sim = make(2);
        shoali_alloc_fail_at(k);
        status = shoal_sim_keep(sim, &files);
        if (status == SHOAL_OK)
            status = shoal_sim_run(sim);
        shoali_alloc_fail_at(0);
        assert_true(status == SHOAL_OK || status == SHOAL_ENOMEM);
        shoal_sim_destroy(sim);
        assert_true(k < 10000);
    }
    assert_string_equal("finished", look(out).state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(once_and_before_the_run),
                                       CHECK_TEST(a_folder_has_one_holder),
                                       CHECK_TEST(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, scratch_set_up, scratch_tear_down);
}
