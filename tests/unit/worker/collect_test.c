/* SPDX-License-Identifier: Apache-2.0 */
/* How replicas are compared; what needs real ranks is in tests/proc/train_test.c. */
#include "worker/together.h"

#include "base/rng.h"
#include "support/check.h"

enum { RANKS = 3 };

/* What an all-reduce by maximum gives every rank. */
static bool agree(const uint64_t hashes[RANKS])
{
    float most[SHOALI_HASH_PARTS], parts[SHOALI_HASH_PARTS];
    shoali_hash_parts(hashes[0], most);
    for (size_t r = 1; r < RANKS; r++) {
        shoali_hash_parts(hashes[r], parts);
        for (size_t i = 0; i < SHOALI_HASH_PARTS; i++)
            most[i] = parts[i] > most[i] ? parts[i] : most[i];
    }
    return shoali_hashes_agree(most);
}

static void every_bit_of_the_hash_counts_on_every_rank(void **state)
{
    (void)state;
    uint64_t values[] = {0, UINT64_MAX, shoali_rng_u64(check_seed(), 1, 0),
                         shoali_rng_u64(check_seed(), 1, 1)};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        const uint64_t same[RANKS] = {values[v], values[v], values[v]};
        assert_true(agree(same));
        for (uint32_t i = 0; i < RANKS * 64; i++) {
            uint64_t hashes[RANKS] = {values[v], values[v], values[v]};
            hashes[i / 64] ^= UINT64_C(1) << i % 64;
            assert_false(agree(hashes));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(every_bit_of_the_hash_counts_on_every_rank)};
    return CHECK_RUN(tests);
}
