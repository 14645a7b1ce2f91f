/* SPDX-License-Identifier: Apache-2.0 */
/* The learner's merges are those of counting all pairs anew each time; joining by a heap gives what
 * joining the first pair of the smallest rank, again and again, gives. */
#include "support/check.h"

#include "base/rng.h"
#include "data/tokenizer_inner.h"

enum { TEXT = 3000, TOKENS = 340, WORDS = 2000, LONGEST = 64 };

/* Words of few letters, so that pairs overlap ("aaa") and counts are equal. */
static size_t make_text(uint64_t stream, char *text)
{
    for (size_t i = 0; i < TEXT; i++)
        text[i] = "aaabbcd  "[shoali_rng_below(check_seed(), stream, i, 9)];
    return TEXT;
}

typedef struct naive {
    uint16_t words[WORDS][LONGEST];
    uint32_t lengths[WORDS], count;
} naive;

static shoal_status keep(void *ctx, const char *word, size_t len_bytes)
{
    naive *n = ctx;
    assert_true(n->count < WORDS && len_bytes <= LONGEST);
    for (size_t i = 0; i < len_bytes; i++)
        n->words[n->count][i] = (uint8_t)word[i];
    n->lengths[n->count++] = (uint32_t)len_bytes;
    return SHOAL_OK;
}

static void join(uint16_t *word, uint32_t *length, uint32_t left, uint32_t right, uint16_t id)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < *length; i++) {
        const bool both = i + 1 < *length && word[i] == left && word[i + 1] == right;
        word[used++] = both ? id : word[i];
        i += both;
    }
    *length = used;
}

static bool naive_best(const naive *n, uint32_t *left_out, uint32_t *right_out)
{
    static uint32_t counts[TOKENS][TOKENS];
    uint32_t best = 1;
    memset(counts, 0, sizeof counts);
    for (uint32_t w = 0; w < n->count; w++)
        for (uint32_t i = 0; i + 1 < n->lengths[w]; i++)
            counts[n->words[w][i]][n->words[w][i + 1]]++;
    for (uint32_t a = 0; a < TOKENS; a++)
        for (uint32_t b = 0; b < TOKENS; b++)
            if (counts[a][b] > best) {
                best = counts[a][b];
                *left_out = a;
                *right_out = b;
            }
    return best > 1;
}

static void merges_are_those_of_counting_anew(void **state)
{
    static naive n;
    char text[TEXT];
    shoali_bpe_trainer *b;
    shoali_tokenizer *t;
    shoali_words *w;
    uint32_t left = 0, right = 0, id = 256;
    (void)state;
    const size_t length = make_text(1, text);
    n.count = 0;
    assert_ok(shoali_words_create(shoali_words_gpt2, &w));
    assert_ok(shoali_words_cut(w, text, length, keep, &n));
    shoali_words_destroy(w);
    assert_ok(shoali_bpe_create(TOKENS, &b));
    assert_ok(shoali_bpe_add(b, text, length));
    assert_ok(shoali_bpe_learn(b, &t));
    for (; id + 1 < TOKENS && naive_best(&n, &left, &right); id++) {
        const shoali_merge *merge = shoali_merges_find(t, left, right);
        assert_non_null(merge);
        assert_int_equal(merge->id, id);
        assert_int_equal(merge->rank, id - 256);
        for (uint32_t i = 0; i < n.count; i++)
            join(n.words[i], &n.lengths[i], left, right, (uint16_t)id);
    }
    assert_int_equal(shoali_tokenizer_count(t), id + 1);
    assert_int_equal(shoali_tokenizer_end(t), id);
    shoali_tokenizer_close(t);
    shoali_bpe_destroy(b);
}

/* The pair of the smallest rank, the first of several, until none is left. */
static uint32_t naive_join(const shoali_tokenizer *t, uint16_t *word, uint32_t length)
{
    for (;;) {
        const shoali_merge *best = NULL;
        uint32_t at = 0;
        for (uint32_t i = 0; i + 1 < length; i++) {
            const shoali_merge *one = shoali_merges_find(t, word[i], word[i + 1]);
            if (one != NULL && (best == NULL || one->rank < best->rank)) {
                best = one;
                at = i;
            }
        }
        if (best == NULL)
            return length;
        word[at] = (uint16_t)best->id;
        memmove(&word[at + 1], &word[at + 2], (length - at - 2) * sizeof *word);
        length--;
    }
}

static void joining_is_that_of_the_smallest_rank_first(void **state)
{
    char text[TEXT];
    shoali_bpe_trainer *b;
    shoali_tokenizer *t;
    (void)state;
    assert_ok(shoali_bpe_create(TOKENS, &b));
    assert_ok(shoali_bpe_add(b, text, make_text(2, text)));
    assert_ok(shoali_bpe_learn(b, &t));
    (void)make_text(3, text);
    for (size_t first = 0, length; first + 300 < TEXT; first += length) {
        uint16_t want[300];
        shoali_ids got = {0};
        length = 1 + shoali_rng_below(check_seed(), 4, first, 300);
        for (size_t i = 0; i < length; i++)
            want[i] = (uint8_t)text[first + i];
        const uint32_t count = naive_join(t, want, (uint32_t)length);
        assert_ok(shoali_merges_apply(t, text + first, length, &got));
        assert_int_equal(got.count, count);
        assert_memory_equal(got.ids, want, count * sizeof *want);
        shoali_ids_free(&got);
    }
    shoali_tokenizer_close(t);
    shoali_bpe_destroy(b);
}

static void a_vocabulary_has_bounds(void **state)
{
    shoali_bpe_trainer *b;
    (void)state;
    assert_status(shoali_bpe_create(256, &b), SHOAL_EINVAL);
    assert_status(shoali_bpe_create(65537, &b), SHOAL_EINVAL);
    assert_error_has("257 to 65536");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(merges_are_those_of_counting_anew),
        CHECK_TEST(joining_is_that_of_the_smallest_rank_first),
        CHECK_TEST(a_vocabulary_has_bounds),
    };
    return CHECK_RUN(tests);
}
