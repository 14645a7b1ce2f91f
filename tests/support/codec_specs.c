/* SPDX-License-Identifier: Apache-2.0 */
#include "support/codec_specs.h"

#include <stdio.h>
#include <string.h>

/* Keys that do something else together. */
static const struct {
    const char *row, *spec;
} together[] = {
    {"eden", "eden:bits=3,allot=energy"},
    {"eden", "eden:allot=energy,ef"},
    {"eden", "eden:bits=1,allot=energy,ef"},
};

static bool together_spec(const shoali_codec_row *row, size_t i, char spec_out[CODEC_SPEC_BYTES])
{
    for (size_t k = 0; k < sizeof together / sizeof *together; k++)
        if (strcmp(together[k].row, row->name) == 0 && i-- == 0) {
            snprintf(spec_out, CODEC_SPEC_BYTES, "%s", together[k].spec);
            return true;
        }
    return false;
}

static size_t values_of(const shoali_key *key)
{
    size_t count = 1;
    if (key->kind == SHOALI_KEY_CHOICE)
        for (const char *at = key->choices; *at != '\0'; at++)
            count += *at == '|';
    else
        count = key->kind == SHOALI_KEY_TEXT ? 0 : 2;
    return count;
}

static void write_value(const shoali_key *key, size_t i, char *out, size_t out_bytes)
{
    const char *choice = key->choices;
    switch (key->kind) {
    case SHOALI_KEY_FLAG:
        snprintf(out, out_bytes, "%s", i == 0 ? "on" : "off");
        break;
    case SHOALI_KEY_CHOICE:
        for (; i > 0; i--)
            choice += strcspn(choice, "|") + 1;
        snprintf(out, out_bytes, "%.*s", (int)strcspn(choice, "|"), choice);
        break;
    default:
        snprintf(out, out_bytes, "%.17g", i == 0 ? key->min : key->max);
    }
}

bool codec_spec(const shoali_codec_row *row, size_t i, char spec_out[CODEC_SPEC_BYTES])
{
    snprintf(spec_out, CODEC_SPEC_BYTES, "%s", row->name);
    if (i-- == 0)
        return true;
    for (size_t k = 0; k < row->schema.count; k++) {
        const shoali_key *key = &row->schema.keys[k];
        if (i < values_of(key)) {
            char value[SHOALI_KEY_TEXT_BYTES];
            write_value(key, i, value, sizeof value);
            snprintf(spec_out, CODEC_SPEC_BYTES, "%s:%s=%s", row->name, key->name, value);
            return true;
        }
        i -= values_of(key);
    }
    return together_spec(row, i, spec_out);
}
