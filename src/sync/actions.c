/* SPDX-License-Identifier: Apache-2.0 */
/* The queue is one buffer of records, each a shoali_action and then its payload (message, members,
 * terms, text). Pointers of a record are set when it reaches the front: the buffer may move before.
 * When the queue runs empty it starts at the beginning again, so a machine in steady state never
 * allocates. */
#include "sync/actions.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"

enum { FIRST_BYTES = 512, ALIGN = 16, TEXT_BYTES = 512 };

typedef struct record {
    size_t bytes;         /* of the whole record */
    size_t members, spec; /* OP: offsets of its two payloads; 0: none */
    size_t payload;       /* any other: offset of its payload */
    shoali_action action;
} record;

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* Room for bytes more at the tail; false (and status) if there is no memory. */
static bool reserve(shoali_actions *actions, size_t bytes)
{
    size_t used = actions->tail - actions->head;
    if (bytes <= actions->capacity - actions->tail)
        return true;
    if (actions->head > 0) {
        memmove(actions->bytes, actions->bytes + actions->head, used);
        actions->head = 0;
        actions->tail = used;
    }
    size_t capacity = actions->capacity > 0 ? actions->capacity : FIRST_BYTES;
    while (capacity - used < bytes)
        capacity *= 2;
    if (capacity == actions->capacity)
        return true;
    uint8_t *grown = shoali_realloc(actions->bytes, actions->capacity, capacity);
    if (grown == NULL) {
        actions->status = SHOAL_ENOMEM;
        return false;
    }
    actions->bytes = grown;
    actions->capacity = capacity;
    return true;
}

/* A new record at the tail with room for a payload, or NULL. */
static record *append(shoali_actions *actions, shoali_action_kind kind, size_t payload_bytes)
{
    size_t head = aligned(sizeof(record));
    if (payload_bytes > SIZE_MAX / 4) {
        actions->status = SHOAL_ENOMEM;
        return NULL;
    }
    size_t bytes = head + aligned(payload_bytes);
    if (actions->status != SHOAL_OK || !reserve(actions, bytes))
        return NULL;
    record *at = (record *)(void *)(actions->bytes + actions->tail);
    memset(at, 0, sizeof *at);
    at->bytes = bytes;
    at->payload = head;
    at->action.kind = kind;
    actions->tail += bytes;
    return at;
}

static void fill(record *at, const void *payload, size_t len_bytes)
{
    if (len_bytes > 0)
        memcpy((uint8_t *)at + at->payload, payload, len_bytes);
}

void shoali_act_send(shoali_actions *actions, uint32_t peer, const void *bytes, size_t len_bytes)
{
    record *at = append(actions, SHOALI_ACT_SEND, len_bytes);
    if (at == NULL)
        return;
    fill(at, bytes, len_bytes);
    at->action.send.peer = peer;
    at->action.send.len_bytes = len_bytes;
}

void shoali_act_op(shoali_actions *actions, const shoali_sync_op *op)
{
    size_t members = op->members != NULL ? op->member_count * sizeof *op->members : 0;
    size_t spec = op->collective != NULL ? strlen(op->collective) + 1 : 0;
    record *at = append(actions, SHOALI_ACT_OP, members + spec);
    if (at == NULL)
        return;
    at->action.op = *op;
    at->members = members > 0 ? at->payload : 0;
    at->spec = spec > 0 ? at->payload + members : 0;
    if (members > 0)
        memcpy((uint8_t *)at + at->members, op->members, members);
    if (spec > 0)
        memcpy((uint8_t *)at + at->spec, op->collective, spec);
}

static void move(shoali_actions *actions, uint64_t id, uint32_t from, uint32_t to, uint32_t tensor,
                 size_t count, bool coded, uint64_t iteration)
{
    const uint32_t members[2] = {from, to};
    shoali_act_op(actions, &(shoali_sync_op){.id = id,
                                             .kind = SHOALI_SYNC_BROADCAST,
                                             .members = members,
                                             .member_count = 2,
                                             .contributors = 2,
                                             .tensor = tensor,
                                             .count = count,
                                             .push_coded = coded,
                                             .pull_coded = coded,
                                             .patient = true,
                                             .checked = true,
                                             .iteration = iteration});
}

void shoali_act_put(shoali_actions *actions, uint64_t id, uint32_t me, uint32_t to, uint32_t tensor,
                    size_t count, bool coded, uint64_t iteration)
{
    move(actions, id, me, to, tensor, count, coded, iteration);
}

void shoali_act_take(shoali_actions *actions, uint64_t id, uint32_t me, uint32_t from,
                     uint32_t tensor, size_t count, bool coded, uint64_t iteration)
{
    move(actions, id, from, me, tensor, count, coded, iteration);
}

void shoali_act_cancel(shoali_actions *actions, uint64_t op_id)
{
    record *at = append(actions, SHOALI_ACT_CANCEL, 0);
    if (at != NULL)
        at->action.cancel.id = op_id;
}

void shoali_act_hurry(shoali_actions *actions, uint64_t op_id)
{
    record *at = append(actions, SHOALI_ACT_HURRY, 0);
    if (at != NULL)
        at->action.hurry.id = op_id;
}

void shoali_act_mix(shoali_actions *actions, uint32_t dst, size_t offset, size_t count,
                    const shoali_mix_term *terms, uint32_t term_count)
{
    record *at = append(actions, SHOALI_ACT_MIX, term_count * sizeof *terms);
    if (at == NULL)
        return;
    fill(at, terms, term_count * sizeof *terms);
    at->action.mix.dst = dst;
    at->action.mix.offset = offset;
    at->action.mix.count = count;
    at->action.mix.term_count = term_count;
}

void shoali_act_trust(shoali_actions *actions, const shoali_action *mix)
{
    const size_t bytes = mix->mix.term_count * sizeof *mix->mix.terms;
    record *at = append(actions, SHOALI_ACT_MIX, bytes);
    if (at == NULL)
        return;
    fill(at, mix->mix.terms, bytes);
    at->action.mix = mix->mix;
    at->action.mix.judged = true;
}

void shoali_act_apply(shoali_actions *actions, uint32_t tensor, size_t offset, size_t count,
                      uint64_t iteration, float scale)
{
    record *at = append(actions, SHOALI_ACT_APPLY, 0);
    if (at == NULL)
        return;
    at->action.apply.tensor = tensor;
    at->action.apply.offset = offset;
    at->action.apply.count = count;
    at->action.apply.iteration = iteration;
    at->action.apply.scale = scale;
}

void shoali_act_go(shoali_actions *actions, const shoal_verdict *verdict)
{
    record *at = append(actions, SHOALI_ACT_GO, 0);
    if (at != NULL)
        at->action.go = *verdict;
}

void shoali_act_timer(shoali_actions *actions, uint64_t id, uint64_t at_us)
{
    record *at = append(actions, SHOALI_ACT_TIMER, 0);
    if (at == NULL)
        return;
    at->action.timer.id = id;
    at->action.timer.at_us = at_us;
}

void shoali_act_fail(shoali_actions *actions, shoal_status status, int32_t peer, const char *format,
                     ...)
{
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    record *at = append(actions, SHOALI_ACT_FAIL, strlen(text) + 1);
    if (at == NULL)
        return;
    fill(at, text, strlen(text) + 1);
    at->action.fail.status = status;
    at->action.fail.peer = peer;
}

const shoali_action *shoali_actions_front(shoali_actions *actions)
{
    if (actions->head == actions->tail)
        return NULL;
    record *at = (record *)(void *)(actions->bytes + actions->head);
    const uint8_t *payload = (const uint8_t *)at + at->payload;
    switch (at->action.kind) {
    case SHOALI_ACT_SEND:
        at->action.send.bytes = payload;
        break;
    case SHOALI_ACT_OP:
        at->action.op.members = NULL;
        at->action.op.collective = NULL;
        if (at->members > 0)
            at->action.op.members = (const uint32_t *)(const void *)((uint8_t *)at + at->members);
        if (at->spec > 0)
            at->action.op.collective = (const char *)at + at->spec;
        break;
    case SHOALI_ACT_MIX:
        at->action.mix.terms = (const shoali_mix_term *)(const void *)payload;
        break;
    case SHOALI_ACT_FAIL:
        at->action.fail.text = (const char *)payload;
        break;
    default:
        break;
    }
    return &at->action;
}

void shoali_actions_pop(shoali_actions *actions)
{
    if (actions->head == actions->tail)
        return;
    actions->head += ((record *)(void *)(actions->bytes + actions->head))->bytes;
    if (actions->head == actions->tail)
        actions->head = actions->tail = 0;
}

void shoali_actions_clear(shoali_actions *actions)
{
    actions->head = actions->tail = 0;
}

void shoali_actions_fini(shoali_actions *actions)
{
    shoali_free(actions->bytes);
    *actions = (shoali_actions){0};
}
