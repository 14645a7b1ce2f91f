/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of a protocol on a real communicator: all on the progress thread, but owner jobs.
 * Records are kept for reuse. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "driver/real.h"
#include "sync/finale.h"

#define PATIENT_US (INT64_MAX / 4) /* longer than any job */

static shoali_real_op *take_op(shoal_sync *sync, const shoali_sync_op *from)
{
    shoali_real_op *op = sync->ops.spare;
    if (op != NULL)
        sync->ops.spare = op->next;
    else
        op = shoali_alloc(sizeof *op);
    if (op == NULL)
        return NULL;
    *op = (shoali_real_op){.sync = sync,
                           .id = from->id,
                           .iteration = from->iteration,
                           .offset = from->offset,
                           .started_us = shoali_now_us()};
    return op;
}

static void unlink_op(shoali_real_op **list, shoali_real_op *op)
{
    while (*list != op)
        list = &(*list)->next;
    *list = op->next;
}

static shoal_status owner_job(void *ctx, float *sum_in_weights_out, size_t offset, size_t count)
{
    const shoali_real_op *op = ctx;
    const shoal_sync *sync = op->sync;
    return sync->owner(sync->owner_user, sum_in_weights_out, op->offset + offset, count,
                       op->iteration, 1.0f / (float)op->contributors);
}

/* Since the step's first operation began, or before, if this one is of an earlier step; what has
 * been counted is not counted again. */
static uint64_t uncounted_us(shoal_sync *sync, const shoali_real_op *op)
{
    uint64_t from = op->started_us;
    if (sync->ops.first_start_us != 0 && sync->ops.first_start_us < from)
        from = sync->ops.first_start_us;
    if (from < sync->ops.counted_us)
        from = sync->ops.counted_us;
    sync->ops.counted_us = op->ended_us;
    return op->ended_us - from;
}

static void account(const shoali_real_op *op, const shoal_op_stats *stats)
{
    shoal_sync *sync = op->sync;
    uint64_t comm_us = uncounted_us(sync, op);
    pthread_mutex_lock(&sync->lock);
    sync->stats.operations++;
    sync->stats.comm_us += comm_us;
    sync->stats.encode_ns += stats->encode_ns;
    sync->stats.decode_ns += stats->decode_ns;
    sync->stats.sent_payload_bytes += stats->sent_payload_bytes;
    sync->stats.received_payload_bytes += stats->received_payload_bytes;
    sync->stats.sent_elems += stats->sent_elems;
    sync->stats.received_elems += stats->received_elems;
    sync->stats.dense_elems += op->bucket != NULL ? shoali_real_auto_dense(op->bucket)
                                                  : stats->dense_elems;
    pthread_mutex_unlock(&sync->lock);
}

static void tell_op_done(shoali_real_op *op)
{
    shoal_sync *sync = op->sync;
    shoali_event event = {.kind = SHOALI_EV_OP_DONE, .op = {op->id, op->status, op->text}};
    shoali_real_feed(sync, &event);
    op->next = sync->ops.spare;
    sync->ops.spare = op;
}

static void take_error(shoali_real_op *op, shoal_status status, const shoal_error *error)
{
    if (status == SHOAL_OK || op->status != SHOAL_OK)
        return;
    op->status = status;
    snprintf(op->text, sizeof op->text, "%.380s", error->text);
    if (error->rank >= 0)
        op->sync->ops.culprit = *error;
}

void shoali_real_op_part(shoali_real_op *op, shoal_status status, const shoal_error *error)
{
    shoal_sync *sync = op->sync;
    take_error(op, status, error);
    if (--op->parts > 0)
        return;
    if (op->bucket != NULL && op->status == SHOAL_OK)
        take_error(op, shoali_real_auto_behind(op, op->buf), shoal_last_error());
    unlink_op(&sync->ops.open, op);
    tell_op_done(op);
    shoali_real_signal(sync);
}

static void on_done(void *ctx, shoal_status status, const shoal_error *error,
                    const shoal_op_stats *stats)
{
    shoali_real_op *op = ctx;
    op->handle = NULL;
    op->ended_us = shoali_now_us();
    account(op, stats);
    if (op->sync->watcher != NULL && status == SHOAL_OK)
        op->sync->watcher(op->sync->watcher_user,
                          &(shoali_sync_bucket){.iteration = op->iteration,
                                                .started_us = op->started_us,
                                                .ended_us = op->ended_us,
                                                .encode_ns = stats->encode_ns,
                                                .decode_ns = stats->decode_ns,
                                                .sent_bytes = stats->sent_payload_bytes,
                                                .offset = op->offset});
    shoali_real_op_part(op, status, error);
}

void shoali_real_keep_rows(shoal_sync *sync, const shoali_real_note *note)
{
    for (uint32_t i = 0; i < sync->world.tensor_count; i++)
        if (sync->table[i].offset >= note->offset &&
            sync->table[i].offset - note->offset < note->count)
            sync->rows[i] = (shoali_real_rows){note->rows, note->row_count};
}

/* After a loss a sum may have fewer members than its collective was chosen for. */
static shoal_status choose_collective(shoal_sync *sync, const shoali_sync_op *from,
                                      const char **spec_out)
{
    *spec_out = sync->collective;
    if (from->members == NULL || from->contributors == sync->world.workers ||
        sync->density.choosing)
        return SHOAL_OK;
    if (sync->ops.among_count != from->contributors) {
        SHOALI_TRY(
            shoali_collective_among(sync->collective, from->contributors, false, sync->ops.among));
        if (strcmp(sync->ops.among, sync->collective) != 0)
            shoali_log(WARN, "collective %s is not for %u of %u workers: these use %s",
                       sync->collective, from->contributors, sync->world.workers, sync->ops.among);
        sync->ops.among_count = from->contributors;
    }
    *spec_out = sync->ops.among;
    return SHOAL_OK;
}

static shoal_status describe(shoal_sync *sync, const shoali_sync_op *from, char *label,
                             size_t label_bytes, shoal_op_desc *desc_out)
{
    const shoal_op_desc init = SHOAL_OP_DESC_INIT;
    const char *push = from->push_coded ? sync->codec : "identity";
    bool broadcast = from->kind == SHOALI_SYNC_BROADCAST;
    uint32_t first;
    float *buf = shoali_tensor_memory(&sync->tensors, from->tensor, from->offset, from->count);
    if (buf == NULL)
        return SHOAL_EINTERNAL;
    snprintf(label, label_bytes, "step %" PRIu64, from->iteration);
    *desc_out = init;
    desc_out->kind = broadcast ? SHOAL_BROADCAST : SHOAL_ALL_REDUCE;
    desc_out->id = shoali_sync_op_id(sync->instance, from->id);
    desc_out->buf = buf;
    desc_out->count = from->count;
    desc_out->tensors = sync->ops.table;
    desc_out->tensor_count = shoali_table_cut(sync->table, sync->world.tensor_count, from->offset,
                                              from->count, sync->ops.table, &first);
    if (sync->sends_rows && desc_out->tensor_count == 1 && from->tensor == SHOALI_GRAD &&
        desc_out->kind == SHOAL_ALL_REDUCE) {
        desc_out->rows = sync->rows[first].rows;
        desc_out->row_count = sync->rows[first].row_count;
    }
    desc_out->members = from->members;
    desc_out->member_count = from->member_count;
    desc_out->contributors = from->members != NULL ? from->contributors : sync->world.workers;
    desc_out->root = from->root;
    desc_out->collective = from->collective;
    if (from->collective == NULL && !broadcast)
        SHOALI_TRY(choose_collective(sync, from, &desc_out->collective));
    desc_out->push_codec = push;
    desc_out->pull_codec = from->pull_coded == from->push_coded ? NULL
                           : from->pull_coded                   ? sync->codec
                                                                : "identity";
    desc_out->timeout_us = from->patient ? PATIENT_US : 0;
    desc_out->tos = from->push_coded || from->pull_coded ? sync->tos : 0;
    desc_out->label = label;
    return SHOAL_OK;
}

static shoal_status start_op(shoal_sync *sync, const shoali_sync_op *from, shoali_real_op *op)
{
    shoal_op_desc desc;
    char label[32];
    const bool broadcast = from->kind == SHOALI_SYNC_BROADCAST; /* keeps nothing of what is lost */
    shoali_op_extras extras = {.on_done = on_done,
                               .done_ctx = op,
                               .check_finite = !broadcast || from->checked,
                               .error_feedback = !broadcast &&
                                                 (from->push_coded || from->pull_coded),
                               .unmarked_pull = !from->pull_coded,
                               .pace_us = from->within_us};
    SHOALI_TRY(describe(sync, from, label, sizeof label, &desc));
    if (from->owner_job) {
        if (sync->owner == NULL)
            return shoali_fail(SHOAL_EINVAL,
                               "%s runs the optimiser itself, and nobody gave it one: "
                               "shoal_sync_set_sgd does",
                               sync->protocol.spec);
        extras.owner = owner_job;
        extras.owner_ctx = op;
        extras.weights = shoali_tensor_memory(&sync->tensors, SHOALI_PARAM, from->offset,
                                              from->count);
        op->contributors = desc.contributors > 0 ? desc.contributors : desc.member_count;
    }
    if (sync->density.choosing)
        SHOALI_TRY(shoali_real_auto_before(op, from, &desc));
    if (sync->ops.first_start_us == 0)
        sync->ops.first_start_us = op->started_us;
    op->next = sync->ops.open;
    sync->ops.open = op;
    op->buf = desc.buf;
    op->parts = 1;
    shoal_status status = shoali_op_start(sync->comm, &desc, &extras, &op->handle);
    if (status != SHOAL_OK)
        unlink_op(&sync->ops.open, op);
    else if (op->measures)
        shoali_real_auto_share(op, &desc);
    return status;
}

/* Who is in the average at the end: the last attempt is the one that counts. */
static void note_final(shoal_sync *sync, const shoali_sync_op *from)
{
    if ((from->id & SHOALI_FINALE_OP) == 0 || from->members == NULL)
        return;
    sync->ops.final_count = from->member_count;
    memcpy(sync->ops.final_members, from->members, from->member_count * sizeof *from->members);
}

void shoali_real_op_start(shoal_sync *sync, const shoali_sync_op *from)
{
    note_final(sync, from);
    shoali_real_op *op = take_op(sync, from);
    if (op == NULL) {
        shoali_real_break(sync);
        return;
    }
    op->status = start_op(sync, from, op);
    if (op->status == SHOAL_OK)
        return;
    op->handle = NULL;
    snprintf(op->text, sizeof op->text, "%.380s", shoal_last_error()->text);
    op->next = NULL;
    shoali_real_op **last = &sync->ops.unstarted;
    while (*last != NULL)
        last = &(*last)->next;
    *last = op;
}

static void cancel(shoali_real_op *op)
{
    if (op->handle != NULL)
        shoal_op_cancel(op->handle);
    if (op->figures != NULL)
        shoal_op_cancel(op->figures);
}

void shoali_real_op_cancel(shoal_sync *sync, uint64_t id)
{
    for (shoali_real_op *op = sync->ops.open; op != NULL; op = op->next)
        if (op->id == id)
            cancel(op);
}

void shoali_real_op_hurry(shoal_sync *sync, uint64_t id)
{
    for (shoali_real_op *op = sync->ops.open; op != NULL; op = op->next)
        if (op->id == id && op->handle != NULL)
            shoali_op_hurry(op->handle);
}

void shoali_real_ops_cancel(shoal_sync *sync)
{
    for (shoali_real_op *op = sync->ops.open; op != NULL; op = op->next)
        cancel(op);
}

void shoali_real_ops_unstarted(shoal_sync *sync)
{
    while (sync->ops.unstarted != NULL && !sync->ops.telling) {
        shoali_real_op *op = sync->ops.unstarted;
        sync->ops.unstarted = op->next;
        sync->ops.telling = true; /* what does not start in here waits for its turn in this loop */
        tell_op_done(op);
        sync->ops.telling = false;
    }
}

void shoali_real_ops_fini(shoal_sync *sync)
{
    while (sync->ops.spare != NULL) {
        shoali_real_op *next = sync->ops.spare->next;
        shoali_free(sync->ops.spare);
        sync->ops.spare = next;
    }
    shoali_free(sync->ops.table);
    shoali_free(sync->ops.final_members);
}

bool shoali_sync_stays_apart(const shoal_sync *sync)
{
    const uint32_t both = SHOALI_SYNC_APART | SHOALI_SYNC_GRADIENTS;
    return (sync->protocol.traits & both) == both;
}
