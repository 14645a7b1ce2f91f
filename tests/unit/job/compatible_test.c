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
            /* What docs/protocols.md says of each: these send parameters, without losses or, on a
             * graph of fixed neighbours, as what has changed. */
            bool changes = strcmp(sync, "hop") == 0 || strcmp(sync, "d_psgd") == 0;
            bool models = changes || strcmp(sync, "ad_psgd") == 0 || strcmp(sync, "ripples") == 0 ||
                          strcmp(sync, "noloco") == 0;
            bool lossless = strcmp(codec, "identity") == 0 || strcmp(codec, "zstd") == 0 ||
                            strcmp(codec, "expo") == 0 || strcmp(codec, "nonzero") == 0;
            /* One measures among all, the other states no variance. */
            bool alone = strcmp(codec, "terngrad") != 0 && strcmp(codec, "chunk_topk") != 0;
            /* A gather, which carries all codecs, makes none of a server's sums. */
            bool served = strcmp(sync, "param_server") == 0;
            bool slots = strcmp(codec, "topk") == 0 || strcmp(codec, "randomk") == 0 ||
                         strcmp(codec, "chunk_topk") == 0;
            shoal_status status = ask(sync, codec, served || models ? NULL : "gather", 4);
            bool rounds = strcmp(codec, "powersgd") == 0 || strcmp(codec, "blocks") == 0 ||
                          strcmp(codec, "onebit") == 0 || strcmp(codec, "demo") == 0;
            /* Its sum is a step, which others than all_reduce would take for a change. */
            bool steps = strcmp(codec, "demo") == 0 && strcmp(sync, "all_reduce") != 0;
            bool bad = steps || (changes && (rounds || !alone)) ||
                       (models && !changes && !lossless) || (served && (slots || rounds));
            assert_int_equal(status, bad ? SHOAL_EINVAL : SHOAL_OK);
            taken += status == SHOAL_OK;
            refused += status != SHOAL_OK;
            if (status == SHOAL_OK)
                continue;
            assert_non_null(strstr(shoal_last_error()->text, sync));
            assert_non_null(strstr(shoal_last_error()->text, codec));
            assert_true(served || strstr(shoal_last_error()->advice, "all_reduce, ") != NULL);
        }
    assert_true(taken > 0 && refused > 0);
}

/* A step is made as it comes back: by no optimiser that adds to it, not clipped, not by choice. */
static void steps_are_made_as_they_are(void **state)
{
    (void)state;
    shoal_job job = SHOAL_JOB_INIT;
    job.codec = "demo:k=8";
    job.optimizer = "sgd:momentum=0,decay=1e-4";
    assert_ok(shoal_job_check(&job));
    job.optimizer = "sgd";
    assert_int_equal(shoal_job_check(&job), SHOAL_EINVAL);
    assert_error_has("--optimizer sgd does not go with --codec demo:k=8");
    job.optimizer = "adamw";
    assert_int_equal(shoal_job_check(&job), SHOAL_EINVAL);
    job.optimizer = "sgd:momentum=0";
    job.asks = SHOAL_JOB_CLIPS;
    assert_int_equal(shoal_job_check(&job), SHOAL_EINVAL);
    assert_error_has("--clip-norm does not go with --codec demo:k=8");
    job.asks = SHOAL_JOB_PLAN;
    assert_int_equal(shoal_job_check(&job), SHOAL_EINVAL);
    job.asks = 0;
    job.codec = "auto:allow=bf16+demo";
    assert_int_equal(shoal_job_check(&job), SHOAL_EINVAL);
    assert_error_has("demo makes other steps than the others");
}

static void changes_have_to_come_closer(void **state)
{
    (void)state;
    assert_ok(ask("hop", "eden:bits=1", NULL, 4));
    assert_ok(ask("hop:backup=1,skip=4", "eden:bits=2", NULL, 4));
    assert_int_equal(ask("hop:backup=1,skip=4", "eden:bits=1", NULL, 4), SHOAL_EINVAL);
    assert_int_equal(ask("hop:staleness=2", "topk", NULL, 4), SHOAL_EINVAL);
    assert_error_has("a codec may lose a seventh of what it is given, not more");
    assert_ok(ask("d_psgd", "randomk", NULL, 4));
    assert_ok(ask("d_psgd", "blockint:bound=2^-10", NULL, 4));
    assert_int_equal(ask("d_psgd", "randomk:ef=off", NULL, 4), SHOAL_EINVAL);
    assert_error_has("replicas might drift apart");
    assert_int_equal(ask("d_psgd", "blockint:rel=0.1", NULL, 4), SHOAL_EINVAL);
    assert_error_has("measures or sums among all workers");
    assert_int_equal(ask("ripples:static", "eden", NULL, 4), SHOAL_EINVAL);
    assert_error_has("sends parameters, of which --codec eden might lose some each time");
    assert_int_equal(ask("ad_psgd", "expo:format=bf16", NULL, 4), SHOAL_EINVAL);
    assert_int_equal(ask("hop", "auto", NULL, 4), SHOAL_EINVAL);
    assert_error_has("cannot change its codec on the way");
}

static void a_server_has_conditions_of_its_own(void **state)
{
    (void)state;
    assert_ok(ask("param_server:dedicated,async", "terngrad:scaler=own", NULL, 3));
    assert_int_equal(ask("param_server:dedicated,async", "terngrad", NULL, 3), SHOAL_EINVAL);
    assert_error_has("--sync param_server:dedicated,async does not go with --codec terngrad");
    assert_int_equal(ask("param_server:pull=codec", "terngrad", NULL, 3), SHOAL_EINVAL);
    assert_ok(ask("param_server", "terngrad", NULL, 3));
    assert_int_equal(ask("param_server:servers=2", NULL, NULL, 1), SHOAL_EINVAL);
    assert_error_has("does not go with 1 workers");
    assert_int_equal(ask("param_server:dedicated,backup=2", NULL, NULL, 2), SHOAL_EINVAL);
    assert_ok(ask("param_server:dedicated,backup=2", NULL, NULL, 3));
    assert_ok(ask("param_server:dedicated,backup=2", NULL, NULL, 0));
}

static shoal_status ask_checkpoints(const char *sync)
{
    shoal_job job = SHOAL_JOB_INIT;
    job.sync = sync;
    job.workers = 4;
    job.asks = SHOAL_JOB_CHECKPOINTS;
    return shoal_job_check(&job);
}

/* Equal replicas, or such as each can go on from: keys change the answer. */
static void checkpoints_are_of_what_a_run_can_go_on_from(void **state)
{
    (void)state;
    static const char *const with[] = {
        "all_reduce", "param_server:servers=2", "d_psgd",
        "hop",        "hop:backup=1",           "hop:backup=1,skip=1",
        "ad_psgd",    "ripples:static",         "ripples:smart"};
    static const char *const without[] = {"local_sgd", "diloco", "noloco", "hop:backup=1,skip=2",
                                          "param_server:dedicated,async"};
    for (size_t i = 0; i < sizeof with / sizeof *with; i++)
        assert_ok(ask_checkpoints(with[i]));
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        assert_int_equal(ask_checkpoints(without[i]), SHOAL_EINVAL);
        assert_error_has("--checkpoint-every does not go with --sync ");
        assert_error_has(without[i]);
        assert_non_null(strstr(shoal_last_error()->advice, "all_reduce, "));
        assert_null(strstr(shoal_last_error()->advice, "diloco"));
    }
}

static void codec_auto_is_a_codec(void **state)
{
    (void)state;
    assert_int_equal(ask("hop", "auto", NULL, 2), SHOAL_EINVAL);
    assert_int_equal(ask("diloco", "auto", NULL, 2), SHOAL_EINVAL);
    assert_error_has("cannot change its codec on the way");
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
            const char *sync = shoali_sync_row_at(s)->name;
            bool summed = strcmp(sync, "all_reduce") == 0 || strcmp(sync, "local_sgd") == 0 ||
                          strcmp(sync, "diloco") == 0;
            shoal_status status = ask(sync, NULL, "hierarchical:dims=2/2", workers);
            assert_int_equal(status, summed && workers == 4 ? SHOAL_OK : SHOAL_EINVAL);
            if (status != SHOAL_OK)
                assert_error_has("hierarchical:dims=2/2");
        }
    for (size_t i = 0; i < shoali_collective_count(); i++)
        for (uint32_t workers = 1; workers <= 9; workers++) {
            const shoali_collective_row *row = shoali_collective_row_at(i);
            bool sums = strcmp(row->name, "broadcast") != 0;
            assert_int_equal(ask("diloco", NULL, row->name, workers), /* any number by default */
                             sums ? SHOAL_OK : SHOAL_EINVAL);
        }
}

/* docs/two-sites.md: two or more whole sites, sums alone, and what is coded chunk by chunk. */
static void sites_are_whole_and_coded_between(void **state)
{
    (void)state;
    static const char *const rows[] = {"direct", "hierarchical"};
    char spec[48];
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (uint32_t site = 1; site <= 4; site++) {
            snprintf(spec, sizeof spec, "%s:site=%u", rows[r], site);
            for (uint32_t workers = 2; workers <= 9; workers++) {
                const bool whole = workers % site == 0 && workers / site >= 2;
                assert_int_equal(ask("all_reduce", "eden:bits=4", spec, workers),
                                 whole ? SHOAL_OK : SHOAL_EINVAL);
                if (!whole)
                    assert_error_has("are not two or more whole sites");
            }
        }
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        snprintf(spec, sizeof spec, "%s:site=2", rows[r]);
        for (size_t s = 0; s < shoali_sync_count(); s++) {
            const char *sync = shoali_sync_row_at(s)->name;
            bool summed = strcmp(sync, "all_reduce") == 0 || strcmp(sync, "local_sgd") == 0 ||
                          strcmp(sync, "diloco") == 0;
            assert_int_equal(ask(sync, NULL, spec, 4), summed ? SHOAL_OK : SHOAL_EINVAL);
        }
        static const char *const rounds[] = {"powersgd", "onebit", "blocks", "topk"};
        for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
            assert_int_equal(ask(NULL, rounds[i], spec, 4), SHOAL_EINVAL);
            assert_error_has(rounds[i]);
        }
        shoal_job job = {.size = sizeof job,
                         .codec = "int8:ef",
                         .collective = spec,
                         .workers = 4,
                         .asks = SHOAL_JOB_REFORM | SHOAL_JOB_CHECKPOINTS | SHOAL_JOB_RESUME};
        assert_ok(shoal_job_check(&job));
    }
}

static shoal_status ask_for(uint32_t asks, const char *sync, const char *codec,
                            const char *collective)
{
    shoal_job job = SHOAL_JOB_INIT;
    job.sync = sync;
    job.codec = codec;
    job.collective = collective;
    job.workers = 4;
    job.asks = asks;
    return shoal_job_check(&job);
}

/* Of docs/combinations.md, not of the code: what excludes what. */
static bool exclude(uint32_t a, uint32_t b)
{
    static const uint32_t pairs[][2] = {{SHOAL_JOB_SIMULATED, SHOAL_JOB_REFORM},
                                        {SHOAL_JOB_SIMULATED, SHOAL_JOB_PLAN},
                                        {SHOAL_JOB_SIMULATED, SHOAL_JOB_BATCH_AUTO},
                                        {SHOAL_JOB_SIMULATED, SHOAL_JOB_NO_EXCHANGE},
                                        {SHOAL_JOB_SIMULATED, SHOAL_JOB_RESUME},
                                        {SHOAL_JOB_SIMULATED, SHOAL_JOB_PACED},
                                        {SHOAL_JOB_SIMULATED, SHOAL_JOB_DUMPS},
                                        {SHOAL_JOB_REFORM, SHOAL_JOB_PLAN},
                                        {SHOAL_JOB_REFORM, SHOAL_JOB_ADMM},
                                        {SHOAL_JOB_REFORM, SHOAL_JOB_BATCH_AUTO},
                                        {SHOAL_JOB_REFORM, SHOAL_JOB_NO_EXCHANGE},
                                        {SHOAL_JOB_PLAN, SHOAL_JOB_ADMM},
                                        {SHOAL_JOB_PLAN, SHOAL_JOB_BATCH_AUTO},
                                        {SHOAL_JOB_PLAN, SHOAL_JOB_SKIPS},
                                        {SHOAL_JOB_PLAN, SHOAL_JOB_PACED},
                                        {SHOAL_JOB_PLAN, SHOAL_JOB_DUMPS},
                                        {SHOAL_JOB_PLAN, SHOAL_JOB_CLIPS}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if ((pairs[i][0] == a && pairs[i][1] == b) || (pairs[i][0] == b && pairs[i][1] == a))
            return true;
    return false;
}

static void features_exclude_each_other_as_documented(void **state)
{
    (void)state;
    for (uint32_t a = 1; a <= SHOAL_JOB_CLIPS; a <<= 1)
        for (uint32_t b = a << 1; b <= SHOAL_JOB_CLIPS; b <<= 1) {
            shoal_status status = ask_for(a | b, NULL, NULL, NULL);
            assert_int_equal(status, exclude(a, b) ? SHOAL_EINVAL : SHOAL_OK);
            if (status != SHOAL_OK)
                assert_error_has("does not go with --");
        }
}

static void features_ask_something_of_the_protocol(void **state)
{
    (void)state;
    const uint32_t gradients[] = {SHOAL_JOB_SIMULATED, SHOAL_JOB_REFORM, SHOAL_JOB_PLAN,
                                  SHOAL_JOB_ADMM};
    for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++)
        for (size_t s = 0; s < shoali_sync_count(); s++) {
            const char *sync = shoali_sync_row_at(s)->name;
            bool sums = strcmp(sync, "all_reduce") == 0;
            bool others = gradients[i] == SHOAL_JOB_REFORM && strcmp(sync, "param_server") != 0;
            assert_int_equal(ask_for(gradients[i], sync, NULL, NULL),
                             sums || others ? SHOAL_OK : SHOAL_EINVAL);
        }
    const char *served = "param_server:dedicated,async";
    assert_int_equal(ask_for(SHOAL_JOB_REFORM, served, NULL, NULL), SHOAL_EINVAL);
    assert_non_null(strstr(shoal_last_error()->advice, "goes on without lost workers by itself"));
    const char *late = "param_server:dedicated,backup=1", *stale = "param_server:dedicated,async";
    assert_int_equal(ask_for(SHOAL_JOB_BATCH_AUTO, late, NULL, NULL), SHOAL_EINVAL);
    assert_error_has("--batch auto does not go with --sync param_server:dedicated,backup=1");
    assert_ok(ask_for(SHOAL_JOB_BATCH_AUTO, stale, NULL, NULL));
    assert_ok(ask_for(SHOAL_JOB_BATCH_AUTO, "ripples:static", NULL, NULL));
    assert_int_equal(ask_for(SHOAL_JOB_BATCH_AUTO, "ripples:smart", NULL, NULL), SHOAL_EINVAL);
    shoal_job alone = {.size = sizeof alone, .workers = 1, .asks = SHOAL_JOB_REFORM};
    assert_int_equal(shoal_job_check(&alone), SHOAL_EINVAL);
}

static shoal_status ask_to_step(const char *optimizer, uint32_t asks, const char *sync)
{
    shoal_job job = SHOAL_JOB_INIT;
    job.sync = sync;
    job.optimizer = optimizer;
    job.workers = 4;
    job.asks = asks;
    return shoal_job_check(&job);
}

/* Which protocols step where, of docs/protocols.md: param_server's owners step on ranges; those
 * that average let each worker step on its own replica. */
static void steps_ask_who_makes_them(void **state)
{
    (void)state;
    for (size_t s = 0; s < shoali_sync_count(); s++) {
        const char *sync = shoali_sync_row_at(s)->name;
        bool owners = strcmp(sync, "param_server") == 0, equal = strcmp(sync, "all_reduce") == 0;
        shoal_status whole = owners ? SHOAL_EINVAL : SHOAL_OK;
        assert_int_equal(ask_to_step(NULL, SHOAL_JOB_CLIPS, sync), whole);
        assert_int_equal(ask_to_step("muon", 0, sync), whole);
        assert_int_equal(ask_to_step("adamw", 0, sync), SHOAL_OK);
        assert_int_equal(ask_to_step("sgd:ema=0.9", 0, sync), equal ? SHOAL_OK : SHOAL_EINVAL);
    }
    assert_int_equal(ask_to_step("muon", 0, "param_server:servers=2"), SHOAL_EINVAL);
    assert_error_has("--optimizer muon does not go with --sync param_server:servers=2");
    assert_int_equal(ask_to_step("adam", SHOAL_JOB_CLIPS, "param_server"), SHOAL_EINVAL);
    assert_error_has("--clip-norm does not go with --sync param_server");
    assert_non_null(strstr(shoal_last_error()->advice, "--sync all_reduce"));
    assert_int_equal(ask_to_step("adam:ema=0.9", 0, "hop"), SHOAL_EINVAL);
    assert_error_has("--optimizer adam:ema=0.9 does not go with --sync hop");
    assert_int_equal(ask_to_step("muon", SHOAL_JOB_PLAN, NULL), SHOAL_EINVAL);
    assert_error_has("--optimizer muon does not go with --plan");
    assert_int_equal(ask_to_step("sgd:ema=0.9", SHOAL_JOB_PLAN, NULL), SHOAL_EINVAL);
    assert_int_equal(ask_to_step("sgd:ema=0.9", SHOAL_JOB_ADMM, NULL), SHOAL_EINVAL);
    assert_ok(ask_to_step("muon", SHOAL_JOB_ADMM, NULL));
    assert_ok(ask_to_step("muon:ema=0.9", SHOAL_JOB_CLIPS | SHOAL_JOB_REFORM, NULL));
    assert_int_equal(ask_to_step("adamv", 0, NULL), SHOAL_EINVAL);
}

static void nothing_to_choose_is_said(void **state)
{
    (void)state;
    assert_int_equal(ask_for(SHOAL_JOB_NO_EXCHANGE, "hop", NULL, NULL), SHOAL_EINVAL);
    assert_error_has("--no-exchange does not go with --sync hop");
    assert_int_equal(ask_for(SHOAL_JOB_NO_EXCHANGE, NULL, "eden", NULL), SHOAL_EINVAL);
    assert_int_equal(ask_for(SHOAL_JOB_NO_EXCHANGE, NULL, NULL, "direct"), SHOAL_EINVAL);
    assert_ok(ask_for(SHOAL_JOB_NO_EXCHANGE, "all_reduce", "identity", "ring"));
    assert_int_equal(ask_for(SHOAL_JOB_SIMULATED, NULL, "auto", NULL), SHOAL_EINVAL);
    assert_ok(ask_for(SHOAL_JOB_SIMULATED, NULL, "powersgd", NULL));
    assert_int_equal(ask_for(SHOAL_JOB_REFORM, NULL, "auto", NULL), SHOAL_EINVAL);
    assert_int_equal(ask_for(SHOAL_JOB_PLAN, NULL, "auto", NULL), SHOAL_EINVAL);
    assert_int_equal(ask_for(SHOAL_JOB_SIMULATED, NULL, NULL, "auto"), SHOAL_EINVAL);
    assert_ok(ask_for(SHOAL_JOB_REFORM, NULL, NULL, "auto"));
    assert_int_equal(ask(NULL, "eden", "auto", 4), SHOAL_EINVAL);
    assert_error_has("--collective auto does not go with --codec eden");
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
        CHECK_TEST(steps_are_made_as_they_are),
        CHECK_TEST(changes_have_to_come_closer),
        CHECK_TEST(a_server_has_conditions_of_its_own),
        CHECK_TEST(checkpoints_are_of_what_a_run_can_go_on_from),
        CHECK_TEST(codec_auto_is_a_codec),
        CHECK_TEST(a_collective_carries_a_codec_or_not),
        CHECK_TEST(dimensions_multiply_to_the_workers),
        CHECK_TEST(sites_are_whole_and_coded_between),
        CHECK_TEST(features_exclude_each_other_as_documented),
        CHECK_TEST(features_ask_something_of_the_protocol),
        CHECK_TEST(steps_ask_who_makes_them),
        CHECK_TEST(nothing_to_choose_is_said),
        CHECK_TEST(what_is_no_spec_is_refused),
        CHECK_TEST(survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
