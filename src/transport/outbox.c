/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/outbox.h"

#include "base/arena.h"
#include "base/error.h"
#include "wire/crc32c.h"
#include "wire/guard.h"

enum { FIRST_CAPACITY = 8 };

static shoali_out *push(shoali_outbox *box)
{
    if (box->count == box->capacity) {
        uint32_t bigger = box->capacity > 0 ? 2 * box->capacity : FIRST_CAPACITY;
        shoali_out *ring = shoali_alloc_array(bigger, sizeof *ring);
        if (ring == NULL)
            return NULL;
        for (uint32_t i = 0; i < box->count; i++)
            ring[i] = *shoali_outbox_at(box, i);
        shoali_free(box->ring);
        box->ring = ring;
        box->capacity = bigger;
        box->head = 0;
    }
    return &box->ring[(box->head + box->count++) & (box->capacity - 1)];
}

shoal_status shoali_outbox_put(shoali_outbox *box, const shoali_transport_args *args, bool checksum,
                               const shoal_data *head, const void *body, uint64_t cookie)
{
    shoali_out *out = push(box);
    if (out == NULL)
        return SHOAL_ENOMEM;
    shoali_frame frame = {.kind = SHOALI_MESSAGE_data, .summed = checksum, .head = *head};
    if (checksum)
        frame.body_crc = shoali_crc32c(0, body, head->len_bytes);
    shoali_frame_encode(&frame, out->header);
    if (args->tamper != NULL)
        args->tamper(args->tamper_ctx, out->header);
    if (box->guarded)
        shoali_guard(out->header, SHOALI_FRAME_BYTES / 4);
    out->body = body;
    out->body_bytes = head->len_bytes;
    out->cookie = cookie;
    out->goodbye = false;
    box->queued_bytes += head->len_bytes;
    return SHOAL_OK;
}

shoal_status shoali_outbox_put_goodbye(shoali_outbox *box)
{
    shoali_out *out = push(box);
    if (out == NULL)
        return SHOAL_ENOMEM;
    shoali_frame frame = {.kind = SHOALI_MESSAGE_goodbye};
    shoali_frame_encode(&frame, out->header);
    if (box->guarded)
        shoali_guard(out->header, SHOALI_FRAME_BYTES / 4);
    out->body = NULL;
    out->body_bytes = 0;
    out->goodbye = true;
    return SHOAL_OK;
}

const shoali_out *shoali_outbox_at(const shoali_outbox *box, uint32_t i)
{
    return &box->ring[(box->head + i) & (box->capacity - 1)];
}

static void pop(shoali_outbox *box, shoali_out *out)
{
    *out = box->ring[box->head];
    box->head = (box->head + 1) & (box->capacity - 1);
    box->count--;
    box->queued_bytes -= out->body_bytes;
}

bool shoali_outbox_advance(shoali_outbox *box, size_t bytes, shoali_out *done_out)
{
    box->front_done += bytes;
    if (box->count == 0)
        return false;
    size_t whole = SHOALI_FRAME_BYTES + (size_t)box->ring[box->head].body_bytes;
    if (box->front_done < whole)
        return false;
    box->front_done -= whole;
    pop(box, done_out);
    return true;
}

void shoali_outbox_return_all(shoali_outbox *box, const shoali_transport_events *events,
                              uint32_t peer, shoal_status status)
{
    box->front_done = 0;
    while (box->count > 0) {
        shoali_out out;
        pop(box, &out);
        if (!out.goodbye)
            events->sent(events->ctx, peer, out.cookie, status);
    }
}

void shoali_outbox_free(shoali_outbox *box)
{
    shoali_free(box->ring);
    *box = (shoali_outbox){0};
}
