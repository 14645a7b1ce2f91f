/* SPDX-License-Identifier: Apache-2.0 */
#include "data/words.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/arena.h"
#include "base/error.h"

/* White_Space is the separators, U+0009 .. U+000D and U+0085; PCRE2's own \s has U+180E, too. */
#define SPACE "\\p{Z}\\t-\\r\\x{85}"
const char shoali_words_gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE
                                 "\\p{L}\\p{N}]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+";

/* A match that tries more than this is a pattern's fault, not a text's. */
enum { MATCH_LIMIT = 10000000, DEPTH_LIMIT = 100000, STACK_BYTES = 32 << 10, STACK_MOST = 8 << 20 };

struct shoali_words {
    char *pattern;
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

static shoal_status compile(shoali_words *w)
{
    int error = 0;
    PCRE2_SIZE at = 0;
    PCRE2_UCHAR why[128] = "";
    w->code = pcre2_compile((PCRE2_SPTR)w->pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                            &error, &at, NULL);
    if (w->code == NULL) {
        (void)pcre2_get_error_message(error, why, sizeof why);
        return shoali_fail(SHOAL_EINVAL, "the pattern \"%.80s\" is none at its character %zu: %s",
                           w->pattern, (size_t)at, (const char *)why);
    }
    w->match = pcre2_match_data_create(1, NULL);
    w->context = pcre2_match_context_create(NULL);
    if (w->match == NULL || w->context == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory for a pattern");
    (void)pcre2_set_match_limit(w->context, MATCH_LIMIT);
    (void)pcre2_set_depth_limit(w->context, DEPTH_LIMIT);
    if (pcre2_jit_compile(w->code, PCRE2_JIT_COMPLETE) == 0) { /* without, it is only slower */
        w->stack = pcre2_jit_stack_create(STACK_BYTES, STACK_MOST, NULL);
        pcre2_jit_stack_assign(w->context, NULL, w->stack);
    }
    return SHOAL_OK;
}

shoal_status shoali_words_create(const char *pattern, shoali_words **words_out)
{
    shoali_words *w = shoali_alloc(sizeof *w);
    if (w == NULL)
        return SHOAL_ENOMEM;
    w->pattern = shoali_strdup(pattern);
    shoal_status status = w->pattern != NULL ? compile(w) : SHOAL_ENOMEM;
    if (status == SHOAL_OK)
        *words_out = w;
    else
        shoali_words_destroy(w);
    return status;
}

void shoali_words_destroy(shoali_words *w)
{
    if (w == NULL)
        return;
    pcre2_jit_stack_free(w->stack);
    pcre2_match_context_free(w->context);
    pcre2_match_data_free(w->match);
    pcre2_code_free(w->code);
    shoali_free(w->pattern);
    shoali_free(w);
}

const char *shoali_words_pattern(const shoali_words *w)
{
    return w->pattern;
}

/* Bytes of the character at s (RFC 3629, section 4: no overlong forms, no surrogates); 0: none. */
static size_t character(const uint8_t *s, size_t left)
{
    const uint8_t first = s[0];
    if (first < 0x80)
        return 1;
    const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || left < length)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((first == 0xE0 && s[1] < 0xA0) || (first == 0xED && s[1] > 0x9F) ||
        (first == 0xF0 && s[1] < 0x90) || (first == 0xF4 && s[1] > 0x8F))
        return 0;
    return length;
}

/* Words of a text that is UTF-8. An empty match cuts where it is. */
static shoal_status cut_valid(const shoali_words *w, const char *text, size_t length,
                              shoali_word_found found, void *ctx)
{
    size_t done = 0, at = 0;
    while (at < length) {
        const int count = pcre2_match(w->code, (PCRE2_SPTR)text, length, at, PCRE2_NO_UTF_CHECK,
                                      w->match, w->context);
        if (count == PCRE2_ERROR_NOMATCH)
            break;
        if (count < 0)
            return shoali_fail(SHOAL_EINVAL,
                               "the pattern \"%.80s\" tries too much on a text (PCRE2 says %d)",
                               w->pattern, count);
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(w->match);
        const size_t first = range[0] > done ? range[0] : done, end = range[1];
        if (first > done)
            SHOALI_TRY(found(ctx, text + done, first - done));
        if (end > first)
            SHOALI_TRY(found(ctx, text + first, end - first));
        done = end > first ? end : first;
        at = end > at ? end : at + character((const uint8_t *)text + at, length - at);
    }
    return done < length ? found(ctx, text + done, length - done) : SHOAL_OK;
}

shoal_status shoali_words_cut(const shoali_words *w, const char *text, size_t len_bytes,
                              shoali_word_found found, void *ctx)
{
    size_t at = 0;
    while (at < len_bytes) {
        const size_t first = at;
        size_t length;
        while (at < len_bytes &&
               (length = character((const uint8_t *)text + at, len_bytes - at)) > 0)
            at += length;
        if (at > first)
            SHOALI_TRY(cut_valid(w, text + first, at - first, found, ctx));
        if (at < len_bytes)
            SHOALI_TRY(found(ctx, text + at++, 1));
    }
    return SHOAL_OK;
}
