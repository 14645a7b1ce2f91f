/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a data frame as flows and transports pass it on; frame.h lays it out on the
 * wire. */
#ifndef SHOALI_WIRE_DATA_H
#define SHOALI_WIRE_DATA_H

#include <stdbool.h>
#include <stdint.h>

/** Flags of a data frame. */
enum {
    SHOAL_DATA_NOT_FINITE = 1u << 0 /* the body is a shoali_not_finite instead of coded floats */
};

/** Header of a data frame, as flows see it. */
typedef struct shoal_data {
    uint32_t slot;  /* the receiver's, learnt from its grant */
    uint32_t match; /* k: the k-th SEND of the sender to this receiver */
    uint32_t chunk; /* index in the operation */
    uint32_t len_bytes;
    uint16_t flags;
    bool pull; /* of the way back: the owner's result. Not on the wire */
} shoal_data;

/** Where a NaN or infinity came from; sticks to every sum that it enters. 24 bytes on the wire,
 * little-endian. */
typedef struct shoali_not_finite {
    uint32_t endpoint;
    uint32_t zero;
    uint64_t key;   /* tensor */
    uint64_t index; /* element in the tensor */
} shoali_not_finite;

#endif
