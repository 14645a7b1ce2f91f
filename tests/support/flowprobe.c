/* SPDX-License-Identifier: Apache-2.0 */
#include "support/flowprobe.h"

#include "base/arena.h"
#include "support/check.h"

static void on_send(void *ctx, uint32_t peer, const shoal_data *head, const void *body,
                    uint64_t cookie)
{
    flowprobe *p = ctx;
    assert_true(p->send_count < FLOWPROBE_SENDS);
    p->sends[p->send_count++] = (flowprobe_send){peer, *head, body, cookie};
}

static void on_control(void *ctx, uint32_t peer, uint16_t kind, const void *bytes, size_t len_bytes)
{
    (void)ctx, (void)bytes;
    fail_msg("control frame %u of %zu bytes to %u", kind, len_bytes, peer);
}

static void on_job(void *ctx, const shoal_op_id *id, size_t offset, size_t count, uint64_t cookie)
{
    flowprobe *p = ctx;
    (void)id;
    assert_true(p->job_count < sizeof p->jobs / sizeof p->jobs[0]);
    p->jobs[p->job_count++] = (flowprobe_job){offset, count, cookie};
}

static void on_done(void *ctx, const shoal_op_id *id, shoal_status status, const char *why)
{
    flowprobe *p = ctx;
    (void)id;
    assert_false(p->done);
    p->done = true;
    p->status = status;
    snprintf(p->why, sizeof p->why, "%s", why);
}

flowprobe *flowprobe_open(const shoali_flow_row *row, const shoali_flow_args *args)
{
    flowprobe *p = calloc(1, sizeof *p);
    assert_non_null(p);
    shoal_sink sink = {
        .ctx = p, .send = on_send, .control = on_control, .job = on_job, .done = on_done};
    p->row = row;
    p->state = shoali_alloc(row->state_size(args));
    assert_non_null(p->state);
    assert_ok(row->start(p->state, args, &sink, 0));
    assert_int_equal(p->send_count + p->job_count, 0);
    assert_false(p->done);
    flowprobe_settle(p);
    return p;
}

void flowprobe_close(flowprobe *probe)
{
    probe->row->fini(probe->state);
    shoali_free(probe->state);
    free(probe);
}

void flowprobe_settle(flowprobe *probe)
{
    while (probe->row->next_wake_us(probe->state) == 0)
        probe->row->on_timer(probe->state, 0);
}

void flowprobe_grant(flowprobe *probe, uint32_t peer, uint32_t slot)
{
    probe->row->on_granted(probe->state, peer, slot);
    flowprobe_settle(probe);
}

bool flowprobe_receive(flowprobe *probe, uint32_t peer, shoal_data head, const void *body)
{
    uint8_t *at = probe->row->place(probe->state, peer, &head);
    if (at == NULL)
        return false;
    if (head.len_bytes > 0)
        memcpy(at, body, head.len_bytes);
    probe->row->on_frames(probe->state, peer, &head, &at, 1);
    flowprobe_settle(probe);
    return true;
}

void flowprobe_sent(flowprobe *probe, size_t i)
{
    assert_true(i < probe->send_count);
    probe->row->on_sent(probe->state, probe->sends[i].peer, probe->sends[i].cookie);
    flowprobe_settle(probe);
}
