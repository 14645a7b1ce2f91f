/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 against a published value, and of data sets: the same samples in other files have the
 * same one, any other sample another. */
#include "support/check.h"

#include "files/digest.h"
#include "support/scratch_dir.h"
#include "support/tinydata.h"

static void it_is_sha_256(void **state)
{
    (void)state;
    shoali_digest digest;
    char text[SHOALI_DIGEST_CHARS + 1], again[SHOALI_DIGEST_CHARS + 1];
    shoali_digest_begin(&digest);
    shoali_digest_add(&digest, "a", 1);
    assert_true(shoali_digest_text(&digest, again)); /* asked between does not disturb */
    shoali_digest_add(&digest, "bc", 2);
    assert_true(shoali_digest_text(&digest, text));
    /* FIPS 180-2, appendix B.1 */
    assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_not_equal(text, again);
    shoali_digest_end(&digest);
    assert_false(shoali_digest_text(&digest, text)); /* nothing begun */
}

static void digest_of(char text[SHOALI_DIGEST_CHARS + 1])
{
    shoali_dataset *data = NULL;
    assert_ok(shoali_dataset_open(tiny_dir, &data));
    assert_ok(shoali_digest_of_data(data, text));
    shoali_dataset_close(data);
}

static void data_are_told_apart_by_samples(void **state)
{
    (void)state;
    char first[SHOALI_DIGEST_CHARS + 1], now[SHOALI_DIGEST_CHARS + 1];
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    digest_of(first);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t length = 0;
        uint8_t *bytes = scratch_read(names[i], &length);
        bytes[length - 1] ^= 1;
        scratch_write(names[i], bytes, length);
        digest_of(now);
        assert_string_not_equal(first, now);
        bytes[length - 1] ^= 1;
        assert_int_equal(remove(scratch_path(names[i])), 0);
        char packed[64];
        snprintf(packed, sizeof packed, "%s.gz", names[i]);
        scratch_write_gz(packed, bytes, length);
        digest_of(now);
        assert_string_equal(first, now);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(it_is_sha_256),
        CHECK_TEST(data_are_told_apart_by_samples),
    };
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
