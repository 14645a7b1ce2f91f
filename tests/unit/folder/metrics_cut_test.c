/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics are cut back to where a checkpoint marked them; a file that was changed is cut by its
 * lines, and named. */
#include "support/check.h"

#include "base/log.h"
#include "folder/written.h"
#include "support/scratch_dir.h"

static const char text[] = "{\"step\": 1, \"loss\": 2}\n{\"replica\": 1, \"hash\": \"a\"}\n"
                           "{\"step\": 2, \"loss\": 1}\n{\"epoch\": 1, \"step\": 2}\n"
                           "{\"step\": 3, \"loss\": 1}\n{\"replica\": 3, \"hash\": \"b\"}\n{\"st";
enum { TWO = 98 }; /* bytes up to step 2 and its epoch */

static char said[512];

static void hear(void *ctx, shoali_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    snprintf(said, sizeof said, "%s", line);
}

static void assert_holds(const char *name, const char *want, size_t bytes)
{
    size_t length = 0;
    char *now = scratch_read(name, &length);
    assert_int_equal(length, bytes);
    assert_memory_equal(now, want, bytes);
    free(now);
}

/* As of a rank that has written so far. */
static shoali_metrics_at mark(const char *name, size_t bytes)
{
    shoal_train train = {0};
    char path[256];
    snprintf(path, sizeof path, "%s", scratch_path(name));
    scratch_write(name, text, 20); /* in two parts, as two checkpoints see it */
    train.folder.marks.path = path;
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    train.folder.marks.file = fileno(file) + 1;
    train.folder.metrics = open_memstream(&train.folder.marks.text, &train.folder.marks.bytes);
    assert_non_null(train.folder.metrics);
    assert_ok(shoali_metrics_mark(&train));
    assert_int_equal(train.folder.marks.at.bytes, 20);
    fwrite(text + 20, 1, bytes - 20, train.folder.metrics); /* not flushed */
    assert_ok(shoali_metrics_mark(&train));
    fclose(train.folder.metrics);
    fclose(file);
    free(train.folder.marks.text);
    shoali_digest_end(&train.folder.marks.digest);
    assert_int_equal(train.folder.marks.at.bytes, bytes);
    assert_string_equal(train.folder.marks.at.file, name);
    return train.folder.marks.at;
}

static void cut_to_a_mark(void **state)
{
    (void)state;
    assert_memory_equal(text + TWO - 2, "}\n", 2);
    const shoali_metrics_at at = mark("metrics.jsonl", TWO);
    scratch_write("metrics.jsonl", text, sizeof text - 1);
    assert_ok(shoali_metrics_cut(scratch_path("metrics.jsonl"), 2, &at));
    assert_holds("metrics.jsonl", text, TWO);
    assert_string_equal(said, "");
}

static void changed_ones_are_named_and_cut_by_lines(void **state)
{
    (void)state;
    char changed[sizeof text];
    const shoali_metrics_at at = mark("metrics.jsonl", TWO), none = {0};
    memcpy(changed, text, sizeof text);
    changed[sizeof "{\"step\": 1, \"loss\": " - 1] ^= 4;
    scratch_write("metrics.jsonl", changed, sizeof text - 1);
    assert_ok(shoali_metrics_cut(scratch_path("metrics.jsonl"), 2, &at));
    assert_holds("metrics.jsonl", changed, TWO);
    assert_non_null(strstr(said, "metrics.jsonl is damaged: its first 98 bytes"));
    said[0] = '\0';
    scratch_write("metrics.jsonl", text, 30); /* shorter than it was: lost with the power */
    assert_ok(shoali_metrics_cut(scratch_path("metrics.jsonl"), 2, &at));
    assert_holds("metrics.jsonl", text, 23);
    assert_non_null(strstr(said, "is damaged"));
    said[0] = '\0';
    scratch_write("metrics.1.jsonl", text, sizeof text - 1); /* no mark, or another file's */
    assert_ok(shoali_metrics_cut(scratch_path("metrics.1.jsonl"), 2, &none));
    assert_holds("metrics.1.jsonl", text, TWO);
    assert_ok(shoali_metrics_cut(scratch_path("metrics.1.jsonl"), 1, &at));
    assert_holds("metrics.1.jsonl", text, 51);
    assert_ok(shoali_metrics_cut(scratch_path("metrics.9.jsonl"), 1, &none));
    assert_string_equal(said, "");
}

static void those_of_others_are_cut_too(void **state)
{
    (void)state;
    static const char *const others[] = {"metrics.2.jsonl", "metrics.1.0.jsonl"};
    for (int i = 0; i < 2; i++)
        scratch_write(others[i], text, sizeof text - 1);
    scratch_write("metrics.1.jsonl", text, sizeof text - 1);
    scratch_write("metrics.1.jsonl.tmp", text, 7);
    assert_ok(shoali_metrics_cut_others(scratch_path("."), 2, 2));
    for (int i = 0; i < 2; i++)
        assert_holds(others[i], text, TWO);
    assert_holds("metrics.1.jsonl", text, sizeof text - 1); /* its rank does that */
    assert_null(fopen(scratch_path("metrics.1.jsonl.tmp"), "r"));
}

static int set_up(void **state)
{
    shoali_log_set_sink(hear, NULL);
    return scratch_set_up(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(cut_to_a_mark),
        CHECK_TEST(changed_ones_are_named_and_cut_by_lines),
        CHECK_TEST(those_of_others_are_cut_too),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_tear_down);
}
