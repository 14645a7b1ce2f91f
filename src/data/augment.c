/* SPDX-License-Identifier: Apache-2.0 */
#include "data/augment.h"

#include <stdio.h>

#include "base/error.h"
#include "base/spec.h"

typedef struct augment {
    int64_t crop;
    bool flip;
} augment;

static const shoali_key keys[] = {
    {"crop", SHOALI_KEY_INT, offsetof(augment, crop), 0, 64, NULL, "0",
     "images are cut out of themselves with so many black pixels around"},
    {"flip", SHOALI_KEY_FLAG, offsetof(augment, flip), 0, 0, NULL, "off",
     "left and right change places every second time"}};
static const shoali_schema schema = {keys, 2, sizeof(augment)};

shoal_status shoali_augment_parse(const char *spec, shoali_crop *crop)
{
    char text[128];
    augment a = {0};
    if (snprintf(text, sizeof text, "augment:%s", spec) >= (int)sizeof text)
        return shoali_fail(SHOAL_EINVAL, "augment: %.40s... is longer than all it could say", spec);
    SHOALI_TRY(shoali_spec_parse("augment", text, &schema, &a));
    crop->pad = (uint32_t)a.crop;
    crop->random = crop->random || a.crop > 0;
    crop->mirror = crop->mirror || a.flip;
    return SHOAL_OK;
}
