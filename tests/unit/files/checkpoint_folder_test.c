/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoint is the newest, which the one before it, and what is removed. */
#include "support/check.h"

#include <sys/stat.h>
#include <unistd.h>

#include "files/checkpoint_folder.h"
#include "support/scratch_dir.h"

static const char *dir;

static int set_up(void **state)
{
    (void)state;
    dir = scratch_dir_make();
    return 0;
}

static bool is_there(const char *name)
{
    return access(scratch_path(name), F_OK) == 0;
}

static shoali_checkpoint at(uint64_t step, uint64_t epoch)
{
    return (shoali_checkpoint){.step = step, .epoch = epoch};
}

static void put(const char *folder, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "checkpoints/%s/%s", folder, name);
    scratch_write(path, "x", 1);
}

static void make(shoali_checkpoint which, const char *name)
{
    char folder[SHOALI_PATH_BYTES];
    assert_ok(shoali_checkpoint_make(dir, which, folder));
    assert_string_equal(strrchr(folder, '/') + 1, name);
    put(name, "common.safetensors");
    put(name, "rank-0.safetensors");
    put(name, "rank-2.safetensors");
}

static void assert_is(shoali_checkpoint got, shoali_checkpoint want)
{
    assert_int_equal(got.step, want.step);
    assert_int_equal(got.epoch, want.epoch);
}

static void two_stay_and_undone_ones_go(void **state)
{
    (void)state;
    make(at(8, 0), "step-8");
    make(at(10, 0), "step-10");
    make(at(12, 0), "step-12");
    make(at(12, 3), "step-12-3"); /* the same step, of members that have reformed */
    put("step-12", "mine.txt");
    assert_is(shoali_checkpoint_before(dir, NULL), at(12, 3));
    assert_is(shoali_checkpoint_before(dir, &(shoali_checkpoint){12, 3}), at(12, 0));
    assert_is(shoali_checkpoint_before(dir, &(shoali_checkpoint){12, 0}), at(10, 0));
    assert_is(shoali_checkpoint_before(dir, &(shoali_checkpoint){8, 0}), at(0, 0));
    shoali_checkpoint_keep(dir, at(12, 3), at(10, 0)); /* step-12 was never whole */
    assert_false(is_there("checkpoints/step-8"));
    assert_true(is_there("checkpoints/step-10/common.safetensors"));
    assert_false(is_there("checkpoints/step-12/common.safetensors"));
    assert_true(is_there("checkpoints/step-12/mine.txt")); /* not ours */
    assert_true(is_there("checkpoints/step-12-3/common.safetensors"));
    shoali_checkpoint_undo(dir, at(10, 0), 2); /* rank 2 takes its own away, rank 0 the rest */
    assert_true(is_there("checkpoints/step-12-3/rank-0.safetensors"));
    assert_false(is_there("checkpoints/step-12-3/rank-2.safetensors"));
    assert_true(is_there("checkpoints/step-10/rank-2.safetensors"));
    shoali_checkpoint_undo(dir, at(10, 0), 0);
    assert_false(is_there("checkpoints/step-12-3"));
    assert_true(is_there("checkpoints/step-10/rank-0.safetensors"));
}

static void latest_is_a_name_of_one_that_is_there(void **state)
{
    (void)state;
    static const char *const bad[] = {"step-11\n",   "step-1p\n",   "Step-10\n", "step-010\n",
                                      "step-10-0\n", "step-10-1\n", "\n",        ""};
    make(at(10, 0), "step-10");
    make(at(14, 1), "step-14-1");
    assert_ok(shoali_checkpoint_name_latest(dir, at(14, 1)));
    assert_is(shoali_checkpoint_latest(dir), at(14, 1));
    assert_ok(shoali_checkpoint_name_latest(dir, at(10, 0)));
    assert_is(shoali_checkpoint_latest(dir), at(10, 0));
    shoali_checkpoint_name_again(dir, at(0, 0)); /* the only one is given up */
    assert_false(is_there("checkpoints/latest"));
    shoali_checkpoint_name_again(dir, at(14, 1));
    assert_is(shoali_checkpoint_latest(dir), at(14, 1));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        scratch_write("checkpoints/latest", bad[i], strlen(bad[i]));
        assert_is(shoali_checkpoint_latest(dir), at(0, 0));
    }
    assert_int_equal(remove(scratch_path("checkpoints/latest")), 0);
    assert_is(shoali_checkpoint_latest(dir), at(0, 0));
    assert_is(shoali_checkpoint_before("/no/such", NULL), at(0, 0));
}

static void what_a_killed_run_had_still_to_do_is_done(void **state)
{
    (void)state;
    for (uint64_t step = 52; step <= 64; step += 4)
        make(at(step, 0),
             (const char *[]){"step-52", "step-56", "step-60", "step-64"}[step / 4 - 13]);
    assert_ok(shoali_checkpoint_name_latest(dir, at(60, 0)));
    assert_ok(shoali_checkpoint_conclude(dir, at(64, 0)));
    assert_is(shoali_checkpoint_latest(dir), at(64, 0));
    assert_false(is_there("checkpoints/step-52"));
    assert_false(is_there("checkpoints/step-56"));
    assert_true(is_there("checkpoints/step-60/rank-2.safetensors"));
    assert_true(is_there("checkpoints/step-64/rank-2.safetensors"));
}

static void temporary_files_of_servers_stay(void **state)
{
    (void)state;
    make(at(10, 0), "step-10");
    put("step-10", "common.safetensors.tmp9");
    put("step-10", "rank-1.safetensors.tmp9");
    put("step-10", "rank-2.safetensors.tmp9"); /* a server's, which is still at it */
    shoali_checkpoint_tidy(scratch_path("checkpoints/step-10"), 2);
    assert_false(is_there("checkpoints/step-10/common.safetensors.tmp9"));
    assert_false(is_there("checkpoints/step-10/rank-1.safetensors.tmp9"));
    assert_true(is_there("checkpoints/step-10/rank-2.safetensors.tmp9"));
    assert_true(is_there("checkpoints/step-10/rank-2.safetensors"));
}

static void lines_are_whole_and_follow_no_link(void **state)
{
    (void)state;
    size_t length = 0;
    scratch_write("else", "untouched", 9);
    assert_int_equal(symlink("else", scratch_path("line.tmp")), 0); /* of a process that died */
    for (int i = 0; i < 2; i++) {
        assert_ok(shoali_write_line(scratch_path("line"), i == 0 ? "first" : "second"));
        char *text = scratch_read("line", &length);
        assert_int_equal(length, i == 0 ? 6 : 7);
        assert_memory_equal(text, i == 0 ? "first\n" : "second\n", length);
        free(text);
    }
    char *text = scratch_read("else", &length);
    assert_int_equal(length, 9);
    free(text);
    assert_false(is_there("line.tmp"));
    assert_status(shoali_write_line(scratch_path("no/such/line"), "x"), SHOAL_EIO);
    assert_error_has("no/such/line");
}

static void names_are_numbers(void **state)
{
    (void)state;
    uint64_t value = 0;
    assert_true(shoali_number_after("step-12", "step-", 10, &value) && value == 12);
    assert_true(shoali_number_after("residual.00ff", "residual.", 16, &value) && value == 255);
    assert_false(shoali_number_after("step-", "step-", 10, &value));
    assert_false(shoali_number_after("step--1", "step-", 10, &value));
    assert_false(shoali_number_after("step-12x", "step-", 10, &value));
    assert_false(shoali_number_after("step-99999999999999999999", "step-", 10, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(two_stay_and_undone_ones_go),
        CHECK_TEST(latest_is_a_name_of_one_that_is_there),
        CHECK_TEST(what_a_killed_run_had_still_to_do_is_done),
        CHECK_TEST(temporary_files_of_servers_stay),
        CHECK_TEST(lines_are_whole_and_follow_no_link),
        CHECK_TEST(names_are_numbers),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_tear_down);
}
