/* SPDX-License-Identifier: Apache-2.0 */
/* What people bring: the first byte chooses between .npy, .npz, .csv, and a PNG or JPEG; the rest
 * is the file. Read or refused with a reason; all of what was read is there. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/array_file.h"
#include "data/picture.h"
#include "data/table_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

static void touch(const uint8_t *values, size_t count)
{
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum = (uint8_t)(sum + values[i]);
}

static shoal_status read_arrays(bool archive, const uint8_t *bytes, size_t len_bytes,
                                shoal_arena *arena)
{
    shoali_array arrays[SHOALI_ARRAYS_MAX];
    uint32_t count = 1;
    const shoal_status status = archive ? shoali_arrays_read("x.npz", bytes, len_bytes, arena,
                                                             arrays, &count)
                                        : shoali_array_read("x.npy", bytes, len_bytes, arrays);
    for (uint32_t i = 0; status == SHOAL_OK && i < count; i++) {
        touch(arrays[i].values, arrays[i].count * arrays[i].value_bytes);
        (void)shoali_array_at(&arrays[i], arrays[i].count - 1);
    }
    return status;
}

static shoal_status read_table(const uint8_t *bytes, size_t len_bytes, shoal_arena *arena)
{
    shoali_table t;
    char *text = shoali_arena_alloc(arena, len_bytes + 1);
    if (text == NULL)
        abort();
    memcpy(text, bytes, len_bytes);
    const shoal_status status = shoali_table_read("x.csv", text, len_bytes, arena, &t);
    if (status == SHOAL_OK)
        touch(t.pixels, (size_t)t.rows * t.values);
    return status;
}

/* Small ones only: a fuzzer finds that large ones take long. */
static shoal_status read_picture(const uint8_t *bytes, size_t len_bytes)
{
    shoali_picture p = {0};
    shoal_status status = shoali_picture_decode("x.png", bytes, len_bytes, &p);
    if (status != SHOAL_OK)
        return status;
    touch(p.pixels, (size_t)p.channels * p.height * p.width);
    if ((size_t)p.height * p.width < 1 << 14)
        status = shoali_picture_resize(&p, 5, 7, len_bytes % 2 == 0);
    if (status == SHOAL_OK)
        status = shoali_picture_recolour(&p, p.channels == 1 ? 3 : 1);
    shoali_picture_free(&p);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    if (len_bytes == 0)
        return 0;
    shoal_arena *arena = shoali_arena_create(1 << 12);
    const uint8_t which = bytes[0] % 4;
    const shoal_status status = which < 2 ? read_arrays(which == 1, bytes + 1, len_bytes - 1, arena)
                                : which == 2 ? read_table(bytes + 1, len_bytes - 1, arena)
                                             : read_picture(bytes + 1, len_bytes - 1);
    if (status != SHOAL_OK && shoal_last_error()->status != status)
        abort();
    shoali_arena_destroy(arena);
    return 0;
}
