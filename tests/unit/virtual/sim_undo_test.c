/* SPDX-License-Identifier: Apache-2.0 */
/* What a simulation that comes to nothing leaves: what was there before it. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shoal/sim.h"
#include "support/check.h"
#include "support/scratch_dir.h"
#include "virtual/sim_keep.h"

static void make_empty(const char *path)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fclose(file);
}

static shoal_sim *make(void)
{
    static const shoal_tensor small = {.key = 1, .count = 1000, .lr_scale = 1};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim *sim = NULL;
    desc.tensors = &small;
    desc.tensor_count = 1;
    desc.iterations = 5;
    assert_ok(shoal_sim_create(&desc, &sim));
    return sim;
}

/* Kept and not run: out and trace, in a folder that is there or not. */
static void try_out(char *out, char *trace)
{
    shoal_sim_files files = SHOAL_SIM_FILES_INIT;
    files.out = out;
    files.trace = trace;
    shoal_sim *sim = make();
    assert_ok(shoal_sim_keep(sim, &files));
    assert_int_equal(access(out, F_OK), 0);
    shoal_sim_destroy(sim);
    assert_int_equal(access(trace, F_OK), -1);
}

static void who_does_not_run_leaves_nothing(void **state)
{
    (void)state;
    char above[128], out[160], trace[128], other[192];
    snprintf(above, sizeof above, "%s", scratch_path("never"));
    snprintf(trace, sizeof trace, "%s", scratch_path("never.json"));
    snprintf(out, sizeof out, "%s/a/run/", above);
    try_out(out, trace);
    assert_int_equal(access(above, F_OK), -1);
    assert_int_equal(mkdir(above, 0777), 0);
    try_out(out, trace);
    snprintf(other, sizeof other, "%s/a", above);
    assert_int_equal(access(other, F_OK), -1);
    assert_int_equal(access(above, F_OK), 0);
    snprintf(out, sizeof out, "%s", above);
    snprintf(other, sizeof other, "%s/notes.txt", above);
    make_empty(other);
    try_out(out, trace);
    assert_int_equal(access(other, F_OK), 0);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(rmdir(above), 0); /* nothing else is in it */
}

static void what_is_there(void **state)
{
    (void)state;
    assert_int_equal(shoali_sim_there("/dev/nothing/here"), strlen("/dev/"));
    assert_int_equal(shoali_sim_there("/dev/null"), strlen("/dev/null"));
    assert_int_equal(shoali_sim_there("nothing-here//x/"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(who_does_not_run_leaves_nothing),
        CHECK_TEST(what_is_there),
    };
    return cmocka_run_group_tests(tests, scratch_set_up, scratch_tear_down);
}
