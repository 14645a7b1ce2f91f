/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json: refused with a reason, or read; then what it makes of a text is the text again,
 * unless it lacks a byte. The text is the JSON itself. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

static void check(const shoali_tokenizer *t, const shoali_ids *ids, const char *text, size_t length)
{
    size_t at = 0, one = 0;
    for (size_t i = 0; i < ids->count; i++, at += one) {
        const char *token = shoali_tokenizer_text(t, ids->ids[i], &one);
        if (ids->ids[i] >= shoali_tokenizer_count(t) || one > length - at ||
            memcmp(text + at, token, one) != 0)
            abort();
    }
    if (at != length)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    shoali_tokenizer *t = NULL;
    shoali_ids ids = {0};
    const char *text = (const char *)bytes;
    if (shoali_tokenizer_parse("fuzz", text, len_bytes, &t) != SHOAL_OK)
        return 0;
    if (shoali_tokenizer_encode(t, text, len_bytes, true, &ids) == SHOAL_OK &&
        !shoali_tokenizer_is_characters(t) && !shoali_tokenizer_is_pieces(t))
        check(t, &ids, text, len_bytes);
    shoali_ids_free(&ids);
    shoali_tokenizer_close(t);
    return 0;
}
