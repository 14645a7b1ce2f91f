/* SPDX-License-Identifier: Apache-2.0 */
/* Files of WordPiece: what they say is done, or refused by name; written and read again. */
#include "support/check.h"

#include "data/tokenizer_inner.h"
#include "support/scratch_dir.h"

#define MORE(normalizer, more, vocab)                                                           \
    "{" more "\"normalizer\":" normalizer ",\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}," \
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"                  \
    "\"model\":{\"type\":\"WordPiece\",\"vocab\":{" vocab "}}}"
#define BERT "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
#define UNCASED BERT "\"strip_accents\":null,\"lowercase\":true}"
#define VOCAB "\"[UNK]\":0,\"[SEP]\":1,\"ab\":2,\"##c\":3,\"A\":4,\"\xC3\xA9\":5,\"e\":6"
#define ADDED \
    "\"added_tokens\":[{\"id\":1,\"content\":\"[SEP]\",\"special\":true,\"normalized\":false}],"

static void assert_tokens(const char *json, const char *text, size_t count, const uint16_t *want)
{
    shoali_tokenizer *t, *again;
    shoali_ids ids = {0};
    assert_ok(shoali_tokenizer_parse("x", json, strlen(json), &t));
    assert_ok(shoali_tokenizer_write(t, scratch_path("tokenizer.json")));
    assert_ok(shoali_tokenizer_open(scratch_path("tokenizer.json"), &again));
    assert_true(shoali_tokenizer_mark(t) == shoali_tokenizer_mark(again));
    for (int i = 0; i < 2; i++, ids.count = 0) {
        assert_ok(shoali_tokenizer_encode(i ? again : t, text, strlen(text), true, &ids));
        assert_int_equal(ids.count, count);
        assert_memory_equal(ids.ids, want, count * sizeof *want);
    }
    shoali_ids_free(&ids);
    shoali_tokenizer_close(t);
    shoali_tokenizer_close(again);
}

static void manners_are_kept(void **state)
{
    static const char text[] = "ABC A \xC3\xA9[SEP]";
    (void)state;
    assert_tokens(MORE(UNCASED, ADDED, VOCAB), text, 5, (uint16_t[]){2, 3, 0, 6, 1});
    assert_tokens(MORE(BERT "\"strip_accents\":false,\"lowercase\":true}", ADDED, VOCAB), text, 5,
                  (uint16_t[]){2, 3, 0, 5, 1});
    assert_tokens(MORE(BERT "\"strip_accents\":true,\"lowercase\":false}", ADDED, VOCAB), text, 4,
                  (uint16_t[]){0, 4, 6, 1});
    assert_tokens(MORE("null", ADDED "\"truncation\":{\"max_length\":4},", VOCAB), text, 4,
                  (uint16_t[]){0, 4, 5, 1});
}

static void what_is_not_done_is_refused(void **state)
{
    static const struct {
        const char *json, *error;
    } cases[] = {
        {MORE("{\"type\":\"NFC\"}", "", VOCAB), "normalizer is not of type BertNormalizer"},
        {MORE(UNCASED, "\"post_processor\":{\"type\":\"ByteLevel\"},", VOCAB), "post_processor"},
        {MORE(UNCASED, "", "\"ab\":0"), "lacks \"[UNK]\""},
        {MORE(UNCASED, "", ""), "lacks \"vocab\""},
        {MORE(UNCASED, "", "\"[UNK]\":0,\"b\":0"), "whose id is another's"},
        {MORE(UNCASED, "", "\"[UNK]\":65536"), "not below 65536"},
        {MORE(UNCASED, "", "\"[UNK]\":\"a\""), "not below 65536"},
        {MORE(BERT "\"lowercase\":3}", "", VOCAB), "no true or false: \"lowercase\""},
        {MORE(UNCASED, "\"added_tokens\":[{\"id\":2,\"content\":\"x\",\"special\":true}],", VOCAB),
         "has the id of another"},
        {MORE(UNCASED, "\"added_tokens\":[{\"id\":9,\"content\":\"x\",\"normalized\":true}],",
              VOCAB),
         "\"normalized\""},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{" VOCAB "}}}", "pre_tokenizer"},
        {"{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\","
         "\"vocab\":{" VOCAB "}}}",
         "decoder is not of type WordPiece"},
        {"{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\","
         "\"prefix\":\"@\"},\"model\":{\"type\":\"WordPiece\",\"vocab\":{" VOCAB "}}}",
         "another prefix"},
        {"{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\"},"
         "\"model\":{\"max_input_chars_per_word\":4097,\"vocab\":{" VOCAB "}}}",
         "max_input_chars_per_word"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shoali_tokenizer *t = NULL;
        const shoal_status status = shoali_tokenizer_parse("x", cases[i].json,
                                                           strlen(cases[i].json), &t);
        assert_true(status == SHOAL_EINVAL || status == SHOAL_ECORRUPT);
        assert_null(t);
        assert_error_has(cases[i].error);
    }
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(scratch_path(name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void a_vocabulary_is_read(void **state)
{
    static const uint16_t small[] = {2, 3}, large[] = {4};
    static const struct {
        const char *text, *error;
    } bad[] = {{"[UNK]\na\na\n", "\"a\" is there twice"},
               {"a\nb\n", "lacks \"[UNK]\""},
               {"[UNK]\na\xFF\n", "line 2 is no token"},
               {"", "1 to 65536 lines"}};
    shoali_tokenizer *t;
    shoali_ids ids = {0};
    (void)state;
    write_file("vocab.txt", "[UNK]\r\n[SEP]\nab\n##c\nABC\n\n"); /* id 5 is no token */
    assert_ok(shoali_tokenizer_open(scratch_path("vocab.txt"), &t));
    assert_int_equal(shoali_tokenizer_count(t), 6);
    assert_ok(shoali_tokenizer_encode(t, "ABC", 3, true, &ids));
    assert_int_equal(ids.count, 2);
    assert_memory_equal(ids.ids, small, sizeof small);
    shoali_tokenizer_close(t);
    write_file("tokenizer_config.json", "{\"do_lower_case\": false, \"strip_accents\": null}");
    assert_ok(shoali_tokenizer_open(scratch_path("vocab.txt"), &t));
    ids.count = 0;
    assert_ok(shoali_tokenizer_encode(t, "ABC", 3, true, &ids));
    assert_int_equal(ids.count, 1);
    assert_memory_equal(ids.ids, large, sizeof large);
    shoali_tokenizer_close(t);
    write_file("tokenizer_config.json", "{\"do_basic_tokenize\": false}");
    assert_status(shoali_tokenizer_open(scratch_path("vocab.txt"), &t), SHOAL_EINVAL);
    assert_error_has("do_basic_tokenize");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const size_t length = strlen(bad[i].text);
        assert_true(shoali_tokenizer_parse_vocab("v", bad[i].text, length, &t) != SHOAL_OK);
        assert_error_has(bad[i].error);
    }
    shoali_ids_free(&ids);
}

/* The k-th allocation fails, for every k. */
static void memory_runs_out_cleanly(void **state)
{
    static const char json[] = MORE(UNCASED, ADDED, VOCAB);
    (void)state;
    for (uint64_t k = 1;; k++) {
        shoali_tokenizer *t = NULL;
        shoali_alloc_fail_at(k);
        const shoal_status status = shoali_tokenizer_parse("x", json, sizeof json - 1, &t);
        shoali_alloc_fail_at(0);
        shoali_tokenizer_close(t);
        if (status == SHOAL_OK)
            break;
        assert_int_equal(status, SHOAL_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(manners_are_kept), CHECK_TEST(what_is_not_done_is_refused),
        CHECK_TEST(a_vocabulary_is_read), CHECK_TEST(memory_runs_out_cleanly)};
    return cmocka_run_group_tests(tests, scratch_set_up, scratch_tear_down);
}
