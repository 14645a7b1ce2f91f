/* SPDX-License-Identifier: Apache-2.0 */
/* A data file, plain or compressed with gzip, read from front to back. Errors say file, offset and
 * reason. */
#ifndef SHOALI_DATA_INPUT_H
#define SHOALI_DATA_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

typedef struct shoali_input {
    const char *path; /* borrowed */
    void *stream;     /* zlib's gzFile */
    uint64_t offset;  /* of the next byte, after decompression */
    uint64_t most;    /* bytes that the file can hold, by its size on disk */
    bool compressed;
} shoali_input;

SHOAL_MUST_USE shoal_status shoali_input_open(const char *path, shoali_input *input_out);
void shoali_input_close(shoali_input *input);

/** Numbers in the heads of our own files: little-endian. */
static inline uint32_t shoali_word(const uint8_t *b)
{
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}
static inline void shoali_put_word(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

/** Exactly len_bytes, or an error that says where the file ends. */
SHOAL_MUST_USE shoal_status shoali_input_read(shoali_input *input, void *bytes_out,
                                              size_t len_bytes);
/** As many as there are, up to room; 0 at the end. */
SHOAL_MUST_USE shoal_status shoali_input_some(shoali_input *input, void *bytes_out, size_t room,
                                              size_t *len_bytes_out);
/** The file must hold at least so many bytes more: ask before taking memory for them. */
SHOAL_MUST_USE shoal_status shoali_input_expect(const shoali_input *input, uint64_t len_bytes);
/** The file must end here. */
SHOAL_MUST_USE shoal_status shoali_input_end(shoali_input *input);
/** ECORRUPT: "PATH, byte OFFSET: reason". */
shoal_status shoali_input_corrupt(const shoali_input *input, uint64_t offset, const char *format,
                                  ...) SHOAL_PRINTF(3, 4);
#define shoali_input_corrupt(...) ((void)shoali_input_corrupt(__VA_ARGS__), SHOAL_ECORRUPT)

#endif
