/* SPDX-License-Identifier: Apache-2.0 */
/* What came out of a status socket, read and looked at. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "watch/watch.h"

static void read_notes(const uint8_t *bytes, size_t len_bytes, char *out)
{
    for (size_t i = 0; i < len_bytes; i++)
        out[i] = bytes[i] == '\n' || (bytes[i] >= ' ' && bytes[i] <= '~') ? (char)bytes[i] : '?';
    out[len_bytes] = '\0';
}

/* A head and the rows that it promises, then perhaps notes. */
static bool is_whole(const uint8_t *bytes, size_t len_bytes, shoali_status_head *head_out,
                     size_t *rows_end_out)
{
    if (len_bytes < SHOALI_STATUS_HEAD_BYTES ||
        !shoali_status_head_decode(bytes, SHOALI_STATUS_HEAD_BYTES, head_out))
        return false;
    *rows_end_out = SHOALI_STATUS_HEAD_BYTES + (size_t)head_out->ranks * SHOALI_STATUS_ROW_BYTES;
    return len_bytes >= *rows_end_out && len_bytes - *rows_end_out < SHOALI_WATCH_NOTES_BYTES;
}

shoal_status shoali_watch_read(const uint8_t *bytes, size_t len_bytes, shoal_watch **watch_out)
{
    shoali_status_head head;
    size_t rows_end;
    if (!is_whole(bytes, len_bytes, &head, &rows_end))
        return shoali_fail(SHOAL_ECORRUPT, "a status socket answered %zu bytes that are no status",
                           len_bytes);
    shoal_watch *watch = shoali_alloc(sizeof *watch);
    if (watch == NULL)
        return SHOAL_ENOMEM;
    watch->head = head;
    watch->rows = shoali_alloc_array(head.ranks, sizeof *watch->rows);
    for (uint32_t i = 0; watch->rows != NULL && i < head.ranks; i++) {
        const uint8_t *at = bytes + SHOALI_STATUS_HEAD_BYTES + (size_t)i * SHOALI_STATUS_ROW_BYTES;
        if (shoali_status_row_decode(at, SHOALI_STATUS_ROW_BYTES, &watch->rows[i]))
            continue;
        shoal_watch_close(watch);
        return shoali_fail(SHOAL_ECORRUPT, "a status socket answered nonsense about rank %u", i);
    }
    if (watch->rows == NULL) {
        shoal_watch_close(watch);
        return SHOAL_ENOMEM;
    }
    read_notes(bytes + rows_end, len_bytes - rows_end, watch->notes);
    *watch_out = watch;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- looking at it */

void shoal_watch_job(const shoal_watch *watch, const char **job_out, uint32_t *answered_by_out,
                     double *age_s_out)
{
    *job_out = watch->head.job;
    *answered_by_out = watch->head.rank;
    *age_s_out = (double)watch->head.age_us * 1e-6;
}

uint32_t shoal_watch_ranks(const shoal_watch *watch)
{
    return watch->head.ranks;
}

shoal_status shoal_watch_rank(const shoal_watch *watch, uint32_t rank,
                              shoal_watch_rank_state *rank_out)
{
    static const char *const states[] = {"running", "missing", "unresponsive", "dead", "left"};
    if (watch == NULL || rank_out == NULL || rank_out->size != sizeof *rank_out ||
        rank >= watch->head.ranks)
        return shoali_fail(SHOAL_EINVAL, "no rank %u in this status", rank);
    const shoali_status_row *row = &watch->rows[rank];
    *rank_out = (shoal_watch_rank_state){.size = sizeof *rank_out,
                                         .slow_s = (double)row->slow_for_us * 1e-6,
                                         .caused_ms = (double)row->caused_us * 1e-3,
                                         .last_share = row->last_permille * 1e-3,
                                         .busy = row->busy != 0,
                                         .doing_s = (double)row->for_us * 1e-6,
                                         .ended = row->ended,
                                         .last_seen_s = (double)row->last_seen_us * 1e-6,
                                         .compute_ms = (double)row->compute_us * 1e-3,
                                         .sends_bytes_s = (double)row->sends_bytes_s,
                                         .receives_bytes_s = (double)row->receives_bytes_s,
                                         .data_ms = (double)row->data_us * 1e-3,
                                         .disk_ms = (double)row->disk_us * 1e-3,
                                         .paused_ms = (double)row->paused_us * 1e-3,
                                         .samples = (double)row->samples_milli * 1e-3,
                                         .step = row->progress.step,
                                         .epoch = row->progress.epoch,
                                         .loss = (double)row->progress.loss,
                                         .accuracy = (double)row->progress.accuracy};
    snprintf(rank_out->host, sizeof rank_out->host, "%s", row->host);
    snprintf(rank_out->state, sizeof rank_out->state, "%s", states[row->state]);
    snprintf(rank_out->cause, sizeof rank_out->cause, "%s", shoali_slow_name(row->cause));
    snprintf(rank_out->operation, sizeof rank_out->operation, "%s", row->text);
    return SHOAL_OK;
}

const char *shoal_watch_notes(const shoal_watch *watch)
{
    return watch->notes;
}

const shoal_watch *shoal_watch_next(const shoal_watch *watch)
{
    return watch->next;
}

void shoal_watch_close(shoal_watch *watch)
{
    while (watch != NULL) {
        shoal_watch *next = watch->next;
        shoali_free(watch->rows);
        shoali_free(watch);
        watch = next;
    }
}
