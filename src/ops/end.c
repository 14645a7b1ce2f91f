/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of operations: what an error says, and those that come from outside, to many at once. */
#include <stdio.h>

#include "base/error.h"
#include "ops/inner.h"

/* The last error becomes the operation's. What to do follows from the status, whoever has found
 * it. */
void shoali_run_keep_error(shoal_op *op)
{
    shoal_error *error = &op->error;
    shoali_error_about(-1, NULL, op->name, (int64_t)shoali_ops_since(op->ops, op->started_us));
    shoali_error_get(error);
    if (error->advice[0] != '\0')
        return;
    const char *advice = "";
    switch (error->status) {
    case SHOAL_ENOTFINITE:
        advice = "Look at the loss and the learning rate of that rank, or skip such steps.";
        break;
    case SHOAL_EPEER:
        advice = "Look at the output of that rank, and restart from the last checkpoint.";
        break;
    case SHOAL_EMISMATCH:
        advice = "All members must start the same operations in the same order.";
        break;
    case SHOAL_ETIMEDOUT:
        advice = "A rank that only computes longer than the others needs a longer timeout_us.";
        break;
    default:
        break;
    }
    snprintf(error->advice, sizeof error->advice, "%s", advice);
}

static void fail_with(shoali_ops *ops, uint32_t endpoint, shoal_status status, const char *text,
                      const char *look_at)
{
    const char *host = ops->peers[endpoint].host;
    for (shoal_op *op = ops->open; op != NULL; op = op->next_open) {
        if (op->ended || shoali_member_of(op, endpoint) == SHOALI_NONE)
            continue;
        (void)shoali_fail(status, "%s: %s", op->name, text);
        shoali_error_about((int32_t)endpoint, host, NULL, -1);
        shoali_error_advice(
            "Look at the %s rank %u on %.60s, and restart from the last checkpoint.", look_at,
            endpoint, host);
        shoali_run_fail(op, true);
    }
}

void shoali_run_peer_lost(shoali_ops *ops, uint32_t endpoint, shoal_status why, const char *text)
{
    fail_with(ops, endpoint, why, text, "output of");
}

void shoali_run_link_broke(shoali_ops *ops, uint32_t endpoint, const char *text)
{
    fail_with(ops, endpoint, SHOAL_EPEER, text, "cable to");
}

static void leave_epoch(shoal_op *op)
{
    if (op->ended || op->rounds.parent != NULL)
        return;
    (void)shoali_fail(SHOAL_EEPOCH, "%s: the members are about to change", op->name);
    shoali_error_advice("Call shoal_comm_reform on all members.");
    shoali_run_fail(op, true);
}

void shoali_run_peer_leaving(shoali_ops *ops, uint32_t endpoint)
{
    for (shoal_op *op = ops->open; op != NULL; op = op->next_open)
        if (shoali_member_of(op, endpoint) != SHOALI_NONE)
            leave_epoch(op);
}

void shoali_run_all_leaving(shoali_ops *ops)
{
    for (shoal_op *op = ops->open; op != NULL; op = op->next_open)
        leave_epoch(op);
}

void shoali_run_cancel_all(shoali_ops *ops)
{
    const char *host = ops->peers[ops->me].host;
    for (shoal_op *op = ops->open; op != NULL; op = op->next_open) {
        if (op->ended || op->rounds.parent != NULL)
            continue;
        (void)shoali_fail(SHOAL_ECANCELLED, "%s: rank %u (host %.40s) destroys its communicator",
                          op->name, ops->me, host);
        shoali_error_about((int32_t)ops->me, host, NULL, -1);
        shoali_run_fail(op, true);
    }
}
