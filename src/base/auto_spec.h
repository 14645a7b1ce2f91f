/* SPDX-License-Identifier: Apache-2.0 */
/* What `--codec auto` is asked for: "auto", "auto:allow=terngrad+eden:bits=4",
 * "auto:error=0.05,every=50,allow=bf16". Who measures and chooses is worker/codec_choice.h. */
#ifndef SHOALI_BASE_AUTO_SPEC_H
#define SHOALI_BASE_AUTO_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "shoal/status.h"

enum { SHOALI_AUTO_ITEM_BYTES = 160 };

typedef struct shoali_auto_spec {
    double error;      /* bound on the relative squared error of the mean gradient; 0: none */
    int64_t every;     /* steps from one check of it to the next */
    const char *allow; /* the list, into the spec; NULL: none */
} shoali_auto_spec;

/** Whether a spec is "auto" or begins with "auto:". */
bool shoali_auto_spec_named(const char *spec);
/** allow= comes last: codecs' own keys have commas. @return SHOAL_OK | EINVAL */
SHOAL_MUST_USE shoal_status shoali_auto_spec_parse(const char *spec, shoali_auto_spec *out);
/** The next of the allowed codecs. *at: allow at first; NULL behind the last one.
 * @return SHOAL_OK | EINVAL: an item is empty or too long */
SHOAL_MUST_USE shoal_status shoali_auto_spec_next(const shoali_auto_spec *asked, const char **at,
                                                  char spec_out[SHOALI_AUTO_ITEM_BYTES]);
/** EINVAL: under a bound no transform is allowed, as nobody measures what it leaves for later. */
shoal_status shoali_auto_spec_no_transform(const shoali_auto_spec *asked, const char *spec);

#endif
