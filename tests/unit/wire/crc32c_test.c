/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "base/rng.h"
#include "wire/crc32c.h"

/* RFC 3720 appendix B.4 and the usual check value. */
static void published_vectors(void **state)
{
    (void)state;
    uint8_t bytes[32];
    assert_int_equal(shoali_crc32c(0, "123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(shoali_crc32c(0, bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(shoali_crc32c(0, bytes, sizeof bytes), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(shoali_crc32c(0, bytes, sizeof bytes), 0x46dd794e);
    assert_int_equal(shoali_crc32c(0, NULL, 0), 0);
}

static void table_and_instruction_agree_at_any_length_and_split(void **state)
{
    (void)state;
    enum { LONGEST = 300 };
    uint8_t bytes[LONGEST];
    shoali_rng rng = {check_seed(), 1, 0};
    for (int i = 0; i < LONGEST; i++)
        bytes[i] = (uint8_t)shoali_rng_next(&rng);
    for (size_t len = 0; len <= LONGEST; len++) {
        uint32_t whole = shoali_crc32c_plain(0, bytes, len);
        size_t cut = shoali_rng_next(&rng) % (len + 1);
        assert_int_equal(shoali_crc32c(0, bytes, len), whole);
        assert_int_equal(shoali_crc32c(shoali_crc32c(0, bytes, cut), bytes + cut, len - cut),
                         whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(published_vectors),
        CHECK_TEST(table_and_instruction_agree_at_any_length_and_split),
    };
    return CHECK_RUN(tests);
}
