/* SPDX-License-Identifier: Apache-2.0 */
/* Texts are cut into words as GPT-2's pattern says; together they are the text again. */
#include "support/check.h"

#include "base/rng.h"
#include "data/words.h"

typedef struct list {
    char text[512]; /* words, each in | | */
    size_t bytes;
} list;

static shoal_status note(void *ctx, const char *word, size_t len_bytes)
{
    list *l = ctx;
    snprintf(l->text + strlen(l->text), sizeof l->text - strlen(l->text), "%.*s|", (int)len_bytes,
             word);
    l->bytes += len_bytes;
    return SHOAL_OK;
}

static void texts_are_cut_as_gpt2_does(void **state)
{
    /* read off the pattern by hand */
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"Hello  world", "Hello| | world|"},
        {"it's we'll 'x", "it|'s| we|'ll| '|x|"},
        {"12ab, !?\n\n x", "12|ab|,| !?|\n\n| x|"},
        {"\xC3\xA4rger \xE6\x97\xA5 9", "\xC3\xA4rger| \xE6\x97\xA5| 9|"},
        {"tail  \t", "tail|  \t|"},
        {"a\xFF\xC3(b", "a|\xFF|\xC3|(|b|"},       /* not UTF-8: alone */
        {"a\xE2\x80\x83 b", "a|\xE2\x80\x83| b|"}, /* U+2003 is a blank, but not " " */
        {"a\xE1\xA0\x8E!", "a|\xE1\xA0\x8E!|"},    /* U+180E is none since Unicode 6.3 */
        {"", ""},
    };
    shoali_words *w;
    (void)state;
    assert_ok(shoali_words_create(shoali_words_gpt2, &w));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        list l = {.text = ""};
        assert_ok(shoali_words_cut(w, cases[i].text, strlen(cases[i].text), note, &l));
        assert_string_equal(l.text, cases[i].want);
    }
    shoali_words_destroy(w);
}

static shoal_status count(void *ctx, const char *word, size_t len_bytes)
{
    const char **at = ctx;
    assert_ptr_equal(*at, word);
    assert_true(len_bytes > 0);
    *at += len_bytes;
    return SHOAL_OK;
}

static void words_make_up_any_bytes(void **state)
{
    static const char *const patterns[] = {shoali_words_gpt2, "x*", "(?=b)", "[^a]+|", "\\s+$"};
    uint8_t text[4096];
    shoali_words *w;
    (void)state;
    for (size_t p = 0; p < sizeof patterns / sizeof patterns[0]; p++) {
        assert_ok(shoali_words_create(patterns[p], &w));
        for (uint64_t round = 0; round < 20; round++) {
            for (size_t i = 0; i < sizeof text; i++)
                text[i] = (uint8_t)shoali_rng_below(check_seed(), round, i, round % 2 ? 256 : 128);
            const char *at = (const char *)text;
            assert_ok(shoali_words_cut(w, (const char *)text, sizeof text, count, &at));
            assert_ptr_equal(at, (const char *)text + sizeof text);
        }
        shoali_words_destroy(w);
    }
}

static void what_is_wrong_is_said(void **state)
{
    shoali_words *w;
    char text[64];
    const char *at = text;
    (void)state;
    memset(text, 'a', sizeof text);
    assert_status(shoali_words_create("a(b", &w), SHOAL_EINVAL);
    assert_error_has("\"a(b\" is none at its character 3");
    assert_ok(shoali_words_create("(?:a+)+[bc]", &w));
    assert_status(shoali_words_cut(w, text, sizeof text, count, &at), SHOAL_EINVAL);
    assert_error_has("tries too much");
    shoali_words_destroy(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(texts_are_cut_as_gpt2_does),
        CHECK_TEST(words_make_up_any_bytes),
        CHECK_TEST(what_is_wrong_is_said),
    };
    return CHECK_RUN(tests);
}
