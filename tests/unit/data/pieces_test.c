/* SPDX-License-Identifier: Apache-2.0 */
/* WordPiece: words cut by hand, and what tokens become as text. */
#include "support/check.h"

#include "data/tokenizer_inner.h"

static const char vocab[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\n##a\n##f\nunaff\n.\n"
    "'\ns\nthe\n\xC3\xA9\n##\xC3\xA9\n\xC3\xA9\xC3\xA9\n##\xC3\xA9x\n";
enum { PAD, UNK, CLS, SEP, MASK, UN, AFF, ABLE, A, F, UNAFF, DOT, TICK, S, THE, E, SE, EE, SEX };

static void words_are_cut_into_the_longest(void **state)
{
    static const struct {
        const char *text;
        uint16_t ids[8];
        size_t count;
    } cases[] = {
        {"unaffable", {UNAFF, ABLE}, 2},
        {"unafable", {UN, A, F, ABLE}, 4},
        {"unaffablex", {UNK}, 1},
        {"aff", {UNK}, 1}, /* there is no such token at a word's front */
        {"UNAFF. the", {UNAFF, DOT, THE}, 3},
        {"the'the", {THE, TICK, THE}, 3},
        {"[SEP]the[MASK]", {SEP, THE, MASK}, 3},
        {"", {0}, 0},
        {"  ", {0}, 0},
    };
    shoali_tokenizer *t;
    (void)state;
    assert_ok(shoali_tokenizer_parse_vocab("v", vocab, sizeof vocab - 1, &t));
    assert_int_equal(shoali_tokenizer_count(t), 19);
    assert_int_equal(shoali_tokenizer_end(t), SEP);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shoali_ids ids = {0};
        const char *text = cases[i].text;
        assert_ok(shoali_tokenizer_encode(t, text, strlen(text), true, &ids));
        if (ids.count != cases[i].count ||
            (ids.count > 0 && memcmp(ids.ids, cases[i].ids, ids.count * sizeof *ids.ids) != 0))
            fail_msg("%s: %zu tokens, the first %u", text, ids.count, ids.count ? ids.ids[0] : 0);
        shoali_ids_free(&ids);
    }
    shoali_ids ids = {0};
    assert_ok(shoali_tokenizer_encode(t, "[SEP]", 5, false, &ids)); /* text like any other */
    assert_int_equal(ids.count, 3);
    assert_true(ids.ids[0] == UNK && ids.ids[1] == UNK && ids.ids[2] == UNK);
    shoali_ids_free(&ids);
    shoali_tokenizer_close(t);
}

/* Cuts are between characters: e with an accent, where accents stay. */
static void characters_stay_whole(void **state)
{
    static const shoali_bert_manner manner = {.characters_max = 4};
    static const uint16_t want[] = {EE, SEX, UNK, UNK};
    shoali_tokenizer *t;
    shoali_ids ids = {0};
    (void)state;
    assert_ok(shoali_tokenizer_parse_vocab("v", vocab, sizeof vocab - 1, &t));
    shoali_bert_text_destroy(t->pieces.text);
    assert_ok(shoali_bert_text_create(&manner, &t->pieces.text));
    const char
        *text = "\xC3\xA9\xC3\xA9\xC3\xA9x \xC3\xA8 \xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9";
    assert_ok(shoali_tokenizer_encode(t, text, strlen(text), true, &ids));
    assert_int_equal(ids.count, 4);
    assert_memory_equal(ids.ids, want, sizeof want);
    shoali_ids_free(&ids);
    shoali_tokenizer_close(t);
}

static void tokens_become_text(void **state)
{
    static const uint16_t ids[] = {UNAFF, ABLE, THE, DOT, TICK, S, SEP, SE};
    static const char *const pieces[] = {"unaff", "able", " the",   ".",
                                         " '",    " s",   " [SEP]", "\xC3\xA9"};
    shoali_tokenizer *t;
    size_t length;
    (void)state;
    assert_ok(shoali_tokenizer_parse_vocab("v", vocab, sizeof vocab - 1, &t));
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const char *text = shoali_tokenizer_piece(t, ids[i], i == 0, &length);
        assert_int_equal(length, strlen(pieces[i]));
        assert_memory_equal(text, pieces[i], length);
        assert_int_equal(shoali_tokenizer_weight(t, ids[i]), ids[i] == SEP ? 0 : length + (i == 0));
    }
    const char *text = shoali_tokenizer_piece(t, ABLE, true, &length); /* as `tokenizers` has it */
    assert_memory_equal(text, "##able", 6);
    assert_int_equal(length, 6);
    (void)shoali_tokenizer_piece(t, 999, false, &length);
    assert_int_equal(length, 0);
    shoali_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(words_are_cut_into_the_longest),
                                       CHECK_TEST(characters_stay_whole),
                                       CHECK_TEST(tokens_become_text)};
    return CHECK_RUN(tests);
}
