/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/told.h"

#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/printable.h"
#include "wire/bytes.h"

static const uint8_t magic[4] = {'S', 'H', 'E', 'V'};
/* Behind the head: keeps, together, now, overwritten, count; the model; the events as they are. */
enum { WORDS = 5, MORE_BYTES = 8 * WORDS + SHOALI_KEPT_MODEL_BYTES };
enum { HEAD_BYTES = SHOALI_STATUS_HEAD_BYTES + MORE_BYTES };

void shoali_told_question(uint32_t last_ms, uint8_t out[SHOALI_STATUS_ASK_BYTES])
{
    memcpy(out, magic, sizeof magic);
    shoali_put_u32(out + sizeof magic, last_ms);
}

bool shoali_told_is_question(const uint8_t bytes[SHOALI_STATUS_ASK_BYTES], uint32_t *last_ms_out)
{
    *last_ms_out = shoali_get_u32(bytes + sizeof magic);
    return memcmp(bytes, magic, sizeof magic) == 0;
}

uint8_t *shoali_told_answer(const shoali_status_head *head, const shoali_kept *ring,
                            uint64_t now_us, uint32_t last_ms, size_t *bytes_out)
{
    const uint64_t last_us = (uint64_t)last_ms * 1000;
    const size_t most = ring != NULL ? SHOALI_KEPT_EVENTS : 0;
    shoali_trace_event *events = shoali_alloc_array(most + 1, sizeof *events);
    uint8_t *out = shoali_alloc(HEAD_BYTES + most * sizeof *events);
    uint64_t words[WORDS] = {ring != NULL, 0, now_us, 0, 0};
    if (events == NULL || out == NULL) {
        shoali_free(events);
        shoali_free(out);
        return NULL;
    }
    if (ring != NULL) {
        words[1] = ring->together;
        words[4] = shoali_kept_copy(ring, now_us > last_us ? now_us - last_us : 0, events,
                                    &words[3]);
    }
    shoali_status_head_encode(head, out);
    for (size_t i = 0; i < WORDS; i++)
        shoali_put_u64(out + SHOALI_STATUS_HEAD_BYTES + 8 * i, words[i]);
    uint8_t *model = out + SHOALI_STATUS_HEAD_BYTES + (size_t)8 * WORDS;
    memset(model, 0, SHOALI_KEPT_MODEL_BYTES);
    if (ring != NULL)
        memcpy(model, ring->model, strnlen(ring->model, SHOALI_KEPT_MODEL_BYTES));
    memcpy(out + HEAD_BYTES, events, words[4] * sizeof *events);
    shoali_free(events);
    *bytes_out = HEAD_BYTES + words[4] * sizeof *events;
    return out;
}

shoal_status shoali_told_read(const uint8_t *bytes, size_t len_bytes, shoali_told *told_out)
{
    const uint8_t *more = bytes + SHOALI_STATUS_HEAD_BYTES;
    shoali_told told = {0};
    const bool head = len_bytes >= HEAD_BYTES &&
                      shoali_status_head_decode(bytes, SHOALI_STATUS_HEAD_BYTES, &told.head);
    told.count = head ? shoali_get_u64(more + 32) : 0;
    if (!head || told.count > SHOALI_KEPT_EVENTS ||
        len_bytes != HEAD_BYTES + told.count * sizeof *told.events)
        return shoali_fail(SHOAL_ECORRUPT, "a status socket answered %zu bytes that are no events",
                           len_bytes);
    told.keeps = shoali_get_u64(more) != 0;
    told.together = shoali_get_u64(more + 8) != 0;
    told.now_us = shoali_get_u64(more + 16);
    told.overwritten = shoali_get_u64(more + 24);
    memcpy(told.model, more + 8 * WORDS, sizeof told.model);
    told.model[sizeof told.model - 1] = '\0';
    shoali_make_printable(told.model);
    told.events = shoali_alloc_array(told.count + 1, sizeof *told.events);
    if (told.events == NULL)
        return SHOAL_ENOMEM;
    memcpy(told.events, bytes + HEAD_BYTES, told.count * sizeof *told.events);
    *told_out = told;
    return SHOAL_OK;
}

void shoali_told_free(shoali_told *told, uint32_t count)
{
    for (uint32_t i = 0; told != NULL && i < count; i++)
        shoali_free(told[i].events);
    shoali_free(told);
}
