/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto_spec.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/spec.h"

static const char allow[] = "allow=";

typedef struct params {
    double error;
    int64_t every;
} params;

static const shoali_key keys[] = {
    {"error", SHOALI_KEY_FLOAT, offsetof(params, error), 0, 1, NULL, "0",
     "bound on the relative squared error of the mean gradient; 0: none"},
    {"every", SHOALI_KEY_INT, offsetof(params, every), 1, 1 << 30, NULL, "50",
     "steps from one check of it to the next"},
};
static const shoali_schema schema = {keys, sizeof keys / sizeof *keys, sizeof(params)};

bool shoali_auto_spec_named(const char *spec)
{
    return strncmp(spec, "auto", 4) == 0 && (spec[4] == '\0' || spec[4] == ':');
}

static shoal_status malformed(const char *spec)
{
    shoal_status status = shoali_fail(
        SHOAL_EINVAL, "codec %s: auto has the keys error=0..1, every=STEPS, allow=CODEC+CODEC",
        spec);
    shoali_error_advice("allow= goes last; every= goes with error= above 0. docs/codecs.md says "
                        "what they do.");
    return status;
}

/* Where "allow=" begins as a key; the end of the spec if nowhere. */
static const char *find_allow(const char *spec)
{
    for (const char *at = strchr(spec, ':'); at != NULL; at = strchr(at + 1, ','))
        if (strncmp(at + 1, allow, sizeof allow - 1) == 0)
            return at;
    return spec + strlen(spec);
}

shoal_status shoali_auto_spec_parse(const char *spec, shoali_auto_spec *out)
{
    char head[64];
    params p;
    const char *end = find_allow(spec);
    const size_t length = (size_t)(end - spec);
    if (spec[4] == ':' && spec[5] == '\0')
        return malformed(spec);
    if (length >= sizeof head)
        return malformed(spec);
    memcpy(head, spec, length);
    head[length] = '\0';
    if (shoali_spec_parse("codec", head, &schema, &p) != SHOAL_OK)
        return malformed(spec);
    if (strstr(head, "every=") != NULL && !(p.error > 0))
        return malformed(spec);
    *out = (shoali_auto_spec){.error = p.error, .every = p.every};
    out->allow = *end != '\0' ? end + sizeof allow : NULL;
    return SHOAL_OK;
}

shoal_status shoali_auto_spec_next(const shoali_auto_spec *asked, const char **at,
                                   char spec_out[SHOALI_AUTO_ITEM_BYTES])
{
    const size_t length = strcspn(*at, "+");
    if (length == 0 || length >= SHOALI_AUTO_ITEM_BYTES)
        return shoali_fail(SHOAL_EINVAL, "codec auto:allow=%s: codecs' specs, joined by +",
                           asked->allow);
    memcpy(spec_out, *at, length);
    spec_out[length] = '\0';
    *at = (*at)[length] == '+' ? *at + length + 1 : NULL;
    return SHOAL_OK;
}

shoal_status shoali_auto_spec_no_transform(const shoali_auto_spec *asked, const char *spec)
{
    shoal_status status = shoali_fail(SHOAL_EINVAL,
                                      "codec auto:error=%g does not go with allow=%s: what that "
                                      "one leaves for later is its own, and not measured",
                                      asked->error, spec);
    shoali_error_advice("Leave error= out, or allow codecs of single chunks (eden, int8, topk).");
    return status;
}
