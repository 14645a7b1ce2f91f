/* SPDX-License-Identifier: Apache-2.0 */
/* WordPiece from tokenizer.json or, of other bytes, vocab.txt: refused with a reason, or read; then
 * it makes tokens of any bytes (the file itself), each of which is its own and has a text. */
#include <stdint.h>
#include <stdlib.h>

#include "data/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    shoali_tokenizer *t = NULL;
    shoali_ids ids = {0};
    const char *text = (const char *)bytes;
    size_t length = 0;
    const shoal_status status = len_bytes > 0 && bytes[0] == '{'
                                    ? shoali_tokenizer_parse("fuzz", text, len_bytes, &t)
                                    : shoali_tokenizer_parse_vocab("fuzz", text, len_bytes, &t);
    if (status != SHOAL_OK)
        return 0;
    if (shoali_tokenizer_encode(t, text, len_bytes, true, &ids) == SHOAL_OK)
        for (size_t i = 0; i < ids.count; i++) {
            (void)shoali_tokenizer_piece(t, ids.ids[i], i == 0, &length);
            if (ids.ids[i] >= shoali_tokenizer_count(t) || length > len_bytes + 1)
                abort();
        }
    shoali_ids_free(&ids);
    shoali_tokenizer_close(t);
    return 0;
}
