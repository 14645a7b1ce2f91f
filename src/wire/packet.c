/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/packet.h"

#include <arpa/inet.h>
#include <string.h>

_Static_assert(sizeof(shoali_packet_wire) == SHOALI_PACKET_BYTES, "the layout has no gaps");

void shoali_packet_encode(const shoali_packet *packet, uint8_t out[SHOALI_PACKET_BYTES])
{
    const shoali_packet_wire wire = {
        .magic = htons(SHOALI_PACKET_MAGIC),
        .version_kind = (uint8_t)(SHOALI_PACKET_VERSION << 4 | packet->kind),
        .worker = packet->worker,
        .slot = htons(packet->slot),
        .exponent = (int16_t)htons((uint16_t)packet->exponent),
        .key = {htonl((uint32_t)(packet->key >> 32)), htonl((uint32_t)packet->key)},
        .round = htonl(packet->round),
        .next = htonl(packet->next)};
    memcpy(out, &wire, sizeof wire);
}

static bool read_wire(const uint8_t *bytes, size_t len_bytes, shoali_packet_wire *wire_out)
{
    if (len_bytes < SHOALI_PACKET_BYTES)
        return false;
    memcpy(wire_out, bytes, sizeof *wire_out);
    return wire_out->magic == htons(SHOALI_PACKET_MAGIC) &&
           wire_out->version_kind >> 4 == SHOALI_PACKET_VERSION;
}

static uint64_t key_of(const shoali_packet_wire *wire)
{
    return (uint64_t)ntohl(wire->key[0]) << 32 | ntohl(wire->key[1]);
}

bool shoali_packet_key(const uint8_t *bytes, size_t len_bytes, uint64_t *key_out)
{
    shoali_packet_wire wire;
    if (!read_wire(bytes, len_bytes, &wire))
        return false;
    *key_out = key_of(&wire);
    return true;
}

static bool fits(uint8_t kind, size_t body_bytes)
{
    switch (kind) {
    case SHOALI_PACKET_CONTRIBUTION:
    case SHOALI_PACKET_RESULT:
        return body_bytes % 4 == 0 && body_bytes / 4 <= SHOALI_PACKET_VALUES_MAX;
    case SHOALI_PACKET_PROBE:
        return body_bytes == 0;
    case SHOALI_PACKET_STATE:
        return body_bytes == SHOALI_PACKET_MISSING_BYTES;
    default:
        return false;
    }
}

bool shoali_packet_decode(const uint8_t *bytes, size_t len_bytes, shoali_packet *packet_out,
                          uint32_t *values_out)
{
    shoali_packet_wire wire;
    if (!read_wire(bytes, len_bytes, &wire) ||
        !fits(wire.version_kind & 15, len_bytes - SHOALI_PACKET_BYTES))
        return false;
    *packet_out = (shoali_packet){.kind = wire.version_kind & 15,
                                  .worker = wire.worker,
                                  .slot = ntohs(wire.slot),
                                  .exponent = (int16_t)ntohs((uint16_t)wire.exponent),
                                  .key = key_of(&wire),
                                  .round = ntohl(wire.round),
                                  .next = ntohl(wire.next)};
    *values_out = (uint32_t)((len_bytes - SHOALI_PACKET_BYTES) / 4);
    return packet_out->slot < SHOALI_PACKET_SLOTS_MAX;
}
