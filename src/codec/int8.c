/* SPDX-License-Identifier: Apache-2.0 */
/* int8: a signed byte per element in units of a 127th of its block's largest magnitude. */
#include "codec/scaled_int.h"

static const shoali_key keys[] = {SHOALI_SCALED_INT_KEYS("256")};

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 42;
}

static shoal_status check(void *params)
{
    ((shoali_scaled_int *)params)->bits = 8;
    return SHOAL_OK;
}

const shoali_codec_row shoali_codec_int8 = {
    .name = "int8",
    .paper = "Dettmers, \"8-bit approximations\", 2015, and QSGD (Alistarh et al., NIPS 2017) with "
             "127 levels",
    .traits = SHOAL_CODEC_FIXED_RATE | SHOAL_CODEC_PER_TENSOR,
    .bytes_per_elem = 1.015625F,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(shoali_scaled_int)},
    .wire_id = wire_id,
    .check = check,
    .variance = shoali_scaled_int_variance,
    .more_traits = shoali_scaled_int_more_traits,
    .bound = shoali_scaled_int_size,
    .encode = shoali_scaled_int_encode,
    .decode = shoali_scaled_int_decode,
};
