/* SPDX-License-Identifier: Apache-2.0 */
/* What another endpoint sent: control messages, data frames and packets, each to the operation that
 * it is about. Whoever is no member of it, or comes when it is over, finds nobody. */
#include "ops/inner.h"
#include "wire/messages.h"

static bool take_flow(shoali_ops *ops, uint32_t endpoint, const uint8_t *bytes, size_t len_bytes)
{
    shoali_flow_head head;
    if (!shoali_flow_head_decode(bytes, len_bytes, &head))
        return false;
    shoal_op *op = shoali_run_find(ops, &head.id);
    if (op == NULL || op->state != SHOALI_OP_RUNNING ||
        shoali_member_of(op, endpoint) == SHOALI_NONE)
        return true;
    op->row->on_control(op->flow, shoali_member_of(op, endpoint), head.kind,
                        bytes + SHOALI_FLOW_HEAD_BYTES, len_bytes - SHOALI_FLOW_HEAD_BYTES);
    return true;
}

shoali_taken shoali_take_control(shoali_ops *ops, uint32_t endpoint, uint16_t kind,
                                 const uint8_t *bytes, size_t len_bytes)
{
    union {
        shoali_ready ready;
        shoali_abort abort;
        shoali_ask ask;
        shoali_answer answer;
    } m;
    bool good;
    switch (kind) {
    case SHOALI_MESSAGE_ready:
        if ((good = shoali_ready_decode(bytes, len_bytes, &m.ready)))
            shoali_agree_on_ready(ops, endpoint, &m.ready);
        break;
    case SHOALI_MESSAGE_abort:
        if ((good = shoali_abort_decode(bytes, len_bytes, &m.abort)))
            shoali_agree_on_abort(ops, endpoint, &m.abort);
        break;
    case SHOALI_MESSAGE_ask:
        if ((good = shoali_ask_decode(bytes, len_bytes, &m.ask)))
            shoali_agree_on_ask(ops, endpoint, &m.ask);
        break;
    case SHOALI_MESSAGE_answer:
        if ((good = shoali_answer_decode(bytes, len_bytes, &m.answer)))
            shoali_agree_on_answer(ops, endpoint, &m.answer);
        break;
    case SHOALI_MESSAGE_flow:
        good = take_flow(ops, endpoint, bytes, len_bytes);
        break;
    case SHOALI_MESSAGE_serve:
        good = shoali_serve_on_request(ops, endpoint, bytes, len_bytes);
        break;
    default:
        return SHOALI_TAKEN_NOT;
    }
    return good ? SHOALI_TAKEN : SHOALI_TAKEN_BAD;
}

shoal_op *shoali_take_for(const shoali_ops *ops, uint32_t endpoint, const shoal_data *head,
                          uint32_t *member_out)
{
    shoal_op *op = shoali_run_slot(ops, head->slot);
    if (op == NULL || op->state != SHOALI_OP_RUNNING)
        return NULL;
    *member_out = shoali_member_of(op, endpoint);
    return *member_out != SHOALI_NONE ? op : NULL;
}

void shoali_take_frames(shoali_ops *ops, uint32_t endpoint, const shoal_data *heads,
                        uint8_t *const *bodies, size_t count)
{
    for (size_t first = 0, next; first < count; first = next) {
        for (next = first + 1; next < count && heads[next].slot == heads[first].slot; next++)
            continue;
        uint32_t member;
        shoal_op *op = shoali_take_for(ops, endpoint, &heads[first], &member);
        if (op != NULL)
            op->row->on_frames(op->flow, member, heads + first, bodies + first, next - first);
    }
}

bool shoali_take_datagram(shoali_ops *ops, uint32_t endpoint, const uint8_t *bytes,
                          size_t len_bytes)
{
    for (shoal_op *op = ops->open; op != NULL; op = op->next_open)
        if (op->state == SHOALI_OP_RUNNING && !op->ended && op->row->on_datagram != NULL &&
            shoali_member_of(op, endpoint) != SHOALI_NONE &&
            op->row->on_datagram(op->flow, shoali_member_of(op, endpoint), bytes, len_bytes,
                                 *ops->now_us))
            return true;
    return false;
}
