/* SPDX-License-Identifier: Apache-2.0 */
/* Whom this run has lost, for whoever reads its result: named once, when this worker goes on
 * without them. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "worker/together.h"

static bool is_known(const shoal_train *train, uint32_t rank)
{
    for (uint32_t i = 0; i < train->lost.count; i++)
        if (train->lost.them[i].rank == rank && train->lost.them[i].epoch == train->members.epoch)
            return true;
    return false;
}

static shoal_status note(shoal_train *train, uint32_t rank, const shoali_lost_peer *what)
{
    shoal_train_loss *more = shoali_realloc(train->lost.them, train->lost.count * sizeof *more,
                                            (train->lost.count + 1) * sizeof *more);
    if (more == NULL)
        return SHOAL_ENOMEM;
    train->lost.them = more;
    shoal_train_loss *loss = &more[train->lost.count++];
    *loss = (shoal_train_loss){
        .size = sizeof *loss, .rank = rank, .epoch = train->members.epoch, .step = train->step};
    uint64_t at_us = what->at_us > train->totals.began_us ? what->at_us : train->totals.began_us;
    loss->after_s = (double)(at_us - train->totals.began_us) * 1e-6;
    snprintf(loss->host, sizeof loss->host, "%s", what->host);
    snprintf(loss->why, sizeof loss->why, "%s", what->why);
    return SHOAL_OK;
}

shoal_status shoali_losses_note(shoal_train *train)
{
    shoali_lost_peer what;
    for (uint32_t rank = 0; rank < train->workers && train->comm != NULL; rank++) {
        bool member = false;
        for (uint32_t i = 0; i < train->members.count; i++)
            member = member || train->members.ranks[i] == rank;
        bool lost = shoali_comm_lost_peer(train->comm, rank, &what) || !member;
        if (rank != train->rank && lost && !is_known(train, rank))
            SHOALI_TRY(note(train, rank, &what));
    }
    return SHOAL_OK;
}

void shoali_losses_told(void *ctx, uint32_t rank, const shoali_lost_peer *what)
{
    shoal_train *train = ctx;
    if (rank < train->workers && !is_known(train, rank) && note(train, rank, what) != SHOAL_OK)
        shoali_log(WARN, "no memory to keep that rank %u was lost", rank);
}

bool shoal_train_loss_of(const shoal_train *train, uint32_t i, shoal_train_loss *loss_out)
{
    if (i >= train->lost.count)
        return false;
    *loss_out = train->lost.them[i];
    return true;
}
