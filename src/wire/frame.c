/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame.h"

#include "base/error.h"
#include "wire/bytes.h"
#include "wire/crc32c.h"

enum {
    MAGIC = 0x4853, /* "SH" in memory */
    VERSION = 1,
    BIT_SUMMED = 1,
    CRC_AT = 28
};

void shoali_frame_encode(const shoali_frame *frame, uint8_t out[SHOALI_FRAME_BYTES])
{
    shoali_put_u16(out, MAGIC);
    out[2] = VERSION;
    out[3] = frame->summed ? BIT_SUMMED : 0;
    shoali_put_u16(out + 4, frame->kind);
    shoali_put_u16(out + 6, frame->head.flags);
    shoali_put_u32(out + 8, frame->head.slot);
    shoali_put_u32(out + 12, frame->head.match);
    shoali_put_u32(out + 16, frame->head.chunk);
    shoali_put_u32(out + 20, frame->head.len_bytes);
    shoali_put_u32(out + 24, frame->summed ? frame->body_crc : 0);
    shoali_put_u32(out + CRC_AT, shoali_crc32c(0, out, CRC_AT));
}

static shoal_status check_bounds(const shoali_frame *frame)
{
    const shoal_data *head = &frame->head;
    uint32_t longest = frame->kind == SHOALI_MESSAGE_data ? SHOALI_FRAME_MAX_BODY_BYTES
                                                          : SHOALI_FRAME_MAX_CONTROL_BYTES;
    if (frame->kind == 0 || frame->kind > SHOALI_MESSAGE_LAST_CONTROL)
        return shoali_fail(SHOAL_ECORRUPT, "frame of unknown kind %u", frame->kind);
    if (head->len_bytes > longest)
        return shoali_fail(SHOAL_ECORRUPT,
                           "frame of kind %u with a body of %u bytes, longest is %u", frame->kind,
                           head->len_bytes, longest);
    if (frame->kind != SHOALI_MESSAGE_data &&
        (head->flags | head->slot | head->match | head->chunk) != 0)
        return shoali_fail(SHOAL_ECORRUPT, "control frame of kind %u with fields of a data frame",
                           frame->kind);
    return SHOAL_OK;
}

shoal_status shoali_frame_decode(const uint8_t in[SHOALI_FRAME_BYTES], shoali_frame *frame_out)
{
    if (shoali_get_u16(in) != MAGIC || shoali_get_u32(in + CRC_AT) != shoali_crc32c(0, in, CRC_AT))
        return shoali_fail(SHOAL_ECORRUPT, "frame header with a wrong checksum");
    if (in[2] != VERSION)
        return shoali_fail(SHOAL_EVERSION, "frame of version %u, this side speaks %u", in[2],
                           VERSION);
    shoali_frame frame = {
        .kind = shoali_get_u16(in + 4),
        .summed = in[3] == BIT_SUMMED,
        .body_crc = shoali_get_u32(in + 24),
        .head = {.slot = shoali_get_u32(in + 8),
                 .match = shoali_get_u32(in + 12),
                 .chunk = shoali_get_u32(in + 16),
                 .len_bytes = shoali_get_u32(in + 20),
                 .flags = shoali_get_u16(in + 6)},
    };
    if (in[3] > BIT_SUMMED || (!frame.summed && frame.body_crc != 0))
        return shoali_fail(SHOAL_ECORRUPT, "frame header with unknown bits %#x", in[3]);
    SHOALI_TRY(check_bounds(&frame));
    *frame_out = frame;
    return SHOAL_OK;
}
