/* SPDX-License-Identifier: Apache-2.0 */
/* int4: four bits per element, -7 .. 7 in units of a seventh of its block's largest magnitude. */
#include "codec/scaled_int.h"

static const shoali_key keys[] = {SHOALI_SCALED_INT_KEYS("64")};

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 43;
}

static shoal_status check(void *params)
{
    ((shoali_scaled_int *)params)->bits = 4;
    return SHOAL_OK;
}

const shoali_codec_row shoali_codec_int4 = {
    .name = "int4",
    .paper = "QSGD (Alistarh et al., NIPS 2017) with 7 levels and the largest magnitude as norm",
    .traits = SHOAL_CODEC_FIXED_RATE | SHOAL_CODEC_PER_TENSOR,
    .bytes_per_elem = 0.5625F,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(shoali_scaled_int)},
    .wire_id = wire_id,
    .check = check,
    .variance = shoali_scaled_int_variance,
    .more_traits = shoali_scaled_int_more_traits,
    .bound = shoali_scaled_int_size,
    .encode = shoali_scaled_int_encode,
    .decode = shoali_scaled_int_decode,
};
