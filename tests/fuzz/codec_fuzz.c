/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding of hostile bytes by every codec at every value of its keys: refused, or decoded within
 * the input, the same way whether set or added, and what came out can be encoded again.
 * Input: which codec and spec (1 byte each), elements (2), shared value (4), then coded bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "support/codec_specs.h"

enum { HEAD = 8, MOST = 2 * 4096 + 513 }; /* also what is coded only from 4096 elements on */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static shoal_codec *open_chosen(uint8_t row_choice, uint8_t spec_choice)
{
    const shoali_codec_row *row = shoali_codec_row_at(row_choice % shoali_codec_count());
    char spec[CODEC_SPEC_BYTES];
    shoal_codec *codec;
    if (!codec_spec(row, spec_choice, spec))
        require(codec_spec(row, 0, spec));
    require(shoal_codec_open(spec, &codec) == SHOAL_OK);
    return codec;
}

/* Memory of exactly its size, for the address sanitizer. */
static void *exactly(const void *bytes, size_t len_bytes)
{
    void *memory = malloc(len_bytes > 0 ? len_bytes : 1);
    require(memory != NULL);
    if (bytes != NULL)
        memcpy(memory, bytes, len_bytes);
    return memory;
}

static void encode_again(const shoal_codec *codec, const shoal_codec_at *at, const float *x,
                         size_t count)
{
    size_t bound = shoal_codec_bound(codec, count, at->parts), written = 0;
    uint8_t *coded = exactly(NULL, bound);
    shoal_status status = shoal_codec_encode(codec, at, x, count, coded, bound, &written);
    require(status == SHOAL_OK || status == SHOAL_ENOTFINITE);
    require(written <= bound);
    free(coded);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    if (len_bytes < HEAD)
        return 0;
    shoal_codec *codec = open_chosen(bytes[0], bytes[1]);
    size_t count = (size_t)(bytes[2] | bytes[3] << 8) % MOST, length = len_bytes - HEAD;
    if (codec->row->decode == NULL) { /* a transform decodes nothing */
        shoal_codec_close(codec);
        return 0;
    }
    float shared[16];
    require(shoal_codec_measure_count(codec) <= 16);
    for (size_t i = 0; i < 16; i++)
        memcpy(&shared[i], bytes + 4, sizeof shared[i]);
    const shoal_tensor tensor = {.key = 1, .count = count, .rows = 1, .cols = (uint32_t)count};
    const shoal_codec_at at = {.tensor = &tensor, .parts = 1, .shared = shared};

    uint8_t *coded = exactly(bytes + HEAD, length);
    float *set = exactly(NULL, count * sizeof *set), *sum = calloc(count + 1, sizeof *sum);
    require(sum != NULL);
    size_t set_used = 0, sum_used = 0;
    shoal_status status = shoal_codec_decode(codec, &at, coded, length, set, count, false,
                                             &set_used);
    require(status == SHOAL_OK || status == SHOAL_ECORRUPT);
    require(status == shoal_codec_decode(codec, &at, coded, length, sum, count, true, &sum_used));
    require(set_used == sum_used && set_used <= length);
    for (size_t i = 0; i < count && status == SHOAL_OK; i++)
        require(sum[i] == set[i] || (sum[i] != sum[i] && set[i] != set[i]));
    if (status == SHOAL_OK)
        encode_again(codec, &at, set, count);
    free(coded), free(set), free(sum);
    shoal_codec_close(codec);
    return 0;
}
