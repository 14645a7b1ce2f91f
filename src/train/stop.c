/* SPDX-License-Identifier: Apache-2.0 */
/* Ending a run early, in order: a batch system asks some worker, or all of them at different steps,
 * and all have to write the same step down. So they ask each other: a sum of two numbers after a
 * step that all know beforehand, about half a second after the last one. */
#include "base/error.h"
#include "comm/comm.h"
#include "driver/driver.h"
#include "shoal/sync.h"
#include "train/train.h"

#define ASK_US 5e5
enum { STEPS_MOST = 1000 };

shoal_status shoali_stop_check(const shoal_train *train)
{
    const shoal_train_desc *d = &train->desc;
    uint32_t servers = 0;
    bool exact = true, carries;
    if (!d->may_stop)
        return SHOAL_OK;
    if (d->out == NULL)
        return shoali_fail(SHOAL_EINVAL, "a run that may stop needs a folder for its checkpoint");
    SHOALI_TRY(shoal_sync_servers(d->sync, &servers));
    SHOALI_TRY(shoali_sync_asks(d->sync, &exact, &carries));
    if (!exact || servers > 0)
        return shoali_fail(SHOAL_EINVAL,
                           "%s cannot stop early: its workers are not in step; all_reduce can",
                           d->sync);
    if (d->plan != NULL || d->admm != NULL || d->no_exchange || d->simulate > 0)
        return shoali_fail(SHOAL_EINVAL, "a run with %s cannot stop early",
                           d->plan != NULL   ? "a plan"
                           : d->admm != NULL ? "ADMM"
                           : d->no_exchange  ? "no exchange"
                                             : "simulated workers");
    if (train->comm != NULL)
        shoali_comm_keeps();
    return SHOAL_OK;
}

void shoali_stop_begin(shoal_train *train)
{
    train->stop.agreed = false;
    train->stop.next = train->step + 1;
}

shoal_status shoali_stop_turn(shoal_train *train, double step_us)
{
    if (!train->desc.may_stop || train->step < train->stop.next || train->step == train->steps)
        return SHOAL_OK;
    double sums[2] = {train->stop.asked, step_us / train->workers};
    SHOALI_TRY(shoali_train_sum(train, sums, 2, "whether to stop"));
    train->stop.agreed = sums[0] > 0;
    const double steps = sums[1] > 0 ? ASK_US / sums[1] : 1;
    train->stop.next = train->step + (steps < 1            ? 1
                                      : steps > STEPS_MOST ? STEPS_MOST
                                                           : (uint64_t)steps);
    return SHOAL_OK;
}

void shoal_train_ask_to_stop(shoal_train *train)
{
    train->stop.asked = true;
}
