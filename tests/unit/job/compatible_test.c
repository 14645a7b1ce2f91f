/* SPDX-License-Identifier: Apache-2.0 */
/* Every protocol with every codec, with many collectives and numbers of workers: an answer for
 * each, and refusals that name both options and a way out. */
#include "shoal/job.h"

#include <string.h>

#include "base/arena.h"
#include "codec/codec.h"
#include "collective/schedule.h"
#include "support/check.h"
#include "sync/sync.h"

static shoal_status ask(const char *sync, const char *codec, const char *collective,
                        uint32_t workers)
{
    shoal_job job = SHOAL_JOB_INIT;
    job.sync = sync;
    job.codec = codec;
    job.collective = collective;
    job.workers = workers;
    return shoal_job_check(&job);
}

static void every_pair_of_protocol_and_codec(void **state)
{
    (void)state;
    uint32_t taken = 0, refused = 0;
    for (size_t s = 0; s < shoali_sync_count(); s++)
        for (size_t c = 0; c < shoali_codec_count(); c++) {
            const char *sync = shoali_sync_row_at(s)->name, *codec = shoali_codec_row_at(c)->name;
            bool plain = strcmp(codec, "identity") == 0;
            /* What docs/protocols.md says of each: these send parameters as they are. */
            bool uncoded = strcmp(sync, "hop") == 0 || strstr(sync, "psgd") != NULL ||
                           strcmp(sync, "ripples") == 0;
            shoal_status status = ask(sync, codec, "auto", 4);
            assert_int_equal(status, uncoded && !plain ? SHOAL_EINVAL : SHOAL_OK);
            taken += status == SHOAL_OK;
            refused += status != SHOAL_OK;
            if (status == SHOAL_OK)
                continue;
            assert_non_null(strstr(shoal_last_error()->text, sync));
            assert_non_null(strstr(shoal_last_error()->text, codec));
            assert_non_null(strstr(shoal_last_error()->advice, "all_reduce, "));
        }
    assert_true(taken > 0 && refused > 0);
}

static void codec_auto_is_a_codec(void **state)
{
    (void)state;
    assert_int_equal(ask("hop", "auto", NULL, 2), SHOAL_EINVAL);
    assert_ok(ask("all_reduce", "auto", NULL, 2));
    assert_ok(ask("all_reduce", "auto:allow=eden+bf16", "ring", 2));
    assert_int_equal(ask("all_reduce", "auto:allow=topk", "ring", 2), SHOAL_EINVAL);
}

static void a_collective_carries_a_codec_or_not(void **state)
{
    (void)state;
    assert_ok(ask("all_reduce", "topk", "gather", 4));
    assert_int_equal(ask("all_reduce", "topk", "omnireduce", 4), SHOAL_EINVAL);
    assert_error_has("omnireduce");
    assert_non_null(strstr(shoal_last_error()->advice, "gather"));
}

static void dimensions_multiply_to_the_workers(void **state)
{
    (void)state;
    for (uint32_t workers = 2; workers <= 9; workers++)
        for (size_t s = 0; s < shoali_sync_count(); s++) {
            shoal_status status = ask(shoali_sync_row_at(s)->name, NULL, "hierarchical:dims=2/2",
                                      workers);
            assert_int_equal(status, workers == 4 ? SHOAL_OK : SHOAL_EINVAL);
            if (status != SHOAL_OK)
                assert_error_has("hierarchical:dims=2/2");
        }
    for (size_t i = 0; i < shoali_collective_count(); i++)
        for (uint32_t workers = 1; workers <= 9; workers++) {
            const shoali_collective_row *row = shoali_collective_row_at(i);
            assert_ok(ask("hop", NULL, row->name, workers)); /* their defaults take any number */
        }
}

static void what_is_no_spec_is_refused(void **state)
{
    (void)state;
    assert_int_equal(ask("hopp", NULL, NULL, 2), SHOAL_EINVAL);
    assert_int_equal(ask(NULL, "edden", NULL, 2), SHOAL_EINVAL);
    assert_int_equal(ask(NULL, NULL, "rink", 2), SHOAL_EINVAL);
    assert_ok(ask(NULL, NULL, NULL, 0));
    shoal_job job = {.size = 1};
    assert_int_equal(shoal_job_check(&job), SHOAL_EINVAL);
}

static void survives_failing_allocations(void **state)
{
    (void)state;
    for (size_t k = 1;; k++) {
        shoali_alloc_fail_at(k);
        shoal_status status = ask("diloco", "eden", "hierarchical:dims=2/2", 4);
        size_t made = shoali_alloc_fail_at(0);
        if (status == SHOAL_OK) {
            assert_true(made < k);
            break;
        }
        assert_int_equal(status, SHOAL_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(every_pair_of_protocol_and_codec),
        CHECK_TEST(codec_auto_is_a_codec),
        CHECK_TEST(a_collective_carries_a_codec_or_not),
        CHECK_TEST(dimensions_multiply_to_the_workers),
        CHECK_TEST(what_is_no_spec_is_refused),
        CHECK_TEST(survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
