/* SPDX-License-Identifier: Apache-2.0 */
#include "data/bert_text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "data/unicode_fold.h"

typedef enum { UNKNOWN, PLAIN, MARK, CONTROL, SIGN, SPACE } class;

/* In the order of the classes behind PLAIN. */
static const char pattern[] = "(\\p{Mn})|([\\p{Cc}\\p{Cf}\\p{Co}])|(\\p{P})|(\\p{Z})";
enum { GROUPS = 4, KNOWN = 0x10000, BAD = 0xFFFD, NEXT_LINE = 0x85 };

struct shoali_bert_text {
    shoali_bert_manner manner;
    pcre2_code *code;
    pcre2_match_data *match;
    uint8_t classes[KNOWN]; /* as far as they were asked for */
    char *word;             /* [4 characters_max] */
    size_t length;
    uint32_t characters;
    shoali_bert_word found; /* of the call */
    void *ctx;
};

shoal_status shoali_bert_text_create(const shoali_bert_manner *manner, shoali_bert_text **text_out)
{
    shoali_bert_text *t = shoali_alloc(sizeof *t);
    int error = 0;
    PCRE2_SIZE at = 0;
    if (t == NULL)
        return SHOAL_ENOMEM;
    t->manner = *manner;
    t->word = shoali_alloc_array((size_t)manner->characters_max + 1, 4);
    t->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_ANCHORED,
                            &error, &at, NULL);
    t->match = pcre2_match_data_create(GROUPS + 1, NULL);
    if (t->word == NULL || t->code == NULL || t->match == NULL) {
        shoali_bert_text_destroy(t);
        return SHOAL_ENOMEM;
    }
    (void)pcre2_jit_compile(t->code, PCRE2_JIT_COMPLETE); /* without, it is only slower */
    *text_out = t;
    return SHOAL_OK;
}

void shoali_bert_text_destroy(shoali_bert_text *t)
{
    if (t == NULL)
        return;
    pcre2_match_data_free(t->match);
    pcre2_code_free(t->code);
    shoali_free(t->word);
    shoali_free(t);
}

const shoali_bert_manner *shoali_bert_text_manner(const shoali_bert_text *t)
{
    return &t->manner;
}

/* ---------------------------------------------------------------- characters */

size_t shoali_utf8_next(const char *s, size_t left, uint32_t *character_out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t first = (uint8_t)s[0];
    const size_t length = first < 0x80   ? 1
                          : first < 0xC0 ? 0
                          : first < 0xE0 ? 2
                          : first < 0xF0 ? 3
                          : first < 0xF8 ? 4
                                         : 0;
    uint32_t c = length < 2 ? first : first & (0x7Fu >> length);
    *character_out = BAD;
    if (length == 0 || length > left)
        return 1;
    for (size_t i = 1; i < length; i++) {
        if (((uint8_t)s[i] & 0xC0) != 0x80)
            return 1;
        c = c << 6 | ((uint8_t)s[i] & 0x3F);
    }
    if (c < least[length] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        return 1;
    *character_out = c;
    return length;
}

size_t shoali_utf8_put(uint32_t c, char out[4])
{
    const size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t firsts[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length; i-- > 1; c >>= 6)
        out[i] = (char)(uint8_t)(0x80 | (c & 0x3F));
    out[0] = (char)(uint8_t)(firsts[length] | c);
    return length;
}

static class ascii_class(uint32_t c)
{
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
        return SPACE;
    if (c < ' ' || c == 0x7F)
        return CONTROL;
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (c >= '0' && c <= '9') ? PLAIN : SIGN;
}

static class ask(shoali_bert_text *t, uint32_t c)
{
    char bytes[4];
    const size_t length = shoali_utf8_put(c, bytes);
    const int count = pcre2_match(t->code, (PCRE2_SPTR)bytes, length, 0, PCRE2_NO_UTF_CHECK,
                                  t->match, NULL);
    return count > 1 ? (class)(PLAIN + count - 1) : PLAIN; /* count: of the highest group, plus 1 */
}

static class class_of(shoali_bert_text *t, uint32_t c)
{
    if (c < 0x80)
        return ascii_class(c);
    if (c >= KNOWN)
        return ask(t, c);
    if (t->classes[c] == UNKNOWN)
        t->classes[c] = (uint8_t)ask(t, c);
    return (class)t->classes[c];
}

/* What cleaning leaves out is white space elsewhere, if it is one of these. */
static bool is_space(uint32_t c, class kind)
{
    return kind == SPACE || c == NEXT_LINE || c == '\v' || c == '\f';
}

/* Blocks of ideographs. The one from U+2B820 on begins where the published code has it. */
static bool is_ideograph(uint32_t c)
{
    static const uint32_t blocks[][2] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                         {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                         {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (c >= blocks[i][0] && c <= blocks[i][1])
            return true;
    return false;
}

/* ---------------------------------------------------------------- words */

static shoal_status end_word(shoali_bert_text *t)
{
    const bool whole = t->characters <= t->manner.characters_max;
    const size_t length = t->length;
    const bool any = t->characters > 0;
    t->length = t->characters = 0;
    return any ? t->found(t->ctx, whole ? t->word : NULL, length) : SHOAL_OK;
}

static void put(shoali_bert_text *t, uint32_t c)
{
    if (t->characters <= t->manner.characters_max)
        t->characters++;
    if (t->characters <= t->manner.characters_max)
        t->length += shoali_utf8_put(c, t->word + t->length);
}

/* A character as it stays: white space and punctuation cut. */
static shoal_status add(shoali_bert_text *t, uint32_t c)
{
    const class kind = class_of(t, c);
    if (is_space(c, kind))
        return end_word(t);
    if (kind != SIGN) {
        put(t, c);
        return SHOAL_OK;
    }
    SHOALI_TRY(end_word(t));
    put(t, c);
    return end_word(t);
}

static shoal_status add_small(shoali_bert_text *t, uint32_t c)
{
    if (!t->manner.lower)
        return add(t, c);
    if (c != 0x130)
        return add(t, shoali_fold_small(c));
    SHOALI_TRY(add(t, 'i')); /* the one whose small letter is two characters */
    return add(t, 0x307);
}

static shoal_status add_bases(shoali_bert_text *t, uint32_t c)
{
    uint32_t bases[SHOALI_FOLD_MAX];
    if (!t->manner.strip || c < 0x80)
        return add_small(t, c);
    if (class_of(t, c) == MARK)
        return SHOAL_OK;
    const uint32_t count = shoali_fold_bases(c, bases);
    for (uint32_t i = 0; i < count; i++)
        SHOALI_TRY(add_small(t, bases[i]));
    return SHOAL_OK;
}

static shoal_status add_raw(shoali_bert_text *t, uint32_t c)
{
    const bool alone = t->manner.chinese && is_ideograph(c);
    if (t->manner.clean && (c == 0 || c == BAD || class_of(t, c) == CONTROL))
        return SHOAL_OK;
    if (alone)
        SHOALI_TRY(end_word(t));
    SHOALI_TRY(add_bases(t, c));
    return alone ? end_word(t) : SHOAL_OK;
}

shoal_status shoali_bert_text_cut(shoali_bert_text *t, const char *bytes, size_t len_bytes,
                                  shoali_bert_word found, void *ctx)
{
    uint32_t c = 0;
    t->found = found;
    t->ctx = ctx;
    t->length = t->characters = 0;
    for (size_t at = 0; at < len_bytes;) {
        at += shoali_utf8_next(bytes + at, len_bytes - at, &c);
        SHOALI_TRY(add_raw(t, c));
    }
    return end_word(t);
}
