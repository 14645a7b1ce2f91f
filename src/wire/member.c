/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/member.h"

#include <string.h>

#include "wire/bytes.h"

static void put_door(uint8_t *at, const char *door)
{
    size_t length = strnlen(door, SHOALI_DOOR_BYTES - 1);
    memcpy(at, door, length);
    memset(at + length, 0, SHOALI_DOOR_BYTES - length);
}

/* An address in digits, or "". */
static bool get_door(const uint8_t *at, char *door_out)
{
    memcpy(door_out, at, SHOALI_DOOR_BYTES);
    return door_out[SHOALI_DOOR_BYTES - 1] == '\0' &&
           strspn(door_out, "0123456789abcdefABCDEF.:[]") == strlen(door_out);
}

size_t shoali_reform_encode(const shoali_reform *message, uint8_t out[SHOALI_REFORM_MESSAGE_BYTES])
{
    shoali_put_u32(out, message->what);
    put_door(out + 4, message->door);
    return SHOALI_REFORM_MESSAGE_BYTES;
}

bool shoali_reform_decode(const uint8_t *bytes, size_t len_bytes, shoali_reform *message_out)
{
    if (len_bytes != SHOALI_REFORM_MESSAGE_BYTES)
        return false;
    message_out->what = shoali_get_u32(bytes);
    return message_out->what < SHOALI_REFORM_KINDS && get_door(bytes + 4, message_out->door);
}

size_t shoali_come_encode(const shoali_come *message, uint8_t out[SHOALI_COME_BYTES])
{
    shoali_put_u64(out, message->epoch);
    shoali_put_u64(out + 8, message->tried);
    shoali_put_u64(out + 16, message->done);
    shoali_put_u64(out + 24, message->incarnation);
    shoali_put_u32(out + 32, message->rank);
    shoali_put_u32(out + 36, message->doubts);
    return SHOALI_COME_BYTES;
}

bool shoali_come_decode(const uint8_t *bytes, size_t len_bytes, shoali_come *message_out)
{
    if (len_bytes != SHOALI_COME_BYTES)
        return false;
    *message_out = (shoali_come){.epoch = shoali_get_u64(bytes),
                                 .tried = shoali_get_u64(bytes + 8),
                                 .done = shoali_get_u64(bytes + 16),
                                 .incarnation = shoali_get_u64(bytes + 24),
                                 .rank = shoali_get_u32(bytes + 32),
                                 .doubts = shoali_get_u32(bytes + 36)};
    return message_out->tried < UINT64_MAX && message_out->doubts <= SHOALI_DOUBTS;
}

static size_t bytes_of(uint32_t bits)
{
    return bits / 8 + (bits % 8 != 0);
}

size_t shoali_proposal_encode(const shoali_proposal *message, uint8_t out[SHOALI_PROPOSAL_BYTES])
{
    const uint32_t size = message->size < SHOALI_PROPOSAL_MEMBERS ? message->size
                                                                  : SHOALI_PROPOSAL_MEMBERS;
    shoali_put_u64(out, message->epoch);
    shoali_put_u64(out + 8, message->leader);
    shoali_put_u32(out + 16, size);
    shoali_put_u32(out + 20, message->newcomers);
    shoali_put_u32(out + 24, message->certain);
    memcpy(out + 28, message->stays, bytes_of(size));
    return 28 + bytes_of(size);
}

bool shoali_proposal_decode(const uint8_t *bytes, size_t len_bytes, shoali_proposal *message_out)
{
    bool somebody = false;
    if (len_bytes < 28)
        return false;
    *message_out = (shoali_proposal){.epoch = shoali_get_u64(bytes),
                                     .leader = shoali_get_u64(bytes + 8),
                                     .size = shoali_get_u32(bytes + 16),
                                     .newcomers = shoali_get_u32(bytes + 20),
                                     .certain = shoali_get_u32(bytes + 24)};
    const uint32_t size = message_out->size;
    if (size == 0 || size > SHOALI_PROPOSAL_MEMBERS || message_out->certain > 1 ||
        message_out->newcomers > SHOALI_PROPOSAL_MEMBERS || len_bytes != 28 + bytes_of(size))
        return false;
    memcpy(message_out->stays, bytes + 28, bytes_of(size));
    for (uint32_t i = 0; i < 8 * (uint32_t)bytes_of(size); i++) {
        if (i >= size && shoali_proposal_stays(message_out, i))
            return false;
        somebody = somebody || shoali_proposal_stays(message_out, i);
    }
    return somebody && message_out->epoch > 0;
}

size_t shoali_admit_encode(const shoali_admit *message, uint8_t out[SHOALI_ADMIT_BYTES])
{
    shoali_put_u64(out, message->epoch);
    shoali_put_u64(out + 8, message->done_min);
    shoali_put_u64(out + 16, message->done_max);
    shoali_put_u32(out + 24, message->rank);
    shoali_put_u32(out + 28, message->size);
    shoali_put_u32(out + 32, message->done_rank);
    put_door(out + 36, message->door);
    return SHOALI_ADMIT_BYTES;
}

bool shoali_admit_decode(const uint8_t *bytes, size_t len_bytes, shoali_admit *message_out)
{
    if (len_bytes != SHOALI_ADMIT_BYTES)
        return false;
    *message_out = (shoali_admit){.epoch = shoali_get_u64(bytes),
                                  .done_min = shoali_get_u64(bytes + 8),
                                  .done_max = shoali_get_u64(bytes + 16),
                                  .rank = shoali_get_u32(bytes + 24),
                                  .size = shoali_get_u32(bytes + 28),
                                  .done_rank = shoali_get_u32(bytes + 32)};
    return get_door(bytes + 36, message_out->door) && message_out->epoch > 0 &&
           message_out->rank < message_out->size && message_out->done_rank < message_out->size &&
           message_out->done_min <= message_out->done_max;
}

size_t shoali_held_encode(const shoali_held *message, uint8_t out[SHOALI_HELD_BYTES])
{
    uint32_t count = message->count < SHOALI_HELD_DOORS ? message->count : SHOALI_HELD_DOORS;
    shoali_put_u32(out, message->stay);
    shoali_put_u32(out + 4, count);
    for (uint32_t i = 0; i < SHOALI_HELD_DOORS; i++)
        put_door(out + 8 + (size_t)i * SHOALI_DOOR_BYTES, i < count ? message->doors[i] : "");
    return SHOALI_HELD_BYTES;
}

bool shoali_held_decode(const uint8_t *bytes, size_t len_bytes, shoali_held *message_out)
{
    if (len_bytes != SHOALI_HELD_BYTES)
        return false;
    message_out->stay = shoali_get_u32(bytes);
    message_out->count = shoali_get_u32(bytes + 4);
    bool good = message_out->stay <= 1 && message_out->count <= SHOALI_HELD_DOORS;
    for (uint32_t i = 0; good && i < SHOALI_HELD_DOORS; i++)
        good = get_door(bytes + 8 + (size_t)i * SHOALI_DOOR_BYTES, message_out->doors[i]);
    return good;
}

size_t shoali_missed_encode(const shoali_missed *message, uint8_t out[SHOALI_MISSED_BYTES])
{
    shoali_put_u32(out, message->endpoint);
    return SHOALI_MISSED_BYTES;
}

bool shoali_missed_decode(const uint8_t *bytes, size_t len_bytes, shoali_missed *message_out)
{
    if (len_bytes != SHOALI_MISSED_BYTES)
        return false;
    message_out->endpoint = shoali_get_u32(bytes);
    return true;
}
