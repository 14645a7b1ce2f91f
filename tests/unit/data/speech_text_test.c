/* SPDX-License-Identifier: Apache-2.0 */
/* Voices of the two splits do not meet; phonemes have the classes they should. */
#include "support/check.h"

#include "data/speech_text.h"

static void voices_of_the_test_are_never_trained_on(void **state)
{
    char train[64], test[64];
    (void)state;
    for (uint64_t i = 0; i < 100; i++)
        for (uint64_t j = 0; j < 100; j++) {
            shoali_speech_voice(false, i, train, sizeof train);
            shoali_speech_voice(true, j, test, sizeof test);
            assert_string_not_equal(strchr(train, '+'), strchr(test, '+'));
        }
}

static void the_longest_beginning_names_the_phoneme(void **state)
{
    static const struct {
        char mnemonic[8];
        const char *name;
    } rows[] = {{"_:", "sil"}, {"t", "t"},   {"tS", "ch"},  {"t#", "t"},  {"aI@", "ay"},
                {"a", "ae"},   {"a#", "ax"}, {"i@3", "iy"}, {"3:", "er"}, {"O@", "ao"},
                {"OI", "oy"},  {"@L", "ax"}, {"%", "ax"},   {"Z", "sh"},  {"e@", "eh"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(shoali_speech_class_name(shoali_speech_class(rows[i].mnemonic)),
                            rows[i].name);
    assert_null(shoali_speech_class_name(SHOALI_PHONEMES));
}

static void sentences_repeat_and_differ(void **state)
{
    char a[SHOALI_UTTERANCE_BYTES], b[SHOALI_UTTERANCE_BYTES];
    size_t equal = 0;
    (void)state;
    for (uint64_t i = 0; i < 500; i++) {
        shoali_speech_words(7, i, a);
        shoali_speech_words(7, i, b);
        assert_string_equal(a, b);
        assert_non_null(strchr(a, ' '));
        shoali_speech_words(7, i + 1, b);
        equal += strcmp(a, b) == 0;
    }
    assert_int_equal(equal, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(voices_of_the_test_are_never_trained_on),
        CHECK_TEST(the_longest_beginning_names_the_phoneme),
        CHECK_TEST(sentences_repeat_and_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
