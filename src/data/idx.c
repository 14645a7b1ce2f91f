/* SPDX-License-Identifier: Apache-2.0 */
/* IDX, the format of MNIST and its relatives: big-endian magic 00 00 TT DD (TT 08: unsigned bytes;
 * DD dimensions), DD sizes of 32 bits, then the values, row by row. Images are uint8[N][H][W],
 * labels uint8[N]. */
#include "base/error.h"
#include "data/input.h"
#include "data/loader.h"

static uint32_t big_endian(const uint8_t b[4])
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Read and check the head of a file of unsigned bytes with `dims` dimensions. */
static shoal_status read_head(shoali_input *in, int dims, uint32_t *sizes_out)
{
    uint8_t word[4];
    SHOALI_TRY(shoali_input_read(in, word, 4));
    if (word[0] != 0 || word[1] != 0)
        return shoali_input_corrupt(in, 0, "no IDX file: it starts with %02x %02x, not 00 00",
                                    word[0], word[1]);
    if (word[2] != 0x08)
        return shoali_input_corrupt(
            in, 2, "values of type 0x%02x; only unsigned bytes (0x08) are read", word[2]);
    if (word[3] != dims)
        return shoali_input_corrupt(in, 3, "%u dimensions instead of %d", word[3], dims);
    for (int i = 0; i < dims; i++) {
        SHOALI_TRY(shoali_input_read(in, word, 4));
        sizes_out[i] = big_endian(word);
        if (sizes_out[i] == 0 || (i > 0 && sizes_out[i] > SHOALI_DATA_SIDE_MAX))
            return shoali_input_corrupt(in, (uint64_t)(4 + 4 * i), "size %u of dimension %d",
                                        sizes_out[i], i);
    }
    return SHOAL_OK;
}

static shoal_status read_images(shoali_input *in, shoali_dataset *d, shoali_split *split)
{
    uint32_t sizes[3];
    SHOALI_TRY(read_head(in, 3, sizes));
    if (d->height != 0 && (d->height != sizes[1] || d->width != sizes[2]))
        return shoali_input_corrupt(in, 8, "images of %u x %u, those for training are %u x %u",
                                    sizes[1], sizes[2], d->height, d->width);
    uint64_t bytes = (uint64_t)sizes[0] * sizes[1] * sizes[2];
    SHOALI_TRY(shoali_input_expect(in, bytes));
    uint8_t *pixels = shoali_arena_alloc(d->arena, (size_t)bytes);
    if (pixels == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_input_read(in, pixels, (size_t)bytes));
    d->channels = 1;
    d->height = sizes[1];
    d->width = sizes[2];
    split->pixels = pixels;
    split->count = sizes[0];
    return shoali_input_end(in);
}

static shoal_status read_labels(shoali_input *in, shoali_dataset *d, shoali_split *split)
{
    uint32_t count;
    SHOALI_TRY(read_head(in, 1, &count));
    if (count != split->count)
        return shoali_input_corrupt(in, 4, "%u labels for %u images", count, split->count);
    SHOALI_TRY(shoali_input_expect(in, count));
    uint8_t *bytes = shoali_arena_alloc(d->arena, count);
    uint16_t *labels = shoali_arena_array(d->arena, count, sizeof *labels);
    if (bytes == NULL || labels == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_input_read(in, bytes, count));
    for (uint32_t i = 0; i < count; i++) {
        labels[i] = bytes[i];
        d->classes = bytes[i] >= d->classes ? bytes[i] + 1u : d->classes;
    }
    split->labels = labels;
    return shoali_input_end(in);
}

static shoal_status read_file(const char *dir, const char *name, shoali_dataset *d,
                              shoali_split *split,
                              shoal_status (*read)(shoali_input *in, shoali_dataset *d,
                                                   shoali_split *split))
{
    shoali_input in;
    const char *path = shoali_data_path(d->arena, dir, name);
    if (path == NULL)
        return shoal_last_error()->status;
    SHOALI_TRY(shoali_input_open(path, &in));
    shoal_status status = read(&in, d, split);
    shoali_input_close(&in);
    return status;
}

static shoal_status load_idx(const char *dir, shoali_dataset *d)
{
    SHOALI_TRY(read_file(dir, "train-images-idx3-ubyte", d, &d->train, read_images));
    SHOALI_TRY(read_file(dir, "train-labels-idx1-ubyte", d, &d->train, read_labels));
    SHOALI_TRY(read_file(dir, "t10k-images-idx3-ubyte", d, &d->test, read_images));
    return read_file(dir, "t10k-labels-idx1-ubyte", d, &d->test, read_labels);
}

const shoali_loader_row shoali_loader_idx = {
    .name = "idx",
    .help = "MNIST's four files, plain or .gz",
    .probe = "train-images-idx3-ubyte",
    .load = load_idx,
};
