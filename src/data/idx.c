/* SPDX-License-Identifier: Apache-2.0 */
/* IDX, the format of MNIST and its relatives: big-endian magic 00 00 TT DD (TT 08: unsigned bytes,
 * 0C: integers of 32 bits; DD dimensions), DD sizes of 32 bits, then the values, row by row. Images
 * are uint8[N][H][W] with uint8[N] labels as MNIST's are, or, of any colours and number of classes,
 * uint8[N][C][H][W] with int32[N]: what `shoal data images` writes. */
#include "base/error.h"
#include "data/input.h"
#include "data/loader.h"

static uint32_t big_endian(const uint8_t b[4])
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

enum { BYTES = 0x08, INTEGERS = 0x0C };

/* Read and check the head of a file of such values with `dims` dimensions. */
static shoal_status read_head(shoali_input *in, int type, int dims, uint32_t *sizes_out)
{
    uint8_t word[4];
    SHOALI_TRY(shoali_input_read(in, word, 4));
    if (word[0] != 0 || word[1] != 0)
        return shoali_input_corrupt(in, 0, "no IDX file: it starts with %02x %02x, not 00 00",
                                    word[0], word[1]);
    if (word[2] != type)
        return shoali_input_corrupt(in, 2, "values of type 0x%02x instead of %s (0x%02x)", word[2],
                                    type == BYTES ? "unsigned bytes" : "integers", type);
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

/* sizes: channels, height, width. */
static shoal_status read_pixels(shoali_input *in, shoali_dataset *d, uint32_t count,
                                const uint32_t sizes[3], shoali_split *split)
{
    if (d->height != 0 &&
        (d->channels != sizes[0] || d->height != sizes[1] || d->width != sizes[2]))
        return shoali_input_corrupt(in, 8,
                                    "images of %u x %u x %u, those for training are %u x %u x %u",
                                    sizes[0], sizes[1], sizes[2], d->channels, d->height, d->width);
    uint64_t bytes = (uint64_t)count * sizes[0] * sizes[1] * sizes[2];
    SHOALI_TRY(shoali_input_expect(in, bytes));
    uint8_t *pixels = shoali_arena_alloc(d->arena, (size_t)bytes);
    if (pixels == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_input_read(in, pixels, (size_t)bytes));
    d->channels = sizes[0];
    d->height = sizes[1];
    d->width = sizes[2];
    split->pixels = pixels;
    split->count = count;
    return shoali_input_end(in);
}

static shoal_status read_images(shoali_input *in, shoali_dataset *d, shoali_split *split)
{
    uint32_t sizes[3];
    SHOALI_TRY(read_head(in, BYTES, 3, sizes));
    return read_pixels(in, d, sizes[0], (const uint32_t[3]){1, sizes[1], sizes[2]}, split);
}

static shoal_status read_colours(shoali_input *in, shoali_dataset *d, shoali_split *split)
{
    uint32_t sizes[4];
    SHOALI_TRY(read_head(in, BYTES, 4, sizes));
    if (sizes[1] > SHOALI_DATA_CHANNELS_MAX)
        return shoali_input_corrupt(in, 8, "%u channels; at most %d", sizes[1],
                                    SHOALI_DATA_CHANNELS_MAX);
    return read_pixels(in, d, sizes[0], sizes + 1, split);
}

static shoal_status read_label_file(shoali_input *in, int type, shoali_dataset *d,
                                    shoali_split *split)
{
    const size_t each = type == BYTES ? 1 : 4;
    uint32_t count;
    SHOALI_TRY(read_head(in, type, 1, &count));
    if (count != split->count)
        return shoali_input_corrupt(in, 4, "%u labels for %u images", count, split->count);
    SHOALI_TRY(shoali_input_expect(in, count * (uint64_t)each));
    uint8_t *bytes = shoali_arena_array(d->arena, count, each);
    uint16_t *labels = shoali_arena_array(d->arena, count, sizeof *labels);
    if (bytes == NULL || labels == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_input_read(in, bytes, count * each));
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t label = each == 1 ? bytes[i] : big_endian(bytes + 4 * (size_t)i);
        if (label >= SHOALI_DATA_CLASSES_MAX)
            return shoali_input_corrupt(in, 8 + 4 * (uint64_t)i, "label %u; classes are below %d",
                                        label, SHOALI_DATA_CLASSES_MAX);
        labels[i] = (uint16_t)label;
        d->classes = label >= d->classes ? label + 1 : d->classes;
    }
    split->labels = labels;
    return shoali_input_end(in);
}

static shoal_status read_labels(shoali_input *in, shoali_dataset *d, shoali_split *split)
{
    return read_label_file(in, BYTES, d, split);
}

static shoal_status read_integers(shoali_input *in, shoali_dataset *d, shoali_split *split)
{
    return read_label_file(in, INTEGERS, d, split);
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

static shoal_status load_images(const char *dir, shoali_dataset *d)
{
    SHOALI_TRY(read_file(dir, "train-images-idx4-ubyte", d, &d->train, read_colours));
    SHOALI_TRY(read_file(dir, "train-labels-idx1-int", d, &d->train, read_integers));
    SHOALI_TRY(read_file(dir, "t10k-images-idx4-ubyte", d, &d->test, read_colours));
    return read_file(dir, "t10k-labels-idx1-int", d, &d->test, read_integers);
}

const shoali_loader_row shoali_loader_images = {
    .name = "images",
    .help = "IDX in colour with any number of classes: what shoal data images writes",
    .probe = "train-images-idx4-ubyte",
    .load = load_images,
};
const shoali_loader_row shoali_loader_idx = {
    .name = "idx",
    .help = "MNIST's four files, plain or .gz",
    .probe = "train-images-idx3-ubyte",
    .load = load_idx,
};
