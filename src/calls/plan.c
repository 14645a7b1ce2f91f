/* SPDX-License-Identifier: Apache-2.0 */
/* Prepared operations: the caller's side. */
#include "base/error.h"
#include "calls/wait.h"

static bool is_named(const shoal_op_id *id)
{
    return id->group != 0 || id->sequence != 0 || id->round != 0;
}

shoal_status shoal_op_prepare(shoal_comm *comm, const shoal_op_desc *desc, shoal_op_plan **plan_out)
{
    const shoali_op_extras extras = {.check_finite = true, .error_feedback = true};
    SHOALI_TRY(shoali_op_usable(comm));
    if (plan_out == NULL || desc == NULL || desc->size != sizeof *desc)
        return shoali_fail(SHOAL_EINVAL,
                           "no place for the plan, or the descriptor of an operation has the wrong "
                           "size: start from SHOAL_OP_DESC_INIT");
    if (desc->rows != NULL || is_named(&desc->id))
        return shoali_fail(SHOAL_EINVAL,
                           "an operation that has %s cannot be prepared: start it with "
                           "shoal_op_start",
                           desc->rows != NULL ? "rows" : "a name of its own");
    return shoali_plans_prepare(&comm->ops, desc, &extras, plan_out);
}

shoal_status shoal_op_run(shoal_op_plan *plan, float *buf, shoal_op **op_out)
{
    const shoali_op_extras extras = {.check_finite = true, .error_feedback = true};
    if (plan == NULL || op_out == NULL)
        return shoali_fail(SHOAL_EINVAL, "no plan, or no place for the operation");
    if (plan->ops == NULL)
        return shoali_fail(plan->held.gone, "%s",
                           plan->held.gone == SHOAL_EEPOCH
                               ? "this plan is of an epoch that is over: prepare it anew"
                               : "the communicator of this plan has been destroyed");
    shoal_op_desc desc = plan->given.desc;
    desc.buf = buf;
    return shoali_op_run(plan->ops->host.ctx, plan, &desc, &extras, op_out);
}

void shoal_op_plan_destroy(shoal_op_plan *plan)
{
    if (plan == NULL)
        return;
    const shoal_comm *comm = plan->ops != NULL ? plan->ops->host.ctx : NULL;
    if (comm == NULL || !atomic_load(&comm->loop.forked))
        shoali_plans_give_up(plan);
}
