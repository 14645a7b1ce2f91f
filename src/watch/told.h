/* SPDX-License-Identifier: Apache-2.0 */
/* Events that are asked for while a job runs: the question, what one rank answers, and asking all
 * ranks of a job on this host. Both ends are on one host, whose clock and byte order they share. */
#ifndef SHOALI_WATCH_TOLD_H
#define SHOALI_WATCH_TOLD_H

#include <stdbool.h>
#include <stddef.h>

#include "shoal/status.h"
#include "watch/kept.h"
#include "wire/control.h"

typedef struct shoali_told {
    shoali_status_head head;
    bool keeps; /* else it has no events, and nothing below is said */
    bool together;
    uint64_t now_us, overwritten, count;
    char model[SHOALI_KEPT_MODEL_BYTES];
    shoali_trace_event *events; /* [count] owned */
} shoali_told;

void shoali_told_question(uint32_t last_ms, uint8_t out[SHOALI_STATUS_ASK_BYTES]);
bool shoali_told_is_question(const uint8_t bytes[SHOALI_STATUS_ASK_BYTES], uint32_t *last_ms_out);
/** ring NULL: none is kept. @return owned, *bytes_out long; NULL: no memory */
uint8_t *shoali_told_answer(const shoali_status_head *head, const shoali_kept *ring,
                            uint64_t now_us, uint32_t last_ms, size_t *bytes_out);
/** @return SHOAL_OK | ECORRUPT | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_told_read(const uint8_t *bytes, size_t len_bytes,
                                             shoali_told *told_out);

/** ask.c: every rank of a job that is on this host and answers, by rank.
 * @param place as of shoal_watch_ask
 * @param told_out owned, as are their events: shoali_told_free
 * @return as shoal_watch_ask; ECORRUPT: an answer that is none */
SHOAL_MUST_USE shoal_status shoali_told_ask(const char *place, uint32_t last_ms, int64_t timeout_us,
                                            shoali_told **told_out, uint32_t *count_out);
void shoali_told_free(shoali_told *told, uint32_t count);

#endif
