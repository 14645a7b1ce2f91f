/* SPDX-License-Identifier: Apache-2.0 */
/* The vector loops of inceptionn against the plain ones, both ways, on the same input: the same
 * verdict, the same bits. Input: rule (2 bytes), elements (2), then coded bytes that also serve as
 * floats. Without AVX2 there is nothing to compare. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "codec/inceptionn.h"
#include "kernel/kernel.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

#if defined(__x86_64__)
enum { HEAD = 4, MOST = 4096, CODED_MOST = MOST * 4 + MOST / 4 + MOST / 256 };

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* Adding may change which NaN it is. */
static bool same(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(a[i] != a[i] && b[i] != b[i]))
            return false;
    return true;
}

static void compare_decode(const shoali_inc_loops *plain, const shoali_inc_loops *vector,
                           const shoali_inc_rule *rule, const uint8_t *src, size_t length,
                           size_t count, bool add)
{
    static float want[MOST], got[MOST];
    for (size_t i = 0; i < count; i++)
        want[i] = got[i] = i % 3 == 0 ? -0.0f : (float)i;
    size_t used = plain->decode(rule, src, length, want, count, add);
    require(vector->decode(rule, src, length, got, count, add) == used);
    require(used == SHOALI_INC_CORRUPT || (used <= length && same(want, got, count)));
}

static void compare_encode(const shoali_inc_loops *plain, const shoali_inc_loops *vector,
                           const shoali_inc_rule *rule, const uint8_t *src, size_t length)
{
    static float x[MOST];
    static uint8_t want[CODED_MOST], got[CODED_MOST];
    size_t count = length / sizeof *x < MOST ? length / sizeof *x : MOST;
    memcpy(x, src, count * sizeof *x);
    size_t used = plain->encode(rule, x, count, want);
    require(vector->encode(rule, x, count, got) == used && memcmp(got, want, used) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    if (len_bytes < HEAD || shoali_kernel_row(1) == NULL)
        return 0;
    shoali_inc_avx2_init();
    const shoali_inc_rule rule = shoali_inc_rule_make(6 + 2 * (bytes[0] % 3u), bytes[1] % 17u,
                                                      (bytes[0] & 4) != 0);
    const shoali_inc_loops *plain = &shoali_inc_ref_planes, *vector = &shoali_inc_avx2_planes;
    if ((bytes[0] & 8) != 0)
        plain = &shoali_inc_ref_interleaved, vector = &shoali_inc_avx2_interleaved;
    else if ((bytes[0] & 16) != 0)
        plain = &shoali_inc_ref_zmap, vector = &shoali_inc_avx2_zmap;
    size_t count = (size_t)(bytes[2] | bytes[3] << 8) % MOST, length = len_bytes - HEAD;
    uint8_t *src = malloc(length + 1); /* exact, for the address sanitizer; at an odd address */
    require(src != NULL);
    memcpy(src + 1, bytes + HEAD, length);
    compare_decode(plain, vector, &rule, src + 1, length, count, false);
    compare_decode(plain, vector, &rule, src + 1, length, count, true);
    compare_encode(plain, vector, &rule, src + 1, length);
    free(src);
    return 0;
}
#else
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    (void)bytes, (void)len_bytes;
    return 0;
}
#endif
