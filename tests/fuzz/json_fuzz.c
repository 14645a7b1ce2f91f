/* SPDX-License-Identifier: Apache-2.0 */
/* JSON texts and typed members: parsed or refused with a reason. */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    json_t *json = NULL;
    uint64_t whole;
    double real;
    const char *text;
    shoal_status status = shoali_json_parse("fuzz", (const char *)bytes, len_bytes, &json);
    if (status != SHOAL_OK) {
        if (json != NULL || shoal_last_error()->status != status)
            abort();
        return 0;
    }
    if (shoali_json_u64(json, "n", 2, 9, NULL, &whole) == SHOAL_OK && (whole < 2 || whole > 9))
        abort();
    if (shoali_json_double(json, "x", -1, 1, NULL, &real) == SHOAL_OK && !(real >= -1 && real <= 1))
        abort();
    if (shoali_json_string(json, "s", NULL, &text) == SHOAL_OK && text == NULL)
        abort();
    json_decref(json);
    return 0;
}
