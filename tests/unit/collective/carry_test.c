/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective with every codec: what the rules allow runs, what they forbid is refused with
 * the names of what goes together. */
#include "support/check.h"

#include <math.h>

#include "collective/carry.h"
#include "support/enginecase.h"
#include "support/toycodec.h"

static bool allowed(const char *collective, const char *codec)
{
    shoal_status status = shoal_codec_carried(codec, collective);
    assert_true(status == SHOAL_OK || status == SHOAL_EINVAL);
    return status == SHOAL_OK;
}

static void what_is_allowed_runs(void **state)
{
    (void)state;
    for (size_t i = 0; i < shoali_codec_count(); i++)
        for (size_t k = 0; engine_spec_at(k) != NULL; k++) {
            const char *codec = shoal_codec_row_name(i), *collective = engine_spec_at(k);
            engine_case c = {.collective = collective,
                             .push = codec,
                             .size = 4,
                             .count = 500,
                             .tensors = 3,
                             .unit = 1.0f / 512};
            engine_run run;
            c.contributors = c.size;
            c.size += engine_spec_servers(collective);
            if (shoali_codec_row_at(i)->encode == NULL || engine_spec_rooted(collective) ||
                !allowed(collective, codec) || !engine_run_open(&c, &run))
                continue;
            engine_run_go(&run);
            engine_run_assert_ok(&run);
            engine_run_assert_same(&run);
            engine_run_close(&run);
        }
}

static void impossible_pairs_name_the_possible(void **state)
{
    (void)state;
    shoal_codec *toy = toy_codec_open("toy:slots");
    shoali_collective ring, gather;
    assert_ok(shoali_collective_open("ring", &ring));
    assert_ok(shoali_collective_open("gather", &gather));
    assert_ok(shoali_carry_check(&gather, toy, toy, false));
    assert_status(shoali_carry_check(&ring, toy, toy, false), SHOAL_EINVAL);
    assert_error_has("ring does not carry codec toy:slots");
    assert_non_null(strstr(shoal_last_error()->advice, "goes with gather;"));
    assert_non_null(strstr(shoal_last_error()->advice, "ring carries identity, fp16"));
    shoal_codec_close(toy);
    shoali_collective_close(&ring);
    shoali_collective_close(&gather);
    assert_status(shoal_codec_carried("zip", "ring"), SHOAL_EINVAL);
    assert_ok(shoal_codec_carried("blockint:bound=2^-8", "switchml"));
    assert_status(shoal_codec_carried("blockint:rel=0.1", "switchml"), SHOAL_EINVAL);
    assert_error_has("it adds floats, and integers of a fixed unit");
    assert_status(shoal_codec_carried("blockint", "omnireduce"), SHOAL_EINVAL);
    assert_status(shoal_codec_carried("fp16", "star"), SHOAL_EINVAL);
}

static void measured_sums_come_back_as_they_went(void **state)
{
    (void)state;
    shoal_codec *tern = NULL, *plain = NULL;
    shoali_collective ring;
    assert_ok(shoali_collective_open("ring", &ring));
    assert_ok(shoal_codec_open("terngrad", &tern));
    assert_ok(shoal_codec_open("identity", &plain));
    assert_ok(shoali_carry_check(&ring, tern, tern, false));
    assert_ok(shoali_carry_check(&ring, tern, plain, false));
    assert_ok(shoali_carry_check(&ring, tern, plain, true));
    assert_status(shoali_carry_check(&ring, plain, tern, false), SHOAL_EINVAL);
    assert_error_has("come back in codec terngrad only");
    assert_status(shoali_carry_check(&ring, tern, tern, true), SHOAL_EINVAL);
    assert_error_has("weights");
    shoal_codec_close(tern);
    shoal_codec_close(plain);
    shoali_collective_close(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_is_allowed_runs),
        CHECK_TEST(impossible_pairs_name_the_possible),
        CHECK_TEST(measured_sums_come_back_as_they_went),
    };
    return CHECK_RUN(tests);
}
