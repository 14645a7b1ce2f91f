/* SPDX-License-Identifier: Apache-2.0 */
/* What `--codec auto` takes and refuses; that it measures and chooses is proc/codec_train_test. */
#include "support/check.h"

#include "support/tinydata.h"
#include "worker/codec_choice.h"

static shoal_train_desc tiny_desc(const char *codec)
{
    shoal_train_desc desc = SHOAL_TRAIN_DESC_INIT;
    desc.model = tiny_model;
    desc.data = tiny_dir;
    desc.batch = 8;
    desc.max_steps = 5;
    desc.no_evaluation = true;
    desc.codec = codec;
    return desc;
}

/* One worker has nothing to exchange: off, and nothing to compare. */
static void alone_it_is_off(void **state)
{
    (void)state;
    shoal_train *train = NULL;
    shoal_train_candidate c = {.size = sizeof c};
    shoal_train_progress progress = {.size = sizeof progress};
    const shoal_train_desc desc = tiny_desc("auto:allow=terngrad+eden:bits=3");
    assert_ok(shoal_train_create(NULL, &desc, &train));
    do {
        assert_false(shoali_choice_alone(train));
        assert_ok(shoal_train_step(train, &progress));
    } while (!progress.done);
    assert_string_equal(shoal_train_codec(train), "identity");
    assert_false(shoal_train_choice(train, 0, &c));
    shoal_train_destroy(train);
}

/* Only what is a candidate: what is lossy needs to be allowed in this run, too. */
static void earlier_choices(void **state)
{
    (void)state;
    shoal_train *train = NULL;
    shoal_train_desc desc = tiny_desc("auto");
    assert_ok(shoal_train_create(NULL, &desc, &train));
    shoali_choice_resume(train, NULL, NULL);
    shoali_choice_resume(train, "eden:bits=3", NULL);
    assert_string_equal(shoal_train_codec(train), "identity");
    shoali_choice_resume(train, "expo", NULL);
    assert_string_equal(shoali_choice_made(train), "expo");
    shoal_train_destroy(train);
    desc.codec = "auto:allow=fp16+eden:bits=3";
    assert_ok(shoal_train_create(NULL, &desc, &train));
    shoali_choice_resume(train, "eden:bits=3", NULL);
    assert_string_equal(shoal_train_codec(train), "eden:bits=3");
    assert_null(shoali_choice_ladder(train));
    shoal_train_destroy(train);
    desc.codec = "identity";
    assert_ok(shoal_train_create(NULL, &desc, &train));
    shoali_choice_resume(train, "expo", NULL);
    assert_string_equal(shoal_train_codec(train), "identity");
    assert_null(shoali_choice_made(train));
    shoal_train_destroy(train);
}

static void refuse(const char *codec, const char *collective, const char *part)
{
    shoal_train *train = NULL;
    shoal_train_desc desc = tiny_desc(codec);
    desc.collective = collective;
    assert_status(shoal_train_create(NULL, &desc, &train), SHOAL_EINVAL);
    assert_error_has(part);
}

static void what_it_refuses(void **state)
{
    (void)state;
    refuse("auto:", "ring", "allow=CODEC+CODEC");
    refuse("auto:deny=fp16", "ring", "allow=CODEC+CODEC");
    refuse("auto:allow=", "ring", "joined by +");
    refuse("auto:allow=fp16+", "ring", "joined by +");
    refuse("auto:allow=fp16+nonsense", "ring", "nonsense");
    refuse("auto:allow=topk:k=0.1", "ring", "gather");
    refuse("auto:error=0.1,allow=powersgd", "ring", "not measured");
    refuse("auto:error=0.1,every=0", "ring", "every=STEPS");
    shoal_train *train = NULL;
    shoal_train_desc desc = tiny_desc("auto");
    desc.simulate = 2;
    assert_status(shoal_train_create(NULL, &desc, &train), SHOAL_EINVAL);
    assert_error_has("name a codec");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(alone_it_is_off),
        CHECK_TEST(earlier_choices),
        CHECK_TEST(what_it_refuses),
    };
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
