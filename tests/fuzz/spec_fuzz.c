/* SPDX-License-Identifier: Apache-2.0 */
/* Spec strings: parsed or refused with a reason; what is parsed survives format and parse. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/spec.h"

typedef struct params {
    bool strict;
    int64_t lanes;
    double clip;
    int32_t bound;
    char group[SHOALI_KEY_TEXT_BYTES];
} params;

#define AT(field) offsetof(params, field)
static const shoali_key keys[] = {
    {"strict", SHOALI_KEY_FLAG, AT(strict), 0, 0, NULL, "off", ""},
    {"lanes", SHOALI_KEY_INT, AT(lanes), -1e18, 1e18, NULL, "4", ""},
    {"clip", SHOALI_KEY_FLOAT, AT(clip), -1e300, 1e300, NULL, "2^-10", ""},
    {"bound", SHOALI_KEY_CHOICE, AT(bound), 0, 0, "2^-6|2^-8|2^-10", "2^-8", ""},
    {"group", SHOALI_KEY_TEXT, AT(group), 0, 0, NULL, "", ""},
};
static const shoali_schema schema = {keys, sizeof keys / sizeof *keys, sizeof(params)};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    static const char *const names[] = {"ring", "direct", "hierarchical"};
    char spec[512], text[512];
    params first, second;
    if (len_bytes >= sizeof spec)
        return 0;
    memcpy(spec, bytes, len_bytes);
    spec[len_bytes] = '\0';

    if (shoali_spec_unknown("collective", spec, names, 3) != SHOAL_EINVAL)
        abort();
    if (shoali_spec_parse("collective", spec, &schema, &first) != SHOAL_OK) {
        if (shoal_last_error()->text[0] == '\0')
            abort();
        return 0;
    }
    shoali_spec_format("x", &schema, &first, text, sizeof text);
    if (shoali_spec_parse("collective", text, &schema, &second) != SHOAL_OK ||
        memcmp(&first, &second, sizeof first) != 0)
        abort();
    return 0;
}
