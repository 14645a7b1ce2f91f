/* SPDX-License-Identifier: Apache-2.0 */
/* The header in front of every body on a stream, data and control alike: 32 bytes, little-endian.
 *
 *    0 magic 2 | 2 version 1 | 3 bits 1 | 4 kind 2 | 6 flags 2 | 8 slot 4 | 12 match 4 | 16 chunk 4
 *   20 body length 4 | 24 checksum of the body 4 (0 without the bit) | 28 checksum of bytes 0..27 4
 *
 * Control frames carry zeros in flags, slot, match and chunk. Anything else is corrupt: there is
 * one encoding. */
#ifndef SHOALI_WIRE_FRAME_H
#define SHOALI_WIRE_FRAME_H

#include <stdbool.h>

#include "shoal/status.h"
#include "wire/data.h"
#include "wire/messages.h"

enum {
    SHOALI_FRAME_BYTES = 32,
    SHOALI_FRAME_MAX_BODY_BYTES = 64 << 20,   /* of a data frame */
    SHOALI_FRAME_MAX_CONTROL_BYTES = 64 << 10 /* of any other */
};

typedef struct shoali_frame {
    uint16_t kind; /* SHOALI_MESSAGE_* */
    bool summed;   /* body_crc holds the CRC-32C of the body */
    uint32_t body_crc;
    shoal_data head; /* len_bytes is the body's length for every kind */
} shoali_frame;

/** The frame must be within bounds: kind 1..255, length as above. */
void shoali_frame_encode(const shoali_frame *frame, uint8_t out[SHOALI_FRAME_BYTES]);

/** Any 32 bytes. @return SHOAL_OK | ECORRUPT (checksum, bounds) | EVERSION; then *frame_out is
 * untouched. */
SHOAL_MUST_USE shoal_status shoali_frame_decode(const uint8_t in[SHOALI_FRAME_BYTES],
                                                shoali_frame *frame_out);

#endif
