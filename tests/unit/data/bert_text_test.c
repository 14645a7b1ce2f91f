/* SPDX-License-Identifier: Apache-2.0 */
/* Texts as words, by the rules of BertNormalizer and BertPreTokenizer, applied by hand. */
#include "data/bert_text.h"
#include "support/check.h"

typedef struct seen {
    char words[256]; /* one behind the other, each and "|" */
    size_t left;     /* calls until one fails */
} seen;

static shoal_status take(void *ctx, const char *word, size_t len_bytes)
{
    seen *s = ctx;
    const size_t used = strlen(s->words);
    if (s->left-- == 0)
        return SHOAL_EIO;
    snprintf(s->words + used, sizeof s->words - used, "%.*s|", word != NULL ? (int)len_bytes : 1,
             word != NULL ? word : "?");
    return SHOAL_OK;
}

static void assert_words(shoali_bert_manner manner, const char *text, size_t length,
                         const char *want)
{
    shoali_bert_text *t;
    seen s = {.left = 100};
    if (manner.characters_max == 0)
        manner.characters_max = 10;
    assert_ok(shoali_bert_text_create(&manner, &t));
    assert_ok(shoali_bert_text_cut(t, text, length, take, &s));
    assert_string_equal(s.words, want);
    shoali_bert_text_destroy(t);
}

static const shoali_bert_manner all = {true, true, true, true, 0}, none = {0};
static const shoali_bert_manner cased = {true, true, false, false, 0};
static const struct {
    const shoali_bert_manner *manner;
    const char *text, *words;
} cases[] = {
    {&all, "", ""},
    {&all, "Hello, World!", "hello|,|world|!|"},
    {&cased, "Hello, W\xC3\x96", "Hello|,|W\xC3\x96|"},
    {&all, " a\t\nb\r c ", "a|b|c|"},
    {&all,
     "\xC3\x89"
     "cole e\xCC\x81",
     "ecole|e|"},
    {&cased, "e\xCC\x81", "e\xCC\x81|"},
    {&all, "a$b^c~d\xC2\xABz", "a|$|b|^|c|~|d|\xC2\xAB|z|"},
    {&all,
     "a\xE2\x82\xAC"
     "b",
     "a\xE2\x82\xAC"
     "b|"}, /* a currency is no punctuation */
    {&all, "x\xE4\xB8\xAD\xE5\x9B\xBDy", "x|\xE4\xB8\xAD|\xE5\x9B\xBD|y|"},
    {&none, "x\xE4\xB8\xADy", "x\xE4\xB8\xADy|"},
    {&all, "\xEF\xA4\x80", "\xE8\xB1\x88|"}, /* U+F900 is U+8C48 */
    {&all, "\xEA\xB0\x81", "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8|"},
    {&all,
     "a\xE2\x80\x8B"
     "b\x01"
     "c\x7F"
     "d\xC2\x85"
     "e",
     "abcde|"}, /* controls */
    {&none,
     "a\x0B"
     "b\xC2\x85"
     "c\x01"
     "d",
     "a|b|c\x01"
     "d|"},
    {&all,
     "a\xE3\x80\x80"
     "b\xE2\x80\xA8"
     "c",
     "a|b|c|"}, /* blanks of Unicode */
    {&all, "\xC4\xB0", "i|"},
    {&all,
     "a\xFF"
     "b\xED\xA0\x80"
     "c\xC0\x80"
     "d\xE4\xB8",
     "abcd|"}, /* no UTF-8 */
    {&none, "a\xFF", "a\xEF\xBF\xBD|"},
    {&all, "0123456789 0123456789x", "0123456789|?|"},
    {&all, "\xE4\xB8\xAD\xF0\xAB\xA0\xA0z", "\xE4\xB8\xAD|\xF0\xAB\xA0\xA0z|"}, /* U+2B820 */
};

static void words_are_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_words(*cases[i].manner, cases[i].text, strlen(cases[i].text), cases[i].words);
    assert_words(all, "a\0b", 3, "ab|");
    assert_words((shoali_bert_manner){.lower = true}, "\xC4\xB0", 2, "i\xCC\x87|");
}

static void who_finds_may_end_it(void **state)
{
    static const shoali_bert_manner manner = {.characters_max = 5};
    shoali_bert_text *t;
    seen s = {.left = 2};
    (void)state;
    assert_ok(shoali_bert_text_create(&manner, &t));
    assert_int_equal(shoali_bert_text_cut(t, "a,b c", 5, take, &s), SHOAL_EIO);
    assert_string_equal(s.words, "a|,|");
    s = (seen){.left = 9};
    assert_ok(shoali_bert_text_cut(t, "d", 1, take, &s));
    assert_string_equal(s.words, "d|");
    shoali_bert_text_destroy(t);
}

/* Every character there and back; what is no character is one byte. */
static void utf8_comes_back(void **state)
{
    char bytes[4];
    uint32_t c;
    (void)state;
    for (uint32_t i = 0; i < 0x110000; i++) {
        const size_t length = shoali_utf8_put(i, bytes);
        const bool half = i >= 0xD800 && i < 0xE000;
        assert_int_equal(shoali_utf8_next(bytes, length, &c), half ? 1 : length);
        assert_int_equal(c, half ? 0xFFFD : i);
        if (length > 1)
            assert_int_equal(shoali_utf8_next(bytes, length - 1, &c), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(words_are_cut), CHECK_TEST(who_finds_may_end_it),
                                       CHECK_TEST(utf8_comes_back)};
    return CHECK_RUN(tests);
}
