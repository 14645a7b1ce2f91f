/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of texts, tokenizer.json out and in, and what of others' is refused. */
#include "support/check.h"

#include "base/rng.h"
#include "data/tokenizer_inner.h"
#include "support/scratch_dir.h"

static void bytes_are_tokens(void **state)
{
    static const char text[] = "a\0\xFF<|endoftext|>";
    shoali_tokenizer *t;
    shoali_ids ids = {0};
    (void)state;
    assert_ok(shoali_tokenizer_of_bytes(&t));
    assert_int_equal(shoali_tokenizer_count(t), 257);
    assert_int_equal(shoali_tokenizer_end(t), 256);
    assert_ok(shoali_tokenizer_encode(t, text, sizeof text - 1, true, &ids));
    static const uint16_t want[] = {'a', 0, 255, 256};
    assert_int_equal(ids.count, 4);
    assert_memory_equal(ids.ids, want, sizeof want);
    ids.count = 0;
    assert_ok(shoali_tokenizer_encode(t, text, sizeof text - 1, false, &ids));
    assert_int_equal(ids.count, sizeof text - 1);
    assert_int_equal(shoali_tokenizer_weight(t, 'a'), 1);
    assert_int_equal(shoali_tokenizer_weight(t, 256), 0);
    assert_int_equal(shoali_tokenizer_weight(t, 9999), 0);
    shoali_ids_free(&ids);
    shoali_tokenizer_close(t);
}

static void assert_decodes(const shoali_tokenizer *t, const shoali_ids *ids, const char *text)
{
    for (size_t i = 0; i < ids->count; i++) {
        size_t length;
        const char *one = shoali_tokenizer_text(t, ids->ids[i], &length);
        assert_memory_equal(one, text, length);
        assert_int_equal(shoali_tokenizer_weight(t, ids->ids[i]), length);
        text += length;
    }
}

static void what_is_written_is_read(void **state)
{
    enum { LENGTH = 20000 };
    static char text[LENGTH + 1];
    shoali_bpe_trainer *b;
    shoali_tokenizer *t, *again;
    shoali_ids ids = {0}, others = {0};
    (void)state;
    for (size_t i = 0; i < LENGTH; i++)
        text[i] = (char)(uint8_t)shoali_rng_below(
            check_seed(), 1, i, shoali_rng_below(check_seed(), 2, i, 5) ? 128 : 256);
    assert_ok(shoali_bpe_create(400, &b));
    assert_ok(shoali_bpe_add(b, text, LENGTH));
    assert_ok(shoali_bpe_learn(b, &t));
    assert_ok(shoali_tokenizer_write(t, scratch_path("tokenizer.json")));
    assert_ok(shoali_tokenizer_open(scratch_path("tokenizer.json"), &again));
    assert_true(shoali_tokenizer_mark(t) == shoali_tokenizer_mark(again));
    assert_ok(shoali_tokenizer_encode(t, text, LENGTH, true, &ids));
    assert_ok(shoali_tokenizer_encode(again, text, LENGTH, true, &others));
    assert_int_equal(ids.count, others.count);
    assert_memory_equal(ids.ids, others.ids, ids.count * sizeof *ids.ids);
    assert_true(ids.count < LENGTH);
    assert_decodes(t, &ids, text);
    shoali_ids_free(&ids);
    shoali_ids_free(&others);
    shoali_tokenizer_close(t);
    shoali_tokenizer_close(again);
    shoali_bpe_destroy(b);
}

static void characters_come_back(void **state)
{
    shoali_tokenizer *t, *again;
    shoali_ids ids = {0};
    (void)state;
    assert_ok(shoali_tokenizer_of_characters(&t));
    assert_ok(shoali_tokenizer_write(t, scratch_path("characters.json")));
    assert_ok(shoali_tokenizer_open(scratch_path("characters.json"), &again));
    assert_true(shoali_tokenizer_is_characters(again) && shoali_tokenizer_count(again) == 64);
    assert_ok(shoali_tokenizer_encode(again, "Ab  \xC3", 5, true, &ids));
    static const uint16_t want[] = {3, 4, 2, 0};
    assert_int_equal(ids.count, 4);
    assert_memory_equal(ids.ids, want, sizeof want);
    shoali_ids_free(&ids);
    shoali_tokenizer_close(t);
    shoali_tokenizer_close(again);
}

#define PARTS                                                                \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}," \
    "\"decoder\":{\"type\":\"ByteLevel\"},"
#define MODEL(vocab, merges) \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":[" merges "]}}"
#define AB "\"a\":0,\"b\":1,\"ab\":2"

/* Merges as lists and as texts, an added token inside a word, a byte without a token, ranks against
 * the order of ids, and words that stay whole. */
static void a_small_file_is_read(void **state)
{
    static const char json[] =
        "{\"added_tokens\":[{\"id\":5,\"content\":\"xx\",\"special\":true}]," PARTS MODEL(
            "\"c\":4,\"bc\":3," AB, "\"b c\",[\"a\",\"b\"]");
    shoali_tokenizer *t;
    shoali_ids ids = {0};
    (void)state;
    assert_ok(shoali_tokenizer_parse("x", json, sizeof json - 1, &t));
    assert_ok(shoali_tokenizer_encode(t, "abcabxxab", 9, true, &ids));
    static const uint16_t want[] = {0, 3, 2, 5, 2}; /* b c is learned before a b */
    assert_int_equal(ids.count, 5);
    assert_memory_equal(ids.ids, want, sizeof want);
    assert_int_equal(shoali_tokenizer_end(t), SHOALI_NO_TOKEN);
    assert_status(shoali_tokenizer_encode(t, "abx", 3, true, &ids), SHOAL_EINVAL);
    assert_error_has("no token for the byte 0x78");
    shoali_ids_free(&ids);
    shoali_tokenizer_close(t);
}

static void what_is_not_done_is_refused_by_name(void **state)
{
    static const struct {
        const char *json, *text;
        shoal_status status;
    } cases[] = {
        {"{\"model\":{\"type\":\"Unigram\"}}", "neither of type BPE", SHOAL_EINVAL},
        {"{\"normalizer\":{\"type\":\"NFC\"}," PARTS MODEL(AB, ""), "\"normalizer\"", SHOAL_EINVAL},
        {"{\"truncation\":{}," PARTS MODEL(AB, ""), "\"truncation\"", SHOAL_EINVAL},
        {"{" MODEL(AB, ""), "decoder", SHOAL_EINVAL},
        {"{\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\"}," MODEL(
             AB, ""),
         "add_prefix_space", SHOAL_EINVAL},
        {"{\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":{\"type\":\"Metaspace\"}," MODEL(
             AB, ""),
         "neither ByteLevel", SHOAL_EINVAL},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\"}," PARTS MODEL(AB, ""),
         "post_processor", SHOAL_EINVAL},
        {"{\"added_tokens\":[{\"id\":3,\"content\":\"x\",\"lstrip\":true}]," PARTS MODEL(AB, ""),
         "\"x\" has lstrip", SHOAL_EINVAL},
        {"{\"added_tokens\":[{\"id\":3,\"content\":\"a\"}]," PARTS MODEL(AB, ""), "another id",
         SHOAL_ECORRUPT},
        {"{" PARTS MODEL(AB ",\"c\":65536", ""), "not below 65536", SHOAL_EINVAL},
        {"{" PARTS MODEL(AB ",\"c\":-1", ""), "not below 65536", SHOAL_EINVAL},
        {"{" PARTS MODEL(AB ",\"c\":1", ""), "two tokens", SHOAL_ECORRUPT},
        {"{" PARTS MODEL(AB ",\"\xE6\x97\xA5\":3", ""), "bytes shown as characters",
         SHOAL_ECORRUPT},
        {"{" PARTS MODEL(AB, "\"a c\""), "merge 0 is of or into", SHOAL_ECORRUPT},
        {"{" PARTS MODEL(AB, "\"b a\""), "merge 0 is of or into", SHOAL_ECORRUPT},
        {"{" PARTS MODEL(AB, "\"a b\",\"a b\""), "merge 1 is there twice", SHOAL_ECORRUPT},
        {"{" PARTS MODEL(AB, "7"), "merge 0 is no pair", SHOAL_ECORRUPT},
        {"{" PARTS MODEL("", ""), "lacks \"vocab\"", SHOAL_ECORRUPT},
        {"[1]", "neither of type BPE", SHOAL_EINVAL},
    };
    shoali_tokenizer *t;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_status(shoali_tokenizer_parse("x", cases[i].json, strlen(cases[i].json), &t),
                      cases[i].status);
        assert_error_has(cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bytes_are_tokens),
        CHECK_TEST(what_is_written_is_read),
        CHECK_TEST(characters_come_back),
        CHECK_TEST(a_small_file_is_read),
        CHECK_TEST(what_is_not_done_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, scratch_set_up, scratch_tear_down);
}
