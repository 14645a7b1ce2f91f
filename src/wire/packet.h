/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of lossy aggregation (docs/wire.md, "Packets"): one in each UDP datagram. Unlike frames
 * they are in network byte order, because switches read them; and nothing is included but stdint.h,
 * because innet/xdp compiles this file for the kernel.
 *
 *   offset  size
 *        0     2  magic "SA"
 *        2     1  version 2 << 4 | kind
 *        3     1  worker: who sends, or of whom it speaks
 *        4     2  slot
 *        6     2  exponent, signed: of the block of the round after
 *        8     8  key of the operation
 *       16     4  round of the slot: the packet number that version bits lack
 *       20     4  next: block of the round after; in results of the dense form, where all know that
 *                 one, of the round after it; NONE: there is none
 *       24  4 * k values, or nothing */
#ifndef SHOALI_WIRE_PACKET_H
#define SHOALI_WIRE_PACKET_H

#include <stdint.h>

enum {
    SHOALI_PACKET_MAGIC = 0x5341,
    SHOALI_PACKET_VERSION = 2,
    SHOALI_PACKET_BYTES = 24,
    SHOALI_PACKET_WORKERS_MAX = 255, /* exact sums of int32 end there, too */
    SHOALI_PACKET_SLOTS_MAX = 4096,
    SHOALI_PACKET_VALUES_MAX = 2208, /* jumbo frames: 8900 bytes */
    SHOALI_PACKET_MISSING_BYTES = 32 /* of a status: bit w, lowest first: worker w has not sent */
};
#define SHOALI_PACKET_NONE 0xffffffffu

/** A worker sends contributions and probes, an aggregator results and states. */
enum {
    SHOALI_PACKET_CONTRIBUTION = 1, /* values of block, or none: all zero, or not owned */
    SHOALI_PACKET_RESULT = 2,       /* their sum */
    SHOALI_PACKET_PROBE = 3,        /* never values: what of this round? */
    SHOALI_PACKET_STATE = 4         /* it is not complete; who is missing */
};

/** Exponents that are none. */
enum { SHOALI_EXPONENT_ZERO = -32768, SHOALI_EXPONENT_NOT_FINITE = 32767 };

/** As it lies in a datagram; every field big-endian. */
typedef struct shoali_packet_wire {
    uint16_t magic;
    uint8_t version_kind, worker;
    uint16_t slot;
    int16_t exponent;
    uint32_t key[2]; /* high word first */
    uint32_t round, next;
} shoali_packet_wire;

#ifndef __bpf__
#include <stdbool.h>
#include <stddef.h>

typedef struct shoali_packet {
    uint8_t kind, worker;
    uint16_t slot;
    int16_t exponent;
    uint64_t key;
    uint32_t round, next;
} shoali_packet;

void shoali_packet_encode(const shoali_packet *packet, uint8_t out[SHOALI_PACKET_BYTES]);
/** Hostile bytes in. values_out: how many follow the header.
 *  @return false: no packet of this version, or a length that its kind cannot have. */
bool shoali_packet_decode(const uint8_t *bytes, size_t len_bytes, shoali_packet *packet_out,
                          uint32_t *values_out);
/** The key alone, to find whose packet it is. False: no packet. */
bool shoali_packet_key(const uint8_t *bytes, size_t len_bytes, uint64_t *key_out);
#endif

#endif
